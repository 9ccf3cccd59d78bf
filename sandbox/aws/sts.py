"""STS: who the caller is. The sandbox's own credentials are a role's session; others are what moto issued.

API: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
"""

from __future__ import annotations

import json
from typing import Any

from sandbox import credentials
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call

MEMBER_ROLE = "OrganizationAccountAccessRole"
"""The way into other accounts: the sandbox's own account manages an organization of which all others are members.
https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_access.html"""


class Sts:
    """Handlers of STS's operations."""

    def AssumeRole(self, call: Call) -> Any:
        """Roles of other accounts must exist there and trust the caller; those of the own account are moto's matter."""
        arn = call.params.get("RoleArn", "")
        account, name = (arn.split(":") + [""] * 5)[4], arn.rpartition("/")[2]
        if account != call.account and not _may_take(call, account, name, arn):
            raise AwsError(
                "AccessDenied",
                f"User: {_session(call)} is not authorized to perform: sts:AssumeRole on resource: {arn}",
                403,
            )
        return call.forward()

    def GetCallerIdentity(self, call: Call) -> Any:
        if _issued(call):
            return call.forward()
        role = backends.role(credentials.ACCOUNT, credentials.ROLE_NAME)
        return {
            "Account": credentials.ACCOUNT,
            "Arn": credentials.SESSION_ARN,
            "UserId": f"{role.id if role is not None else 'AROASANDBOXSANDBOXSAN'}:{credentials.SESSION_NAME}",
        }


def _may_take(call: Call, account: str, name: str, arn: str) -> bool:
    if name == MEMBER_ROLE and call.account == credentials.ACCOUNT:
        return True
    role = backends.role(account, name)
    if role is None or role.arn != arn:
        return False
    document = role.assume_role_policy_document
    trust = json.loads(document) if isinstance(document, str) else document
    return any(_trusts(call, each) for each in trust.get("Statement", []))


def _trusts(call: Call, statement: dict[str, Any]) -> bool:
    """Whether a statement of a trust policy lets the caller in. Of conditions, only the external ID is looked at."""
    named = (statement.get("Principal") or {}).get("AWS", [])
    principals = named if isinstance(named, list) else [named]
    known = (call.account, f"arn:aws:iam::{call.account}:root", principal(call))
    if statement.get("Effect") != "Allow" or not any(each in known for each in principals):
        return False
    wanted = ((statement.get("Condition") or {}).get("StringEquals") or {}).get("sts:ExternalId")
    return wanted is None or call.params.get("ExternalId") in (wanted if isinstance(wanted, list) else [wanted])


def _session(call: Call) -> str:
    return credentials.SESSION_ARN if not _issued(call) else principal(call)


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
