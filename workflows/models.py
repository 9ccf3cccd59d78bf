"""download-model: a repository of the Hugging Face Hub into a folder of the cluster's storage, by a Job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.catalogue import DOWNLOAD_MODEL
from contracts.models import (
    DELETE_DOWNLOAD,
    ENSURE_DOWNLOAD,
    FIND_DOWNLOADED,
    RESOLVE_REPOSITORY,
    VERIFY_DOWNLOAD,
    WAIT_FOR_DOWNLOAD,
    DeleteDownload,
    DownloadJob,
    DownloadSpec,
    EnsureDownload,
    FindDownloaded,
    Manifest,
    RepositoryFound,
    ResolveRepository,
    VerifyDownload,
    WaitForDownload,
)
from contracts.operation import Outcome, Start
from contracts.queues import task_queue
from contracts.sizes import size_text
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import Aborted
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage

INPUTS = ("credential", "cpu", "memory_gib", "instance_types", "deadline_hours", "image")
CLEANING = timedelta(minutes=2)
"""How long an abort waits for the Job's deletion: it has a deadline of its own."""


@workflow.defn(name=DOWNLOAD_MODEL.name)
class DownloadModel(Operation[DownloadSpec]):
    kind = DOWNLOAD_MODEL
    stages = (
        checks(*INPUTS),
        StagePlan("job", "Job", inputs=INPUTS),
        StagePlan("download", "Download", inputs=INPUTS),
        StagePlan("verified", "Files verified"),
    )

    @workflow.init
    def __init__(self, start: Start[DownloadSpec]) -> None:
        super().__init__(start)
        self._eks_cluster = ""
        self._found = RepositoryFound()
        self._job: DownloadJob | None = None

    @workflow.run
    async def run(self, start: Start[DownloadSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"models/{self.spec.namespace}/{self.spec.claim}/{self.spec.folder}",)

    async def runbook(self) -> dict[str, Any]:
        self._eks_cluster = control_plane_of(self).name
        await checks_stage(self)
        try:
            there = await self.stage("job", self._begin)
            told = await self.stage("download", lambda run: self._wait(run, there))
        except (Aborted, asyncio.CancelledError):
            await asyncio.shield(self._clean())
            raise
        return await self.stage("verified", lambda run: self._verify(run, told))

    async def _begin(self, run: StageRun) -> Manifest | None:
        """The Job, unless what is asked is there already: its manifest then."""
        scope, cluster = self.scope, self._eks_cluster
        self._found = await run.act(
            RESOLVE_REPOSITORY, ResolveRepository(scope=scope, eks_cluster=cluster, spec=self.spec)
        )
        question = FindDownloaded(scope=scope, eks_cluster=cluster, spec=self.spec, found=self._found)
        there = (await run.act(FIND_DOWNLOADED, question)).manifest
        if there is not None:
            run.observed = True
            run.detail(f"all {there.files} files of {there.commit[:12]} are in {self.spec.folder} already")
            return there
        await self._ensure(run, 0)
        return None

    async def _ensure(self, run: StageRun, attempt: int) -> DownloadJob:
        request = EnsureDownload(
            scope=self.scope,
            eks_cluster=self._eks_cluster,
            spec=self.spec,
            found=self._found,
            run=f"{workflow.info().run_id}/{attempt}",
        )
        self._job = await run.act(ENSURE_DOWNLOAD, request, key=str(attempt))
        run.detail(f"Job {self._job.namespace}/{self._job.job}")
        return self._job

    async def _wait(self, run: StageRun, there: Manifest | None) -> Manifest:
        """What the Job tells at its end. Another attempt is another Job; finished files are not downloaded again."""
        if there is not None:
            run.observed = True
            return there
        attempt = self.progress.stages["download"].attempt - 1
        job = self._job if attempt == 0 and self._job is not None else await self._ensure(run, attempt)
        told = await run.wait(
            WAIT_FOR_DOWNLOAD,
            WaitForDownload(
                scope=self.scope,
                eks_cluster=self._eks_cluster,
                job=job.job,
                namespace=job.namespace,
                spec=self.spec,
            ),
        )
        run.detail(
            f"{number_of(told.files, 'file')}, {size_text(told.size)}, {told.downloaded_files} of them downloaded, "
            f"in {timedelta(seconds=round(told.seconds))}"
        )
        return told

    async def _verify(self, run: StageRun, told: Manifest) -> dict[str, Any]:
        request = VerifyDownload(scope=self.scope, eks_cluster=self._eks_cluster, spec=self.spec, told=told)
        result = await run.act(VERIFY_DOWNLOAD, request)
        seen = "seen in the bucket" if result.verified_by == "storage" else "verified by the Job as it wrote them"
        run.detail(f"{number_of(result.files, 'file')} in {result.claim}:{result.path}, {seen}")
        return result.model_dump(mode="json")

    async def _clean(self) -> None:
        """End what downloads. Files that have arrived stay: a later download goes on with the rest."""
        if self._job is None:
            return
        request = DeleteDownload(
            scope=self.scope, eks_cluster=self._eks_cluster, job=self._job.job, namespace=self._job.namespace
        )
        try:
            await workflow.execute_activity(
                DELETE_DOWNLOAD.name,
                request,
                activity_id="abort/delete-job",
                task_queue=task_queue(DELETE_DOWNLOAD.queue, self.start.region),
                result_type=DELETE_DOWNLOAD.output,
                schedule_to_close_timeout=CLEANING,
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
            )
        except Exception:
            workflow.logger.warning("the Job of an aborted download was not deleted; it ends at its deadline")
