"""Models and data sets on the S3 claims of a cluster, page by page, and the downloads that run."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients
from activities.errors import fail, is_absent
from activities.jobs.view import as_job
from activities.kubernetes import KubernetesClients, time_of
from activities.models import job as made
from activities.models.manifests import is_denied, read_manifest
from activities.nodes.sight import Raw, items, labels_of
from activities.storage.volumes import storage_claims
from contracts.jobs import JobState
from contracts.models import LIST_MODELS, ListModels, ModelsRead, ModelState, ModelView, RepositoryType
from contracts.names import ANNOTATION_OPERATION, LABEL_CLUSTER, LABEL_DOWNLOAD, ClusterNames
from contracts.problem import ProblemCode
from contracts.storage import Claim, StorageType

FOLDERS = tuple(each.folder for each in RepositoryType)
Place = tuple[Claim, str]
"""A claim, and one of the folders that downloads go to."""


class ModelReads:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=LIST_MODELS.name)
    def list_models(self, request: ListModels) -> ModelsRead:
        """A page of the folders under ``models/`` and ``datasets/`` of the cluster's S3 claims, each with what its
        manifest says, and on the first page the downloads that run.

        Raises NOT_FOUND for a claim that is not there, INVALID for a page of another listing.
        """
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            claims = _chosen(storage_claims(client.CoreV1Api(api), scope.cluster), request)
            running = _running(api, scope.cluster) if request.position is None else []
        seen = [each for each in claims if each.type is StorageType.S3 and each.bucket]
        unreadable = [f"{each.namespace}/{each.claim}: {_why(each)}" for each in claims if each not in seen]
        places = [(claim, folder) for claim in seen for folder in FOLDERS]
        models, position, denied = self._page(scope.region, places, request)
        return ModelsRead(
            models=models,
            running=running,
            unreadable=[*unreadable, *denied],
            position=position,
            read_at=time_of(api),
        )

    def _page(
        self, region: str, places: list[Place], request: ListModels
    ) -> tuple[list[ModelView], str | None, list[str]]:
        """Models, where to read on, and claims whose bucket may not be read."""
        start, after = _begin(places, request.position)
        found: list[ModelView] = []
        denied: list[str] = []
        for number in range(start, len(places)):
            claim, folder = places[number]
            try:
                while True:
                    names, after = self._folders(region, claim, folder, request.size - len(found), after)
                    found += [self._model(region, claim, name) for name in names]
                    if len(found) >= request.size or after is None:
                        break
            except Exception as error:
                after = None
                if is_denied(error):
                    text = f"{claim.namespace}/{claim.claim}: the platform may not list bucket {claim.bucket}"
                    denied += [text] if text not in denied else []
                elif not is_absent(error, "NoSuchBucket", "404"):
                    raise
            if len(found) >= request.size and (after is not None or number + 1 < len(places)):
                rest = (number, after) if after is not None else (number + 1, None)
                return found, _position(places, *rest), denied
            after = None
        return found, None, denied

    def _folders(
        self, region: str, claim: Claim, folder: str, size: int, after: str | None
    ) -> tuple[list[str], str | None]:
        """Up to ``size`` folders, below the claim's own prefix, and S3's word for where the next ones begin."""
        own = claim.prefix or ""
        mark: Any = {"ContinuationToken": after} if after is not None else {}
        page = self._aws.read.s3(region).list_objects_v2(
            Bucket=claim.bucket, Prefix=f"{own}{folder}/", Delimiter="/", MaxKeys=max(size, 1), **mark
        )
        names = [each["Prefix"][len(own) :].rstrip("/") for each in page.get("CommonPrefixes", [])]
        return names, page.get("NextContinuationToken")

    def _model(self, region: str, claim: Claim, path: str) -> ModelView:
        place: dict[str, Any] = {"claim": claim.claim, "namespace": claim.namespace, "path": path}
        try:
            found = read_manifest(self._aws, region, claim, path)
        except Exception as error:
            if not is_denied(error):
                raise
            return ModelView(**place, state=ModelState.UNKNOWN, detail="the platform may not read its manifest")
        if found is None:
            return ModelView(**place, state=ModelState.UNKNOWN, detail="it has no manifest of a finished download")
        return ModelView(
            **place,
            state=ModelState.READY,
            repository=found.repository,
            repository_type=found.repository_type,
            revision=found.revision,
            commit=found.commit,
            files=found.files,
            size=found.size,
            finished_at=found.finished_at,
            operation=found.operation,
        )


def _chosen(claims: list[Claim], request: ListModels) -> list[Claim]:
    if request.claim is None:
        return [each for each in claims if request.namespace in (None, each.namespace)]
    namespace = request.namespace or "default"
    chosen = [each for each in claims if (each.namespace, each.claim) == (namespace, request.claim)]
    if not chosen:
        known = ", ".join(f"{each.namespace}/{each.claim}" for each in claims) or "none"
        remedy = "Name one of those, with its namespace." if claims else "create-storage makes one."
        fail(ProblemCode.NOT_FOUND, f"There is no claim {namespace}/{request.claim}; there are: {known}", remedy)
    return chosen


def _why(claim: Claim) -> str:
    return "its volume is gone" if claim.type is StorageType.S3 else "what is on a file system only pods can see"


def _begin(places: list[Place], position: str | None) -> tuple[int, str | None]:
    """The place to begin with, and S3's word for where in it. A place that is gone is passed over."""
    if position is None:
        return 0, None
    try:
        name, after = json.loads(position)
    except ValueError:
        fail(
            ProblemCode.INVALID, "this is no page of the list", "List anew, without a page token.", field="/page_token"
        )
    names = [_name(place) for place in places]
    if name in names:
        return names.index(name), after
    return next((number for number, each in enumerate(names) if each > name), len(names)), None


def _position(places: list[Place], number: int, after: str | None) -> str:
    return json.dumps([_name(places[number]), after])


def _name(place: Place) -> str:
    claim, folder = place
    return f"{claim.namespace}/{claim.claim}/{FOLDERS.index(folder)}"


def _running(api: client.ApiClient, cluster: str) -> list[ModelView]:
    """Downloads whose Job has not ended."""
    listing = partial(client.BatchV1Api(api).list_job_for_all_namespaces)
    selector = f"{LABEL_CLUSTER}={ClusterNames(cluster).label},{LABEL_DOWNLOAD}"
    jobs = [job for job in items(listing, label_selector=selector) if labels_of(job).get(LABEL_DOWNLOAD)]
    return [_download(job) for job in jobs if as_job(job).state not in (JobState.SUCCEEDED, JobState.FAILED)]


def _download(job: Raw) -> ModelView:
    notes = job["metadata"].get("annotations") or {}
    kind, _, named = notes.get(made.ANNOTATION_REPOSITORY, "").partition(" ")
    repository, _, revision = named.partition("@")
    view = as_job(job)
    return ModelView(
        claim=notes.get(made.ANNOTATION_CLAIM, ""),
        namespace=view.namespace,
        path=notes.get(made.ANNOTATION_PATH, ""),
        state=ModelState.PROGRESSING,
        repository=repository or None,
        repository_type=RepositoryType(kind) if kind in set(RepositoryType) else None,
        revision=revision or None,
        operation=notes.get(ANNOTATION_OPERATION),
        detail=f"Job {view.name} {view.state.value}{f': {view.reason}' if view.reason else ''}",
    )
