"""``docs/reference/problems.md``: every code that a problem may have, and what it asks of a caller."""

from __future__ import annotations

from dataclasses import dataclass

from activities.errors import DEFECT_ATTEMPTS, EXPIRED_ATTEMPTS, GONE_ATTEMPTS, PROPAGATION_ATTEMPTS
from activities.settings import Settings
from contracts.activity import Act
from contracts.problem import TYPE_BASE, ProblemCode, problem
from scripts.reference.pages import MADE, paragraphs, table

ATTEMPTS = Act.__dataclass_fields__["attempts"].default
PATIENCE = Settings.model_fields["shortfall_patience"].default


@dataclass(frozen=True)
class Said:
    """What a table of numbers does not tell. ``again``: what an operation does by itself before its stage blocks."""

    meaning: str
    again: str
    caller: str


_LONG = f"yes, with growing pauses: an act {ATTEMPTS} times, a wait until its limit"
SAID: dict[ProblemCode, Said] = {
    ProblemCode.INVALID: Said(
        "The input breaks a rule: of a model, or of the service that takes it.",
        "no",
        "Correct the fields that `errors` points to. A blocked stage: `retry` with corrections.",
    ),
    ProblemCode.NOT_FOUND: Said(
        "What is named does not exist.",
        f"what was made a moment ago is looked for {GONE_ATTEMPTS} times",
        "Look at the name and the region; list what there is.",
    ),
    ProblemCode.CONFLICT: Said(
        "What exists, or runs, is not what was asked.",
        f"an answer of AWS or Kubernetes {GONE_ATTEMPTS} times; a comparison that differs, no",
        "Compare what the detail shows. `operation` names what runs: wait for it, or ask for the same.",
    ),
    ProblemCode.FOREIGN: Said(
        "A resource of that name is somebody else's, and is not touched.",
        "no",
        "Choose another name, or have its owner remove it.",
    ),
    ProblemCode.STALE: Said(
        "The world is not as it was when the caller read it: a plan, a version, a page of a list.",
        "no",
        "Read again, look, and send it anew.",
    ),
    ProblemCode.BUSY: Said(
        "The resource is in transition, or another holds it.",
        _LONG,
        "Send it again later, after `operation` where it is named.",
    ),
    ProblemCode.THROTTLED: Said(
        "Too many requests: by AWS, by Kubernetes, or by the gateway from an address without valid tokens.",
        _LONG,
        "Wait for `Retry-After`.",
    ),
    ProblemCode.UNAVAILABLE: Said(
        "The other side cannot be reached or had a fault of its own. The outcome of the call may be unknown.",
        _LONG,
        "Send the same again, with its `Idempotency-Key`; it is done once.",
    ),
    ProblemCode.PROPAGATION: Said(
        "What was just made is not visible everywhere yet.",
        f"{PROPAGATION_ATTEMPTS} times, about a minute",
        "Send it again after a moment.",
    ),
    ProblemCode.CAPACITY: Said(
        "AWS, or the cluster, has not enough of what was asked.",
        f"a group that grows is watched for {PATIENCE:g} s of shortage; else no",
        "Ask for less, another type or another zone; or retry when there is more.",
    ),
    ProblemCode.QUOTA: Said(
        "A quota of the account is too low.",
        "no",
        "Have the quota that the detail names raised, then retry; or ask for less.",
    ),
    ProblemCode.CREDENTIALS: Said(
        "Credentials are missing, unknown or expired: the caller's (401), or the platform's own (a blocked stage).",
        f"expired ones of AWS {EXPIRED_ATTEMPTS} times",
        "Sign in, or send a valid token. A blocked stage: renew the worker's credentials, then retry.",
    ),
    ProblemCode.DENIED: Said(
        "Who asked is known and may not: the caller (403), or the platform's role (a blocked stage).",
        "no; an access entry that was just made, as `propagation`",
        "Use a role that may. A blocked stage: allow the action that the detail names, then retry.",
    ),
    ProblemCode.TIMEOUT: Said(
        "A state was not reached within its limit. Nothing was undone.",
        "no",
        "Look at what the detail names; `retry` waits on.",
    ),
    ProblemCode.NOT_READY: Said(
        "A resource reached a state in which it does not work.",
        "no",
        "Mend, replace or delete what the detail names, then retry.",
    ),
    ProblemCode.UNSUPPORTED: Said(
        "The other side does not know the operation, or not in this state.",
        "no",
        "Install the component or enable the feature that brings it; else choose another way.",
    ),
    ProblemCode.INTERNAL: Said(
        "A defect of the platform.",
        f"{DEFECT_ATTEMPTS} times in an activity; a workflow's step for ever, until a worker with a fix comes",
        "Report the request ID or the operation; the worker's log has the traceback.",
    ),
}

HEAD = f"""# Problems

{MADE}
Every failure is a problem (RFC 9457): the body of an HTTP error, the failure of a blocked stage, a tool's error.
`type` is `{TYPE_BASE}` and the code; programs branch on `code`. What an operator does about each:
[runbook.md](../runbook.md).

*Later* (`retryable`) says whether the same request may succeed later without a change. *By itself* is what an
operation tries again before its stage blocks; a request to the gateway is never repeated by it. Status and *later* are
what a code has as a rule; an answer's own count. A plan's blockers come with 422, whatever their codes.
"""


def page() -> str:
    """The page."""
    rows = []
    for code in ProblemCode:
        usual, said = problem(code, ""), SAID[code]
        later = "yes" if usual.retryable else "no"
        rows.append((f"`{code}`", str(usual.status), said.meaning, later, said.again, said.caller))
    return (
        f"{paragraphs(HEAD)}\n{table(('code', 'status', 'meaning', 'later', 'by itself', 'what a caller does'), rows)}"
    )
