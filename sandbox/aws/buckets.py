"""The simulated S3 as mounts in pods reach it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sandbox import credentials
from sandbox.aws import backends


class S3Buckets:
    """Implements :class:`sandbox.buckets.Buckets`."""

    def __init__(self, lock: threading.RLock, changed: Callable[[], None]) -> None:
        self._lock, self._changed = lock, changed

    def read(self, bucket: str, prefix: str) -> dict[str, bytes]:
        with self._lock:
            backend = self._backend(bucket)
            keys = [key for key in backend.get_bucket(bucket).keys if key.startswith(prefix)]
            return {key: found.value for key in keys if (found := backend.get_object(bucket, key)) is not None}

    def put(self, bucket: str, key: str, content: bytes) -> None:
        with self._lock:
            self._backend(bucket).put_object(bucket, key, content)
            self._changed()

    def delete(self, bucket: str, key: str) -> None:
        with self._lock:
            self._backend(bucket).delete_object(bucket, key)
            self._changed()

    @staticmethod
    def _backend(bucket: str) -> Any:
        backend = backends.s3(credentials.ACCOUNT)
        if bucket not in backend.buckets:
            raise KeyError(bucket)
        return backend
