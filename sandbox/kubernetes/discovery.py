"""Which APIs are served: the classic lists and aggregated discovery (apidiscovery.k8s.io/v2).

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from .resources import ALL_VERBS, Json, ResourceType
from .store import Store

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

REVIEWS: dict[tuple[str, str], str] = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    ("authorization.k8s.io", "subjectaccessreviews"): "SubjectAccessReview",
    ("authorization.k8s.io", "localsubjectaccessreviews"): "LocalSubjectAccessReview",
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
    ("authentication.k8s.io", "tokenreviews"): "TokenReview",
}
"""Kinds that answer and are not stored."""

_SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "log": ("get",),
    "ephemeralcontainers": ("get", "patch", "update"),
    "approval": ("get", "patch", "update"),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
    "finalize": ("update",),
}
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "binding": ("", "v1", "Binding"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
}

Groups = dict[str, dict[str, list[ResourceType]]]


def groups(store: Store) -> Groups:
    """The served kinds by group and version."""
    found: Groups = {}
    for kind in store.types():
        found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    for group, _ in REVIEWS:
        found.setdefault(group, {}).setdefault("v1", [])
    return found


def _version_rank(version: str) -> tuple[int, int, int]:
    """Stable before beta before alpha, newer first: k8s.io/apimachinery/pkg/version.CompareKubeAwareVersionStrings."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0)
    stability = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stability, -int(match[1]), -int(match[3] or 0))


def group(name: str, versions: dict[str, Any]) -> Json:
    """An APIGroup."""
    ordered = [{"groupVersion": f"{name}/{v}", "version": v} for v in sorted(versions, key=_version_rank)]
    return {"name": name, "versions": ordered, "preferredVersion": ordered[0]}


def resources(group_name: str, version: str, kinds: list[ResourceType]) -> list[Json]:
    """The APIResources of a group in a version, subresources included."""
    found: list[Json] = []
    for kind in kinds:
        digest = hashlib.sha1(repr(kind.storage_key).encode(), usedforsecurity=False).digest()[:8]
        found.append(
            {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(ALL_VERBS),
                "shortNames": list(kind.short_names),
                "categories": list(kind.categories),
                "storageVersionHash": base64.b64encode(digest).decode(),
            }
        )
        for subresource in kind.subresources:
            entry: Json = {
                "name": f"{kind.plural}/{subresource}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(_SUBRESOURCE_VERBS.get(subresource, ("create",))),
            }
            if subresource in _SUBRESOURCE_KINDS:
                entry["group"], entry["version"], entry["kind"] = _SUBRESOURCE_KINDS[subresource]
            found.append(entry)
    if version == "v1":
        for (review_group, plural), review_kind in REVIEWS.items():
            if review_group == group_name:
                found.append(
                    {
                        "name": plural,
                        "singularName": review_kind.lower(),
                        "kind": review_kind,
                        "namespaced": plural.startswith("local"),
                        "verbs": ["create"],
                    }
                )
    return found


def resource_list(group_name: str, version: str, kinds: list[ResourceType]) -> Json:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": resources(group_name, version, kinds),
    }


def _discovered(group_name: str, version: str, entry: Json, all_entries: list[Json]) -> Json:
    def response_kind(of: Json) -> Json:
        return {"group": of.get("group", group_name), "version": of.get("version", version), "kind": of["kind"]}

    return {
        "resource": entry["name"],
        "responseKind": response_kind(entry),
        "scope": "Namespaced" if entry["namespaced"] else "Cluster",
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
        "shortNames": entry.get("shortNames", []),
        "categories": entry.get("categories", []),
        "subresources": [
            {"subresource": other["name"].split("/")[1], "responseKind": response_kind(other), "verbs": other["verbs"]}
            for other in all_entries
            if other["name"].startswith(entry["name"] + "/")
        ],
    }


def aggregated(store: Store, legacy: bool) -> Json:
    """Everything in one answer; ``legacy`` for the core group, which lives under /api."""
    items = []
    for name, versions in groups(store).items():
        if (name == "") != legacy:
            continue
        discovered = []
        for version in sorted(versions, key=_version_rank):
            entries = resources(name, version, versions[version])
            discovered.append(
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_discovered(name, version, e, entries) for e in entries if "/" not in e["name"]],
                }
            )
        items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": discovered})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
