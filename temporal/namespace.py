"""The namespace that all workflows of a deployment are in."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from temporal.findings import Finding, Found

RPC = timedelta(seconds=10)
KNOWN_WITHIN = 60.0
"""Seconds until every server knows a namespace that was made: they look every ten or so."""
_CLOUD = (".tmprl.cloud", ".api.temporal.io")


def is_cloud(client: Client) -> bool:
    """Whether the client speaks to Temporal Cloud, where namespaces and search attributes are made by other APIs."""
    host = client.service_client.config.target_host.rpartition(":")[0]
    return host.endswith(_CLOUD)


async def namespace(client: Client, wish: timedelta | None, default: timedelta, only_look: bool) -> list[Finding]:
    """See to the client's namespace. It is made with a retention of ``wish``, or else ``default``; one that exists is
    given ``wish``, if there is one. Raises RPCError."""
    name, part = client.namespace, f"namespace {client.namespace}"
    found = await _describe(client)
    if found is None:
        keep = wish or default
        if is_cloud(client):
            remedy = f"Make it in Temporal Cloud (its console, or tcld namespace create), with {keep.days} days."
            return [Finding(part, Found.MISSING, remedy=remedy)]
        if only_look:
            return [Finding(part, Found.MISSING, remedy="Run python -m temporal.setup without --check.")]
        await _register(client, keep)
        await _until_known(client)
        return [Finding(part, Found.MADE, f"keeps ended workflows for {keep.days} days")]
    keeps = found.config.workflow_execution_retention_ttl.ToTimedelta()
    if wish is None or wish == keeps:
        return [Finding(part, Found.THERE, f"keeps ended workflows for {_in_words(keeps)}")]
    differs = f"keeps ended workflows for {_in_words(keeps)} instead of {wish.days} days"
    if is_cloud(client):
        return [Finding(part, Found.DIFFERS, differs, "Change its retention in Temporal Cloud.")]
    if only_look:
        return [Finding(part, Found.DIFFERS, differs, "Run python -m temporal.setup without --check.")]
    config = NamespaceConfig(workflow_execution_retention_ttl=_duration(wish))
    request = UpdateNamespaceRequest(namespace=name, config=config)
    await client.workflow_service.update_namespace(request, retry=True, timeout=RPC)
    return [Finding(part, Found.MADE, f"keeps ended workflows for {wish.days} days now, {_in_words(keeps)} before")]


async def _describe(client: Client) -> DescribeNamespaceResponse | None:
    try:
        request = DescribeNamespaceRequest(namespace=client.namespace)
        return await client.workflow_service.describe_namespace(request, retry=True, timeout=RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


async def _register(client: Client, keep: timedelta) -> None:
    request = RegisterNamespaceRequest(
        namespace=client.namespace,
        description="Operations on SageMaker HyperPod clusters (InstantStart)",
        workflow_execution_retention_period=_duration(keep),
    )
    try:
        await client.workflow_service.register_namespace(request, retry=True, timeout=RPC)
    except RPCError as error:
        # Another setup was faster, or the answer to our own first try was lost.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise


async def _until_known(client: Client) -> None:
    """Until workflows can be listed in a namespace that was just made. Raises RPCError, TimeoutError."""
    async with asyncio.timeout(KNOWN_WITHIN):
        while True:
            try:
                await client.count_workflows("WorkflowId = 'none'", rpc_timeout=RPC)
                return
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
            await asyncio.sleep(0.5)


def _duration(period: timedelta) -> Duration:
    duration = Duration()
    duration.FromTimedelta(period)
    return duration


def _in_words(period: timedelta) -> str:
    hours = round(period.total_seconds() / 3600)
    return f"{hours // 24} days" if hours % 24 == 0 else f"{hours} hours"
