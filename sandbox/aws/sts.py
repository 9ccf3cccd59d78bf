"""STS: who the caller is. The sandbox's own credentials are a role's session; others are what moto issued.

API: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
"""

from __future__ import annotations

from typing import Any

from sandbox import credentials
from sandbox.aws import backends
from sandbox.aws.call import Call


class Sts:
    """Handlers of STS's operations."""

    def GetCallerIdentity(self, call: Call) -> Any:
        if _issued(call):
            return call.forward()
        role = backends.role(credentials.ACCOUNT, credentials.ROLE_NAME)
        return {
            "Account": credentials.ACCOUNT,
            "Arn": credentials.SESSION_ARN,
            "UserId": f"{role.id if role is not None else 'AROASANDBOXSANDBOXSAN'}:{credentials.SESSION_NAME}",
        }


def principal(call: Call) -> str:
    """The IAM principal (a role or user, not a session) that signed a call."""
    assumed = backends.sts(call.account).get_assumed_role_from_access_key(call.access_key)
    if assumed is not None:
        return str(assumed.role_arn)
    for user in backends.iam(call.account).users.values():
        if any(key.access_key_id == call.access_key for key in user.access_keys):
            return str(user.arn)
    return credentials.ROLE_ARN


def _issued(call: Call) -> bool:
    """Whether moto issued the caller's credentials: to a user, or by AssumeRole."""
    return principal(call) != credentials.ROLE_ARN
