"""Roles, access, bucket and lifecycle scripts of a cluster as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, pages, partition
from activities.buckets import part_of
from activities.dependencies.roles import NAMESPACE, SERVICE_ACCOUNT
from activities.drift.looking import looked
from activities.errors import is_absent
from activities.identity import policies
from activities.identity.access import administers
from activities.identity.bucket import NO_PUBLIC_ACCESS, SCRIPTS
from activities.identity.roles import look_at_role
from contracts.cluster import ClusterRecord
from contracts.drift import AS_MADE, DriftKind, Member, Properties, Sight
from contracts.drift_look import LOOK_AT_IDENTITY, LookForDrift
from contracts.drift_recorded import STORAGE_ROLE, made_roles, own_bucket
from contracts.identity import Identity
from contracts.names import ClusterNames
from contracts.network import Scope

OTHERS = "belongs to others"


class IdentityLooks:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=LOOK_AT_IDENTITY.name)
    def look_at_identity(self, request: LookForDrift) -> Sight:
        """The roles that this platform made, the platform's access entry, the driver's Pod Identity association, and
        the bucket with the lifecycle scripts."""
        record, scope, identity = request.record, request.scope, request.record.identity
        if identity is None:
            return Sight()
        return looked(
            (
                ((DriftKind.ROLE,), lambda: self._roles(record, scope, identity)),
                ((DriftKind.ACCESS_ENTRY,), lambda: self._access(record, scope, identity)),
                ((DriftKind.POD_IDENTITY,), lambda: self._pod_identity(record, scope, identity)),
                ((DriftKind.BUCKET,), lambda: self._bucket(record, scope, identity)),
                ((DriftKind.LIFECYCLE_SCRIPTS,), lambda: self._scripts(record, scope, identity)),
            )
        )

    def _roles(self, record: ClusterRecord, scope: Scope, identity: Identity) -> Iterator[Member]:
        where = partition(scope.region)
        bucket = ClusterNames(record.tag).bucket(identity.account, record.region)
        wanted: dict[str, dict[str, Any]] = {
            "cluster": {"trust": policies.trust("eks.amazonaws.com"), "managed": [policies.CLUSTER_POLICY]},
            "hyperpod-execution": {
                "trust": policies.trust("sagemaker.amazonaws.com"),
                "managed": [policies.EXECUTION_POLICY],
                "inline": policies.execution_policy(where, bucket),
            },
        }
        asked = {purpose: wanted[purpose] for purpose in made_roles(record.tag, record.region, identity)}
        if (own := own_bucket(record)) is not None:
            inline = policies.mountpoint_policy(where, own)
            asked[STORAGE_ROLE] = {"trust": policies.pod_identity_trust(), "managed": [], "inline": inline}
        for purpose, shape in asked.items():
            found = look_at_role(self._aws, scope, purpose=purpose, **shape)
            if found is not None:
                policy = (found.difference or AS_MADE) if found.ours else OTHERS
                yield Member(kind=DriftKind.ROLE, name=found.name, properties={"policy": policy}, owned=False)

    def _access(self, record: ClusterRecord, scope: Scope, identity: Identity) -> Iterator[Member]:
        if record.control_plane is None:
            return
        principal = identity.platform_principal_arn
        try:
            lets = administers(self._aws, scope.region, record.control_plane.name, principal)
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise
            return
        policy = AS_MADE if lets else "does not administer the cluster"
        yield Member(kind=DriftKind.ACCESS_ENTRY, name=principal, properties={"policy": policy})

    def _pod_identity(self, record: ClusterRecord, scope: Scope, identity: Identity) -> Iterator[Member]:
        if record.control_plane is None:
            return
        eks = self._aws.read.eks(scope.region)
        where: Any = {"clusterName": record.control_plane.name}
        who: Any = {"namespace": NAMESPACE, "serviceAccount": SERVICE_ACCOUNT}
        role = ClusterNames(record.tag).role(STORAGE_ROLE, record.region)
        for each in pages(eks, "list_pod_identity_associations", "associations", **where, **who):
            which: Any = {**where, "associationId": each["associationId"]}
            arn = eks.describe_pod_identity_association(**which)["association"]["roleArn"]
            given = AS_MADE if arn.rpartition("/")[2] == role else arn
            yield Member(kind=DriftKind.POD_IDENTITY, name=STORAGE_ROLE, properties={"role": given}, owned=False)

    def _bucket(self, record: ClusterRecord, scope: Scope, identity: Identity) -> Iterator[Member]:
        name = own_bucket(record)
        if name is None:
            return
        s3: Any = self._aws.read.s3(scope.region)
        ours: Any = {"Bucket": name, "ExpectedBucketOwner": identity.account}
        try:
            s3.head_bucket(**ours)
        except Exception as error:
            if not is_absent(error, "404", "NoSuchBucket"):
                raise
            return
        block = part_of(
            lambda: s3.get_public_access_block(**ours)["PublicAccessBlockConfiguration"],
            "NoSuchPublicAccessBlockConfiguration",
        )
        encryption = part_of(
            lambda: s3.get_bucket_encryption(**ours)["ServerSideEncryptionConfiguration"]["Rules"],
            "ServerSideEncryptionConfigurationNotFoundError",
        )
        properties: Properties = {
            "public_access": "blocked" if block == NO_PUBLIC_ACCESS else "not blocked",
            "encryption": "on" if encryption else "off",
        }
        yield Member(kind=DriftKind.BUCKET, name=name, properties=properties)

    def _scripts(self, record: ClusterRecord, scope: Scope, identity: Identity) -> Iterator[Member]:
        bucket, uri = own_bucket(record), identity.lifecycle_scripts_uri or ""
        if bucket is None or not uri.startswith(f"s3://{bucket}/"):
            return
        s3: Any = self._aws.read.s3(scope.region)
        prefix = uri.removeprefix(f"s3://{bucket}/").strip("/")
        wrong = []
        for script in sorted(each.name for each in SCRIPTS.glob("*.sh")):
            found = part_of(partial(s3.get_object, Bucket=bucket, Key=f"{prefix}/{script}"), "404", "NoSuchKey")
            if found is None:
                wrong.append(f"{script} is gone")
            # What the platform uploads says what it holds; an earlier version of it may have uploaded another script.
            elif hashlib.sha256(found["Body"].read()).hexdigest() != found.get("Metadata", {}).get("sha256"):
                wrong.append(f"{script} is another")
        content = ", ".join(wrong) or AS_MADE
        yield Member(kind=DriftKind.LIFECYCLE_SCRIPTS, name=uri, properties={"content": content})
