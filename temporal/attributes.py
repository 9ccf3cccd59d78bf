"""The search attributes that operations and clusters are listed by."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from contracts import visibility
from temporal.findings import Finding, Found
from temporal.namespace import is_cloud

RPC = timedelta(seconds=10)
KNOWN_WITHIN = 60.0
"""Seconds until every server knows attributes that were added: they look every few seconds."""
_TYPES = {
    visibility.KEYWORD: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    visibility.BOOL: IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
}


async def search_attributes(client: Client, only_look: bool) -> list[Finding]:
    """Add those of ``contracts.visibility`` that the namespace lacks. One that has another type is left as it is: its
    values are somebody's. Raises RPCError, TimeoutError."""
    if is_cloud(client):
        return await _in_cloud(client)
    types = {name: _TYPES[kind] for name, kind in visibility.ATTRIBUTES.items()}
    before = await _types(client)
    missing = {name: kind for name, kind in types.items() if name not in before}
    if missing and not only_look:
        await _add(client, missing)
        await _until_known(client, list(missing))
    found = await _types(client)
    return [_finding(name, kind, before.get(name), found.get(name)) for name, kind in types.items()]


def _finding(name: str, kind: IndexedValueType.ValueType, before: int | None, now: int | None) -> Finding:
    part, wanted = f"search attribute {name}", _word(kind)
    if now is None:
        return Finding(part, Found.MISSING, f"a {wanted}", "Run python -m temporal.setup without --check.")
    if now != kind:
        remedy = f"Remove it (temporal operator search-attribute remove --name {name}) if nothing else needs it, or "
        remedy += "give InstantStart a namespace of its own; then run this again."
        return Finding(part, Found.DIFFERS, f"its type is {_word(now)}, and must be {wanted}", remedy)
    return Finding(part, Found.THERE if before == kind else Found.MADE, wanted)


async def _types(client: Client) -> dict[str, int]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request, retry=True, timeout=RPC)
    return dict(answer.custom_attributes)


async def _add(client: Client, missing: dict[str, IndexedValueType.ValueType]) -> None:
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request, retry=True, timeout=RPC)
    except RPCError as error:
        # Another setup was faster, or the answer to our own first try was lost; what is there is looked at after.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise


async def _until_known(client: Client, names: list[str]) -> None:
    async with asyncio.timeout(KNOWN_WITHIN):
        while not all([await _can_be_asked_for(client, name) for name in names]):
            await asyncio.sleep(0.5)


async def _can_be_asked_for(client: Client, name: str) -> bool:
    value = "'none'" if visibility.ATTRIBUTES[name] == visibility.KEYWORD else "true"
    try:
        await client.count_workflows(f"{name} = {value}", rpc_timeout=RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            return False
        raise
    return True


async def _in_cloud(client: Client) -> list[Finding]:
    """Temporal Cloud adds search attributes by its own API; whether one is there shows in a query."""
    findings = []
    for name, kind in visibility.ATTRIBUTES.items():
        if await _can_be_asked_for(client, name):
            findings.append(Finding(f"search attribute {name}", Found.THERE))
        else:
            command = f"tcld namespace search-attributes add --namespace {client.namespace} --sa {name}={kind}"
            findings.append(Finding(f"search attribute {name}", Found.MISSING, f"a {kind}", f"Run: {command}"))
    return findings


def _word(kind: int) -> str:
    name = IndexedValueType.Name(IndexedValueType.ValueType(kind))
    return name.removeprefix("INDEXED_VALUE_TYPE_").title().replace("_", "")
