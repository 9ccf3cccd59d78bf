"""What switching features would do."""

from __future__ import annotations

from functools import partial
from typing import Any

from kubernetes import client

from activities.dependencies.addons import default_version, numbers
from activities.errors import classify
from activities.features.foreign import foreign_component
from activities.features.ground import Ground, ground
from activities.features.identities import role_arn
from activities.features.switch import handler, read_feature
from activities.kubernetes import listed
from activities.plans.world import Planner, World
from contracts.catalogue import UPDATE_FEATURES
from contracts.dependencies import component
from contracts.feature_catalogue import (
    DEFINITIONS,
    Definition,
    dependents,
    planned,
    tiered_checkpointing_warnings,
    with_needs,
)
from contracts.feature_site import site_of
from contracts.features import (
    Feature,
    FeatureChanges,
    FeatureOptions,
    FeatureState,
    FeatureStatus,
    Part,
    PartKind,
    PartSight,
    PartState,
)
from contracts.network import Scope
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

GOVERNANCE = "amazon-sagemaker-hyperpod-taskgovernance"
PREREQUISITES = "Send enable_prerequisites: true, or switch that on first."


def planners(world: World) -> dict[str, Planner]:
    return {UPDATE_FEATURES.name: partial(plan_features, world)}


def plan_features(world: World, request: MakePlan) -> PlanDraft:
    """What would be made and taken away, part by part; prerequisites as checks; blockers for what cannot be."""
    record, spec = request.record, FeatureChanges.model_validate(request.spec)
    scope = Scope(cluster=record.tag, region=record.region, created_by=record.created_by, request_id="plan")
    site = site_of(record, scope)
    if site is None:
        remedy = "Create the control plane first (create-control-plane)."
        gone = f"cluster {record.tag} has no control plane yet"
        return PlanDraft(blockers=[FieldError(field="", detail=gone, remedy=remedy, code=ProblemCode.NOT_FOUND)])
    with ground(site, world.aws, world.kubernetes, world.settings) as found:
        return _Planner(found, spec).draft()


class _Planner:
    """One plan in the making."""

    def __init__(self, found: Ground, spec: FeatureChanges) -> None:
        self.ground, self.spec = found, spec
        self.plan = planned(spec)
        self.options = {each: FeatureOptions.of(toggle) for each, toggle in spec.named.items()}
        self.statuses: dict[Feature, FeatureStatus] = {}
        self.sights: dict[Feature, list[PartSight]] = {}
        self.changes: list[PlannedChange] = []
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []
        self.missing: list[str] = []

    def draft(self) -> PlanDraft:
        concerned = [*self.plan, *with_needs(self.plan)]
        concerned += [other for each, on in self.plan.items() if not on for other in dependents(each)]
        for feature in dict.fromkeys(concerned):
            self.statuses[feature], self.sights[feature] = read_feature(self.ground, feature, self.options.get(feature))
        for feature, on in self.plan.items():
            if self._readable(feature):
                self._enable(feature) if on else self._disable(feature)
        self._pods()
        states = {each.value: self.statuses[each].state.value for each in self.plan}
        return PlanDraft(
            changes=self.changes,
            checks=self.checks,
            warnings=self.warnings,
            blockers=self.blockers,
            facts={"features": dict(states), "missing_components": list(self.missing)},
        )

    def _block(self, feature: Feature, detail: str, remedy: str, code: ProblemCode = ProblemCode.CONFLICT) -> None:
        field = f"/{feature.value}" if feature in self.spec.named else ""
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))

    def _check(self, feature: Feature, name: str, passed: bool, detail: str | None, remedy: str) -> None:
        """A prerequisite: without it, the feature is not switched on."""
        if any(each.name == name for each in self.checks):
            return
        self.checks.append(Check(name=name, passed=passed, detail=detail, remedy=None if passed else remedy))
        if not passed:
            self._block(feature, f"{feature.value} needs {name}" + (f": {detail}" if detail else ""), remedy)

    def _readable(self, feature: Feature) -> bool:
        status = self.statuses[feature]
        if status.state is not FeatureState.UNKNOWN:
            return True
        remedy = "Mend what it names, then ask again."
        self._block(feature, f"{feature.value} could not be read: {status.detail}", remedy, ProblemCode.UNAVAILABLE)
        return False

    # Switching on

    def _enable(self, feature: Feature) -> None:
        definition, status = DEFINITIONS[feature], self.statuses[feature]
        if status.state is FeatureState.FOREIGN:
            self._note(Action.KEEP, "feature", feature.value, f"used as it is: {status.detail}")
            return
        changed = [
            each
            for each in self.sights[feature]
            if each.state in (PartState.ABSENT, PartState.WRONG) and not each.part.optional
        ]
        wish = self._wish(feature)
        if not changed and not wish:
            on = status.state is FeatureState.ON
            self._note(Action.NOTHING, "feature", feature.value, "it is on already" if on else status.detail)
        for sight in changed:
            action = Action.CREATE if sight.state is PartState.ABSENT else Action.CHANGE
            self._note(action, sight.part.kind.value, self._name(feature, sight.part), sight.detail)
        if wish:
            self._note(Action.CHANGE, "feature", feature.value, wish)
        self.warnings += definition.notes
        self._prerequisites(feature, definition)
        if status.state is FeatureState.OFF:
            self._versions(feature, definition)
        if feature is Feature.TRAINING_OPERATOR:
            self._governance(feature)
        if definition.changes_hyperpod:
            self._hyperpod(feature)

    def _wish(self, feature: Feature) -> str | None:
        """Which of the settings asked are others than those that are there."""
        now = self.statuses[feature].settings
        asked = self.options.get(feature, FeatureOptions()).model_dump(exclude_none=True)
        differing = [
            f"{key} {now.get(key)} → {value}" for key, value in asked.items() if now.get(key) not in (None, value)
        ]
        return ", ".join(differing) or None

    def _prerequisites(self, feature: Feature, definition: Definition) -> None:
        for need in definition.needs:
            status = self.statuses[need]
            coming = self.plan.get(need) is True
            passed = coming or status.state.usable
            detail = "it is switched on first" if coming and not status.state.usable else status.detail
            name = DEFINITIONS[need].title
            if self.plan.get(need) is False:
                self._block(feature, f"{feature.value} needs {need.value}, which would be switched off", "Keep it on.")
            else:
                self._check(feature, name, passed, detail or status.state.value, PREREQUISITES)
        for name in definition.components:
            self._component(feature, name)

    def _component(self, feature: Feature, name: str) -> None:
        part = Part(
            kind=PartKind.ADDON, name=name, namespace="kube-system", runs_on_nodes=component(name).runs_on_nodes
        )
        sight = handler(self.ground, feature, part).look()
        other = foreign_component(self.ground, name) if sight.state is PartState.ABSENT else None
        if sight.state in (PartState.PRESENT, PartState.WAITING_FOR_NODES) or other:
            self._check(feature, name, True, other or sight.detail or sight.version, "")
        elif self.spec.enable_prerequisites:
            if name not in self.missing:
                self.missing.append(name)
                self._note(Action.CREATE, "EKS add-on", name, f"{feature.value} needs it")
            self._check(feature, name, True, "it is installed first", "")
        else:
            remedy = f"Send enable_prerequisites: true, or install it (install-dependencies with component {name})."
            self._check(feature, name, False, sight.detail or "not installed", remedy)

    def _versions(self, feature: Feature, definition: Definition) -> None:
        site = self.ground.site
        for part in definition.parts:
            if part.kind is not PartKind.ADDON:
                continue
            name = f"{part.name} for Kubernetes {site.kubernetes_version}"
            try:
                version = default_version(self.ground.aws, self.ground.region, part.name, site.kubernetes_version)
            except Exception as error:
                problem = classify(error)
                if problem.type != ProblemCode.UNSUPPORTED:
                    raise
                self._check(feature, name, False, str(problem), "Use a Kubernetes version that the add-on supports.")
            else:
                self._check(feature, name, True, version, "")

    def _governance(self, feature: Feature) -> None:
        """Task governance before 1.3.0 does not know the training operator's jobs. (SageMaker Developer Guide:
        installing the training operator)"""
        addon = self.ground.addon(GOVERNANCE)
        if addon is not None:
            version = addon["addonVersion"]
            remedy = f"Update the add-on {GOVERNANCE}: switch task_governance off and on again."
            self._check(feature, "task governance 1.3.0", numbers(version) >= (1, 3), version, remedy)

    def _hyperpod(self, feature: Feature) -> None:
        cluster = self.ground.hyperpod
        remedy = "Create it first (create-hyperpod)."
        self._check(feature, "HyperPod cluster", cluster is not None, (cluster or {}).get("ClusterStatus"), remedy)
        if cluster is None:
            return
        if feature is Feature.TIERED_CHECKPOINTING:
            spots = [g["InstanceGroupName"] for g in cluster.get("InstanceGroups", []) if _is_spot(g)]
            self.warnings += tiered_checkpointing_warnings(spots)
            bucket = self.ground.site.bucket
            self._check(
                feature, "bucket of the cluster", bucket is not None, bucket, "Import the cluster with its bucket."
            )
            return
        continuous = cluster.get("NodeProvisioningMode") == "Continuous"
        self._check(
            feature,
            "node provisioning Continuous",
            continuous,
            cluster.get("NodeProvisioningMode") or "Classic",
            "The mode is chosen when a HyperPod cluster is made: make a new one with provisioning Continuous.",
        )
        automatic = cluster.get("NodeRecovery") == "Automatic"
        detail = "Automatic" if automatic else f"{cluster.get('NodeRecovery')}; it is set to Automatic"
        self._check(feature, "node recovery Automatic", True, detail, "")

    def _pods(self) -> None:
        """Whether the nodes have room for the pods that come: small ones take few."""
        coming = [
            DEFINITIONS[each]
            for each, on in self.plan.items()
            if on and self.statuses[each].state is FeatureState.OFF and DEFINITIONS[each].pods
        ]
        if not coming:
            return
        nodes = self.ground.nodes
        if not nodes:
            self.warnings.append("No node is Ready: the pods of what is switched on wait until one is")
            return
        room = sum(int(node.status.allocatable.get("pods", 0)) for node in nodes)
        names = {node.metadata.name for node in nodes}
        pods = listed(client.CoreV1Api(self.ground.api).list_pod_for_all_namespaces)
        running = [
            each for each in pods if each.spec.node_name in names and each.status.phase in ("Running", "Pending")
        ]
        needed = sum(each.pods + each.node_pods * len(nodes) for each in coming)
        free = room - len(running)
        self._check(
            coming[0].feature,
            "room for pods on the nodes",
            free >= needed,
            f"{number_of(needed, 'pod')} to come, {free} of {room} places free on {number_of(len(nodes), 'node')}",
            "Add nodes (add-instance-group, scale-instance-group, create-node-group), or switch on less.",
        )

    # Switching off

    def _disable(self, feature: Feature) -> None:
        definition, status = DEFINITIONS[feature], self.statuses[feature]
        if status.state is FeatureState.FOREIGN:
            detail = f"{feature.value} is not ours to switch off: {status.detail}"
            self._block(feature, detail, "Whoever installed it can remove it.", ProblemCode.FOREIGN)
            return
        if status.state is FeatureState.OFF:
            self._note(Action.NOTHING, "feature", feature.value, "it is off already")
            return
        needing = [
            other.value
            for other in dependents(feature)
            if self.statuses[other].state.there and self.plan.get(other) is not False
        ]
        if needing:
            self._block(
                feature, f"{feature.value} is needed by {', '.join(needing)}", f"Switch {', '.join(needing)} off, too."
            )
        if used := self._used(feature, definition):
            remedy = "Delete them first."
            if feature is Feature.AUTOSCALING:
                remedy = "Delete them first (delete-node-pool)."
            self._block(feature, f"{feature.value} is in use: {', '.join(used[:5])}", remedy)
        seen = {each.part.key: each for each in self.sights[feature]}
        for sight in (seen[part.key] for part in definition.removal):
            if sight.state is PartState.ABSENT:
                continue
            name = self._name(feature, sight.part)
            if sight.ours:
                self._note(Action.DELETE, sight.part.kind.value, name, None)
            else:
                self._note(Action.KEEP, sight.part.kind.value, name, sight.detail or "it is not ours")
        if definition.loses:
            self.warnings.append(f"Switching {feature.value} off loses {definition.loses}")

    def _used(self, feature: Feature, definition: Definition) -> list[str]:
        used = self.ground.in_use(definition.in_use) if definition.in_use else []
        if feature is Feature.FSX_CSI:
            volumes = listed(client.CoreV1Api(self.ground.api).list_persistent_volume)
            used += [
                f"PersistentVolume {each.metadata.name}"
                for each in volumes
                if each.spec.csi is not None and each.spec.csi.driver == "fsx.csi.aws.com"
            ]
        return used

    def _note(self, action: Action, kind: str, name: str, detail: str | None) -> None:
        self.changes.append(PlannedChange(action=action, kind=kind, name=name, detail=detail))

    def _name(self, feature: Feature, part: Part) -> str:
        """What a part is called in AWS or Kubernetes."""
        if part.kind is PartKind.ROLE:
            return role_arn(handler(self.ground, feature, part)).rpartition("/")[2]
        if part.kind is PartKind.DEFINITIONS:
            return f"*{part.name}"
        return f"{part.namespace}/{part.service_account}" if part.kind is PartKind.POD_IDENTITY else part.name


def _is_spot(group: dict[str, Any]) -> bool:
    return bool(group.get("CapacityRequirements", {}).get("Spot") is not None)
