"""The cluster's bucket, with every version of every object in it."""

from __future__ import annotations

from activities.aws import AwsClients, is_ours, tag_map
from activities.buckets import account_of, delete_bucket
from activities.errors import code_of, is_absent
from contracts.names import ClusterNames
from contracts.teardown import Part, Resource, Teardown

BUCKET = "S3 bucket"


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
        delete_bucket(self._aws, region, account_of(self._aws, region), resource.id)
