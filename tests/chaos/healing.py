"""The world is made well, and what waits gets what a person would do about it."""

from __future__ import annotations

from typing import Any

from tests.chaos.asked import Asked, Log
from tests.chaos.callers import Callers
from tests.chaos.wishes import MOST_WORKERS, TYPE
from tests.local_stack import LocalStack

QUOTAS = {"vpcs": 50, "elastic-ips": 50, TYPE: 100}
TRIES = 6
"""How often a person retries a stage when the world is well again."""
FINAL = ("invalid", "conflict", "not_found")
"""Problems that no retry mends: what was asked does not go, for example because something else was deleted."""


def heal(stack: LocalStack) -> None:
    """Start what is dead, let go on what is frozen, and take all misfortunes away."""
    if dead := stack.down():
        stack.start(*dead)
    stack.thaw()
    sandbox = stack.sandbox
    sandbox.delete("/faults").raise_for_status()
    sandbox.delete("/kubernetes/pods").raise_for_status()
    sandbox.put("/quotas", json=QUOTAS).raise_for_status()
    sandbox.put("/consistency", json={"visible_after": 0}).raise_for_status()
    relieve(stack)


def relieve(stack: LocalStack) -> None:
    """Take away the misfortunes that stand until somebody does (``Misfortune.stands``)."""
    sandbox = stack.sandbox
    for path in ("/capacity", "/addons"):
        sandbox.put(path, json={}).raise_for_status()
    sandbox.put("/file-systems", json={"failing": []}).raise_for_status()
    sandbox.post("/hyperpod", json={"broken_lifecycle": {}, "sick": {}}).raise_for_status()


class People:
    """Answer, approve, retry, and in the end give up."""

    def __init__(self, callers: Callers, log: Log) -> None:
        self._callers, self._log = callers, log

    def decide(self, asked: list[Asked], limit: int = 100) -> bool:
        """Answer what is asked, so often for each operation at most; whether anything was."""
        phases = ("waiting_for_decision", "waiting_for_approval")
        waiting = [each for each in asked if each.phase in phases and each.decisions < limit]
        for each in waiting:
            each.decisions += 1
            if each.phase == "waiting_for_approval":
                self._say(each, "approve", {"plan_hash": each.view["plan_hash"]})
            else:
                answer = _answer(each)
                each.waits += "remedy" in answer
                self._say(each, "decide", {"answer": answer})
        return bool(waiting)

    def mend(self, asked: list[Asked]) -> list[Asked]:
        """Retry what is blocked; abort what does not go any more. Returns what was retried in vain."""
        in_vain = []
        for each in asked:
            stage = each.blocked
            if each.ended or stage is None or each.phase != "blocked":
                continue
            final = (stage.get("problem") or {}).get("code") in FINAL and each.retries > 0
            if final and each.wish.operation not in ("create-cluster", "delete-cluster"):
                self._say(each, "abort", {"reason": "it does not go"})
            elif each.retries < TRIES:
                each.retries += 1
                self._say(each, "retry", {"stage": stage["name"], "attempt": stage["attempt"]})
            else:
                in_vain.append(each)
        return in_vain

    def _say(self, asked: Asked, action: str, body: dict[str, Any]) -> None:
        self._log.lines.append(f"     {action} {asked.id}: {asked.reason}")
        answer = self._callers.send("admin", "POST", f"/operations/{asked.id}/{action}", json=body)
        self._log.answers[str(answer.status_code)] += 1
        if answer.status_code >= 500 or answer.status_code == 422:
            self._log.faults.append(f"{action} of {asked.id} was answered {answer.status_code}: {answer.text[:300]}")


def _answer(asked: Asked) -> dict[str, Any]:
    """What a person answers: as much capacity as any schedule counts on, waiting on for instances, else going on."""
    decision = asked.view["decision"]
    if decision["id"] == "capacity":
        region = str((asked.wish.body or {}).get("region", "us-west-2"))
        return {"instance_type": TYPE, "count": MOST_WORKERS, "availability_zone": f"{region}a"}
    properties = decision["schema"].get("properties", {})
    return {"remedy": {"kind": "wait"}} if "remedy" in properties else {"choice": "go-on"}
