"""What a worker sees to before it takes work: that its namespace is there, and that it can read what is in it."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, ListWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from temporal.codec import EncryptionCodec
from temporal.faults import ConnectionFaultError

log = logging.getLogger(__name__)

RPC = timedelta(seconds=10)
_PAUSE = 2.0
_PAGE = 200
_MOST = 2000
"""Running workflows that are looked at; the newest come first."""


async def admit(client: Client) -> None:
    """Wait until the namespace is there, and see that the running workflows can be read: a worker that lacks a key
    would only take their tasks and fail them.

    Raises ConnectionFaultError for a key that is missing; RPCError for what Temporal refuses.
    """
    while not await namespace_is_there(client):
        log.warning("there is no namespace %s yet: python -m temporal.setup makes it", client.namespace)
        await asyncio.sleep(_PAUSE)
    missing = await missing_keys(client)
    if missing:
        raise ConnectionFaultError(
            f"workflows that run in namespace {client.namespace} are encrypted with codec key {', '.join(missing)}, "
            "which this process does not have",
            "Add it to the file that INSTANTSTART_CODEC_KEY_FILE names, then start again; nothing was touched.",
        )


async def missing_keys(client: Client) -> list[str]:
    """IDs of the keys that running workflows need and this process does not have."""
    codec = client.data_converter.payload_codec
    if not isinstance(codec, EncryptionCodec):
        return []
    missing: set[str] = set()
    position, seen = b"", 0
    while seen < _MOST:
        request = ListWorkflowExecutionsRequest(
            namespace=client.namespace, query="ExecutionStatus = 'Running'", page_size=_PAGE, next_page_token=position
        )
        page = await client.workflow_service.list_workflow_executions(request, retry=True, timeout=RPC)
        missing |= {key for row in page.executions for key in _keys(row) if not codec.has(key)}
        seen, position = seen + len(page.executions), page.next_page_token
        if not position:
            break
    return sorted(missing)


def _keys(row: WorkflowExecutionInfo) -> set[str]:
    """IDs of the keys that a workflow's memo is encrypted with."""
    found = (EncryptionCodec.key_of(payload) for payload in row.memo.fields.values())
    return {key for key in found if key is not None}


async def namespace_is_there(client: Client) -> bool:
    """Whether the client's namespace exists. Raises RPCError."""
    try:
        request = DescribeNamespaceRequest(namespace=client.namespace)
        await client.workflow_service.describe_namespace(request, retry=True, timeout=RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True
