"""A role of another account, taken for a while and again before it ends. Its credentials stay in memory.

API: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.credentials import Credentials

from activities.aws import AwsClients
from activities.context import operation_id
from activities.errors import clean, code_of, fail
from contracts.problem import ProblemCode

SPARE = timedelta(minutes=10)
"""So long before its end a session is replaced."""
LONGEST_SESSION_NAME = 64


class TakenRole:
    """Call it for credentials that are good now."""

    def __init__(self, aws: AwsClients, region: str, role_arn: str, external_id: str | None) -> None:
        self._aws, self._region, self._role_arn, self._external_id = aws, region, role_arn, external_id
        self._held: Credentials | None = None
        self._until = datetime.min.replace(tzinfo=UTC)

    def __call__(self) -> Credentials:
        """Raises DENIED where the role does not trust the platform, or asks for another external ID."""
        if self._held is None or datetime.now(UTC) >= self._until - SPARE:
            self._take()
        assert self._held is not None
        return self._held

    def _take(self) -> None:
        name = re.sub(r"[^\w+=,.@-]", "-", f"instantstart-{operation_id()}")[:LONGEST_SESSION_NAME]
        asked: Any = {"RoleArn": self._role_arn, "RoleSessionName": name}
        if self._external_id is not None:
            asked["ExternalId"] = self._external_id
        try:
            taken: Any = self._aws.read.sts(self._region).assume_role(**asked)["Credentials"]
        except Exception as error:
            if code_of(error) not in ("AccessDenied", "AccessDeniedException"):
                raise
            remedy = "Let the role trust the platform's role, with this external id; allow sts:AssumeRole on it here."
            detail = clean(f"{self._role_arn} cannot be taken: {error}", 400)
            fail(ProblemCode.DENIED, detail, remedy, field="/role_arn")
        self._held = Credentials(taken["AccessKeyId"], taken["SecretAccessKey"], taken["SessionToken"])
        self._until = taken["Expiration"]
