"""The bucket of the inference operator's certificates."""

from __future__ import annotations

from typing import Any

from activities.aws import is_ours, tag_map
from activities.buckets import delete_bucket
from activities.errors import is_absent
from activities.features.kinds import PartHandler
from activities.identity.bucket import BucketActivities
from contracts.features import PartDone, PartKind, PartSight, PartState
from contracts.names import ClusterNames


class BucketPart(PartHandler):
    kind = PartKind.BUCKET

    @property
    def _name(self) -> str:
        return ClusterNames(self.ground.scope.cluster).tls_bucket(self.ground.site.account, self.ground.region)

    def _tags(self) -> dict[str, str] | None:
        """The bucket's tags; None if there is no bucket."""
        s3 = self.ground.aws.read.s3(self.ground.region)
        try:
            return tag_map(s3.get_bucket_tagging(**self._ours)["TagSet"])
        except Exception as error:
            if is_absent(error, "NoSuchBucket", "404"):
                return None
            if is_absent(error, "NoSuchTagSet"):
                return {}
            raise

    @property
    def _ours(self) -> Any:
        return {"Bucket": self._name, "ExpectedBucketOwner": self.ground.site.account}

    def look(self) -> PartSight:
        tags = self._tags()
        if tags is None:
            return self.seen(PartState.ABSENT)
        # Its name holds tag, account and region: without tags it is ours, from an attempt that was cut short.
        return self.seen(PartState.PRESENT, ours=not tags or is_ours(tags, self.ground.scope.cluster))

    def ensure(self) -> PartDone:
        made = BucketActivities(self.ground.aws).private_bucket(
            self.ground.scope, self.ground.site.account, self._name, "bucket-hyperpod-tls"
        )
        return self.done(made.changed)

    def remove(self) -> PartDone:
        tags = self._tags()
        if tags is None:
            return self.done(False)
        if tags and not is_ours(tags, self.ground.scope.cluster):
            return self.kept("it is not ours")
        delete_bucket(self.ground.aws, self.ground.region, self.ground.site.account, self._name)
        return self.done(True)
