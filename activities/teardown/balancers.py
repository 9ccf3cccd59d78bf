"""Load balancers and volumes that controllers in an EKS cluster have made.

Tags: https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/annotations/#resource-tags and
https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
"""

from __future__ import annotations

from typing import Any

from activities.aws import AwsClients, pages, tag_map
from contracts.teardown import Teardown

TAGS_AT_ONCE = 20
"""Load balancers of one DescribeTags."""


class ControllerMade:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def load_balancers(self, asked: Teardown) -> tuple[list[Any], list[Any]]:
        """The load balancers of the cluster's Services and Ingresses, and all others of the region."""
        elb = self._aws.read.elbv2(asked.scope.region)
        found = list(pages(elb, "describe_load_balancers", "LoadBalancers"))
        tags: dict[str, dict[str, str]] = {}
        arns = [each["LoadBalancerArn"] for each in found]
        for start in range(0, len(arns), TAGS_AT_ONCE):
            described = elb.describe_tags(ResourceArns=arns[start : start + TAGS_AT_ONCE])["TagDescriptions"]
            tags |= {each["ResourceArn"]: tag_map(each.get("Tags")) for each in described}
        ours = [each for each in found if self._is_clusters(asked, tags.get(each["LoadBalancerArn"], {}))]
        return ours, [each for each in found if each not in ours]

    def _is_clusters(self, asked: Teardown, tags: dict[str, str]) -> bool:
        return any(
            tags.get("elbv2.k8s.aws/cluster") == name or f"kubernetes.io/cluster/{name}" in tags
            for name in asked.known.eks_clusters
        )

    def volumes(self, asked: Teardown) -> list[Any]:
        """EBS volumes that were made for claims of the cluster."""
        ec2, found = self._aws.read.ec2(asked.scope.region), []
        for name in asked.known.eks_clusters:
            wanted: Any = [{"Name": f"tag:kubernetes.io/cluster/{name}", "Values": ["owned"]}]
            found += [
                volume
                for volume in pages(ec2, "describe_volumes", "Volumes", Filters=wanted)
                # Root volumes of nodes carry the tag as well, and go with them.
                if volume["State"] not in ("deleting", "deleted") and not _is_root(volume)
            ]
        return found


def claim_of(volume: Any) -> str:
    """``namespace/name`` of the claim that a volume was made for; empty where its tags do not say."""
    tags = tag_map(volume.get("Tags"))
    namespace = tags.get("kubernetes.io/created-for/pvc/namespace", "")
    name = tags.get("kubernetes.io/created-for/pvc/name", "")
    return f"{namespace}/{name}" if name else ""


def _is_root(volume: Any) -> bool:
    return any(each.get("DeleteOnTermination") for each in volume.get("Attachments", []))
