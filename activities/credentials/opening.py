"""Opening what the gateway has sealed."""

from __future__ import annotations

from activities.errors import fail
from activities.settings import Settings
from contracts.credentials import StoreCredentialSpec, seal_context
from contracts.problem import ProblemCode
from contracts.sealing import Unsealable, parse_key, unseal


def opened(settings: Settings, cluster: str, spec: StoreCredentialSpec) -> str:
    """The token. Raises UNAVAILABLE where this worker has no key, INVALID where it was sealed with another one."""
    path = settings.seal_key_file
    if path is None:
        detail, remedy = "this worker has no seal key", "Set INSTANTSTART_SEAL_KEY_FILE for gateway and worker alike."
        fail(ProblemCode.UNAVAILABLE, detail, remedy)
    try:
        key = parse_key(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        remedy = "Mend the file that INSTANTSTART_SEAL_KEY_FILE names: the gateway's, which only its owner reads."
        fail(ProblemCode.UNAVAILABLE, f"this worker cannot read its seal key: {reason}", remedy)
    try:
        return unseal(key, spec.sealed, seal_context(cluster, spec.namespace, spec.name))
    except Unsealable as error:
        remedy = "Store the credential anew through the gateway; it and the worker must have the same key file."
        fail(ProblemCode.INVALID, f"the credential cannot be opened: {error}", remedy, field="/sealed")
