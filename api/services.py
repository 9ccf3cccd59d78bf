"""What the routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from api.audit import AuditLog
from api.durations import PastDurations
from api.events import Hub
from api.log_watch import LogHub
from api.lookups import Lookups
from api.mapping import Linker, Seen, from_description
from api.planning import Planning
from api.preferences import PreferenceStore
from api.problems import RETRY_SECONDS, refuse, wrong_field
from api.sessions import SessionStore
from api.settings import Settings
from api.temporal import Temporal
from api.tokens import TokenStore
from contracts.catalogue import KINDS
from contracts.model import Model
from contracts.problem import ProblemCode


@dataclass(frozen=True)
class Services:
    """One gateway's parts."""

    settings: Settings
    temporal: Temporal
    tokens: TokenStore
    sessions: SessionStore
    preferences: PreferenceStore
    audit: AuditLog
    hub: Hub
    lookups: Lookups
    planning: Planning
    durations: PastDurations
    logs: LogHub

    def linker(self, request: Request) -> Linker:
        base = self.settings.public_url or str(request.base_url)
        return Linker(base, self.settings.temporal_ui_url, self.temporal.client.namespace)

    async def operation(self, workflow_id: str, run_id: str | None = None) -> Seen:
        """The operation as it is now. Raises ProblemError (404) if there is none."""
        found = await self.temporal.find(workflow_id, run_id) if workflow_id.partition("/")[0] in KINDS else None
        seen = await from_description(found) if found else None
        if seen is None:
            run = f" with run {run_id}" if run_id else ""
            raise refuse(
                ProblemCode.NOT_FOUND,
                f"there is no operation {workflow_id!r}{run}",
                remedy="GET /api/v1/operations lists them; ids look like create-cluster/TAG.",
            )
        return seen

    def served_region(self, region: str | None, field: str = "/region") -> str:
        """``region``, or the default one. Raises ProblemError (422) if no worker of this deployment serves it."""
        chosen = region or self.settings.default_region
        if chosen not in self.settings.regions:
            served = ", ".join(self.settings.regions)
            raise wrong_field(field, f"region {chosen!r} is not served here; served: {served}", f"Use one of {served}.")
        return chosen


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Parts = Annotated[Services, Depends(_services)]


def reply(model: Model, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A model as JSON. Serialised once and not validated again, as a response model would be."""
    return Response(
        model.model_dump_json(by_alias=True), status_code=status, media_type="application/json", headers=headers
    )


def accepted(seen: Seen, linker: Linker) -> Response:
    """202: the operation goes on by itself; its status monitor is named."""
    location = linker.operation(seen.operation.id, None if seen.open else seen.operation.run_id)
    headers = {
        "Operation-Location": location,
        "Location": location,
        "Retry-After": RETRY_SECONDS,
        **state_headers(linker.on(seen)),
    }
    return reply(linker.on(seen).operation, 202, headers)


def state_headers(seen: Seen) -> dict[str, str]:
    return {"ETag": seen.etag, "Operation-Version": str(seen.version), "Cache-Control": "no-cache"}
