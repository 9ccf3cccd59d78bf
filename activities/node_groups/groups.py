"""The node group itself: made, scaled, watched, deleted.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, tags_of, token
from activities.errors import fail, is_absent
from activities.instance_types import InstanceFacts, describe_types
from activities.kubernetes import KubernetesClients
from activities.node_groups.observe import (
    LABEL_GROUP,
    as_node_group,
    describe,
    describe_all,
    issues_of,
    list_nodes,
    see,
)
from activities.node_groups.placement import image
from activities.node_groups.shape import CAPACITY_TYPES, UNBORN, difference, labels_of, scaling_config, taints_of
from activities.node_groups.watch import Watcher, absent
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.model import fingerprint
from contracts.node_groups import (
    ENSURE_NODE_GROUP,
    LIST_NODE_GROUPS,
    SCALE_NODE_GROUP_TO,
    START_NODE_GROUP_DELETION,
    WAIT_FOR_NODE_GROUP,
    WAIT_FOR_NODE_GROUP_GONE,
    EnsureNodeGroup,
    ListNodeGroups,
    NodeGroup,
    NodeGroupGone,
    NodeGroupRef,
    NodeGroups,
    NodeGroupScaling,
    ScaleNodeGroup,
    WaitForNodeGroup,
)
from contracts.problem import ProblemCode
from contracts.words import number_of

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import NodegroupTypeDef


class NodeGroupActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=ENSURE_NODE_GROUP.name)
    def ensure_node_group(self, request: EnsureNodeGroup) -> NodeGroup:
        """The node group as asked; does not wait for nodes.

        One of ours that failed at its creation, or differs and has not worked yet, is deleted and named
        ``replacing``: wait until it is gone and call again. Raises FOREIGN for one that is not ours, CONFLICT for one
        that works and differs.
        """
        scope, spec = request.scope, request.spec
        facts = describe_types(self._aws, scope.region, spec.instance_types)
        found = describe(self._aws, scope.region, request.eks_cluster, spec.name)
        if found is None:
            return self._create(request, facts)
        if not is_ours(found.get("tags", {}), scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"A node group {spec.name} exists and does not carry the tag instantstart:cluster={scope.cluster}",
                "Choose another name; scale or delete that one by its name.",
            )
        if found["status"] in ("DELETING", "DELETE_FAILED"):
            if found["status"] == "DELETE_FAILED":
                _delete(self._aws, scope.region, request.eks_cluster, spec.name)
            return as_node_group(found, scope.cluster).model_copy(update={"replacing": True})
        shown = difference(request, found)
        # EKS changes no numbers of a group that it is still creating.
        other = shown or scaling_config(spec.scaling, found) != found.get("scalingConfig", {})
        if found["status"] == "CREATE_FAILED" or (other and found["status"] in UNBORN):
            _delete(self._aws, scope.region, request.eks_cluster, spec.name)
            return as_node_group(found, scope.cluster).model_copy(update={"replacing": True})
        if shown:
            fail(
                ProblemCode.CONFLICT,
                f"Node group {spec.name} exists and differs: {shown}",
                "Ask for what exists, choose another name, or delete it first.",
            )
        changed = self._set_scaling(request.eks_cluster, scope.region, found, spec.scaling)
        return as_node_group(found, scope.cluster, changed=changed)

    def _create(self, request: EnsureNodeGroup, facts: dict[str, InstanceFacts]) -> NodeGroup:
        scope, spec, template = request.scope, request.spec, request.launch_template
        parameters: Any = {"scalingConfig": scaling_config(spec.scaling, None)}
        if spec.capacity != "capacity-block":
            parameters["instanceTypes"] = spec.instance_types
        if labels := labels_of(spec):
            parameters["labels"] = labels
        if spec.taints:
            parameters["taints"] = taints_of(spec)
        made = self._aws.act.eks(scope.region).create_nodegroup(
            clusterName=request.eks_cluster,
            nodegroupName=spec.name,
            subnets=request.subnet_ids,
            nodeRole=request.role_arn,
            amiType=image([facts[each] for each in spec.instance_types]),  # type: ignore[arg-type]
            capacityType=CAPACITY_TYPES[spec.capacity],  # type: ignore[arg-type]
            launchTemplate={"id": template.launch_template_id, "version": str(template.version)},
            tags=tags_of(scope, f"node-group-{spec.name}"),
            clientRequestToken=token(f"node-group/{fingerprint(request)}"),
            **parameters,
        )["nodegroup"]
        return as_node_group(made, scope.cluster)

    @activity.defn(name=SCALE_NODE_GROUP_TO.name)
    def scale_node_group(self, request: ScaleNodeGroup) -> NodeGroup:
        """Set the group's numbers of nodes. Raises NOT_FOUND where there is no such group; EKS says that it is busy
        (retried) while another update runs."""
        scope, spec = request.scope, request.spec
        found = describe(self._aws, scope.region, request.eks_cluster, spec.node_group)
        if found is None:
            absent(spec.node_group)
        changed = self._set_scaling(request.eks_cluster, scope.region, found, spec)
        after = describe(self._aws, scope.region, request.eks_cluster, spec.node_group) if changed else found
        return as_node_group(after or found, scope.cluster, changed=changed)

    def _set_scaling(self, eks_cluster: str, region: str, found: NodegroupTypeDef, wanted: NodeGroupScaling) -> bool:
        config = scaling_config(wanted, found)
        if config == {name: found.get("scalingConfig", {}).get(name) for name in config}:
            return False
        self._aws.act.eks(region).update_nodegroup_config(
            clusterName=eks_cluster,
            nodegroupName=found["nodegroupName"],
            scalingConfig=config,
            # A group may be scaled back and forth within one operation: each change is another one.
            clientRequestToken=token(f"scale/{found['nodegroupName']}/{config}/{found.get('modifiedAt')}"),
        )
        return True

    @activity.defn(name=WAIT_FOR_NODE_GROUP.name)
    async def wait_for_nodes(self, request: WaitForNodeGroup) -> NodeGroup:
        """Until the group is ACTIVE and has just the desired nodes, Ready, with the accelerators of their type.

        Raises CAPACITY, QUOTA, DENIED or NOT_READY with EKS's words when it failed, or when a health issue lasts for
        ``shortfall_patience`` without a node gained.
        """
        watcher = Watcher(self._aws, self._kubernetes, self._settings, request)
        limit, pace = WAIT_FOR_NODE_GROUP.limit, self._settings.poll_seconds
        return await wait_until(watcher.look, what="every node Ready", limit=limit, poll_seconds=pace)

    @activity.defn(name=START_NODE_GROUP_DELETION.name)
    def delete_node_group(self, request: NodeGroupRef) -> NodeGroupGone:
        """Begin the group's deletion: EKS evicts its pods, then ends the instances. Absent is done."""
        found = describe(self._aws, request.scope.region, request.eks_cluster, request.name)
        if found is None:
            return NodeGroupGone(name=request.name, changed=False)
        if found["status"] != "DELETING":
            _delete(self._aws, request.scope.region, request.eks_cluster, request.name)
        return NodeGroupGone(name=request.name)

    @activity.defn(name=WAIT_FOR_NODE_GROUP_GONE.name)
    async def wait_until_gone(self, request: NodeGroupRef) -> NodeGroupGone:
        """Until EKS knows the group no more and Kubernetes has none of its nodes. Raises NOT_READY with EKS's words
        when the deletion failed."""

        def look(memory: Memory) -> Seen[NodeGroupGone]:
            region = request.scope.region
            found = describe(self._aws, region, request.eks_cluster, request.name)
            if found is not None and found["status"] == "DELETE_FAILED":
                fail(
                    ProblemCode.NOT_READY,
                    f"Node group {request.name} could not be deleted: {issues_of(found) or 'no reason given'}",
                    "Mend what the issue names, then retry.",
                    retryable=True,
                )
            with self._kubernetes.connect(region, request.eks_cluster) as api:
                left = list_nodes(api, f"{LABEL_GROUP}={request.name}")
            if found is None and not left:
                return Seen(f"{request.name} is gone", NodeGroupGone(name=request.name))
            return Seen(f"{request.name} {found['status'] if found else 'gone'}; {number_of(len(left), 'node')} left")

        limit = WAIT_FOR_NODE_GROUP_GONE.limit
        return await wait_until(
            look, what="the end of the node group", limit=limit, poll_seconds=self._settings.poll_seconds
        )

    @activity.defn(name=LIST_NODE_GROUPS.name)
    def list_node_groups(self, request: ListNodeGroups) -> NodeGroups:
        """Every node group of the EKS cluster, others' too, with its nodes in Kubernetes."""
        scope = request.scope
        groups = describe_all(self._aws, scope.region, request.eks_cluster)
        if not groups:
            return NodeGroups()
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            nodes = list_nodes(api, LABEL_GROUP)
        return NodeGroups(
            node_groups=[
                as_node_group(group, scope.cluster, see(_of(nodes, group["nodegroupName"]), {}), changed=False)
                for group in groups
            ]
        )


def _of(nodes: list[Any], group: str) -> list[Any]:
    return [node for node in nodes if (node.metadata.labels or {}).get(LABEL_GROUP) == group]


def _delete(aws: AwsClients, region: str, cluster: str, name: str) -> None:
    try:
        aws.act.eks(region).delete_nodegroup(clusterName=cluster, nodegroupName=name)
    except Exception as error:
        if not is_absent(error, "ResourceNotFoundException"):
            raise
