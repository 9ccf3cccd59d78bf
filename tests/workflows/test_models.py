"""Downloads and credentials: what their stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import credentials, models, queues
from contracts.catalogue import DELETE_CREDENTIAL, DOWNLOAD_MODEL, STORE_CREDENTIAL, OperationKind
from contracts.decision import Abort, Resolution
from contracts.eks import ControlPlane
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from contracts.sealing import new_key, parse_key, seal
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

SPEC = {"repository": "Qwen/Qwen3-8B", "credential": "hub"}
FOUND = models.RepositoryFound(commit="c" * 40, files=12, size=2**34, largest=2**32)
TOLD = models.Manifest(
    repository="Qwen/Qwen3-8B",
    repository_type=models.RepositoryType.MODEL,
    revision="main",
    commit="c" * 40,
    files=12,
    size=2**34,
    downloaded_files=12,
    downloaded_size=2**34,
    seconds=90.4,
    finished_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
    }
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        models.RESOLVE_REPOSITORY.name: lambda _: FOUND,
        models.FIND_DOWNLOADED.name: lambda _: models.Downloaded(),
        models.ENSURE_DOWNLOAD.name: lambda a: models.DownloadJob(job=f"job-of-{a.run[-1]}", namespace="default"),
        models.WAIT_FOR_DOWNLOAD.name: lambda _: TOLD,
        models.VERIFY_DOWNLOAD.name: lambda a: models.DownloadResult(
            **a.spec.model_dump(include={"repository", "repository_type", "claim", "namespace"}),
            **a.told.model_dump(include={"commit", "files", "size", "seconds"}),
            path=a.spec.folder,
            verified_by="storage",
        ),
        models.DELETE_DOWNLOAD.name: lambda a: models.DownloadGone(job=a.job),
        credentials.STORE_CREDENTIAL.name: lambda a: credentials.Credential(
            name=a.spec.name, namespace=a.spec.namespace, secret="secret"
        ),
        credentials.DELETE_CREDENTIAL.name: lambda a: credentials.CredentialGone(name=a.name, namespace=a.namespace),
    }


async def start(client: Client, kind: OperationKind[Any], spec: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    wanted = kind.spec.model_validate(spec)
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=wanted,
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", kind.target(wanted)),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def test_a_download_keeps_what_came_of_it(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DOWNLOAD_MODEL, SPEC))
    assert done.phase is Phase.SUCCEEDED
    assert done.result == {
        "repository": "Qwen/Qwen3-8B",
        "repository_type": "model",
        "commit": "c" * 40,
        "claim": "s3-claim",
        "namespace": "default",
        "path": "models/Qwen-Qwen3-8B",
        "files": 12,
        "size": 2**34,
        "seconds": 90.4,
        "verified_by": "storage",
    }
    (wanted,) = asked(account, models.ENSURE_DOWNLOAD)
    assert (wanted.found, wanted.spec.credential) == (FOUND, "hub")
    assert not account.calls[models.DELETE_DOWNLOAD.name]


async def test_what_is_there_already_needs_no_job(client: Client, account: FakeAccount) -> None:
    account.answers[models.FIND_DOWNLOADED.name] = lambda _: models.Downloaded(manifest=TOLD)
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert not account.calls[models.ENSURE_DOWNLOAD.name]
    states = {stage.name: stage.state for stage in (await progress(handle)).stages}
    assert (states["job"], states["download"]) == (StageState.UNCHANGED, StageState.UNCHANGED)


async def test_a_failed_download_blocks_and_a_retry_is_another_job_with_what_was_corrected(
    client: Client, account: FakeAccount
) -> None:
    account.fail(models.WAIT_FOR_DOWNLOAD, ProblemCode.DENIED)
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.DENIED
    corrections = {"credential": "another", "memory_gib": 32}
    retry = Resolution(action="retry", stage="download", attempt=1, corrections=corrections, by="alice")
    await handle.execute_update("resolve", retry)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    first, second = asked(account, models.ENSURE_DOWNLOAD)
    assert first.run != second.run
    assert first.run.rpartition("/")[0] == second.run.rpartition("/")[0]
    assert (second.spec.credential, second.spec.memory_gib) == ("another", 32)
    assert [each.job for each in asked(account, models.WAIT_FOR_DOWNLOAD)] == ["job-of-0", "job-of-1"]


async def test_what_was_begun_with_cannot_be_corrected(client: Client, account: FakeAccount) -> None:
    account.fail(models.WAIT_FOR_DOWNLOAD, ProblemCode.CAPACITY)
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    retry = Resolution(action="retry", stage="download", attempt=1, corrections={"revision": "v2"}, by="alice")
    with pytest.raises(Exception, match="Workflow update failed"):
        await handle.execute_update("resolve", retry)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED


@pytest.mark.real_server
async def test_an_abort_ends_the_job(client: Client, account: FakeAccount) -> None:
    account.hold[models.WAIT_FOR_DOWNLOAD.name] = asyncio.Event()
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    async with asyncio.timeout(20):
        while not account.calls[models.WAIT_FOR_DOWNLOAD.name]:
            await asyncio.sleep(0.02)
    await handle.execute_update("abort", Abort(by="alice", reason="enough"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert [each.job for each in asked(account, models.DELETE_DOWNLOAD)] == ["job-of-0"]


async def test_an_abort_before_a_job_was_made_deletes_none(client: Client, account: FakeAccount) -> None:
    account.fail(models.RESOLVE_REPOSITORY, ProblemCode.NOT_FOUND)
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert not account.calls[models.DELETE_DOWNLOAD.name]


async def test_nothing_is_made_where_the_plan_has_a_blocker(client: Client, account: FakeAccount) -> None:
    blocker = FieldError(field="/claim", detail="there is none", code=ProblemCode.NOT_FOUND)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, DOWNLOAD_MODEL, SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.field == "/claim"
    assert not account.calls[models.ENSURE_DOWNLOAD.name]
    await handle.execute_update("abort", Abort(by="alice"))


async def test_a_credential_travels_sealed_and_ends_in_its_secret(client: Client, account: FakeAccount) -> None:
    sealed = seal(parse_key(new_key().encode()), "hf_token", credentials.seal_context("demo", "default", "hub"))
    done = await outcome(await start(client, STORE_CREDENTIAL, {"name": "hub", "sealed": sealed}))
    assert (done.phase, done.result["secret"]) == (Phase.SUCCEEDED, "secret")
    assert asked(account, credentials.STORE_CREDENTIAL)[0].spec.sealed == sealed
    gone = await outcome(await start(client, DELETE_CREDENTIAL, {"name": "hub", "namespace": "team"}))
    assert (gone.phase, gone.result["namespace"]) == (Phase.SUCCEEDED, "team")
