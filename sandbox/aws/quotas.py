"""Service Quotas: the limits that the other services of the sandbox enforce, and requests to raise them.

API: https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/Welcome.html
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from typing import Any

from moto.core.utils import get_service_model

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.ec2 import DEFAULT_ADDRESSES, DEFAULT_VPCS
from sandbox.aws.world import Place, World, alphanumeric, paginate

DEFAULT_INSTANCES = 8
SCARCE = ("ml.p6", "ml.p5e", "ml.p4de", "ml.trn2", "ml.trn1n")
"""Types of which a fresh account may have none. UNVERIFIED per type; AWS's documents say "often 0"."""
VPC_QUOTA = "L-F678F1CE"
ADDRESS_QUOTA = "L-0263D0A3"


@dataclass(frozen=True)
class Quota:
    service: str
    code: str
    name: str
    knob: str
    """The name of the quota in the admin API."""
    default: int


@dataclass
class IncreaseRequest:
    id: str
    code: str
    service: str
    desired: float
    created: Any
    status: str = "PENDING"


@dataclass
class QuotaState:
    requests: dict[Place, list[IncreaseRequest]] = field(default_factory=dict)


def default_instances(instance_type: str) -> int:
    return 0 if instance_type.startswith(SCARCE) else DEFAULT_INSTANCES


@functools.cache
def table() -> tuple[Quota, ...]:
    """Every quota that the sandbox enforces."""
    types: list[str] = get_service_model("sagemaker").shape_for("ClusterInstanceType").metadata["enum"]
    quotas = [
        Quota("vpc", VPC_QUOTA, "VPCs per Region", "vpcs", DEFAULT_VPCS),
        Quota("ec2", ADDRESS_QUOTA, "EC2-VPC Elastic IPs", "elastic-ips", DEFAULT_ADDRESSES),
    ]
    for name in sorted(types):
        title = f"{name} for cluster usage"
        code = "L-" + hashlib.sha256(title.encode()).hexdigest()[:8].upper()
        quotas.append(Quota("sagemaker", code, title, name, default_instances(name)))
    return tuple(quotas)


class ServiceQuotas:
    """Handlers of Service Quotas' operations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = QuotaState()
        world.on("quotas.approved", self._approved)

    def GetServiceQuota(self, call: Call) -> Any:
        return {"Quota": self._shape(call, self._find(call))}

    def GetAWSDefaultServiceQuota(self, call: Call) -> Any:
        return {"Quota": self._shape(call, self._find(call), applied=False)}

    def ListServiceQuotas(self, call: Call) -> Any:
        return self._list(call, applied=True)

    def ListAWSDefaultServiceQuotas(self, call: Call) -> Any:
        return self._list(call, applied=False)

    def RequestServiceQuotaIncrease(self, call: Call) -> Any:
        quota, desired = self._find(call), call.params["DesiredValue"]
        if desired <= (self.world.quota(call.region, quota.knob, quota.default) or 0):
            raise AwsError("IllegalArgumentException", "The desired value must exceed the quota's current value.")
        requests = self.state.requests.setdefault(call.place, [])
        if any(r.code == quota.code and r.status == "PENDING" for r in requests):
            raise AwsError("ResourceAlreadyExistsException", "Only one open service quota increase request is allowed.")
        request = IncreaseRequest(alphanumeric(32), quota.code, quota.service, desired, self.world.now())
        requests.append(request)
        self.world.clock.schedule(
            timings.QUOTA_INCREASE, "quotas.approved", account=call.account, region=call.region, request=request.id
        )
        return {"RequestedQuota": self._request_shape(call, request)}

    def GetRequestedServiceQuotaChange(self, call: Call) -> Any:
        for request in self.state.requests.get(call.place, []):
            if request.id == call.params["RequestId"]:
                return {"RequestedQuota": self._request_shape(call, request)}
        raise AwsError("NoSuchResourceException", "The specified request does not exist.")

    def ListRequestedServiceQuotaChangeHistory(self, call: Call) -> Any:
        service, status = call.params.get("ServiceCode"), call.params.get("Status")
        found = [
            r
            for r in self.state.requests.get(call.place, [])
            if (not service or r.service == service) and (not status or r.status == status)
        ]
        return {"RequestedQuotas": [self._request_shape(call, r) for r in found]}

    def ListRequestedServiceQuotaChangeHistoryByQuota(self, call: Call) -> Any:
        found = [r for r in self.state.requests.get(call.place, []) if r.code == call.params["QuotaCode"]]
        return {"RequestedQuotas": [self._request_shape(call, r) for r in found]}

    def _approved(self, account: str, region: str, request: str) -> None:
        for item in self.state.requests.get((account, region), []):
            if item.id == request and item.status == "PENDING":
                item.status = "APPROVED"
                quota = next(q for q in table() if q.code == item.code)
                self.world.knobs.quotas.setdefault(region, {})[quota.knob] = int(item.desired)

    def _find(self, call: Call) -> Quota:
        for quota in table():
            if quota.service == call.params["ServiceCode"] and quota.code == call.params["QuotaCode"]:
                return quota
        raise AwsError("NoSuchResourceException", "The request failed because the specified quota does not exist.")

    def _list(self, call: Call, applied: bool) -> Any:
        quotas = [q for q in table() if q.service == call.params["ServiceCode"]]
        if not quotas:
            raise AwsError(
                "NoSuchResourceException", "The request failed because the specified service does not exist."
            )
        page, token = paginate(quotas, call.params.get("NextToken"), call.params.get("MaxResults") or 100)
        shapes = [self._shape(call, q, applied) for q in page]
        return {"Quotas": shapes, "NextToken": token} if token else {"Quotas": shapes}

    def _shape(self, call: Call, quota: Quota, applied: bool = True) -> dict[str, Any]:
        value = self.world.quota(call.region, quota.knob, quota.default) if applied else quota.default
        return {
            "ServiceCode": quota.service,
            "ServiceName": "Amazon SageMaker" if quota.service == "sagemaker" else quota.service.upper(),
            "QuotaArn": call.arn("servicequotas", f"{quota.service}/{quota.code}"),
            "QuotaCode": quota.code,
            "QuotaName": quota.name,
            "Value": float(value or 0),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def _request_shape(self, call: Call, request: IncreaseRequest) -> dict[str, Any]:
        quota = next(q for q in table() if q.code == request.code)
        return {
            "Id": request.id,
            "ServiceCode": quota.service,
            "ServiceName": quota.service,
            "QuotaCode": quota.code,
            "QuotaName": quota.name,
            "DesiredValue": float(request.desired),
            "Status": request.status,
            "Created": request.created,
            "LastUpdated": request.created,
            "Requester": call.account,
        }
