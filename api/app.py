"""The gateway's application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI
from temporalio.client import Client

from api import (
    autoscalers,
    callers,
    clusters,
    codec,
    credentials,
    decisions,
    deployments,
    diagnostics,
    drift,
    experiments,
    features,
    fsx_storage,
    imports,
    inference,
    instance_groups,
    jobs,
    logs,
    managed_endpoints,
    model_pools,
    models,
    node_groups,
    node_pools,
    nodes,
    openapi,
    operations,
    plans,
    presets,
    problems,
    ray_clusters,
    recipes,
    routers,
    session_routes,
    software,
    storage,
    system,
    teardown,
    token_routes,
    tracking_servers,
    training,
)
from api.audit import AuditLog
from api.auth import Authenticator
from api.census import Census
from api.codec import CodecCors, web_ui_origin
from api.context import RequestContext
from api.durations import PastDurations
from api.events import Hub
from api.log_watch import LogHub
from api.lookups import Lookups
from api.observing import Observed, untraced
from api.planning import Planning
from api.preferences import PreferenceStore
from api.services import Services
from api.sessions import SessionStore
from api.settings import Settings
from api.temporal import Temporal
from api.tokens import TokenStore
from telemetry import metrics, tracing
from temporal.connection import connect


def create_app(settings: Settings | None = None, temporal: Client | None = None) -> FastAPI:
    """The gateway. ``temporal`` is connected to by the standard ``TEMPORAL_…`` settings unless it is given."""
    settings = settings or Settings()
    tokens = TokenStore(settings.tokens_path)
    sessions = SessionStore(
        settings.sessions_path, timedelta(seconds=settings.session_seconds), timedelta(seconds=settings.ticket_seconds)
    )
    audit = AuditLog(settings.data_dir / "audit", settings.audit_file_bytes, settings.audit_files)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        client = temporal or await connect(interceptors=tracing.interceptors(), lazy=True)
        link = Temporal(client, settings.update_timeout, settings.query_timeout)
        lookups = Lookups(link, settings.look_up_timeout, settings.check_timeout)
        app.state.services = Services(
            settings=settings,
            temporal=link,
            tokens=tokens,
            sessions=sessions,
            preferences=PreferenceStore(settings.preferences_path),
            audit=audit,
            hub=Hub(link, settings.detail_seconds),
            lookups=lookups,
            planning=Planning(lookups),
            durations=PastDurations(link),
            logs=LogHub(link),
        )
        census = asyncio.create_task(Census(link, settings).run()) if metrics.on() else None
        try:
            yield
        finally:
            if census is not None:
                census.cancel()
            await app.state.services.hub.close()
            await app.state.services.logs.close()

    app = FastAPI(
        title="InstantStart",
        version="0.1.0",
        description="Control plane for Amazon SageMaker HyperPod on EKS: every change is a durable operation.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans of requests alone: metrics are the process's own, and its log records would hold what was sent.
        telemetry={
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": untraced,
        },
    )
    app.state.settings = settings
    app.state.authenticator = Authenticator(settings, tokens, sessions)
    app.add_middleware(CodecCors, origin=web_ui_origin(settings.temporal_ui_url))
    app.add_middleware(Observed)
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
        jobs.router,
        logs.router,
        logs.runs_router,
        diagnostics.router,
        drift.router,
        deployments.router,
        training.router,
        model_pools.router,
        routers.router,
        ray_clusters.router,
        credentials.router,
        tracking_servers.router,
        experiments.router,
        models.router,
        nodes.usage_router,
        software.router,
        storage.router,
        managed_endpoints.router,
        autoscalers.router,
        fsx_storage.router,
        inference.router,
        recipes.router,
        presets.router,
        decisions.router,
        operations.router,
        operations.durations_router,
        callers.router,
        codec.router,
        session_routes.router,
        token_routes.router,
        system.router,
    ):
        app.include_router(router)
    openapi.install(app)
    return app
