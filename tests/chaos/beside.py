"""What others change in a cluster past the platform: how it is done, what is there then, and what the record says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from kubernetes import client
from urllib3.exceptions import HTTPError

from activities.hyperpod.translator import specification_of
from tests.chaos.schedule import Beside, Wish
from tests.chaos.wishes import FIRST
from tests.chaos.world import World

FAILURES = (ClientError, BotoCoreError, client.ApiException, HTTPError)
SERVICE_LABELS = "sagemaker.amazonaws.com/"


@dataclass(frozen=True)
class Site:
    """A cluster, as others reach it."""

    world: World
    tag: str
    region: str

    @property
    def eks(self) -> str:
        return f"eks-cluster-{self.tag}"

    @property
    def hyperpod(self) -> str:
        return f"hp-cluster-{self.tag}"

    def groups(self) -> dict[str, Any]:
        """Instance groups as they are described, by name."""
        found = self.world.aws("sagemaker", self.region).describe_cluster(ClusterName=self.hyperpod)
        return {each["InstanceGroupName"]: each for each in found["InstanceGroups"]}

    def update(self, **what: Any) -> None:
        self.world.aws("sagemaker", self.region).update_cluster(ClusterName=self.hyperpod, **what)

    def server(self, name: str) -> Any:
        """A Deployment; None if there is none."""
        with self.world.kubernetes(self.region, self.eks) as api:
            try:
                return client.AppsV1Api(api).read_namespaced_deployment(name, "default")
            except client.ApiException as error:
                if error.status != 404:
                    raise
                return None

    def patch(self, name: str, spec: Any) -> None:
        with self.world.kubernetes(self.region, self.eks) as api:
            apps: Any = client.AppsV1Api(api)
            apps.patch_namespaced_deployment(name, "default", {"spec": spec}, field_manager="kubectl-edit")

    def bucket(self) -> str:
        names = [each["Name"] for each in self.world.aws("s3").list_buckets()["Buckets"]]
        return next((name for name in names if f"-{self.tag}-" in name and self.region in name), "")


def _change_count(site: Site, name: str, value: Any) -> None:
    site.update(InstanceGroups=[{**specification_of(site.groups()[name]), "InstanceCount": value}])


def _change_labels(site: Site, name: str, value: Any) -> None:
    specification: Any = specification_of(site.groups()[name])
    site.update(InstanceGroups=[{**specification, "KubernetesConfig": {"Labels": value}}])


def _add_group(site: Site, name: str, value: Any) -> None:
    first: Any = specification_of(site.groups()[FIRST])
    alike = {key: item for key, item in first.items() if key not in ("KubernetesConfig", "MinInstanceCount")}
    site.update(InstanceGroups=[{**alike, "InstanceGroupName": name, "InstanceCount": value}])


def _remove_component(site: Site, name: str, value: Any) -> None:
    site.world.aws("eks", site.region).delete_addon(clusterName=site.eks, addonName=name)


def _change_image(site: Site, name: str, value: Any) -> None:
    found = site.server(name)
    if found is not None:
        containers = [{"name": found.spec.template.spec.containers[0].name, "image": value}]
        site.patch(name, {"template": {"spec": {"containers": containers}}})


def _change_replicas(site: Site, name: str, value: Any) -> None:
    if site.server(name) is not None:
        site.patch(name, {"replicas": value})


def _change_recovery(site: Site, name: str, value: Any) -> None:
    site.update(NodeRecovery=value)


def _open_bucket(site: Site, name: str, value: Any) -> None:
    site.world.aws("s3").delete_public_access_block(Bucket=site.bucket())


def _count(site: Site, name: str) -> Any:
    found = site.groups().get(name)
    return None if found is None else found["TargetCount"]


def _labels(site: Site, name: str) -> Any:
    found = site.groups().get(name)
    if found is None:
        return None
    config = found.get("KubernetesConfig") or {}
    return own_labels(config.get("DesiredLabels", config.get("CurrentLabels", {})))


def _component(site: Site, name: str) -> Any:
    eks = site.world.aws("eks", site.region)
    try:
        status = eks.describe_addon(clusterName=site.eks, addonName=name)["addon"]["status"]
    except eks.exceptions.ResourceNotFoundException:
        return "gone"
    return "gone" if status == "DELETING" else "there"


def _image(site: Site, name: str) -> Any:
    found = site.server(name)
    return None if found is None else found.spec.template.spec.containers[0].image


def _replicas(site: Site, name: str) -> Any:
    found = site.server(name)
    return None if found is None else found.spec.replicas


def _recovery(site: Site, name: str) -> Any:
    described = site.world.aws("sagemaker", site.region).describe_cluster(ClusterName=site.hyperpod)
    return described.get("NodeRecovery")


def _public_access(site: Site, name: str) -> Any:
    try:
        site.world.aws("s3").get_public_access_block(Bucket=site.bucket())
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchPublicAccessBlockConfiguration":
            raise
        return "open"
    return "blocked"


def own_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in sorted((labels or {}).items()) if not key.startswith(SERVICE_LABELS)}


def _recorded_group(record: Mapping[str, Any], name: str) -> Any:
    groups = (record.get("hyperpod") or {}).get("groups") or ()
    return next((each for each in groups if each["name"] == name), None)


def _recorded_count(record: Mapping[str, Any], name: str) -> Any:
    return (_recorded_group(record, name) or {}).get("target")


def _recorded_labels(record: Mapping[str, Any], name: str) -> Any:
    found = _recorded_group(record, name)
    return None if found is None else own_labels(found.get("labels"))


def _recorded_component(record: Mapping[str, Any], name: str) -> Any:
    return "there" if name in {each["name"] for each in record.get("dependencies") or ()} else "gone"


def _is_called(key: str, name: str) -> bool:
    """Whether a member or one of its properties has this name; one that ends with a hyphen is the beginning of it."""
    return key == name or key.startswith(name if name.endswith("-") else f"{name}/")


def _as_seen(member: str, path: str) -> Callable[[Mapping[str, Any], str], Any]:
    """What the record keeps only as a check has seen it."""

    def recorded(record: Mapping[str, Any], name: str) -> Any:
        known = (record.get("drift") or {}).get("known") or {}
        kept: dict[str, Any] = next(
            (told for key, told in known.items() if _is_called(key, member.format(name=name))), {}
        )
        return kept.get(path)

    return recorded


@dataclass(frozen=True)
class What:
    """Something that others may change. ``difference`` is how the IDs of its differences begin. The bucket is called by
    the cluster's tag."""

    change: Callable[[Site, str, Any], None]
    fact: Callable[[Site, str], Any]
    recorded: Callable[[Mapping[str, Any], str], Any]
    difference: str
    about: str
    """As ``done.about`` names the kind of the thing; empty: the cluster."""


CHANGES: dict[str, What] = {
    "count": What(_change_count, _count, _recorded_count, "instance-group/{name}/target", "groups"),
    "labels": What(_change_labels, _labels, _recorded_labels, "instance-group/{name}/labels", "groups"),
    "group": What(_add_group, _count, _recorded_count, "instance-group/{name}", "groups"),
    "component": What(_remove_component, _component, _recorded_component, "component/{name}", ""),
    "image": What(
        _change_image, _image, _as_seen("deployment/default/{name}", "image"), "deployment/default/{name}/image", ""
    ),
    "replicas": What(
        _change_replicas,
        _replicas,
        _as_seen("deployment/default/{name}", "replicas"),
        "deployment/default/{name}/replicas",
        "deployments",
    ),
    "node recovery": What(
        _change_recovery, _recovery, _as_seen("hyperpod/{name}", "node_recovery"), "hyperpod/{name}/node_recovery", ""
    ),
    "bucket": What(
        _open_bucket,
        _public_access,
        _as_seen("bucket/sagemaker-{name}-", "public_access"),
        "bucket/sagemaker-{name}-",
        "",
    ),
}


@dataclass(frozen=True)
class Changed:
    """What others have changed, told from outside."""

    event: Beside
    before: Any
    after: Any
    recorded: Any
    """What the record said then."""
    at: str
    """When, in ISO 8601."""
    sure: bool
    """A check had looked at the thing just before, so that the next one can tell."""

    @property
    def what(self) -> What:
        return CHANGES[self.event.what]

    def __str__(self) -> str:
        return f"{self.event.what} {self.event.thing} of {self.event.cluster}: {self.before} became {self.after}"

    def named_by(self, difference: str) -> bool:
        """Whether the ID of a difference is about it."""
        place, name = difference.rpartition("~")[0], self.what.difference.format(name=self.event.thing)
        # What somebody changes of a group that others have made is another difference.
        return place == name if self.event.what == "group" else _is_called(place, name)


WIDE = (
    *("create-cluster", "import-cluster", "redetect-cluster", "update-features", "update-software"),
    *("install-dependencies", "create-autoscaler", "delete-autoscaler", "create-node-pool", "delete-node-pool"),
    *("restore-drift", "adopt-drift", "delete-cluster"),
)
"""Operations that may bring up to date what others have changed, whatever they are about."""


def may_touch(wish: Wish, event: Beside) -> bool:
    """Whether an operation may be at what others change."""
    named = {wish.node_of, *wish.path.split("/"), str((wish.body or {}).get("name"))}
    return wish.operation in WIDE or event.thing in named


def change(site: Site, event: Beside) -> tuple[Any, Any] | None:
    """Change something. What was before and is then; None where nothing was changed, because there is no such thing or
    a fault that was meant for somebody else stood in the way."""
    what = CHANGES[event.what]
    try:
        before = what.fact(site, event.thing)
        if (before is None) is not (event.what == "group"):
            return None
    except FAILURES:
        return None
    with suppress(*FAILURES):  # Its answer may be what was lost.
        what.change(site, event.thing, event.value)
    after = fact(site, event)
    return None if after == before else (before, after)


def fact(site: Site, event: Beside) -> Any:
    """What there is now. Raises what keeps failing."""
    for _ in range(5):
        try:
            return CHANGES[event.what].fact(site, event.thing)
        except FAILURES:
            continue
    return CHANGES[event.what].fact(site, event.thing)


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
