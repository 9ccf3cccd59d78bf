"""What a training run needs to be a SageMaker training job: an image in the region, inputs that are there, a quota."""

from __future__ import annotations

from typing import Any, Protocol

from temporalio.exceptions import ApplicationError

from activities.buckets import bucket_exists
from activities.errors import problem_of
from activities.options import instance_quotas
from activities.training.paths import Site
from activities.training.sagemaker_request import channels_of
from activities.training.sagemaker_storage import Storage, storage_of
from contracts.plans import Check
from contracts.problem import ProblemCode
from contracts.sagemaker_parts import IMAGE, SageMakerOptions
from contracts.training import TrainingSpec

USAGE, SPOT_USAGE = "training job usage", "spot training job usage"
"""In the names of quotas. (Service Quotas, service sagemaker)"""


class Look(Protocol):
    """What findings are added to. (``activities.plans.training.TrainingLook``)"""

    spec: TrainingSpec
    checks: list[Check]
    warnings: list[str]

    def block(self, field: str, detail: str, remedy: str, code: ProblemCode = ...) -> None: ...


def look_at(site: Site, look: Look) -> dict[str, int]:
    """Blockers, checks and warnings. Returns what is paid for by the hour: items of the price list with their
    numbers."""
    spec = look.spec
    options = spec.sagemaker or SageMakerOptions()
    _image(look, site.region)
    _quota(site, look, options.spot)
    try:
        storage = storage_of(site, spec)
    except ApplicationError as error:
        found = problem_of(error)
        if found is None:
            raise
        # Claims that are not there are told already.
        if found.code is not ProblemCode.NOT_FOUND:
            look.block(found.field or "", found.detail, found.remedy or "", found.code)
    else:
        _inputs(site, look, storage)
    if options.spot and spec.checkpoint_path is None:
        look.warnings.append("spot capacity may be taken away: without checkpoint_path the job then begins at step 0")
    if options.keep_alive_minutes:
        look.warnings.append(f"its instances are paid for up to {options.keep_alive_minutes} minutes after its end")
    look.warnings.append("its log is in CloudWatch Logs; it runs on instances of SageMaker's own, beside the cluster's")
    return {} if options.spot else {f"{spec.instance_type}-Training": spec.nodes}


def _image(look: Look, region: str) -> None:
    image = look.spec.image or look.spec.launch().image or ""
    found = IMAGE.fullmatch(image)
    if found is not None and found["region"] != region:
        detail = f"the image is in ECR in {found['region']}, and SageMaker pulls from {region} only"
        look.block("/image", detail, f"Copy it to {region} (ECR replication, or docker pull and push), and name that.")


def _quota(site: Site, look: Look, spot: bool) -> None:
    spec, usage = look.spec, SPOT_USAGE if spot else USAGE
    limit = instance_quotas(site.aws, site.region, usage).get(spec.instance_type)
    if limit is None:
        return
    look.checks.append(
        Check(name=f"quota of {spec.instance_type} for {usage}", passed=spec.nodes <= limit, detail=f"{limit}")
    )
    if spec.nodes > limit:
        detail = f"the account may have {limit} {spec.instance_type} for {usage}, and the job takes {spec.nodes}"
        remedy = f"Ask Service Quotas for more ('{spec.instance_type} for {usage}'), or take fewer or others."
        look.block("/nodes", detail, remedy, ProblemCode.QUOTA)


def _inputs(site: Site, look: Look, storage: Storage) -> None:
    """SageMaker fails a job that has an input without any object, minutes after its start."""
    spec = look.spec
    s3: Any = site.aws.read.s3(site.region)
    if not bucket_exists(site.aws, site.region, storage.account, storage.bucket):
        detail = f"there is no bucket {storage.bucket}, which the job's files and its model go to"
        look.block("/storage", detail, "Name a claim on S3 that there is (create-storage).", ProblemCode.NOT_FOUND)
        return
    for folder in channels_of(spec).values():
        place = storage.at(spec, folder)
        page = s3.list_objects_v2(
            Bucket=place.bucket, Prefix=f"{place.prefix}/", MaxKeys=1, ExpectedBucketOwner=storage.account
        )
        there = bool(page.get("Contents"))
        look.checks.append(Check(name=f"input {folder}", passed=there, detail=f"s3://{place.bucket}/{place.prefix}/"))
        if not there:
            detail = f"there is nothing in {folder} (s3://{place.bucket}/{place.prefix}/), which the recipe names"
            remedy = "Correct the path; if the run writes there, name it, or a folder above it, as checkpoint_path."
            look.block("/sagemaker/inputs", detail, remedy, ProblemCode.NOT_FOUND)
