"""Who answered what to an operation is kept with it."""

from __future__ import annotations

from temporalio.client import Client

from contracts import eks, storage
from contracts.cluster import ClusterSpec
from contracts.decision import Abort, Answer, Approval, Resolution
from contracts.operation import Phase, Progress
from contracts.problem import ProblemCode
from tests.workflows.conftest import create, progress, until
from tests.workflows.fakes import FakeAccount


def said(found: Progress) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.action, each.by, each.stage, each.detail) for each in found.answers]


async def test_who_approved_decided_retried_and_skipped_is_kept_in_order(client: Client, account: FakeAccount) -> None:
    account.fail(eks.ENSURE_CONTROL_PLANE, ProblemCode.DENIED)
    account.fail(storage.ENSURE_CLAIM, ProblemCode.CONFLICT)
    handle = await create(client, ClusterSpec(tag="demo"), needs_approval=True)
    waits = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_APPROVAL)
    word = Approval(approved=True, plan_hash=waits.plan_hash, by="carol", reason="as planned")
    await handle.execute_update("approve", word)
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    retry = Resolution(action="retry", stage="control_plane", attempt=1, by="bob", corrections={"storage": {}})
    await handle.execute_update("resolve", retry)
    await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    answer = {"instance_type": "ml.g5.8xlarge", "count": 1}
    await handle.execute_update("decide", Answer(decision="capacity", answer=answer, by="alice"))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", Resolution(action="skip", stage="storage", attempt=1, by="bob"))
    await handle.result()

    assert said(await progress(handle)) == [
        ("approve", "carol", None, "as planned"),
        ("retry", "bob", "control_plane", 'with {"storage": {}}'),
        ("decide", "alice", "capacity", '{"instance_type": "ml.g5.8xlarge", "count": 1}'),
        ("skip", "bob", "storage", None),
    ]


async def test_who_aborted_is_kept_with_the_reason(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo"))
    await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    await handle.execute_update("abort", Abort(by="bob", reason="wrong region"))
    await handle.result()

    assert said(await progress(handle)) == [("abort", "bob", None, "wrong region")]
