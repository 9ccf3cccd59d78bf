"""The gateway's application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from temporalio.client import Client

from api import (
    clusters,
    decisions,
    features,
    imports,
    instance_groups,
    node_groups,
    node_pools,
    nodes,
    openapi,
    operations,
    plans,
    problems,
    software,
    system,
    teardown,
)
from api.audit import AuditLog
from api.context import RequestContext
from api.events import Hub
from api.lookups import Lookups
from api.planning import Planning
from api.services import Services
from api.settings import Settings
from api.temporal import Temporal, connect
from api.tokens import TokenStore


def create_app(settings: Settings | None = None, temporal: Client | None = None) -> FastAPI:
    """The gateway. ``temporal`` is connected to by the standard ``TEMPORAL_…`` settings unless it is given."""
    settings = settings or Settings()
    tokens = TokenStore(settings.tokens_path)
    audit = AuditLog(settings.data_dir / "audit", settings.audit_file_bytes, settings.audit_files)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        client = temporal or await connect()
        link = Temporal(client, settings.update_timeout, settings.query_timeout)
        lookups = Lookups(link, settings.look_up_timeout, settings.check_timeout)
        app.state.services = Services(
            settings=settings,
            temporal=link,
            tokens=tokens,
            audit=audit,
            hub=Hub(link, settings.detail_seconds),
            lookups=lookups,
            planning=Planning(lookups),
        )
        try:
            yield
        finally:
            await app.state.services.hub.close()

    app = FastAPI(
        title="InstantStart",
        version="0.1.0",
        description="Control plane for Amazon SageMaker HyperPod on EKS: every change is a durable operation.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.tokens = tokens
    app.add_middleware(RequestContext, audit=audit)
    problems.install(app)
    # Decisions and streams come before the operation itself, whose id takes every path that is left.
    for router in (
        clusters.router,
        teardown.router,
        imports.router,
        plans.router,
        instance_groups.router,
        node_groups.router,
        node_pools.router,
        features.router,
        nodes.router,
        software.router,
        decisions.router,
        operations.router,
        system.router,
    ):
        app.include_router(router)
    openapi.install(app)
    return app
