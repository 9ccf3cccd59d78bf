"""What people do: each click is one wish, however often it reaches the gateway."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st
from pydantic import BaseModel

from client.sync import GatewayProblem
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from contracts.plans import Plan
from contracts.problem import Problem
from ui.problems import problem_box
from ui.session import gateway

Body = BaseModel | Mapping[str, Any] | None


def act(
    form: str,
    endpoint: Endpoint[Operation],
    body: Body = None,
    *,
    refused: Callable[[Problem], None] = problem_box,
    **parameters: Any,
) -> Operation | None:
    """Start or answer an operation; None where the gateway refused, which ``refused`` shows.

    ``form``: what was clicked. Clicked twice with the same input, it is sent with the same Idempotency-Key; once it was
    accepted, the next click is a wish of its own.
    """
    salt = st.session_state.setdefault(f"wish/{form}", str(uuid.uuid4()))
    try:
        operation = gateway().call(endpoint, body, key=_key(salt, endpoint, body, parameters), **parameters)
    except GatewayProblem as error:
        refused(error.problem)
        return None
    del st.session_state[f"wish/{form}"]
    return operation


def plan(
    endpoint: Endpoint[Operation],
    body: Body = None,
    *,
    refused: Callable[[Problem], None] = problem_box,
    **parameters: Any,
) -> Plan | None:
    """What the start would do; None where the gateway refused, which ``refused`` shows. Nothing is changed."""
    try:
        return gateway().call(endpoint.planned, body, validate_only=True, **parameters)
    except GatewayProblem as error:
        refused(error.problem)
        return None


def _key(salt: str, endpoint: Endpoint[Any], body: Body, parameters: Mapping[str, Any]) -> str:
    document = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else body
    wish = json.dumps([endpoint.name, document, parameters], sort_keys=True, default=str)
    return hashlib.sha256(f"{salt}{wish}".encode()).hexdigest()
