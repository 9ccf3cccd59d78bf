"""Opening what the gateway has sealed."""

from __future__ import annotations

from activities.errors import fail
from activities.sealing import seal_key
from activities.settings import Settings
from contracts.credentials import StoreCredentialSpec, seal_context
from contracts.problem import ProblemCode
from contracts.sealing import Unsealable, unseal


def opened(settings: Settings, cluster: str, spec: StoreCredentialSpec) -> str:
    """The token. Raises UNAVAILABLE where this worker has no key, INVALID where it was sealed with another one."""
    key = seal_key(settings)
    try:
        return unseal(key, spec.sealed, seal_context(cluster, spec.namespace, spec.name))
    except Unsealable as error:
        remedy = "Store the credential anew through the gateway; it and the worker must have the same key file."
        fail(ProblemCode.INVALID, f"the credential cannot be opened: {error}", remedy, field="/sealed")
