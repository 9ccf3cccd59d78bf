"""IAM: moto's, with roles dated by the sandbox's clock, checked trust policies and HyperPod's service-linked role.

API: https://docs.aws.amazon.com/IAM/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from sandbox import credentials, timings
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.world import World

HYPERPOD_SERVICE = "hyperpod.sagemaker.amazonaws.com"
HYPERPOD_SERVICE_ROLE = "AWSServiceRoleForSageMakerHyperPod"
"""The name that AWS's documentation of AmazonSageMakerHyperPodServiceRolePolicy gives."""


class Iam:
    """Handlers of IAM's operations."""

    def __init__(self, world: World) -> None:
        self.world = world

    def ensure_caller_role(self) -> None:
        """The role behind the sandbox's credentials exists from the start and is old enough to be assumed."""
        backend = backends.iam(credentials.ACCOUNT)
        if backends.role(credentials.ACCOUNT, credentials.ROLE_NAME) is not None:
            return
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:aws:iam::{credentials.ACCOUNT}:root"},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
        role = backend.create_role(
            credentials.ROLE_NAME, json.dumps(trust), credentials.ROLE_PATH, None, "The sandbox's caller", [], "3600"
        )
        role.create_date = (self.world.now() - timedelta(days=1, seconds=timings.ROLE_PROPAGATION)).replace(tzinfo=None)

    def CreateRole(self, call: Call) -> Any:
        _check_trust_policy(call.params.get("AssumeRolePolicyDocument", ""))
        response = call.forward()
        self._date(call.account, call.params.get("RoleName", ""), response.status)
        return response

    def UpdateAssumeRolePolicy(self, call: Call) -> Any:
        _check_trust_policy(call.params.get("PolicyDocument", ""))
        return call.forward()

    def CreateServiceLinkedRole(self, call: Call) -> Any:
        """moto names HyperPod's role otherwise; a repeated request is refused as AWS does."""
        service = call.params.get("AWSServiceName", "")
        if service != HYPERPOD_SERVICE:
            return call.forward()
        backend = backends.iam(call.account)
        if backends.role(call.account, HYPERPOD_SERVICE_ROLE) is not None:
            raise AwsError(
                "InvalidInput",
                f"Service role name {HYPERPOD_SERVICE_ROLE} has been taken in this account, "
                "please try a different suffix.",
            )
        role = backend.create_service_linked_role(service, call.params.get("Description", ""), "")
        backend.roles.pop(role.id)
        role.name = HYPERPOD_SERVICE_ROLE
        backend.roles[role.id] = role
        self._date(call.account, role.name, 200)
        self.world.changed("iam")
        return {
            "Role": {
                "Path": role.path,
                "RoleName": role.name,
                "RoleId": role.id,
                "Arn": role.arn,
                "CreateDate": self.world.now(),
                "AssumeRolePolicyDocument": role.assume_role_policy_document,
            }
        }

    def _date(self, account: str, name: str, status: int) -> None:
        role = backends.role(account, name) if status < 400 else None
        if role is not None:
            role.create_date = self.world.now().replace(tzinfo=None)


def _check_trust_policy(document: str) -> None:
    try:
        statements = json.loads(document)["Statement"]
        listed = statements if isinstance(statements, list) else [statements]
        valid = bool(listed) and all({"Effect", "Action", "Principal"} <= set(s) for s in listed)
    except (ValueError, KeyError, TypeError):
        valid = False
    if not valid:
        raise AwsError("MalformedPolicyDocument", "This policy contains invalid Json")
