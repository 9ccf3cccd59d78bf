"""What pods that really run see of S3: the objects of a bucket, as a mount shows them.

Kubernetes side: ``sandbox/kubernetes/scripts``. AWS side: ``sandbox/aws/buckets.py`` is one.
"""

from __future__ import annotations

from typing import Protocol


class Buckets(Protocol):
    """Never called while a cluster's lock is held. Methods raise KeyError for a bucket that does not exist."""

    def read(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Every object under a prefix, by key."""

    def put(self, bucket: str, key: str, content: bytes) -> None: ...

    def delete(self, bucket: str, key: str) -> None: ...
