"""The operations of the simulated HyperPod together, with its events, operations and tags."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks import Eks
from sandbox.aws.hyperpod.base import aware
from sandbox.aws.hyperpod.checks import invalid
from sandbox.aws.hyperpod.nodes import Nodes
from sandbox.aws.hyperpod.state import Cluster, Event
from sandbox.aws.training_plans import TrainingPlans
from sandbox.aws.world import World, paginate

OPERATIONS_KEPT = timedelta(days=14)
"""https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-operations.html"""
NO_EVENTS = "Cluster events are only available for clusters with NodeProvisioningMode Continuous."


class HyperPod(Nodes, TrainingPlans):
    """Handlers of SageMaker's operations on HyperPod clusters and training plans."""

    def __init__(self, world: World, eks: Eks) -> None:
        super().__init__(world, eks)
        self.listen()
        self.listen_to_plans()

    def ListClusterEvents(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        if not cluster.continuous:
            invalid(NO_EVENTS)
        found = [e for e in cluster.events if _wanted(e, p)]
        if p.get("SortOrder", "Descending") == "Descending":
            found.reverse()
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        return {"Events": [self.summarize_event(cluster, e) for e in page], "NextToken": token}

    def DescribeClusterEvent(self, call: Call) -> Any:
        cluster = self.cluster(call)
        if not cluster.continuous:
            invalid(NO_EVENTS)
        for event in cluster.events:
            if event.id == call.params["EventId"]:
                detail = self.summarize_event(cluster, event)
                return {"EventDetails": detail | {"EventDetails": {"EventMetadata": event.metadata}}}
        raise AwsError("ResourceNotFound", f"Event {call.params['EventId']} not found.")

    def ListClusterOperations(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        after, before = p.get("CreationTimeAfter"), p.get("CreationTimeBefore")
        oldest = self.world.now() - OPERATIONS_KEPT
        found = [
            o
            for o in cluster.operations
            if p.get("Status") in (None, o.status)
            and p.get("Type") in (None, o.type)
            and o.created >= oldest
            and (after is None or o.created > aware(after))
            and (before is None or o.created < aware(before))
        ]
        if p.get("SortOrder", "Descending") == "Descending":
            found.reverse()
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        summaries = [
            {
                "OperationId": o.id,
                "ClusterArn": cluster.arn,
                "Type": o.type,
                "Status": o.status,
                "CreationTime": o.created,
            }
            for o in page
        ]
        return {"ClusterOperationSummaries": summaries, "NextToken": token}

    def DescribeClusterOperation(self, call: Call) -> Any:
        cluster = self.cluster(call)
        for o in cluster.operations:
            if o.id == call.params["OperationId"]:
                return {
                    "OperationId": o.id,
                    "ClusterArn": cluster.arn,
                    "Type": o.type,
                    "Status": o.status,
                    "CreationTime": o.created,
                    "ScalingDetails": o.scaling,
                    "DeepHealthCheckDetails": o.checks,
                }
        raise AwsError("ResourceNotFound", f"Operation {call.params['OperationId']} not found.")

    def AddTags(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        tags.update({t["Key"]: t["Value"] for t in call.params["Tags"]})
        return {"Tags": _tag_list(tags)}

    def ListTags(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        return {"Tags": _tag_list(tags)}

    def DeleteTags(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        for key in call.params["TagKeys"]:
            tags.pop(key, None)
        return {}

    def _tags(self, call: Call) -> dict[str, str] | None:
        """The tags of a cluster or training plan; None for what is moto's."""
        arn = call.params["ResourceArn"]
        kind = arn.split(":", 5)[-1].partition("/")[0]
        if kind not in ("cluster", "training-plan"):
            return None
        held: Cluster | Any = self.find(arn) if kind == "cluster" else self.plan(call.place, arn)
        if held is None:
            raise AwsError("ResourceNotFound", f"Resource {arn} not found.")
        tags: dict[str, str] = held.tags
        return tags


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": k, "Value": v} for k, v in tags.items()]


def _wanted(event: Event, p: dict[str, Any]) -> bool:
    """Whether an event passes the filters of ListClusterEvents."""
    after, before = p.get("EventTimeAfter"), p.get("EventTimeBefore")
    return (
        p.get("InstanceGroupName") in (None, event.group)
        and p.get("NodeId") in (None, event.instance_id)
        and p.get("ResourceType") in (None, event.resource_type)
        and p.get("OperationId") in (None, event.operation)
        and (after is None or event.time > aware(after))
        and (before is None or event.time < aware(before))
    )
