"""The tags of a resource by its ARN, as conditions on ``aws:ResourceTag`` look at them."""

from __future__ import annotations

from sandbox.aws import backends
from sandbox.aws.tagging import Tagging
from sandbox.aws.training_jobs import TrainingJobs

GLOBAL_REGION = "us-east-1"


class Tags:
    """Finds resources, and what they are tagged with."""

    def __init__(self, tagging: Tagging, training_jobs: TrainingJobs) -> None:
        self._tagging, self._training_jobs = tagging, training_jobs

    def of(self, arn: str) -> dict[str, str]:
        """Empty for what does not exist, and for kinds that no policy here tells by tags (buckets, roles)."""
        _, _, service, region, account, resource = arn.split(":", 5)
        name = resource.rpartition("/")[2]
        if service == "ec2":
            return {key: str(value) for key, value in backends.ec2(account, region).tags.get(name, {}).items()}
        if resource.startswith("training-job/"):
            job = self._training_jobs.held((account, region)).get(name)
            return dict(job.tags) if job is not None else {}
        return next((dict(tags) for _, held, tags in self._own(service, region, account) if held == arn), {})

    def find(self, service: str, region: str, account: str, beginning: str) -> str | None:
        """The ARN of what exists whose last part begins so: what a name leads to where the ARN has a random end."""
        prefix = f"arn:aws:{service}:{region}:{account}:{beginning}"
        return next((arn for _, arn, _ in self._own(service, region, account) if arn.startswith(prefix)), None)

    def hyperpod(self, place: tuple[str, str], name: str) -> str | None:
        cluster = self._tagging.hyperpod.state.clusters.get(place, {}).get(name)
        return cluster.arn if cluster is not None else None

    def eks_of(self, place: tuple[str, str], name: str) -> str | None:
        """The ARN of the EKS cluster that a HyperPod cluster is on; it may be asked for by its own ARN."""
        held = self._tagging.hyperpod.state.clusters.get(place, {}).values()
        return next((cluster.eks_arn for cluster in held if name in (cluster.name, cluster.arn)), None)

    def _own(self, service: str, region: str, account: str) -> list[tuple[str, str, dict[str, str]]]:
        place = (account, GLOBAL_REGION if service == "iam" else region)
        return [each for each in self._tagging.own(place) if each[0].startswith(f"{service}:")]
