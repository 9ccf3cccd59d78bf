"""What the import of a cluster would find, and the little that it would change."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from activities.errors import problem_of
from activities.imports.clusters import detect
from activities.plans.world import Planner, World
from contracts.catalogue import IMPORT_CLUSTER, REDETECT_CLUSTER
from contracts.imports import Detect, Detected, ImportClusterSpec
from contracts.names import ClusterNames
from contracts.network import Scope
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode


def planners(world: World) -> dict[str, Planner]:
    imports = ImportPlans(world)
    return {IMPORT_CLUSTER.name: imports.import_cluster, REDETECT_CLUSTER.name: imports.redetect_cluster}


class ImportPlans:
    def __init__(self, world: World) -> None:
        self._world = world

    def import_cluster(self, request: MakePlan) -> PlanDraft:
        spec, record = ImportClusterSpec.model_validate(request.spec), request.record
        name = spec.eks_cluster or ClusterNames(record.tag).eks_cluster
        if record.control_plane is not None and record.control_plane.name != name:
            return PlanDraft(
                blockers=[
                    FieldError(
                        field="/eks_cluster",
                        detail=f"Cluster {record.tag} is {record.control_plane.name} already, not {name}",
                        remedy="Choose another tag.",
                        code=ProblemCode.CONFLICT,
                    )
                ]
            )
        scope = Scope(cluster=record.tag, region=record.region, created_by="", request_id="")
        wish = Detect(scope=scope, eks_cluster=name, hyperpod_cluster=spec.hyperpod_cluster)
        try:
            detected = detect(self._world.aws, wish)
        except ApplicationError as error:
            if (found := problem_of(error)) is None:
                raise
            fault = FieldError(
                field=found.field or "/eks_cluster", detail=found.detail, remedy=found.remedy, code=found.code
            )
            return PlanDraft(blockers=[fault])
        return PlanDraft(
            changes=_changes(spec, detected),
            checks=[Check(name=gap.what, passed=False, detail=gap.detail, remedy=gap.remedy) for gap in detected.gaps],
            facts={
                "eks": detected.control_plane.arn,
                "hyperpod": detected.hyperpod.arn if detected.hyperpod else None,
                "administered": detected.administered,
            },
        )

    def redetect_cluster(self, request: MakePlan) -> PlanDraft:
        """Looking changes nothing."""
        return PlanDraft()


def _changes(spec: ImportClusterSpec, detected: Detected) -> list[PlannedChange]:
    clusters = [("EKS cluster", detected.control_plane.name, detected.control_plane.arn)]
    if detected.hyperpod is not None:
        clusters.append(("HyperPod cluster", detected.hyperpod.name, detected.hyperpod.arn))
    changes = [
        PlannedChange(
            action=Action.CHANGE if spec.adopt and arn not in detected.owned else Action.KEEP,
            kind=kind,
            name=name,
            detail="tagged as this platform's" if spec.adopt else "as it is",
        )
        for kind, name, arn in clusters
    ]
    if spec.grant_access and not detected.administered:
        principal = detected.identity.platform_principal_arn
        changes.append(PlannedChange(action=Action.CREATE, kind="access entry", name=principal))
    return changes
