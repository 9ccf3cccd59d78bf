"""How grave a difference is, and what can be done about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from contracts.cluster import ClusterRecord
from contracts.drift import AS_MADE, Change, Difference, DriftKind, Severity, Way, identifier, title

ADOPTED = Way(possible=True, why="The record takes what is.")


def restored(why: str) -> Way:
    """It can be restored; ``why`` says what that does."""
    return Way(possible=True, why=why)


def not_so(why: str, operation: str | None = None) -> Way:
    """It cannot be settled so; ``operation`` is the kind of operation to use instead."""
    return Way(possible=False, why=why, operation=operation)


@dataclass(frozen=True)
class Ways:
    severity: Severity
    adopt: Way
    restore: Way
    weakens: bool = False


@dataclass(frozen=True)
class Found:
    """Something that differs, before anybody has said what that means."""

    kind: DriftKind
    name: str
    path: str | None
    change: Change
    recorded: JsonValue
    found: JsonValue
    since: datetime
    by: str | None


def judged(found: Found, record: ClusterRecord) -> Difference:
    """The difference with its severity, its sentence and its ways."""
    ways = _ways(found, record)
    return Difference(
        id=identifier(found.kind, found.name, found.path, found.recorded, found.found),
        **vars(found),
        severity=ways.severity,
        detail=_sentence(found),
        weakens=ways.weakens,
        adopt=ways.adopt,
        restore=ways.restore,
    )


def _sentence(found: Found) -> str:
    kind = title(found.kind)
    what = f"{kind[0].upper()}{kind[1:]} {found.name}"
    match found.change:
        case Change.GONE:
            return f"{what} is gone"
        case Change.EXTRA:
            return f"{what} is there and not recorded"
    if found.recorded == AS_MADE:
        return f"{what}: {_said(found.found)}"
    path = (found.path or "").replace("_", " ")
    return f"{what}: {path} is {_said(found.found)}, recorded is {_said(found.recorded)}"


def _said(value: JsonValue) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _ways(found: Found, record: ClusterRecord) -> Ways:
    match found.kind:
        case DriftKind.VPC | DriftKind.SUBNET | DriftKind.NAT_GATEWAY | DriftKind.S3_ENDPOINT:
            return _network(found, record)
        case (
            DriftKind.SECURITY_GROUP
            | DriftKind.ROLE
            | DriftKind.ACCESS_ENTRY
            | DriftKind.POD_IDENTITY
            | DriftKind.BUCKET
            | DriftKind.LIFECYCLE_SCRIPTS
        ):
            return _guarded(found)
        case DriftKind.CONTROL_PLANE | DriftKind.COMPONENT | DriftKind.HYPERPOD | DriftKind.FEATURE:
            return _software(found)
        case DriftKind.INSTANCE_GROUP:
            return _instance_group(found)
        case DriftKind.NODE_GROUP:
            return _node_group(found)
        case DriftKind.STORAGE | DriftKind.FILE_SYSTEM:
            return _storage(found)
    return _served(found)


_RECORDED_SUBNET = "A cluster without this subnet is another cluster: what is in it must be made anew."


def _network(found: Found, record: ClusterRecord) -> Ways:
    made_here = record.origin == "created"
    others = not_so("It was made by others: they can make it again.")
    match found.kind, found.change:
        case DriftKind.NAT_GATEWAY, Change.GONE:
            way = restored("A NAT gateway is made in the same public subnet, and routes lead to it.")
            return Ways(Severity.CRITICAL, ADOPTED, way if made_here else others)
        case DriftKind.NAT_GATEWAY, _:
            return Ways(Severity.WARNING, ADOPTED, not_so("Nothing that exists is deleted: delete it in EC2."))
        case DriftKind.S3_ENDPOINT, _:
            way = restored("A gateway endpoint for S3 is made, with the cluster's route tables.")
            return Ways(Severity.WARNING, ADOPTED, way if made_here else others)
        case DriftKind.SUBNET, Change.CHANGED if found.path == "leads_to":
            way = restored("Its route table leads to the cluster's own gateway again.")
            why = not_so("Nodes in a subnet without a way out cannot work.")
            leads = record.network is not None and found.name in {
                each.subnet_id for each in record.network.compute_subnets
            }
            return Ways(Severity.CRITICAL, why, way if leads else not_so("Correct its route table in EC2."))
        case DriftKind.SUBNET, Change.GONE:
            compute = record.network is not None and found.name in {
                each.subnet_id for each in record.network.compute_subnets
            }
            why = not_so("A subnet of the same ID cannot come back.", "add-instance-group" if compute else None)
            return Ways(Severity.CRITICAL, ADOPTED if compute else not_so(_RECORDED_SUBNET), why)
        case DriftKind.VPC, Change.CHANGED:
            return Ways(Severity.INFO, ADOPTED, not_so("Blocks of a VPC are EC2's to associate."))
    lost = not_so("The cluster's network is gone: delete the cluster, and create it anew.", "delete-cluster")
    return Ways(Severity.CRITICAL, lost, lost)


def _guarded(found: Found) -> Ways:
    """What guards the cluster: to adopt it accepts a hole, or something that does not work."""
    adopt = ADOPTED
    if found.kind is DriftKind.SECURITY_GROUP:
        if found.path == "open_to":
            why = not_so("No rule that others made is taken away here: revoke it in EC2.")
            return Ways(Severity.CRITICAL, adopt, why, weakens=True)
        if found.change is Change.GONE:
            lost = "A security group of the same ID cannot come back."
            return Ways(Severity.CRITICAL, not_so(lost), not_so(lost, "delete-cluster"))
        return Ways(Severity.CRITICAL, adopt, restored("The missing rules are added."))
    if found.kind is DriftKind.LIFECYCLE_SCRIPTS:
        return Ways(Severity.CRITICAL, adopt, restored("The platform's lifecycle scripts are uploaded again."), True)
    if found.kind is DriftKind.BUCKET:
        if found.change is Change.GONE:
            way = restored("An empty bucket of the name is made; what was in it does not come back.")
            return Ways(Severity.CRITICAL, not_so("Storage and lifecycle scripts need it."), way)
        return Ways(Severity.CRITICAL, adopt, restored("Public access is blocked and encryption is on again."), True)
    if found.kind is DriftKind.ACCESS_ENTRY:
        why = not_so("Without it the platform cannot work on the cluster.")
        return Ways(Severity.CRITICAL, why, restored("The platform's access entry is made, and tried."))
    if found.kind is DriftKind.POD_IDENTITY:
        way = restored("The driver's service account gets the cluster's own role.")
        return Ways(Severity.CRITICAL, adopt, way, weakens=found.change is Change.CHANGED)
    if found.found == "belongs to others":
        return Ways(Severity.CRITICAL, adopt, not_so("It is not this cluster's: whoever has it can say why."), True)
    way = restored("Trust and permissions are as the platform makes them; policies beside them stay.")
    if found.change is Change.GONE:
        return Ways(Severity.CRITICAL, not_so("What runs with this role cannot work without it."), way)
    return Ways(Severity.CRITICAL, adopt, way, weakens=True)


def _software(found: Found) -> Ways:
    if found.kind is DriftKind.FEATURE:
        if found.found == "off" or found.found == "degraded":
            way = restored("Its missing or wrong parts are made again.")
            adopt = ADOPTED if found.found == "off" else not_so("A feature that is half there is no state to keep.")
            return Ways(Severity.WARNING, adopt, way)
        why = not_so("To switch it off deletes what uses it.", "update-features")
        return Ways(Severity.INFO, ADOPTED, why)
    if found.kind is DriftKind.COMPONENT:
        if found.path == "major_version":
            why = not_so("EKS add-ons do not go back over a major version by themselves.", "install-dependencies")
            return Ways(Severity.WARNING, ADOPTED, why)
        way = restored("The component is installed again, and waited for.")
        if found.change is Change.GONE:
            return Ways(Severity.CRITICAL, ADOPTED, way)
        return Ways(Severity.CRITICAL, not_so("A component that does not work is no state to keep."), way)
    if found.kind is DriftKind.HYPERPOD:
        if found.path == "node_recovery":
            return Ways(Severity.WARNING, ADOPTED, restored("HyperPod's node recovery is set again."))
        if found.path == "autoscaling":
            return Ways(Severity.WARNING, ADOPTED, not_so("It is a feature.", "update-features"))
        if found.change is Change.GONE:
            return Ways(Severity.CRITICAL, ADOPTED, not_so("Its nodes are gone with it.", "create-hyperpod"))
        if found.change is Change.EXTRA:
            return Ways(Severity.WARNING, ADOPTED, not_so("Nothing that exists is deleted.", "delete-cluster"))
        if found.path == "provisioning":
            return Ways(Severity.WARNING, ADOPTED, not_so("HyperPod cannot change it."))
        why = not_so("HyperPod changes its state by itself: diagnose it.")
        return Ways(Severity.CRITICAL, why, why)
    if found.change is Change.GONE:
        lost = "The control plane is gone, and everything that ran on it."
        return Ways(Severity.CRITICAL, not_so(lost, "delete-cluster"), not_so(lost, "create-control-plane"))
    if found.path == "public_access":
        return Ways(Severity.WARNING, ADOPTED, not_so("Set the endpoint's access in EKS."), weakens=True)
    if found.path != "kubernetes_version":
        anew = not_so("It is another cluster of the same name.", "redetect-cluster")
        return Ways(Severity.CRITICAL, anew, anew)
    return Ways(Severity.WARNING, ADOPTED, not_so("EKS cannot take it back."))


def _instance_group(found: Found) -> Ways:
    if found.change is Change.GONE:
        return Ways(Severity.CRITICAL, ADOPTED, not_so("Its nodes are gone with it.", "add-instance-group"))
    if found.change is Change.EXTRA:
        why = not_so("No node is taken away without being asked for by name.", "delete-instance-group")
        return Ways(Severity.WARNING, ADOPTED, why)
    match found.path:
        case "target" if _less(found):
            return Ways(Severity.WARNING, ADOPTED, restored("The group gets the recorded number of nodes again."))
        case "target":
            why = not_so("Fewer nodes would end what runs on them.", "scale-instance-group")
            return Ways(Severity.INFO, ADOPTED, why)
        case "taints" if _no_execute(found.recorded):
            why = not_so("A taint NoExecute would end pods.", "update-instance-group")
            return Ways(Severity.WARNING, ADOPTED, why)
        case "labels" | "taints" | "deep_health_checks" | "min_count":
            return Ways(Severity.WARNING, ADOPTED, restored("The group's settings are set again."))
        case "execution_role" | "lifecycle" | "security_groups":
            why = not_so("It belongs to the group's instances.", "delete-instance-group")
            return Ways(Severity.CRITICAL, ADOPTED, why, weakens=True)
    why = not_so("It belongs to the group's instances: they would have to be made anew.", "delete-instance-group")
    return Ways(Severity.WARNING, ADOPTED, why)


def _node_group(found: Found) -> Ways:
    if found.change is Change.GONE:
        return Ways(Severity.CRITICAL, ADOPTED, not_so("Its nodes are gone with it.", "create-node-group"))
    if found.change is Change.EXTRA:
        why = not_so("No node is taken away without being asked for by name.", "delete-node-group")
        return Ways(Severity.WARNING, ADOPTED, why)
    if found.path == "desired" and _less(found):
        return Ways(Severity.WARNING, ADOPTED, restored("The group gets the recorded number of nodes again."))
    if found.path in ("desired", "minimum", "maximum"):
        why = not_so("Another size may end what runs on its nodes.", "scale-node-group")
        return Ways(Severity.INFO, ADOPTED, why)
    return Ways(Severity.WARNING, ADOPTED, not_so("EKS cannot change it.", "delete-node-group"))


def _storage(found: Found) -> Ways:
    if found.kind is DriftKind.FILE_SYSTEM:
        why = not_so("What it held is gone with it.", "create-fsx-storage")
        return Ways(Severity.CRITICAL, not_so("Claims on it cannot work.", "delete-storage"), why)
    recorded = found.recorded if isinstance(found.recorded, dict) else {}
    if found.change is Change.GONE:
        if recorded.get("type") == "s3":
            return Ways(Severity.CRITICAL, ADOPTED, restored("Volume and claim are made again on the same bucket."))
        return Ways(Severity.CRITICAL, ADOPTED, not_so("Mount its file system again.", "create-fsx-storage"))
    if found.path == "volume_there":
        why = not_so("A claim whose volume is lost must be deleted first.", "delete-storage")
        return Ways(Severity.CRITICAL, not_so("Pods cannot mount it."), why)
    if found.change is Change.EXTRA:
        return Ways(Severity.INFO, ADOPTED, not_so("Nothing that exists is deleted.", "delete-storage"))
    return Ways(Severity.WARNING, ADOPTED, not_so("A volume cannot be changed.", "delete-storage"))


_REMADE = {
    DriftKind.DEPLOYMENT: ("create-deployment", "update-deployment", "delete-deployment"),
    DriftKind.MODEL_POOL: ("create-model-pool", "scale-model-pool", "delete-model-pool"),
    DriftKind.ROUTER: ("create-router", "create-router", "delete-router"),
    DriftKind.ENDPOINT: ("create-endpoint", "update-endpoint", "delete-endpoint"),
    DriftKind.TRACKING_SERVER: ("create-tracking-server", "create-tracking-server", "delete-tracking-server"),
    DriftKind.NODE_POOL: ("create-node-pool", "create-node-pool", "delete-node-pool"),
}
"""Which operations make, change and delete a member of a kind."""


def _served(found: Found) -> Ways:
    made, updated, deleted = _REMADE[found.kind]
    match found.change:
        case Change.GONE:
            return Ways(Severity.CRITICAL, ADOPTED, not_so("What it was made from went with it.", made))
        case Change.EXTRA:
            return Ways(Severity.INFO, ADOPTED, not_so("No workload is deleted.", deleted))
    if found.kind is DriftKind.DEPLOYMENT:
        if found.path == "replicas" and not _less(found):
            return Ways(Severity.INFO, ADOPTED, not_so("Fewer replicas would end what they serve.", "scale-deployment"))
        return Ways(Severity.WARNING, ADOPTED, restored("It is applied as it was made, and waited for."))
    return Ways(Severity.WARNING, ADOPTED, not_so("It is changed by an operation of its own.", updated))


def _less(found: Found) -> bool:
    """Whether there is less of it than recorded."""
    return isinstance(found.found, int) and isinstance(found.recorded, int) and found.found < found.recorded


def _no_execute(taints: JsonValue) -> bool:
    listed = taints if isinstance(taints, list) else []
    return any(isinstance(each, dict) and each.get("effect") == "NoExecute" for each in listed)
