"""What in Kubernetes names an instance group."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.kubernetes import REQUEST_TIMEOUT

NODE_CLASS_GROUP = "karpenter.sagemaker.amazonaws.com"
NODE_CLASS_VERSION = "v1"
NODE_CLASSES = "hyperpodnodeclasses"
"""(SageMaker Developer Guide: autoscaling on HyperPod EKS clusters)"""


def node_classes_of(api: client.ApiClient, group: str) -> list[str]:
    """Names of the HyperpodNodeClass objects that name the group; none where the cluster does not know the kind."""
    try:
        found: Any = client.CustomObjectsApi(api).list_cluster_custom_object(
            NODE_CLASS_GROUP, NODE_CLASS_VERSION, NODE_CLASSES, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status == 404:
            return []
        raise
    return sorted(
        each["metadata"]["name"]
        for each in found.get("items", [])
        if group in (each.get("spec") or {}).get("instanceGroups", [])
    )
