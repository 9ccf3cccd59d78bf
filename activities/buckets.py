"""Buckets of S3: whether there is one, and deleting it with every version of every object in it.

API: https://docs.aws.amazon.com/AmazonS3/latest/userguide/delete-bucket.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activities.aws import AwsClients, pages
from activities.errors import code_of, fail, is_absent
from contracts.problem import ProblemCode
from contracts.words import number_of

BATCH = 1000
"""Objects that one DeleteObjects takes."""


def account_of(aws: AwsClients, region: str) -> str:
    return aws.read.sts(region).get_caller_identity()["Account"]


def bucket_exists(aws: AwsClients, region: str, account: str, name: str) -> bool:
    """Whether ``account`` has the bucket. Raises FOREIGN where somebody else has it, or it may not be seen."""
    s3 = aws.read.s3(region)
    try:
        s3.head_bucket(Bucket=name, ExpectedBucketOwner=account)
    except Exception as error:
        if is_absent(error, "404", "NoSuchBucket"):
            return False
        if code_of(error) in ("403", "AccessDenied", "301", "PermanentRedirect"):
            fail(
                ProblemCode.FOREIGN,
                f"Bucket {name} exists in another account or region, or the platform may not see it",
                "Choose another tag for the cluster, or allow s3:ListBucket on it to the platform's role.",
            )
        raise
    return True


def part_of(get: Callable[[], Any], *absent: str) -> Any | None:
    """A part of a bucket or of its configuration; None where S3 says that it has none (codes ``absent``)."""
    try:
        return get()
    except Exception as error:
        if is_absent(error, *absent):
            return None
        raise


def delete_bucket(aws: AwsClients, region: str, account: str, name: str) -> None:
    """Empty and delete a bucket that ``account`` owns; nothing where there is none.

    Raises CONFLICT or DENIED where objects cannot be deleted, BUSY (retried) where somebody writes meanwhile.
    """
    s3: Any = aws.read.s3(region)
    act = aws.act.s3(region)
    ours: Any = {"Bucket": name, "ExpectedBucketOwner": account}
    try:
        batch: list[Any] = []
        for page in s3.get_paginator("list_object_versions").paginate(**ours):
            batch += [
                {"Key": each["Key"], "VersionId": each["VersionId"]}
                for member in ("Versions", "DeleteMarkers")
                for each in page.get(member) or ()
            ]
            while len(batch) >= BATCH:
                _delete_objects(act, ours, batch[:BATCH])
                batch = batch[BATCH:]
        _delete_objects(act, ours, batch)
        for upload in pages(s3, "list_multipart_uploads", "Uploads", **ours):
            try:
                act.abort_multipart_upload(**ours, Key=upload["Key"], UploadId=upload["UploadId"])
            except Exception as error:
                if not is_absent(error, "NoSuchUpload"):
                    raise
        act.delete_bucket(**ours)
    except Exception as error:
        if is_absent(error, "NoSuchBucket"):
            return
        if code_of(error) == "BucketNotEmpty":
            detail = f"Somebody writes into bucket {name} while it is emptied"
            fail(ProblemCode.BUSY, detail, "The platform empties it again.", retry=True)
        raise


def _delete_objects(act: Any, ours: Any, objects: list[Any]) -> None:
    if not objects:
        return
    answer = act.delete_objects(**ours, Delete={"Objects": objects, "Quiet": True})
    if errors := answer.get("Errors"):
        first = errors[0]
        fail(
            ProblemCode.DENIED if first.get("Code") == "AccessDenied" else ProblemCode.CONFLICT,
            f"not deleted of {ours['Bucket']}: {number_of(len(errors), 'object')}; "
            f"{first.get('Key')}: {first.get('Message')}",
            "Look at the object's retention or the bucket's policy, or keep the bucket; then retry.",
            retryable=True,
        )
