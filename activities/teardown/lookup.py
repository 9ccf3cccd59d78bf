"""What belongs to a cluster, found by its tag and by names; nothing is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from activities import aws_codes
from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.eks import describe as describe_eks
from activities.errors import code_of
from activities.hyperpod.cluster import describe as describe_hyperpod
from contracts.names import TAG_CLUSTER
from contracts.teardown import Resource, Teardown


class Deleter(Protocol):
    """How one part of a cluster is found and deleted."""

    def find(self, asked: Teardown) -> list[Resource]:
        """What there is of the part and goes, in the order of deletion; what is already going, too."""

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Begin the deletion of one. Deleting again is harmless; only its own NotFound means that it is gone."""


@dataclass
class Clusters:
    """The EKS and HyperPod clusters that carry the cluster's tag, as described."""

    eks: list[Any] = field(default_factory=list)
    hyperpod: list[Any] = field(default_factory=list)
    untagged: list[tuple[str, str]] = field(default_factory=list)
    """(kind, name) of clusters that the record names and that do not carry the tag."""
    guests: list[str] = field(default_factory=list)
    """HyperPod clusters of others that run on an EKS cluster of ours."""


def find_clusters(aws: AwsClients, asked: Teardown) -> Clusters:
    """Look under every known name and every tagged ARN, and ask HyperPod what runs on our EKS clusters."""
    found, region, tag = Clusters(), asked.scope.region, asked.scope.cluster
    arns = tagged_arns(aws, region, tag)
    eks_names = [arn.rsplit("/", 1)[-1] for arn in arns if ":eks:" in arn and ":cluster/" in arn]
    for name in dict.fromkeys([*asked.known.eks_clusters, *eks_names]):
        eks = describe_eks(aws, region, name)
        if eks is None:
            continue
        if is_ours(eks.get("tags", {}), tag):
            found.eks.append(eks)
        elif name in asked.known.recorded:
            found.untagged.append(("EKS cluster", name))
    ours = {eks["arn"] for eks in found.eks}
    named = [*asked.known.hyperpod_clusters, *(arn for arn in arns if ":sagemaker:" in arn and ":cluster/" in arn)]
    for each in list_hyperpod(aws, region, named):
        tags = pages(aws.read.sagemaker(region), "list_tags", "Tags", ResourceArn=each["ClusterArn"])
        if is_ours(tag_map(list(tags)), tag):
            found.hyperpod.append(each)
        elif each["ClusterName"] in asked.known.recorded:
            found.untagged.append(("HyperPod cluster", each["ClusterName"]))
        elif each.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn") in ours:
            found.guests.append(each["ClusterName"])
    return found


def list_hyperpod(aws: AwsClients, region: str, named: list[str]) -> list[Any]:
    """Every HyperPod cluster of the region, described, and those that are named. ListClusters does not say which EKS
    cluster one runs on."""
    listed = pages(aws.read.sagemaker(region), "list_clusters", "ClusterSummaries")
    described: dict[str, Any] = {}
    for name in dict.fromkeys([*named, *(each["ClusterName"] for each in listed)]):
        if (found := describe_hyperpod(aws, region, name)) is not None:
            described[found["ClusterArn"]] = found
    return list(described.values())


def tagged_arns(aws: AwsClients, region: str, cluster: str) -> list[str]:
    """ARNs of what carries the cluster's tag, of every service that the tagging API knows; none where there is no such
    API. It is behind reality by minutes and knows no IAM roles."""
    client = aws.read.tagging(region)
    wanted: Any = [{"Key": TAG_CLUSTER, "Values": [cluster]}]
    try:
        return [
            each["ResourceARN"] for each in pages(client, "get_resources", "ResourceTagMappingList", TagFilters=wanted)
        ]
    except Exception as error:
        if aws_codes.MEANINGS.get(code_of(error)) is aws_codes.Meaning.UNSUPPORTED:
            return []
        raise


def is_kept(asked: Teardown, *names: str | None) -> bool:
    """Whether one of a resource's names is among those that must stay."""
    return any(name in asked.spec.keep or name in asked.known.retained for name in names if name)


def why_kept(asked: Teardown, name: str) -> str:
    return asked.known.retained.get(name, "named in keep")


def gone(call: Callable[..., Any], *absent: str, **parameters: Any) -> None:
    """Delete something by ``call(**parameters)``; that it is not there (by the given codes) is as asked."""
    try:
        call(**parameters)
    except Exception as error:
        if code_of(error) not in absent:
            raise
