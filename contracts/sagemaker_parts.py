"""What runs as SageMaker training jobs have of their own.

SageMaker API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html; SageMaker Developer
Guide: training storage folders, managed spot training, warm pools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from contracts.model import Model, fault

MOST_INPUTS = 18
"""SageMaker takes 20 channels; one brings the recipe's files."""
LONGEST_RUN_HOURS = 28 * 24
DEFAULT_RUN_HOURS = 24
WRITABLE = ("checkpoints", "training")
"""First folders of a bucket that a training job may write below: its role allows no others."""
FILES = frozenset(
    {".py", ".sh", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".txt", ".csv", ".tsv", ".parquet", ".arrow", ".npy"}
    | {".bin", ".pt", ".pth", ".safetensors", ".model", ".gz", ".zst", ".tar", ".zip"}
)
"""Endings of what is a file in a recipe; folders of models have points in their names as well."""
IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?/(?P<repository>[^:@\s]+)(?:[:@]\S+)?"
)
"""SageMaker pulls from private repositories of ECR. (SageMaker Developer Guide: Use a private Docker registry tells
of others, which ask for a VPC and a function of one's own)"""


def _folder(path: str) -> str:
    clean = PurePosixPath(path)
    if not clean.is_absolute() or ".." in clean.parts or len(clean.parts) < 3:
        raise ValueError("a folder below a mount of the storage, as the recipe names it: /s3/datasets/mine")
    return str(clean)


InputFolder = Annotated[
    str, AfterValidator(_folder), Field(max_length=800, pattern=r"^[^\s*?]+$", examples=["/s3/datasets/alpaca"])
]


class SageMakerOptions(Model):
    """How a SageMaker training job is run: on instances of SageMaker's own, which are paid for by the second besides
    the cluster's."""

    inputs: list[InputFolder] | None = Field(None, max_length=MOST_INPUTS)
    """Folders of the storage that it reads, as the recipe names them; the job sees each at the same place. Null: those
    that the recipe names."""
    fast_file: bool = True
    """Read inputs from S3 when they are opened (FastFile); false: all are fetched before the program starts (File)."""
    volume_gib: int = Field(200, ge=1, le=16_384, strict=True)
    """Of each instance. Instances with NVMe disks have those instead."""
    spot: bool = False
    """On spot capacity, which may be taken away: give checkpoint_path, which the job goes on from."""
    max_wait_hours: float | None = Field(None, gt=0, le=LONGEST_RUN_HOURS)
    """On spot: how long it may take, waiting included; null: twice as long as it may run."""
    keep_alive_minutes: int = Field(0, ge=0, le=360, strict=True)
    """Keep the instances for the next job (a warm pool): they are paid for meanwhile. Not with spot."""

    @model_validator(mode="after")
    def _consistent(self) -> SageMakerOptions:
        if self.max_wait_hours is not None and not self.spot:
            raise fault("/max_wait_hours", "only a job on spot capacity waits so: leave it out, or send spot true")
        if self.spot and self.keep_alive_minutes:
            raise fault("/keep_alive_minutes", "SageMaker keeps no instances of spot capacity: leave one of both out")
        return self


def texts_of(document: Any) -> Iterator[str]:
    """Every text in a JSON document, keys left out."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from texts_of(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from texts_of(value)


def folders_named(document: Any, mounts: Iterable[str], written: str | None) -> list[str]:
    """Folders below ``mounts`` that a recipe names, without those that lie in another. A path that ends in a file's
    name stands for its folder; what lies below ``written`` is left out, as the job makes it."""
    found = {
        folder
        for place, path in _paths(document, mounts, written)
        if (folder := path.parent if _is_file(path) else path) != place
    }
    return [
        str(each) for each in sorted(found) if not any(each != other and each.is_relative_to(other) for other in found)
    ]


def loose_files(document: Any, mounts: Iterable[str]) -> list[str]:
    """Files that a recipe names and that lie in no folder of a mount."""
    return [str(path) for place, path in _paths(document, mounts, None) if _is_file(path) and path.parent == place]


def _paths(document: Any, mounts: Iterable[str], written: str | None) -> Iterator[tuple[PurePosixPath, PurePosixPath]]:
    """Every path below a mount, with the mount."""
    for mount in sorted(mounts):
        place = PurePosixPath(mount)
        pattern = re.compile(rf"(?<![\w./-]){re.escape(str(place))}/[\w./@+=-]+", re.ASCII)
        for text in texts_of(document):
            for each in pattern.findall(text):
                path = PurePosixPath(each.rstrip("./"))
                if ".." not in path.parts and (written is None or not path.is_relative_to(written)):
                    yield place, path


def _is_file(path: PurePosixPath) -> bool:
    return path.suffix.lower() in FILES
