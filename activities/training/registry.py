"""The paths of submission that there are."""

from __future__ import annotations

from activities.training.hyperpod import HyperPodPath
from activities.training.paths import Job, Site, TrainingPath
from activities.training.ray import RayPath
from activities.training.sagemaker import SageMakerPath
from contracts.training_parts import Submission

PATHS: dict[Submission, TrainingPath] = {path.submission: path for path in (HyperPodPath(), RayPath(), SageMakerPath())}


def find(site: Site, namespace: str, name: str) -> Job | None:
    """The job of a run, on whatever path it was submitted; one that has not ended comes first."""
    ended = None
    for path in PATHS.values():
        job = path.find(site, namespace, name)
        if job is not None and not job.state.ended:
            return job
        ended = ended or job
    return ended
