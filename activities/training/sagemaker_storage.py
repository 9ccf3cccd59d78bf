"""Storage of SageMaker training jobs: where in S3 the folders of a run's claims are, and the files that a job gets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from kubernetes import client

from activities.buckets import account_of
from activities.errors import fail
from activities.kubernetes import read_or_none
from activities.storage.volumes import claim_of
from activities.training.paths import Site
from contracts.names import ClusterNames, short_hash
from contracts.problem import ProblemCode
from contracts.storage import StorageType
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_sagemaker import mount_of


@dataclass(frozen=True)
class Place:
    """A mount's folder in a bucket; ``prefix`` without slashes at its ends."""

    bucket: str
    prefix: str = ""

    def key(self, path: str) -> str:
        return "/".join(filter(None, (self.prefix, path.strip("/"))))


@dataclass(frozen=True)
class Storage:
    """Where the mounts of a run are, and the bucket for what the job is given and leaves."""

    bucket: str
    places: dict[str, Place]
    """By the path of the mount."""
    account: str = ""

    def at(self, spec: TrainingSpec, path: str) -> Place:
        """Of a folder that lies on the run's storage."""
        mount = mount_of(spec, path)
        if mount is None:
            fail(ProblemCode.INVALID, f"{path} is not on the run's storage", "Name a folder that is.")
        place = self.places[mount.mount_path]
        return Place(place.bucket, place.key(str(PurePosixPath(path).relative_to(mount.mount_path))))

    def uri(self, spec: TrainingSpec, path: str) -> str:
        found = self.at(spec, path)
        return f"s3://{found.bucket}/{found.prefix}/"


def storage_of(site: Site, spec: TrainingSpec) -> Storage:
    """What the claims of a run are on. Raises NOT_FOUND for one that is not there, INVALID for one that is on no S3
    bucket."""
    core = client.CoreV1Api(site.api)
    places: dict[str, Place] = {}
    for position, mount in enumerate(spec.mounts):
        field = f"/storage/{position}/claim" if spec.storage is not None else "/storage"
        found: Any = read_or_none(core.read_namespaced_persistent_volume_claim, mount.claim, spec.namespace)
        if found is None:
            detail = f"namespace {spec.namespace} has no claim {mount.claim}"
            remedy = "Mount storage first (create-storage), or send storage [] for a run without any."
            fail(ProblemCode.NOT_FOUND, detail, remedy, field=field)
        volume = found.spec.volume_name
        claim = claim_of(found, read_or_none(core.read_persistent_volume, volume) if volume else None, "")
        if claim.type is not StorageType.S3 or not claim.bucket:
            detail = f"claim {mount.claim} is on no S3 bucket, which is what a SageMaker training job reads from"
            fail(ProblemCode.INVALID, detail, "Name a claim on S3.", field=field)
        folder = "/".join(filter(None, ((claim.prefix or "").strip("/"), (mount.sub_path or "").strip("/"))))
        places[mount.mount_path] = Place(claim.bucket, folder)
    account = account_of(site.aws, site.region)
    own = ClusterNames(site.cluster).bucket(account, site.region)
    first = next(iter(places.values()), None)
    return Storage(first.bucket if first is not None else own, places, account)


def upload(site: Site, request: SubmitTraining, storage: Storage, files: dict[str, str]) -> str:
    """Put the files of a run into the bucket, called after their content. Returns where they are."""
    spec = request.spec
    named = short_hash(json.dumps(files, sort_keys=True), 10)
    prefix = f"training/{spec.namespace}/{spec.name}/files-{named}"
    s3 = site.aws.act.s3(site.region)
    for name, text in sorted(files.items()):
        s3.put_object(
            Bucket=storage.bucket,
            Key=f"{prefix}/{name}",
            Body=text.encode(),
            ExpectedBucketOwner=storage.account,
        )
    return f"s3://{storage.bucket}/{prefix}/"
