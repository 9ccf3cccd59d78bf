"""The cluster's bucket, with every version of every object in it.

API: https://docs.aws.amazon.com/AmazonS3/latest/userguide/delete-bucket.html
"""

from __future__ import annotations

from typing import Any

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.errors import code_of, fail, is_absent
from activities.teardown.lookup import gone
from contracts.names import ClusterNames
from contracts.problem import ProblemCode
from contracts.teardown import Part, Resource, Teardown

BUCKET = "S3 bucket"
BATCH = 1000
"""Objects that one DeleteObjects takes."""


class BucketDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        """The bucket of the cluster's name, and the one that its record names, if they carry its tag."""
        region = asked.scope.region
        derived = ClusterNames(asked.scope.cluster).bucket(account_of(self._aws, region), region)
        recorded = [asked.known.bucket] if asked.known.bucket else []
        return [
            each
            for name in dict.fromkeys([derived, *recorded])
            for each in self.named(asked, Part.BUCKET, name, derived=name == derived)
        ]

    def named(self, asked: Teardown, part: Part, name: str, *, derived: bool) -> list[Resource]:
        """The bucket of a name, if it is there and the cluster's. A ``derived`` name holds tag, account and region: a
        bucket that has it and no tags is one whose making was cut short."""
        region = asked.scope.region
        owner = account_of(self._aws, region)
        try:
            tags = tag_map(
                self._aws.read.s3(region).get_bucket_tagging(Bucket=name, ExpectedBucketOwner=owner)["TagSet"]
            )
        except Exception as error:
            # Denied where the bucket is another account's.
            if is_absent(error, "NoSuchBucket", "404") or code_of(error) in ("AccessDenied", "403"):
                return []
            if code_of(error) != "NoSuchTagSet" or not derived:
                raise
            tags = {}
        if tags and not is_ours(tags, asked.scope.cluster):
            return []
        return [Resource(part=part, kind=BUCKET, id=name, name=name)]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        region = asked.scope.region
        s3: Any = self._aws.read.s3(region)
        act = self._aws.act.s3(region)
        try:
            batch: list[Any] = []
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=resource.id):
                batch += [
                    {"Key": each["Key"], "VersionId": each["VersionId"]}
                    for member in ("Versions", "DeleteMarkers")
                    for each in page.get(member) or ()
                ]
                while len(batch) >= BATCH:
                    self._empty(act, resource.id, batch[:BATCH])
                    batch = batch[BATCH:]
            self._empty(act, resource.id, batch)
            for upload in pages(s3, "list_multipart_uploads", "Uploads", Bucket=resource.id):
                which: Any = {"Bucket": resource.id, "Key": upload["Key"], "UploadId": upload["UploadId"]}
                gone(act.abort_multipart_upload, "NoSuchUpload", **which)
            act.delete_bucket(Bucket=resource.id)
        except Exception as error:
            if is_absent(error, "NoSuchBucket"):
                return
            if code_of(error) == "BucketNotEmpty":
                fail(
                    ProblemCode.BUSY,
                    f"Somebody writes into bucket {resource.id} while it is emptied",
                    "The platform empties it again.",
                    retry=True,
                )
            raise

    def _empty(self, act: Any, bucket: str, objects: list[Any]) -> None:
        if not objects:
            return
        answer = act.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            fail(
                ProblemCode.DENIED if first.get("Code") == "AccessDenied" else ProblemCode.CONFLICT,
                f"{len(errors)} objects of {bucket} were not deleted; {first.get('Key')}: {first.get('Message')}",
                "Look at the object's retention or the bucket's policy, or keep the bucket; then retry.",
                retryable=True,
            )


def account_of(aws: AwsClients, region: str) -> str:
    return aws.read.sts(region).get_caller_identity()["Account"]
