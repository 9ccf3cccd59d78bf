"""import-cluster and redetect-cluster: a cluster's record, from what there is."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import IMPORT_CLUSTER, REDETECT_CLUSTER
from contracts.cluster import ClusterRecord
from contracts.dependencies import ComponentStatus
from contracts.features import READ_FEATURES, FeatureStatus, ReadFeatures, Site
from contracts.hyperpod import LIST_NODES, ListNodes
from contracts.identity import ENSURE_ACCESS_ENTRY, VERIFY_ACCESS, EnsureAccessEntry, VerifyAccess
from contracts.imports import (
    ADOPT,
    DETECT_CLUSTER,
    DETECT_WORKLOADS,
    Adopt,
    Detect,
    Detected,
    DetectedWorkloads,
    DetectWorkloads,
    Gap,
    ImportClusterSpec,
    RedetectClusterSpec,
)
from contracts.lease import WHOLE_CLUSTER
from contracts.names import ClusterNames
from contracts.node_groups import LIST_NODE_GROUPS, ListNodeGroups, NodeGroup
from contracts.node_pools import LIST_NODE_POOLS, ListNodePools, NodePool
from contracts.operation import Outcome, Start
from contracts.problem import ProblemCode, problem
from contracts.words import number_of
from workflows.differences import differences
from workflows.drift_checks import DRIFT_CHECKS, drift_stage
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.engine.failures import refusal
from workflows.parts import present
from workflows.plans import checks, checks_stage

DETECTION = StagePlan("detection", "Clusters, network and roles", inputs=("eks_cluster", "hyperpod_cluster"))
ACCESS = StagePlan("access", "Access to the Kubernetes API", inputs=("grant_access",))
WORKLOADS = StagePlan("workloads", "Nodes, components, features and storage")
ADOPTION = StagePlan("adoption", "Ownership")


@workflow.defn(name=IMPORT_CLUSTER.name)
class ImportCluster(Operation[ImportClusterSpec]):
    kind = IMPORT_CLUSTER
    stages = (checks("eks_cluster", "hyperpod_cluster"), DETECTION, ACCESS, WORKLOADS, ADOPTION, DRIFT_CHECKS)

    @workflow.init
    def __init__(self, start: Start[ImportClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ImportClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (WHOLE_CLUSTER,)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        detected = await detection_stage(self, self._names)
        await self._access_stage(detected)
        workloads = await workloads_stage(self, detected)
        await self._adoption_stage(detected)
        await drift_stage(self)
        return report(self.record, [*detected.gaps, *workloads.gaps])

    def _names(self) -> tuple[str, str | None]:
        known = self.record.control_plane
        name = known.name if known else ClusterNames(self.start.cluster).eks_cluster
        return self.spec.eks_cluster or name, self.spec.hyperpod_cluster

    async def _access_stage(self, detected: Detected) -> None:
        """Make the platform's access entry, if that was asked for; prove that the Kubernetes API answers."""

        async def steps(run: StageRun) -> None:
            scope, name = self.scope, detected.control_plane.name
            if not detected.administered:
                if not self.spec.grant_access:
                    raise refusal(
                        problem(
                            ProblemCode.DENIED,
                            f"{detected.identity.platform_principal_arn} does not administer {name}, and nothing is "
                            "changed unless that is asked for",
                            field="/grant_access",
                            remedy="Retry with the correction grant_access: true, or have its administrator make an "
                            "access entry with AmazonEKSClusterAdminPolicy, then retry.",
                        )
                    )
                principal = detected.identity.platform_principal_arn
                entry = EnsureAccessEntry(scope=scope, eks_cluster=name, principal_arn=principal)
                await run.act(ENSURE_ACCESS_ENTRY, entry)
            verified = await run.act(VERIFY_ACCESS, VerifyAccess(scope=scope, eks_cluster=name))
            run.detail(f"Kubernetes {verified.kubernetes_version} answers; {verified.username} administers it")

        await self.stage(ACCESS.name, steps)

    async def _adoption_stage(self, detected: Detected) -> None:
        async def steps(run: StageRun) -> None:
            hyperpod = detected.hyperpod
            if detected.control_plane.arn in detected.owned:
                run.detail("they carry this platform's tag already")
                return
            if not self.spec.adopt:
                run.detail("not asked for: the clusters stay whose they are, and are not deleted from here")
                return
            arns = Adopt(
                scope=self.scope,
                eks_cluster_arn=detected.control_plane.arn,
                hyperpod_cluster_arn=hyperpod.arn if hyperpod else None,
            )
            adopted = await run.act(ADOPT, arns)
            run.detail(f"{number_of(len(adopted.arns), 'cluster')} tagged as this platform's")

        await self.stage(ADOPTION.name, steps)


@workflow.defn(name=REDETECT_CLUSTER.name)
class RedetectCluster(Operation[RedetectClusterSpec]):
    kind = REDETECT_CLUSTER
    stages = (DETECTION, WORKLOADS)

    @workflow.init
    def __init__(self, start: Start[RedetectClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[RedetectClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (WHOLE_CLUSTER,)

    async def runbook(self) -> dict[str, Any]:
        before = self.record
        control_plane = present(self, before.control_plane, "control plane", IMPORT_CLUSTER.name)
        detected = await detection_stage(self, lambda: (control_plane.name, None))
        workloads = await workloads_stage(self, detected)
        result = report(self.record, [*detected.gaps, *workloads.gaps])
        return result | {"changed": differences(before, self.record)}


async def detection_stage(operation: Operation[Any], names: Any) -> Detected:
    """Everything that AWS tells, put into the record."""

    async def steps(run: StageRun) -> Detected:
        eks_cluster, hyperpod_cluster = names()
        wish = Detect(scope=operation.scope, eks_cluster=eks_cluster, hyperpod_cluster=hyperpod_cluster)
        detected = await run.act(DETECT_CLUSTER, wish)
        made_here = detected.control_plane.arn in detected.owned
        changes: dict[str, Any] = {
            "origin": "created" if made_here else "imported",
            "control_plane": detected.control_plane,
            "kubernetes_version": detected.control_plane.kubernetes_version,
            "network": detected.network,
            "identity": detected.identity,
        }
        await run.record(**changes, hyperpod=detected.hyperpod, nodes=[], node_counts=[])
        found = f"{detected.hyperpod.name} {detected.hyperpod.status}" if detected.hyperpod else "no HyperPod cluster"
        run.detail(f"{eks_cluster} {detected.control_plane.status}, {found} in {detected.network.vpc_id}")
        return detected

    return await operation.stage(DETECTION.name, steps)


async def workloads_stage(operation: Operation[Any], detected: Detected) -> DetectedWorkloads:
    """Everything that the Kubernetes API and the clusters' lists tell, put into the record."""

    async def steps(run: StageRun) -> DetectedWorkloads:
        scope, name = operation.scope, detected.control_plane.name
        workloads: DetectedWorkloads = await run.act(DETECT_WORKLOADS, DetectWorkloads(scope=scope, eks_cluster=name))
        nodes, node_groups, node_pools, features = await together(
            _nodes(run, operation, detected),
            _node_groups(run, operation, name),
            _node_pools(run, operation, detected),
            _features(run, operation, detected),
        )
        await run.record(
            **nodes,
            dependencies=_components(detected, workloads),
            storage=workloads.storage,
            node_groups=node_groups,
            node_pools=node_pools,
            features=features,
        )
        run.detail(
            f"{number_of(operation.record.node_total, 'HyperPod node')}, {number_of(len(node_groups), 'node group')}, "
            f"{number_of(len(operation.record.dependencies), 'component')}, "
            f"{number_of(len(workloads.storage), 'claim')} on S3 and FSx"
        )
        return workloads

    return await operation.stage(WORKLOADS.name, steps)


def _components(detected: Detected, workloads: DetectedWorkloads) -> list[ComponentStatus]:
    return [*detected.dependencies, *workloads.dependencies]


async def _nodes(run: StageRun, operation: Operation[Any], detected: Detected) -> dict[str, Any]:
    """HyperPod's nodes as members of the record."""
    if detected.hyperpod is None:
        return {"nodes": [], "node_counts": []}
    wish = ListNodes(scope=operation.scope, name=detected.hyperpod.name, eks_cluster=detected.control_plane.name)
    found = await run.act(LIST_NODES, wish)
    return {"nodes": found.nodes, "node_counts": found.counts}


async def _node_groups(run: StageRun, operation: Operation[Any], eks_cluster: str) -> list[NodeGroup]:
    listed = await run.act(LIST_NODE_GROUPS, ListNodeGroups(scope=operation.scope, eks_cluster=eks_cluster))
    return listed.node_groups


async def _node_pools(run: StageRun, operation: Operation[Any], detected: Detected) -> list[NodePool]:
    wish = ListNodePools(scope=operation.scope, eks_cluster=detected.control_plane.name)
    return (await run.act(LIST_NODE_POOLS, wish)).node_pools


async def _features(run: StageRun, operation: Operation[Any], detected: Detected) -> list[FeatureStatus]:
    hyperpod = detected.hyperpod
    site = Site(
        scope=operation.scope,
        account=detected.identity.account,
        eks_cluster=detected.control_plane.name,
        kubernetes_version=detected.control_plane.kubernetes_version,
        hyperpod_cluster=hyperpod.name if hyperpod else None,
        hyperpod_arn=hyperpod.arn if hyperpod else None,
        bucket=detected.identity.bucket,
        vpc_id=detected.network.vpc_id,
    )
    return (await run.act(READ_FEATURES, ReadFeatures(site=site))).features


def report(record: ClusterRecord, gaps: list[Gap]) -> dict[str, Any]:
    """What was found, and what is missing."""
    return {
        "eks_cluster": record.control_plane.name if record.control_plane else None,
        "hyperpod_cluster": record.hyperpod.name if record.hyperpod else None,
        "origin": record.origin,
        "instance_groups": [each.name for each in record.hyperpod.groups] if record.hyperpod else [],
        "nodes": record.node_total,
        "features": {each.feature.value: each.state.value for each in record.features},
        "gaps": [gap.model_dump(mode="json") for gap in gaps],
    }
