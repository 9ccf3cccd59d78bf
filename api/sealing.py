"""The key that this gateway and the workers share."""

from __future__ import annotations

from api.problems import refuse
from api.services import Services
from contracts.problem import ProblemCode
from contracts.sealing import parse_key


def seal_key(services: Services) -> bytes:
    """What secrets are sealed with on their way between gateway and workers.

    Raises ProblemError (503) where this gateway has no key that can be read.
    """
    path = services.settings.seal_key_file
    remedy = "Set INSTANTSTART_SEAL_KEY_FILE to a file of 64 random bytes, the same one for gateway and workers."
    if path is None:
        raise refuse(ProblemCode.UNAVAILABLE, "this gateway has no key to seal secrets with", remedy=remedy)
    try:
        return parse_key(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refuse(ProblemCode.UNAVAILABLE, f"the seal key cannot be read: {reason}", remedy=remedy) from error
