"""What AWS's error codes mean.

From botocore's service models, the services' API references and measurement: botocore's own retry rules are wrong for
some (LimitExceededException is a quota and InsufficientInstanceCapacity is no fault, though both are retried;
FSx InternalServerError and service-quotas ServiceException are faults with status 400, and are not).
"""

from __future__ import annotations

import re
from enum import StrEnum

from contracts.problem import ProblemCode


class Meaning(StrEnum):
    """Values that are also a :class:`ProblemCode` are refusals for good."""

    THROTTLED = "throttled"
    TRANSIENT = "transient"
    PROPAGATION = "propagation"
    BUSY = "busy"
    EXISTS = "exists"
    GONE = "gone"
    EXPIRED = "expired"
    CAPACITY = ProblemCode.CAPACITY.value
    QUOTA = ProblemCode.QUOTA.value
    CREDENTIALS = ProblemCode.CREDENTIALS.value
    DENIED = ProblemCode.DENIED.value
    INVALID = ProblemCode.INVALID.value
    UNSUPPORTED = ProblemCode.UNSUPPORTED.value


_CODES: dict[Meaning, str] = {
    Meaning.THROTTLED: """Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException
        TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded BandwidthLimitExceeded
        SlowDown PriorRequestNotComplete EC2ThrottledException""",
    Meaning.TRANSIENT: """ServerException ServiceUnavailable ServiceUnavailableException InternalFailure InternalError
        InternalServerError InternalServerException ServiceFailure ServiceFailureException ServiceException Unavailable
        RequestTimeout RequestTimeoutException TransactionInProgressException InternalServiceException""",
    Meaning.PROPAGATION: "ResourcePropagationDelayException",
    Meaning.BUSY: """ConflictException InvalidStateException OperationInProgressException OperationInProgress
        ConcurrentModification ConcurrentModificationException EntityTemporarilyUnmodifiable DeleteConflict
        DependencyViolation IncorrectState IncorrectInstanceState OperationAborted""",
    Meaning.EXISTS: """EntityAlreadyExists ResourceAlreadyExists ResourceAlreadyExistsException
        Resource.AlreadyAssociated RouteAlreadyExists BucketAlreadyOwnedByYou AlreadyExistsException""",
    Meaning.GONE: """ResourceNotFound ResourceNotFoundException NoSuchEntity NotFoundException FileSystemNotFound
        NoSuchBucket NatGatewayNotFound 404""",
    Meaning.EXPIRED: "ExpiredToken ExpiredTokenException RequestExpired",
    Meaning.CAPACITY: "InsufficientInstanceCapacity InsufficientFreeAddressesInSubnet InsufficientCapacity",
    Meaning.QUOTA: """ResourceLimitExceeded ResourceLimitExceededException ServiceLimitExceeded
        ServiceQuotaExceededException LimitExceeded LimitExceededException VpcLimitExceeded AddressLimitExceeded
        SubnetLimitExceeded NatGatewayLimitExceeded InternetGatewayLimitExceeded RouteTableLimitExceeded
        SecurityGroupLimitExceeded VpcEndpointLimitExceeded QuotaExceededException TooManyBuckets""",
    Meaning.CREDENTIALS: """InvalidClientTokenId UnrecognizedClientException InvalidSignatureException
        SignatureDoesNotMatch AuthFailure MissingAuthenticationToken InvalidAccessKeyId""",
    Meaning.DENIED: """AccessDenied AccessDeniedException UnauthorizedOperation AuthorizationError 403
        UnauthorizedAccess OptInRequired""",
    Meaning.UNSUPPORTED: "SandboxNotImplemented UnknownOperationException InvalidAction",
}
MEANINGS: dict[str, Meaning] = {code: meaning for meaning, codes in _CODES.items() for code in codes.split()}

_NOT_ASSUMABLE = re.compile(
    r"(cannot|could not|unable to|not) (be )?assume|not authorized to perform: sts:AssumeRole|"
    r"role .*(does not exist|is invalid|cannot be assumed)|invalid principal in policy|"
    r"OIDC provider .*not (found|exist)",
    re.IGNORECASE,
)
"""What services say of a role that IAM has not spread yet (seen from SageMaker and EKS right after CreateRole)."""

_PROPAGATING_CODES = ("ValidationException", "InvalidParameterException", "MalformedPolicyDocument")
_MAY_EXIST = ("ResourceInUse", "ResourceInUseException", "BucketAlreadyExists")


def meaning(service: str, operation: str, code: str, status: int, message: str) -> Meaning:
    """What a refusal means. ``service`` and ``operation`` by their botocore names (``sagemaker``,
    ``CreateCluster``)."""
    creating = operation.startswith(("Create", "Allocate", "Register"))
    if code in _PROPAGATING_CODES and _NOT_ASSUMABLE.search(message):
        return Meaning.PROPAGATION
    if code in _MAY_EXIST:
        # EKS says ResourceInUse of a name that is taken, and also of a resource that is in transition.
        return Meaning.EXISTS if creating else Meaning.BUSY
    if code in MEANINGS:
        return MEANINGS[code]
    if code.endswith((".Duplicate", "AlreadyExists", "AlreadyExistsException")):
        return Meaning.EXISTS
    if code.endswith((".NotFound", "NotFoundException")):
        return Meaning.GONE
    if status == 429:
        return Meaning.THROTTLED
    return Meaning.TRANSIENT if status >= 500 else Meaning.INVALID


def remedy(kind: Meaning, service: str, operation: str) -> str:
    """What to do next, in one sentence."""
    match kind:
        case Meaning.DENIED:
            return f"Allow {service}:{operation} to the platform's role (see docs/iam.md), then retry."
        case Meaning.CREDENTIALS | Meaning.EXPIRED:
            return "Renew the platform's AWS credentials, then retry."
        case Meaning.QUOTA:
            return "Ask Service Quotas for an increase of the quota that the message names, or free some of it; retry."
        case Meaning.CAPACITY:
            return "Choose another Availability Zone, type or capacity, or retry later."
        case Meaning.EXISTS:
            return "Something of this name exists and could not be compared; look at it, then retry."
        case Meaning.GONE:
            return "What an earlier stage made is not there any more; retry that stage, or start over."
        case Meaning.INVALID:
            return "Correct the value that the message names, then retry."
        case Meaning.UNSUPPORTED:
            return "The service (or the sandbox) does not offer this operation here."
    return "The platform tries again."
