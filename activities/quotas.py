"""Quotas of the account, one at a time.

API: https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html
"""

from __future__ import annotations

from activities.aws import AwsClients
from activities.errors import classify, code_of
from contracts.problem import ProblemCode


def quota_of(aws: AwsClients, region: str, service: str, code: str) -> int | None:
    """A quota's value; None where Service Quotas does not tell (not allowed, or not offered there)."""
    try:
        return int(
            aws.read.service_quotas(region).get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"]
        )
    except Exception as error:
        refused = classify(error).type in (ProblemCode.DENIED, ProblemCode.UNSUPPORTED, ProblemCode.INVALID)
        if refused or code_of(error) == "NoSuchResourceException":
            return None
        raise
