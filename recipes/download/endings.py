"""How a download ends, and what it tells: kinds of endings with their exit codes, and what errors mean."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

KINDS = {
    "unexpected": 1,
    "denied": 10,
    "not_found": 11,
    "no_space": 12,
    "mismatch": 13,
    "not_writable": 14,
    "wrong_arguments": 15,
    "throttled": 20,
    "unreachable": 21,
    "bootstrap": 22,
}
"""Exit codes. Below 20 another attempt would end alike."""
PASSING = ("throttled", "unreachable", "mismatch")


class Stop(Exception):
    """The download cannot go on."""

    def __init__(self, kind: str, detail: str, file: str = "", retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.file, self.retry_after = kind, detail, file, retry_after


def tell(event: str, **facts: Any) -> None:
    """One line for whoever follows the log."""
    print(json.dumps({"event": event, **facts}), flush=True)


def explained(error: BaseException, file: str) -> Stop:
    """What an error of the Hub's library, or of what it stands on, means."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, Stop):
            return found
        if (stop := _one(found, file)) is not None:
            return stop
        found = found.__cause__ or found.__context__
    return Stop("unexpected", f"{type(error).__name__}: {error}"[:800], file)


def _one(error: BaseException, file: str) -> Stop | None:
    from huggingface_hub import errors

    said = " ".join(str(error).split())[:500]
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return Stop("denied", f"it is gated (HTTP {status})", file)
    if isinstance(error, (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError)):
        # Without a connection the library says of a file that it is not there "locally".
        return None if isinstance(error, errors.LocalEntryNotFoundError) else Stop("not_found", said, file)
    if status in (401, 403):
        return Stop("denied", f"HTTP {status}: {said}", file)
    if status == 429:
        return Stop("throttled", "HTTP 429", file, _seconds(response))
    if status is not None and status >= 500:
        return Stop("unreachable", f"HTTP {status}", file)
    if "No space left" in said or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return Stop("no_space", f"on the node's disk: {said}", file)
    if "onsistency check" in said:
        return Stop("unreachable", f"the connection broke: {said}", file)
    library = type(error).__module__.partition(".")[0]
    if library.startswith(("httpx", "httpcore", "requests", "urllib3")) or isinstance(
        error, (ConnectionError, TimeoutError)
    ):
        return Stop("unreachable", f"{type(error).__name__}: {said}", file)
    return None


def of_storage(error: OSError, file: str) -> Stop:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Stop("no_space", f"on the storage: {error.strerror}", file)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Stop("not_writable", str(error.strerror), file)
    return Stop("unexpected", f"{type(error).__name__}: {error}", file)


def _seconds(response: Any) -> float | None:
    """What Retry-After says, where it says seconds."""
    try:
        return min(float(response.headers.get("Retry-After", "")), 300.0)
    except ValueError:
        return None


def leave(code: int, message: dict[str, Any]) -> int:
    """Leave the termination message; Kubernetes keeps 4,096 bytes of it."""
    tell("end", exit_code=code, **message)
    if place := os.environ.get("TERMINATION_LOG"):
        try:
            Path(place).write_text(json.dumps(message))
        except OSError as error:
            tell("waiting", detail=f"no termination message: {error}")
    return code
