"""moto as a library: served by a call, kept in snapshots, and its backends at hand for cross-service checks."""

from __future__ import annotations

import functools
import os
import pickle
from typing import Any

os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
# 1,300 images per region that nobody here boots: a third of a second each, and megabytes of every snapshot.
os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")

import moto.backends
import moto.core.responses
import moto.core.utils
from moto.core.base_backend import BackendDict
from moto.iam.models import IAMBackend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from sandbox.aws.call import Response

UNPICKLABLE = frozenset({"ssm"})
"""moto's SSM backend holds lambdas; it starts empty after a restart."""


def _cache_hot_helpers() -> None:
    """moto computes both per request: 175 ``stat`` calls and a reflection over the response class."""
    modules = functools.cache(functools.partial(_modules, moto.backends.list_of_moto_modules))
    setattr(moto.backends, "list_of_moto_modules", modules)  # noqa: B010
    methods = functools.cache(moto.core.utils.method_names_from_class)
    setattr(moto.core.responses, "method_names_from_class", methods)  # noqa: B010
    _load_policies_once()


def _load_policies_once() -> None:
    """AWS's 1,600 managed policies take moto 0.3 s per account; copies of the first load take a tenth of it."""
    original = IAMBackend._init_aws_policies
    kept: list[bytes] = []

    def load(self: Any) -> Any:
        if not kept:
            kept.append(pickle.dumps(original(self), protocol=pickle.HIGHEST_PROTOCOL))
        return pickle.loads(kept[0])

    setattr(IAMBackend, "_init_aws_policies", load)  # noqa: B010


def _modules(original: Any) -> tuple[str, ...]:
    return tuple(original())


_cache_hot_helpers()


def _in_use() -> list[Any]:
    """moto's own list of the services that hold anything."""
    instances: list[Any] = BackendDict._instances  # type: ignore[misc]
    return instances


class Moto:
    """moto's server application. Callers hold the sandbox's lock: moto has none of its own."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._dirty: set[str] = set()
        self._pickled: dict[str, bytes] = {}

    def __call__(self, environ: dict[str, Any]) -> Response:
        """Let moto answer. Raises whatever moto raises where it lacks an operation or fails inside."""
        captured: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            captured.update(status=int(status[:3]), headers=headers)

        chunks = self._app(environ, start_response)
        try:
            body = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return Response(captured["status"], captured["headers"], body)

    def changed(self, *services: str) -> None:
        """These services' backends differ from what was last pickled."""
        self._dirty.update(services)

    def dump(self) -> bytes:
        """All backends in use, one pickle per service; only those that changed are pickled again."""
        for backends in list(_in_use()):
            name = backends.service_name
            if name in UNPICKLABLE or (name in self._pickled and name not in self._dirty):
                continue
            content = {account: dict(regions) for account, regions in backends.items()}
            self._pickled[name] = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
        self._dirty.clear()
        return pickle.dumps(self._pickled)

    def load(self, dumped: bytes) -> None:
        self._pickled = pickle.loads(dumped)
        for name, pickled in self._pickled.items():
            backends = moto.backends.get_backend(name)  # type: ignore[call-overload]
            for account, regions in pickle.loads(pickled).items():
                for region, backend in regions.items():
                    dict.__setitem__(backends[account], region, backend)
        self._dirty.clear()

    def reset(self) -> None:
        """Forget all backends. moto's own reset would make each anew, in each region that was ever touched."""
        for backends in list(_in_use()):
            if backends.service_name == "s3":
                for regions in backends.values():
                    regions.reset()
            backends.clear()
        _in_use().clear()
        self._pickled.clear()


def ec2(account: str, region: str) -> Any:
    return moto.backends.get_backend("ec2")[account][region]


def eks(account: str, region: str) -> Any:
    return moto.backends.get_backend("eks")[account][region]


def iam(account: str) -> Any:
    return moto.backends.get_backend("iam")[account]["aws"]


def iam_accounts() -> list[str]:
    """The accounts that IAM knows so far."""
    return list(moto.backends.get_backend("iam"))


def s3(account: str) -> Any:
    return moto.backends.get_backend("s3")[account]["aws"]


def sts(account: str) -> Any:
    return moto.backends.get_backend("sts")[account]["aws"]


def role(account: str, name: str) -> Any | None:
    """The IAM role of that name, if there is one."""
    return next((r for r in iam(account).roles.values() if r.name == name), None)
