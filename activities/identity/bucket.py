"""The cluster's bucket, and the lifecycle scripts in it.

API: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, partition, tag_list, tag_map, tags_of
from activities.buckets import bucket_exists, part_of
from activities.errors import fail
from activities.identity.policies import canonical, tls_only
from contracts.identity import (
    ENSURE_BUCKET,
    ENSURE_LIFECYCLE_SCRIPTS,
    Bucket,
    EnsureBucket,
    EnsureLifecycleScripts,
    LifecycleScripts,
)
from contracts.names import TAG_CLUSTER, ClusterNames
from contracts.network import Scope
from contracts.problem import ProblemCode

SCRIPTS = Path(__file__).resolve().parent.parent / "lifecycle"
PREFIX = "lifecycle"
ON_CREATE = "on_create.sh"

NO_PUBLIC_ACCESS: Any = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}


class BucketActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=ENSURE_BUCKET.name)
    def ensure_bucket(self, request: EnsureBucket) -> Bucket:
        """A private, encrypted bucket that speaks TLS only. Raises FOREIGN where somebody else has the name."""
        scope = request.scope
        name = ClusterNames(scope.cluster).bucket(request.account, scope.region)
        return self.private_bucket(scope, request.account, name, "bucket")

    def private_bucket(self, scope: Scope, account: str, name: str, resource: str) -> Bucket:
        """As :meth:`ensure_bucket`, by any name that holds tag, account and region."""
        read, act = self._aws.read.s3(scope.region), self._aws.act.s3(scope.region)
        ours: Any = {"Bucket": name, "ExpectedBucketOwner": account}
        changed = not bucket_exists(self._aws, scope.region, account, name)
        if changed:
            # us-east-1 is S3's default location and is refused as a constraint.
            placed: Any = (
                {}
                if scope.region == "us-east-1"
                else {"CreateBucketConfiguration": {"LocationConstraint": scope.region}}
            )
            act.create_bucket(Bucket=name, **placed)
        tags = part_of(lambda: read.get_bucket_tagging(**ours)["TagSet"], "NoSuchTagSet") or []
        owner = tag_map(tags).get(TAG_CLUSTER)
        if owner not in (None, scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"Bucket {name} belongs to cluster {owner}",
                "Choose another tag for the cluster.",
            )
        if owner is None:
            # Its name holds tag, account and region, so an untagged one is ours, left by an attempt that was cut short.
            act.put_bucket_tagging(**ours, Tagging={"TagSet": [*tags, *tag_list(tags_of(scope, resource))]})
            changed = True
        block = part_of(
            lambda: read.get_public_access_block(**ours)["PublicAccessBlockConfiguration"],
            "NoSuchPublicAccessBlockConfiguration",
        )
        if block != NO_PUBLIC_ACCESS:
            act.put_public_access_block(**ours, PublicAccessBlockConfiguration=NO_PUBLIC_ACCESS)
            changed = True
        encryption = part_of(
            lambda: read.get_bucket_encryption(**ours)["ServerSideEncryptionConfiguration"]["Rules"],
            "ServerSideEncryptionConfigurationNotFoundError",
        )
        if not encryption:
            rule: Any = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            act.put_bucket_encryption(**ours, ServerSideEncryptionConfiguration={"Rules": [rule]})
            changed = True
        # Over plain HTTP (an endpoint of one's own) such a policy would lock the platform itself out.
        if act.meta.endpoint_url.startswith("https://"):
            changed |= self._only_tls(scope.region, ours)
        return Bucket(name=name, changed=changed)

    def _only_tls(self, region: str, ours: Any) -> bool:
        """Refuse plain HTTP by the bucket's policy; other statements of it are kept."""
        read, act = self._aws.read.s3(region), self._aws.act.s3(region)
        policy = part_of(lambda: read.get_bucket_policy(**ours)["Policy"], "NoSuchBucketPolicy")
        wanted = tls_only(partition(region), ours["Bucket"])
        if policy is not None:
            if canonical(wanted["Statement"][0]) in _statements(policy):
                return False
            existing = json.loads(policy)
            wanted = {**existing, "Statement": [*_listed(existing["Statement"]), *wanted["Statement"]]}
        act.put_bucket_policy(**ours, Policy=json.dumps(wanted))
        return True

    @activity.defn(name=ENSURE_LIFECYCLE_SCRIPTS.name)
    def ensure_lifecycle_scripts(self, request: EnsureLifecycleScripts) -> LifecycleScripts:
        """Our lifecycle scripts in the cluster's bucket, uploaded only where their content differs."""
        read = self._aws.read.s3(request.scope.region)
        act = self._aws.act.s3(request.scope.region)
        changed = False
        for script in sorted(SCRIPTS.glob("*.sh")):
            # A carriage return makes Linux refuse the interpreter, and the node never starts.
            content = script.read_bytes().replace(b"\r\n", b"\n")
            digest, key = hashlib.sha256(content).hexdigest(), f"{PREFIX}/{script.name}"
            found = part_of(partial(read.head_object, Bucket=request.bucket, Key=key), "404", "NoSuchKey")
            if found is None or found.get("Metadata", {}).get("sha256") != digest:
                act.put_object(
                    Bucket=request.bucket,
                    Key=key,
                    Body=content,
                    ContentType="text/x-shellscript",
                    Metadata={"sha256": digest},
                )
                changed = True
        return LifecycleScripts(uri=f"s3://{request.bucket}/{PREFIX}", on_create=ON_CREATE, changed=changed)


def _statements(policy: str) -> list[str]:
    return [canonical(statement) for statement in _listed(json.loads(policy)["Statement"])]


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]
