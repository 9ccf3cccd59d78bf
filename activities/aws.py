"""Clients of AWS, pages, tags and client tokens.

One :class:`AwsClients` serves a process. ``read`` clients retry three times by botocore's standard mode; ``act``
clients never retry by themselves: a lost answer to a create must not become a second resource (Temporal retries, after
a look-up). They send nothing for an attempt that Temporal has given up (``activities/fence.py``).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import boto3
from botocore.config import Config
from temporalio import activity

from activities import aws_calls, fence
from activities.context import attempt, bound, operation_id
from activities.settings import VERSION, Settings
from contracts.names import TAG_CLUSTER, TAG_CREATED_BY, TAG_OPERATION, TAG_RESOURCE, client_token
from contracts.network import Scope

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType
    from mypy_boto3_ec2.type_defs import FilterTypeDef, TagSpecificationTypeDef
    from mypy_boto3_eks import EKSClient
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sagemaker import SageMakerClient
    from mypy_boto3_service_quotas import ServiceQuotasClient
    from mypy_boto3_sts import STSClient

Found = TypeVar("Found")

CONNECT_SECONDS = 5
READ_SECONDS = 30


class Clients:
    """Clients of one retry policy: one per service and region, made once (making one is not thread-safe)."""

    def __init__(self, session: boto3.Session, attempts: int, before_send: Callable[[], None] | None = None) -> None:
        """``before_send`` is called right before each request; what it raises keeps the request back."""
        self._session = session
        self._before_send = before_send
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries=cast(Any, {"mode": "standard", "total_max_attempts": attempts}),
            tcp_keepalive=True,
            max_pool_connections=50,
            user_agent_extra=f"instantstart/{VERSION}",
        )
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}

    def client(self, service: str, region: str) -> Any:
        key = (service, region)
        with self._lock:
            if key not in self._clients:
                make = cast(Any, self._session.client)
                made = make(service, region_name=region, config=self._config)
                if (before := self._before_send) is not None:
                    made.meta.events.register("before-send", lambda **_: before())
                self._clients[key] = made
            return self._clients[key]

    def amp(self, region: str) -> Any:
        """Amazon Managed Service for Prometheus."""
        return self.client("amp", region)

    def ec2(self, region: str) -> EC2Client:
        return cast("EC2Client", self.client("ec2", region))

    def eks(self, region: str) -> EKSClient:
        return cast("EKSClient", self.client("eks", region))

    def fsx(self, region: str) -> Any:
        return self.client("fsx", region)

    def iam(self, region: str) -> IAMClient:
        return cast("IAMClient", self.client("iam", region))

    def s3(self, region: str) -> S3Client:
        return cast("S3Client", self.client("s3", region))

    def sagemaker(self, region: str) -> SageMakerClient:
        return cast("SageMakerClient", self.client("sagemaker", region))

    def service_quotas(self, region: str) -> ServiceQuotasClient:
        return cast("ServiceQuotasClient", self.client("service-quotas", region))

    def logs(self, region: str) -> Any:
        """CloudWatch Logs."""
        return self.client("logs", region)

    def pricing(self, region: str) -> Any:
        """The Price List API answers in few regions, for all of them."""
        return self.client("pricing", region)

    def sts(self, region: str) -> STSClient:
        return cast("STSClient", self.client("sts", region))

    def elbv2(self, region: str) -> Any:
        return self.client("elbv2", region)

    def tagging(self, region: str) -> Any:
        return self.client("resourcegroupstaggingapi", region)


class AwsClients:
    """Everything that activities need of AWS, from one session."""

    def __init__(self, settings: Settings | None = None, session: boto3.Session | None = None) -> None:
        self.settings = settings or Settings()
        self.session = session or boto3.Session()
        aws_calls.observe(self.session.events)
        self.session.events.register("before-send", _name_the_request)
        self.session.events.register("after-call", _name_the_service)
        self.session.events.register("after-call-error", _name_the_failed_service)
        self.read = Clients(self.session, attempts=3)
        self.act = Clients(self.session, attempts=1, before_send=fence.check)


def _name_the_request(request: Any, **_: Any) -> None:
    """Say in the user agent on whose behalf a call is made, so that CloudTrail shows the operation.

    The header is no part of what SigV4 signs, and botocore completes it only shortly before.
    """
    agent = request.headers.get("User-Agent", "")
    if isinstance(agent, bytes):
        agent = agent.decode()
    request.headers["User-Agent"] = f"{agent} {_behalf()}"


def _behalf() -> str:
    return f"op/{_ascii(operation_id())} req/{_ascii(bound.get().request_id)}"


def user_agent() -> str:
    """The user agent of requests that are signed without a client of botocore."""
    return f"instantstart/{VERSION} {_behalf()}"


def _name_the_service(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    """A ClientError names its operation but not its service: leave it in the response that the error carries."""
    parsed.setdefault("ResponseMetadata", {})["Service"] = model.service_model.service_name


def _name_the_failed_service(exception: Exception, event_name: str, **ignored: Any) -> None:
    """The same for errors without a response, from the event's name ``after-call-error.<service>.<operation>``."""
    _, service, operation = event_name.split(".")
    exception.aws_call = (service, operation)  # type: ignore[attr-defined]


def _ascii(text: str) -> str:
    return re.sub(r"[^\x21-\x7e]", "_", text)[:128]


def partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def pages(client: Any, operation: str, member: str, **parameters: Any) -> Iterator[Any]:
    """Every item of ``member`` over all pages of ``operation`` (its name in Python, e.g. ``describe_vpcs``)."""
    for page in client.get_paginator(operation).paginate(**parameters):
        yield from page.get(member) or ()


# Tags


def tags_of(scope: Scope, resource: str, name: str | None = None) -> dict[str, str]:
    """The tags of what we make: whose it is and what it is there. ``resource`` is its role in the cluster."""
    tags = {
        TAG_CLUSTER: scope.cluster,
        TAG_RESOURCE: resource,
        TAG_OPERATION: _tag_value(operation_id()),
        TAG_CREATED_BY: _tag_value(scope.created_by),
    }
    return tags if name is None else {"Name": name, **tags}


def _tag_value(text: str) -> str:
    """What every service accepts in a tag's value (IAM is the strictest)."""
    return re.sub(r"[^\w .:/=+\-@]", "_", text)[:256]


def tag_list(tags: Mapping[str, str]) -> list[Any]:
    """Tags as EC2, IAM, S3 and SageMaker take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tag_specifications(kind: ResourceTypeType, tags: Mapping[str, str]) -> list[TagSpecificationTypeDef]:
    return [{"ResourceType": kind, "Tags": tag_list(tags)}]


def tag_map(tags: Sequence[Any] | None) -> dict[str, str]:
    """Tags as EC2, IAM, S3 and SageMaker list them, as a mapping."""
    return {tag["Key"]: tag.get("Value", "") for tag in tags or ()}


def is_ours(tags: Mapping[str, str], cluster: str) -> bool:
    return tags.get(TAG_CLUSTER) == cluster


def filters(**values: str | Sequence[str]) -> list[FilterTypeDef]:
    """EC2 filters; ``_`` in a name stands for ``-``, ``__`` for a point."""
    return [
        {
            "Name": name.replace("__", ".").replace("_", "-"),
            "Values": [value] if isinstance(value, str) else list(value),
        }
        for name, value in values.items()
    ]


def owned_filters(cluster: str, resource: str | Sequence[str]) -> list[FilterTypeDef]:
    """Filters for what we made for ``cluster`` in the role ``resource``."""
    roles = [resource] if isinstance(resource, str) else list(resource)
    return [
        {"Name": f"tag:{TAG_CLUSTER}", "Values": [cluster]},
        {"Name": f"tag:{TAG_RESOURCE}", "Values": roles},
    ]


# Creating once


def token(step: str) -> str:
    """The client token of a step of the running operation: equal for all its attempts."""
    info = activity.info()
    return client_token(info.workflow_id or "", info.workflow_run_id or "", step)


def find_settled(find: Callable[[], Found | None], settle_seconds: float) -> Found | None:
    """Look before creating something that takes no client token.

    EC2 is eventually consistent: what an earlier attempt made may not be visible at once, so a repeated attempt looks
    twice. (EC2 API reference: eventual consistency)
    """
    found = find()
    if found is None and attempt() > 1 and settle_seconds:
        time.sleep(settle_seconds)
        found = find()
    return found


def until_visible(find: Callable[[], Found | None], settle_seconds: float) -> Found | None:
    """Look again for a short while for what was just made."""
    for pause in (0.0, 0.1, 0.3, 0.6):
        time.sleep(pause * settle_seconds)
        if (found := find()) is not None:
            return found
    return None
