"""The key that gateway and workers share."""

from __future__ import annotations

from activities.errors import fail
from activities.settings import Settings
from contracts.problem import ProblemCode
from contracts.sealing import parse_key


def seal_key(settings: Settings) -> bytes:
    """Raises UNAVAILABLE where this worker has none that can be read."""
    path = settings.seal_key_file
    if path is None:
        detail, remedy = "this worker has no seal key", "Set INSTANTSTART_SEAL_KEY_FILE for gateway and worker alike."
        fail(ProblemCode.UNAVAILABLE, detail, remedy)
    try:
        return parse_key(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        remedy = "Mend the file that INSTANTSTART_SEAL_KEY_FILE names: the gateway's, which only its owner reads."
        fail(ProblemCode.UNAVAILABLE, f"this worker cannot read its seal key: {reason}", remedy)
