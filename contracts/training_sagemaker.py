"""What a training run must keep to be a SageMaker training job.

SageMaker API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pydantic import JsonValue

from contracts.model import fault
from contracts.recipes.launch import Launch
from contracts.sagemaker_parts import (
    IMAGE,
    MOST_INPUTS,
    WRITABLE,
    SageMakerOptions,
    folders_named,
    loose_files,
)
from contracts.training_parts import TrainingMount

if TYPE_CHECKING:
    from contracts.training import TrainingSpec


def inputs_of(spec: TrainingSpec) -> list[str]:
    """The folders that the job reads: as asked, else those that the recipe and the variables name."""
    options = spec.sagemaker or SageMakerOptions()
    return list(options.inputs) if options.inputs is not None else _named(spec)


def check(spec: TrainingSpec, launch: Launch) -> None:
    """Raises what SageMaker does not do, or not so, at its field."""
    for field in spec.credentials:
        detail = "everybody who may describe a SageMaker training job reads its variables, secrets among them"
        raise fault(field, f"{detail}: leave it out, and have the program read AWS Secrets Manager")
    for field, asked in (("/queue", spec.queue is not None), ("/tiered_checkpointing", spec.tiered_checkpointing)):
        if asked:
            raise fault(field, "a SageMaker training job runs on no node of the cluster")
    image = spec.image or launch.image or ""
    if IMAGE.fullmatch(image) is None:
        detail = f"SageMaker pulls from a private repository of ECR in the cluster's region, and {image} is in none"
        raise fault("/image", f"{detail}: copy it there, and name that")
    _check_folders(spec)
    _check_checkpoints(spec)


def _check_folders(spec: TrainingSpec) -> None:
    """Every folder lies on the run's storage, and what the recipe names is brought."""
    options = spec.sagemaker or SageMakerOptions()
    for position, folder in enumerate(options.inputs or ()):
        if not any(PurePosixPath(folder).is_relative_to(each.mount_path) for each in spec.mounts):
            places = ", ".join(each.mount_path for each in spec.mounts) or "no storage"
            raise fault(f"/sagemaker/inputs/{position}", f"{folder} is not on the run's storage ({places})")
    for position, folder in enumerate(options.inputs or ()):
        others = (options.inputs or [])[:position] + (options.inputs or [])[position + 1 :]
        if any(PurePosixPath(folder).is_relative_to(each) for each in others):
            raise fault(f"/sagemaker/inputs/{position}", f"another input brings {folder} already")
    if len(found := inputs_of(spec)) > MOST_INPUTS:
        detail = f"the recipe names {len(found)} folders, and SageMaker brings {MOST_INPUTS}"
        raise fault("/sagemaker/inputs", f"{detail}: name folders above them")
    if loose := loose_files(_texts(spec), [each.mount_path for each in spec.mounts]):
        raise fault("/sagemaker/inputs", f"SageMaker brings folders, and {loose[0]} lies in none: put it into one")
    for folder in _named(spec) if options.inputs is not None else ():
        if not any(PurePosixPath(folder).is_relative_to(each) for each in options.inputs or ()):
            remedy = "add it, or, if the run writes there, name checkpoint_path"
            raise fault("/sagemaker/inputs", f"the recipe names {folder}, which no input brings: {remedy}")


def _check_checkpoints(spec: TrainingSpec) -> None:
    """Checkpoints go where the job's role may write, and into no folder that it reads."""
    if spec.checkpoint_path is None:
        return
    path = PurePosixPath(spec.checkpoint_path)
    mount = mount_of(spec, spec.checkpoint_path)
    if mount is None:
        raise fault("/checkpoint_path", "what is not on shared storage goes with the instance")
    below = path.relative_to(mount.mount_path).parts
    if len(below) < 2 or below[0] not in WRITABLE:
        places = " or ".join(f"{mount.mount_path.rstrip('/')}/{folder}/…" for folder in WRITABLE)
        raise fault("/checkpoint_path", f"a SageMaker training job may write below {places} only")
    for folder in inputs_of(spec):
        if path.is_relative_to(folder) or PurePosixPath(folder).is_relative_to(path):
            raise fault("/checkpoint_path", f"the job reads {folder}: it cannot write there as well")


def mount_of(spec: TrainingSpec, path: str) -> TrainingMount | None:
    """The storage that a path lies on: of several, the one with the longest place."""
    found = [each for each in spec.mounts if PurePosixPath(path).is_relative_to(each.mount_path)]
    return max(found, key=lambda each: len(each.mount_path), default=None)


def _named(spec: TrainingSpec) -> list[str]:
    return folders_named(_texts(spec), [each.mount_path for each in spec.mounts], spec.checkpoint_path)


def _texts(spec: TrainingSpec) -> list[JsonValue]:
    """Where a run names paths."""
    return [spec.recipe.model_dump(mode="json"), dict(spec.env)]
