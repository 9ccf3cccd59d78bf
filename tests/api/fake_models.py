"""Fake workflows of credentials and models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.credentials import CredentialList, CredentialView, ListCredentials
from contracts.models import ListModels, ModelsRead, ModelState, ModelView
from contracts.problem import ProblemCode
from tests.api.fake_readings import refuse

HUB = CredentialView(
    name="hub",
    namespace="default",
    secret="instantstart-credential-hub",
    key="token",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    used_by=["Deployment server"],
)
PATHS = [f"models/m-{number}" for number in range(1, 6)]


@workflow.defn(name="list-credentials")
class ListCredentialsOf:
    @workflow.run
    async def run(self, asked: ListCredentials) -> CredentialList:
        return CredentialList(credentials=[HUB], read_at=workflow.now())


@workflow.defn(name="list-models")
class ListModelsOf:
    """Five models of the claim that is asked for; what runs is told on the first page."""

    @workflow.run
    async def run(self, asked: ListModels) -> ModelsRead:
        claim, namespace = asked.claim or "s3-claim", asked.namespace or "default"
        if claim == "none":
            raise refuse(ProblemCode.NOT_FOUND, "There is no claim default/none; there are: default/s3-claim")
        begin = int(asked.position or 0)
        end = begin + asked.size
        place: dict[str, Any] = {"claim": claim, "namespace": namespace}
        running = ModelView(**place, path="models/coming", state=ModelState.PROGRESSING)
        return ModelsRead(
            models=[ModelView(**place, path=path, state=ModelState.READY) for path in PATHS[begin:end]],
            running=[running] if asked.position is None else [],
            position=str(end) if end < len(PATHS) else None,
            read_at=workflow.now(),
        )


MODELS: list[Any] = [ListCredentialsOf, ListModelsOf]
