"""What a record becomes when it takes what is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from contracts.cluster import ClusterRecord
from contracts.dependencies import ComponentState, ComponentStatus
from contracts.drift import Change, Difference, DriftKind
from contracts.drift_compare import KEPT_AS_SEEN
from contracts.drift_recorded import EXPECTED, recorded
from contracts.features import FeatureState, FeatureStatus
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from contracts.network import NatGateway
from contracts.node_groups import NodeGroup
from contracts.node_pools import NodePool
from contracts.storage import Claim

MEMBERS = (
    *("network", "control_plane", "kubernetes_version", "hyperpod", "nodes", "node_counts", "dependencies"),
    *("storage", "node_groups", "node_pools", "features", "drift"),
)
"""Of a record: what adopting may change."""


def adopted(record: ClusterRecord, differences: Iterable[Difference], at: datetime) -> ClusterRecord:
    """The record with these differences taken in ``at`` this moment, and out of its drift report.

    The report is of that moment then: a check that began before it and ends after compared with what was recorded
    before, and is older.
    """
    state = record.drift
    if state is None:
        return record
    chosen = list(differences)
    for each in chosen:
        record = _taken(record, each)
    report, known = state.report, dict((record.drift or state).known)
    left = [each for each in report.differences if each.id not in {done.id for done in chosen}]
    return record.model_copy(
        update={
            "drift": state.model_copy(
                update={"report": report.model_copy(update={"differences": left, "checked_at": at}), "known": known}
            )
        }
    )


def _taken(record: ClusterRecord, found: Difference) -> ClusterRecord:
    derived = next((each for each in recorded(record) if each.key == found.member), None)
    told = derived is not None and (found.path is None or found.path in derived.properties)
    listed = found.kind in (DriftKind.NAT_GATEWAY, DriftKind.SUBNET) and found.path is None
    if found.kind in EXPECTED and not listed:
        return _known(record, found)
    if found.kind in KEPT_AS_SEEN and not (found.kind is DriftKind.FEATURE and told):
        return _known(record, found)
    if found.path is not None and not told:
        return _known(record, found)
    return record.model_copy(update=_changes(record, found))


def _known(record: ClusterRecord, found: Difference) -> ClusterRecord:
    """The record with what it only keeps as seen."""
    if record.drift is None:
        return record
    known = {key: dict(value) for key, value in record.drift.known.items()}
    if found.change is Change.GONE:
        known.pop(found.member, None)
        if found.kind in EXPECTED:
            known[found.member] = {"gone": True}
    elif found.path is None:
        known[found.member] = dict(found.found) if isinstance(found.found, dict) else {}
    else:
        known.setdefault(found.member, {})[found.path] = found.found
    return record.model_copy(update={"drift": record.drift.model_copy(update={"known": known})})


def _changes(record: ClusterRecord, found: Difference) -> dict[str, Any]:
    """Members of the record that take the difference in."""
    match found.kind:
        case DriftKind.INSTANCE_GROUP:
            return _groups(record, found)
        case DriftKind.HYPERPOD:
            return _hyperpod(record, found)
        case DriftKind.NODE_GROUP:
            return {"node_groups": _listed(record.node_groups, "name", found.name, found, NodeGroup, status="ACTIVE")}
        case DriftKind.NODE_POOL:
            return {"node_pools": _listed(record.node_pools, "name", found.name, found, NodePool)}
        case DriftKind.COMPONENT:
            return {"dependencies": _components(record, found)}
        case DriftKind.FEATURE:
            return {"features": _features(record, found)}
        case DriftKind.STORAGE:
            return {"storage": _claims(record, found)}
        case DriftKind.CONTROL_PLANE:
            return _control_plane(record, found)
    return _network(record, found)


def _listed(items: list[Any], key: str, name: str, found: Difference, model: type[Any], **more: Any) -> list[Any]:
    """A list of the record with one item changed, gone or added."""
    match found.change:
        case Change.GONE:
            return [each for each in items if getattr(each, key) != name]
        case Change.EXTRA:
            return [*items, model.model_validate({key: name, **more, **_properties(found)})]
    path = found.path or ""
    return [
        model.model_validate({**each.model_dump(), path: found.found}) if getattr(each, key) == name else each
        for each in items
    ]


def _properties(found: Difference) -> dict[str, Any]:
    return dict(found.found) if isinstance(found.found, dict) else {}


def _group_document(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties of an instance group as the record has them."""
    document = {key: value for key, value in properties.items() if key in InstanceGroup.model_fields}
    if types := properties.get("instance_types"):
        document |= {"instance_type": types[0], "alternative_types": list(types[1:])}
    return document


def _groups(record: ClusterRecord, found: Difference) -> dict[str, Any]:
    hyperpod = record.hyperpod
    if hyperpod is None:
        return {}
    name, groups = found.name, hyperpod.groups
    match found.change:
        case Change.GONE:
            groups = [each for each in groups if each.name != name]
        case Change.EXTRA:
            document = _group_document(_properties(found))
            made = {"name": name, "current": document.get("target", 0), "target": 0, "status": "InService"}
            groups = [*groups, InstanceGroup.model_validate({**made, **document})]
        case Change.CHANGED:
            changed = _group_document({found.path or "": found.found})
            groups = [
                InstanceGroup.model_validate({**each.model_dump(), **changed}) if each.name == name else each
                for each in groups
            ]
    changes: dict[str, Any] = {"hyperpod": hyperpod.model_copy(update={"groups": groups})}
    if found.change is Change.GONE:
        changes["nodes"] = [each for each in record.nodes if each.instance_group != name]
        changes["node_counts"] = [each for each in record.node_counts if each.group != name]
    return changes


def _hyperpod(record: ClusterRecord, found: Difference) -> dict[str, Any]:
    match found.change:
        case Change.GONE:
            return {"hyperpod": None, "nodes": [], "node_counts": []}
        case Change.EXTRA:
            told = _properties(found)
            arn, status = str(told.get("arn", "")), str(told.get("status", ""))
            return {"hyperpod": HyperPodCluster(name=found.name, arn=arn, status=status, groups=[])}
    hyperpod = record.hyperpod
    if hyperpod is None or found.path != "provisioning":
        return {}
    return {"hyperpod": hyperpod.model_copy(update={"provisioning": found.found})}


def _components(record: ClusterRecord, found: Difference) -> list[ComponentStatus]:
    others = [each for each in record.dependencies if each.name != found.name]
    if found.change is Change.GONE:
        return others
    version = str(found.found) if found.path == "major_version" else None
    return [*others, ComponentStatus(name=found.name, state=ComponentState.READY, version=version)]


def _features(record: ClusterRecord, found: Difference) -> list[FeatureStatus]:
    return [
        each.model_copy(update={"state": FeatureState(str(found.found))}) if each.feature.value == found.name else each
        for each in record.features
    ]


def _claims(record: ClusterRecord, found: Difference) -> list[Claim]:
    namespace, _, claim = found.name.partition("/")

    def is_it(each: Claim) -> bool:
        return (each.namespace, each.claim) == (namespace, claim)

    match found.change:
        case Change.GONE:
            return [each for each in record.storage if not is_it(each)]
        case Change.EXTRA:
            told = {key: value for key, value in _properties(found).items() if key in Claim.model_fields}
            made = {"claim": claim, "namespace": namespace, "volume": "", "phase": "Bound", **told}
            return [*record.storage, Claim.model_validate(made)]
    return [
        Claim.model_validate({**each.model_dump(), found.path or "": found.found}) if is_it(each) else each
        for each in record.storage
    ]


def _control_plane(record: ClusterRecord, found: Difference) -> dict[str, Any]:
    plane = record.control_plane
    if plane is None or found.path != "kubernetes_version":
        return {}
    version = str(found.found)
    return {"kubernetes_version": version, "control_plane": plane.model_copy(update={"kubernetes_version": version})}


def _network(record: ClusterRecord, found: Difference) -> dict[str, Any]:
    network = record.network
    if network is None:
        return {}
    match found.kind, found.change:
        case DriftKind.NAT_GATEWAY, Change.GONE:
            left = [each for each in network.nat_gateways if each.nat_gateway_id != found.name]
            return {"network": network.model_copy(update={"nat_gateways": left})}
        case DriftKind.NAT_GATEWAY, Change.EXTRA:
            told = {key: value for key, value in _properties(found).items() if key in NatGateway.model_fields}
            made = NatGateway.model_validate({"nat_gateway_id": found.name, **told})
            return {"network": network.model_copy(update={"nat_gateways": [*network.nat_gateways, made]})}
        case DriftKind.S3_ENDPOINT, Change.GONE:
            return {"network": network.model_copy(update={"s3_endpoint_id": None})}
        case DriftKind.SUBNET, Change.GONE:
            subnets = [each for each in network.compute_subnets if each.subnet_id != found.name]
            return {"network": network.model_copy(update={"compute_subnets": subnets})}
        case DriftKind.VPC, Change.CHANGED:
            return {"network": network.model_copy(update={"vpc_cidrs": found.found})}
    return {}


def changed_members(before: ClusterRecord, after: ClusterRecord) -> dict[str, Any]:
    """The members of the record that adopting has changed, as an operation tells them to the cluster's entity."""
    return {name: getattr(after, name) for name in MEMBERS if getattr(before, name) != getattr(after, name)}
