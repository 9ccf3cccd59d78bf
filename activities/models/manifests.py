"""What downloads have left in buckets: their manifests, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from activities.aws import AwsClients
from activities.errors import code_of, is_absent
from contracts.models import FILE_LIST, MANIFEST, Manifest
from contracts.storage import Claim

LARGEST = 200_000_000
"""Bytes of a list of files that is read: some million files."""


def read_manifest(aws: AwsClients, region: str, claim: Claim, path: str) -> Manifest | None:
    """The manifest of a folder of a claim on S3; None where there is none, or it is not one of ours.

    Raises ClientError where the bucket may not be read.
    """
    raw = _read(aws, region, claim, f"{path}/{MANIFEST}", 100_000)
    if raw is None:
        return None
    try:
        return Manifest.model_validate_json(raw)
    except ValidationError:
        return None


def listed_files(aws: AwsClients, region: str, claim: Claim, path: str) -> dict[str, int] | None:
    """Every file that the folder's manifest is about, with its size; None where the list is missing."""
    raw = _read(aws, region, claim, f"{path}/{FILE_LIST}", LARGEST)
    if raw is None:
        return None
    return {str(each["path"]): int(each["size"]) for each in json.loads(raw)}


def stored_files(aws: AwsClients, region: str, claim: Claim, path: str) -> dict[str, int]:
    """What the bucket has in the folder: sizes by path."""
    prefix = f"{claim.prefix or ''}{path}/"
    return {key[len(prefix) :]: size for key, size in _objects(aws, region, claim.bucket, prefix)}


def _objects(aws: AwsClients, region: str, bucket: str, prefix: str) -> Iterator[tuple[str, int]]:
    pages = aws.read.s3(region).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for each in page.get("Contents", []):
            yield each["Key"], each["Size"]


def _read(aws: AwsClients, region: str, claim: Claim, path: str, most: int) -> bytes | None:
    """An object's content; None where there is no object, or one that is too large to be what it should be."""
    try:
        answer: Any = aws.read.s3(region).get_object(Bucket=claim.bucket, Key=f"{claim.prefix or ''}{path}")
    except ClientError as error:
        if is_absent(error, "NoSuchKey", "NoSuchBucket", "404"):
            return None
        raise
    content: bytes = answer["Body"].read(most + 1)
    return content if len(content) <= most else None


def is_denied(error: Exception) -> bool:
    return code_of(error) in ("AccessDenied", "403")
