"""Reading a cluster's storage: its claims, what the next one would be, and what a claim's bucket holds."""

from __future__ import annotations

from typing import Any, NoReturn

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients
from activities.buckets import account_of, bucket_exists
from activities.errors import code_of, fail, is_absent
from activities.kubernetes import KubernetesClients, read_or_none
from activities.storage.volumes import storage_claims
from contracts.names import ClusterNames
from contracts.problem import ProblemCode
from contracts.storage import (
    LIST_STORAGE,
    LIST_STORAGE_CONTENTS,
    READ_STORAGE_DEFAULTS,
    Claim,
    ContentsRead,
    ListContents,
    ListStorage,
    ReadStorageDefaults,
    StorageClaims,
    StorageDefaults,
    StorageSpec,
    StorageType,
    StoredObject,
)

LONGEST_KEY = 1024
"""Bytes of UTF-8. (Amazon S3 User Guide: naming objects)"""


class StorageReads:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=LIST_STORAGE.name)
    def list_claims(self, request: ListStorage) -> StorageClaims:
        """The cluster's claims on S3 and FSx, others' among them."""
        return StorageClaims(claims=self._claims(request.scope.region, request.eks_cluster, request.scope.cluster))

    def _claims(self, region: str, eks_cluster: str, cluster: str) -> list[Claim]:
        with self._kubernetes.connect(region, eks_cluster) as api:
            return storage_claims(client.CoreV1Api(api), cluster)

    @activity.defn(name=READ_STORAGE_DEFAULTS.name)
    def read_defaults(self, request: ReadStorageDefaults) -> StorageDefaults:
        """Names, and whether they are taken. Raises FOREIGN where somebody else has the bucket's."""
        region, spec = request.scope.region, StorageSpec()
        account = account_of(self._aws, region)
        bucket = request.bucket or ClusterNames(request.scope.cluster).bucket(account, region)
        return StorageDefaults(
            claim=spec.claim,
            namespace=spec.namespace,
            bucket=bucket,
            region=region,
            bucket_exists=bucket_exists(self._aws, region, account, bucket),
            claim_exists=request.eks_cluster is not None and self._taken(region, request.eks_cluster, spec),
        )

    def _taken(self, region: str, eks_cluster: str, spec: StorageSpec) -> bool:
        with self._kubernetes.connect(region, eks_cluster) as api:
            read = client.CoreV1Api(api).read_namespaced_persistent_volume_claim
            return read_or_none(read, spec.claim, spec.namespace) is not None

    @activity.defn(name=LIST_STORAGE_CONTENTS.name)
    def list_contents(self, request: ListContents) -> ContentsRead:
        """A page of what the claim's bucket holds under the claim's own prefix and the one that was asked for.

        Raises NOT_FOUND for a claim or bucket that is not there, NOT_READY for a claim without a volume, UNSUPPORTED
        for one on a file system, DENIED where the bucket may not be listed, INVALID for a prefix that is too long or a
        page of another listing.
        """
        claim = self._claim(request)
        own = claim.prefix or ""
        # Not joined as paths are: to S3 dots and doubled slashes in a key are characters like any other.
        prefix = own + request.prefix
        if len(prefix.encode()) > LONGEST_KEY:
            detail = f"keys of S3 have at most {LONGEST_KEY} bytes; with the claim's own the prefix has more"
            fail(ProblemCode.INVALID, detail, "Ask for a shorter prefix.", field="/prefix")
        position: Any = {"ContinuationToken": request.after} if request.after is not None else {}
        s3 = self._aws.read.s3(request.scope.region)
        try:
            # botocore asks for encoded keys and decodes them: XML could not carry every character.
            page = s3.list_objects_v2(
                Bucket=claim.bucket, Prefix=prefix, Delimiter="/", MaxKeys=request.size, **position
            )
        except Exception as error:
            _explain(error, claim, request.after is not None)
        return ContentsRead(
            claim=claim,
            objects=[
                StoredObject(key=each["Key"][len(own) :], size=each["Size"], modified=each["LastModified"])
                for each in page.get("Contents", [])
                # The object that stands for the directory that is mounted is not in it.
                if each["Key"] != own
            ],
            common_prefixes=[each["Prefix"][len(own) :] for each in page.get("CommonPrefixes", [])],
            last=page.get("NextContinuationToken"),
        )

    def _claim(self, request: ListContents) -> Claim:
        name, scope = f"{request.namespace}/{request.claim}", request.scope
        claims = {
            f"{each.namespace}/{each.claim}": each
            for each in self._claims(scope.region, request.eks_cluster, scope.cluster)
        }
        claim = claims.get(name)
        if claim is None:
            known = ", ".join(claims) or "none"
            remedy = "Name one of those, with its namespace." if claims else "create-storage makes one."
            fail(ProblemCode.NOT_FOUND, f"There is no claim {name}; there are: {known}", remedy)
        if claim.type is StorageType.FSX_LUSTRE:
            fail(
                ProblemCode.UNSUPPORTED,
                f"Claim {name} is on {claim.source}; only what lies in S3 can be listed without a mount",
                "Look from a pod that mounts the claim, for example with kubectl exec.",
            )
        if not claim.bucket:
            remedy = "Delete the claim, then make it again with create-storage (data in S3 stays)."
            fail(ProblemCode.NOT_READY, f"The volume of claim {name} is gone", remedy)
        return claim


def _explain(error: Exception, claim: Claim, continued: bool) -> NoReturn:
    name = f"{claim.namespace}/{claim.claim}"
    if is_absent(error, "NoSuchBucket", "404"):
        remedy = "Make the bucket again, or delete the claim."
        fail(ProblemCode.NOT_FOUND, f"Bucket {claim.bucket} of claim {name} does not exist", remedy)
    if code_of(error) in ("AccessDenied", "403"):
        remedy = f"Allow s3:ListBucket on {claim.bucket} to the platform's role, and in the bucket's own policy."
        fail(ProblemCode.DENIED, f"The platform may not list bucket {claim.bucket} of claim {name}", remedy)
    if continued and code_of(error) == "InvalidArgument":
        detail = f"Bucket {claim.bucket} does not know this page"
        fail(ProblemCode.INVALID, detail, "List anew, without a page token.", field="/page_token")
    raise error
