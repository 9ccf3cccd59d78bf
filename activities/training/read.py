"""Training runs of a cluster: listed, and one by its name; those that are gone from what was written down of them."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients
from activities.buckets import account_of
from activities.errors import clean, code_of, fail, is_absent
from activities.jobs.view import by_need
from activities.kubernetes import KubernetesClients, time_of
from activities.nodes.sight import Raw, items, labels_of
from activities.plans.prices import Prices
from activities.settings import Settings
from activities.training.acts import RECORD
from activities.training.paths import Job, Site
from activities.training.pods import first_rank, pods_of, see, tail
from activities.training.queues import Workloads
from activities.training.registry import PATHS, find
from activities.training.sight import standing
from activities.training.view import as_view, of_record
from contracts.jobs import MOST_PODS
from contracts.names import LABEL_TRAINING
from contracts.problem import ProblemCode
from contracts.recipes.progress import Reported, read_progress
from contracts.training_activities import LIST_TRAINING, READ_TRAINING, ListTraining, ReadTraining
from contracts.training_parts import TrainingState
from contracts.training_views import TrainingRunDetail, TrainingRunList, TrainingRunView

LOG_LINES = 120


class TrainingReads:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes = aws, kubernetes
        self._prices = Prices(aws, settings.price_file)

    @activity.defn(name=LIST_TRAINING.name)
    def list_runs(self, request: ListTraining) -> TrainingRunList:
        """Every run whose job is there, by namespace and name; its pods are counted, its log is not read."""
        region, runs, unreadable = request.scope.region, list[TrainingRunView](), list[str]()
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            site = Site(api, self._aws, region, request.scope.cluster)
            jobs: list[Job] = []
            for path in PATHS.values():
                try:
                    jobs += path.list(site, request.namespace)
                except Exception as error:
                    if len(PATHS) == 1:
                        raise
                    unreadable.append(f"{path.submission.value}: {clean(str(error), 200)}")
            pods = _by_run(api) if jobs else {}
            workloads = Workloads(api)
            for job in jobs:
                seen = see(pods.get((job.namespace, job.name), []))
                now = standing(workloads, job, seen, region, "", None)
                runs.append(as_view(job, now, seen))
        runs.sort(key=lambda each: (each.namespace, each.name))
        return TrainingRunList(runs=runs, unreadable=unreadable, read_at=time_of(api))

    @activity.defn(name=READ_TRAINING.name)
    def read_run(self, request: ReadTraining) -> TrainingRunDetail:
        """One run: as its job is now, else as its newest record says. Raises NOT_FOUND where there is neither."""
        region = request.scope.region
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            site = Site(api, self._aws, region, request.scope.cluster)
            job = find(site, request.namespace, request.name)
            if job is not None and LABEL_TRAINING in job.labels:
                return self._of_job(site, job, request)
        written = self._newest(request) if request.bucket is not None else None
        if written is not None:
            return written
        fail(
            ProblemCode.NOT_FOUND,
            f"there is no training run {request.namespace}/{request.name}",
            "List the training runs; those that have ended are among the operations, too.",
            field="/name",
        )

    def _of_job(self, site: Site, job: Job, request: ReadTraining) -> TrainingRunDetail:
        pods = pods_of(site.api, job.namespace, job.name)
        seen = see(pods)
        spec = job.spec
        instance_type = spec.instance_type if spec is not None else ""
        now = standing(
            Workloads(site.api), job, seen, site.region, instance_type, self._prices if instance_type else None
        )
        reported = None
        first = first_rank(pods)
        told = (TrainingState.RUNNING, TrainingState.RESTARTING, TrainingState.SUCCEEDED, TrainingState.FAILED)
        if now.state in told and spec is not None:
            path = PATHS[job.submission]
            lines = tail(site.api, first, lines=LOG_LINES) if first is not None else path.tail(site, job, LOG_LINES)
            reported = read_progress(spec.recipe.kind, lines, spec.recipe.planned_steps)
        views = sorted(seen.views, key=by_need)
        saved = reported.at if reported is not None and reported.checkpoint is not None else None
        if now.state.ended and reported in (None, Reported()) and request.bucket is not None:
            # Its pods are gone: what they reported was written down at the end.
            written = self._newest(request)
            if written is not None and written.run.run == (job.run or "").partition("/")[0]:
                reported, saved = written.run.reported, written.run.last_checkpoint
        view = as_view(job, now, seen, reported, saved)
        return TrainingRunDetail(
            run=view,
            spec=spec,
            pods=views[:MOST_PODS],
            more_pods=max(len(views) - MOST_PODS, 0),
            conditions=job.conditions,
            waiting=now.waiting,
            logged_at=job.logs,
            read_at=time_of(site.api),
        )

    def _newest(self, request: ReadTraining) -> TrainingRunDetail | None:
        """What was written down of the run that began last."""
        s3: Any = self._aws.read.s3(request.scope.region)
        ours: Any = {
            "Bucket": request.bucket,
            "ExpectedBucketOwner": account_of(self._aws, request.scope.region),
        }
        prefix = f"training/{request.namespace}/{request.name}/"
        try:
            keys = [
                (each["LastModified"], each["Key"])
                for page in s3.get_paginator("list_objects_v2").paginate(**ours, Prefix=prefix, Delimiter="/")
                for folder in page.get("CommonPrefixes") or ()
                for each in s3.list_objects_v2(**ours, Prefix=f"{folder['Prefix']}{RECORD}", MaxKeys=1).get("Contents")
                or ()
            ]
            if not keys:
                return None
            _, key = max(keys)
            record = json.loads(s3.get_object(**ours, Key=key)["Body"].read())
        except Exception as error:
            if is_absent(error, "NoSuchBucket", "NoSuchKey", "404") or code_of(error) in ("AccessDenied", "403"):
                return None
            raise
        found = of_record(record)
        if found is None:
            return None
        view, spec = found
        return TrainingRunDetail(run=view, spec=spec, record=key, logs=record.get("logs"), read_at=datetime.now(UTC))


def _by_run(api: client.ApiClient) -> dict[tuple[str, str], list[Raw]]:
    """The pods of all runs."""
    found: dict[tuple[str, str], list[Raw]] = defaultdict(list)
    for pod in items(client.CoreV1Api(api).list_pod_for_all_namespaces, label_selector=LABEL_TRAINING):
        found[pod["metadata"]["namespace"], labels_of(pod)[LABEL_TRAINING]].append(pod)
    return found
