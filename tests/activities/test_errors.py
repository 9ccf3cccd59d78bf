"""What upstream errors mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3
from botocore import exceptions as botocore_errors
from kubernetes.client.exceptions import ApiException
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.errors import classify, clean, problem_of
from contracts.capacity import InstanceGroupSpec
from contracts.problem import ProblemCode


def aws_error(
    code: str, status: int = 400, operation: str = "CreateCluster", service: str = "sagemaker", message: str = "no"
) -> botocore_errors.ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "r-1", "Service": service, "HTTPHeaders": {}},
    }
    return botocore_errors.ClientError(response, operation)


@pytest.mark.parametrize(
    ("error", "code", "retried"),
    [
        (aws_error("ThrottlingException"), "throttled", True),
        (aws_error("RequestLimitExceeded", 503, "DescribeVpcs", "ec2"), "throttled", True),
        (aws_error("InternalFailure", 500), "unavailable", True),
        (aws_error("InternalServerError", 400, "CreateFileSystem", "fsx"), "unavailable", True),
        (aws_error("ServiceException", 400, "ListServiceQuotas", "service-quotas"), "unavailable", True),
        (aws_error("SomethingNew", 500), "unavailable", True),
        (aws_error("SomethingNew", 400), "invalid", False),
        (aws_error("ResourcePropagationDelayException", 428, "CreateCluster", "eks"), "propagation", True),
        (aws_error("ValidationException", message="Unable to assume the execution role"), "propagation", True),
        (aws_error("ValidationException", message="cannot assume the execution role"), "propagation", True),
        (aws_error("ValidationException", message="InstanceCount is too large"), "invalid", False),
        (aws_error("ResourceInUseException", 409, "CreateCluster", "eks"), "conflict", True),
        (aws_error("ResourceInUseException", 409, "UpdateClusterConfig", "eks"), "busy", True),
        (aws_error("ConflictException", 409, "UpdateCluster"), "busy", True),
        (aws_error("DependencyViolation", 400, "DeleteVpc", "ec2"), "busy", True),
        (aws_error("InsufficientInstanceCapacity", 500, "RunInstances", "ec2"), "capacity", False),
        (aws_error("LimitExceededException", 400, "CreateRepository", "ecr"), "quota", False),
        (aws_error("ResourceLimitExceeded"), "quota", False),
        (aws_error("VpcLimitExceeded", 400, "CreateVpc", "ec2"), "quota", False),
        (aws_error("AccessDeniedException", 403), "denied", False),
        (aws_error("UnauthorizedOperation", 403, "CreateVpc", "ec2"), "denied", False),
        (aws_error("ExpiredToken", 400), "credentials", True),
        (aws_error("UnrecognizedClientException", 403), "credentials", False),
        (aws_error("InvalidSubnetID.NotFound", 400, "CreateNatGateway", "ec2"), "propagation", True),
        (aws_error("SandboxNotImplemented"), "unsupported", False),
        (botocore_errors.EndpointConnectionError(endpoint_url="http://x"), "unavailable", True),
        (botocore_errors.ReadTimeoutError(endpoint_url="http://x"), "unavailable", True),
        (botocore_errors.ConnectionClosedError(endpoint_url="http://x"), "unavailable", True),
        (botocore_errors.NoCredentialsError(), "credentials", False),
        (botocore_errors.ParamValidationError(report="Missing"), "invalid", False),
        (urllib3.exceptions.ProtocolError("broken"), "unavailable", True),
        (KeyError("x"), "internal", True),
    ],
)
def test_meaning(error: Exception, code: str, retried: bool) -> None:
    found = classify(error)
    assert (found.type, not found.non_retryable) == (code, retried)
    problem = problem_of(found)
    assert problem is not None
    assert problem.remedy


def kubernetes_error(status: int, reason: str = "", message: str = "", name: str | None = None) -> ApiException:
    error = ApiException(status=status, reason=reason)
    error.body = json.dumps({"reason": reason, "message": message, "details": {"name": name} if name else {}})
    return error


@pytest.mark.parametrize(
    ("error", "code", "retried"),
    [
        (kubernetes_error(401, "Unauthorized"), "propagation", True),
        (kubernetes_error(403, "Forbidden"), "denied", False),
        (kubernetes_error(403, "Forbidden", "because it is being terminated: NamespaceTerminating"), "busy", True),
        (kubernetes_error(404, "NotFound", name="x"), "not_found", False),
        (kubernetes_error(404), "unsupported", False),
        (kubernetes_error(409, "Conflict"), "conflict", True),
        (kubernetes_error(422, "Invalid"), "invalid", False),
        (kubernetes_error(429), "throttled", True),
        (kubernetes_error(500, "InternalError", "failed calling webhook"), "unavailable", True),
        (kubernetes_error(503), "unavailable", True),
    ],
)
def test_kubernetes(error: ApiException, code: str, retried: bool) -> None:
    found = classify(error)
    assert (found.type, not found.non_retryable) == (code, retried)


def test_what_is_not_visible_for_long_is_not_there() -> None:
    error = aws_error("InvalidSubnetID.NotFound", 400, "CreateNatGateway", "ec2")
    assert not classify(error, attempt=2).non_retryable
    assert classify(error, attempt=6).type == ProblemCode.NOT_FOUND
    assert classify(error, attempt=6).non_retryable
    assume = aws_error("ValidationException", message="cannot assume the execution role")
    assert not classify(assume, attempt=11).non_retryable
    assert classify(assume, attempt=12).non_retryable


def test_throttling_is_benign_and_honours_retry_after() -> None:
    error = aws_error("ThrottlingException")
    error.response["ResponseMetadata"]["HTTPHeaders"] = {"retry-after": "7"}
    found = classify(error)
    assert found.category is ApplicationErrorCategory.BENIGN
    assert found.next_retry_delay is not None
    assert found.next_retry_delay.total_seconds() == 7


def test_a_typed_failure_stays_itself() -> None:
    error = ApplicationError("x", type="conflict")
    assert classify(error) is error


def test_a_model_that_refuses_says_where() -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        InstanceGroupSpec(name="a_b", instance_type="ml.g5.8xlarge", count=1)
    found = problem_of(classify(caught.value))
    assert found is not None
    assert found.errors[0].field == "/name"


def test_secrets_and_bulk_do_not_get_out() -> None:
    assert clean("db https://ada:s3cret-word@host/ HF_TOKEN='tok-1234567'") == (
        "db https://[redacted]@host/ HF_TOKEN='[redacted]'"
    )
    text = clean("Bearer abc.def k8s-aws-v1.aHR0cHM6 AKIAIOSFODNN7EXAMPLE X-Amz-Signature=deadbeef&x " + "y" * 5000)
    for secret in ("abc.def", "aHR0cHM6", "AKIAIOSFODNN7EXAMPLE", "deadbeef"):
        assert secret not in text
    assert len(text) <= 600
