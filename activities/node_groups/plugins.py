"""Device plugins for the nodes of EKS node groups.

Those of HyperPod's chart run on ``ml.`` types only: EC2 types need their own to offer GPUs and EFA interfaces to pods.
(aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart/values.yaml: affinity of the device plugins)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.context import operation_id
from activities.instance_types import EFA, NVIDIA
from activities.kubernetes import APPLY, REQUEST_TIMEOUT, KubernetesClients
from activities.node_groups.observe import LABEL_EFA, LABEL_GROUP
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER, LABEL_CLUSTER, ClusterNames
from contracts.node_groups import ENSURE_DEVICE_PLUGINS, DevicePlugins, EnsureDevicePlugins

NAMESPACE = "kube-system"
SOCKETS = "/var/lib/kubelet/device-plugins"
"""(Kubernetes: device plugins, registration with the kubelet)"""


@dataclass(frozen=True)
class Plugin:
    name: str
    part: str
    """Of the image's name, by which others' installations are recognised."""
    image: str
    labels: tuple[str, ...] = (LABEL_GROUP,)
    """Of the nodes that it runs on."""
    infiniband: bool = False


PLUGINS = {
    NVIDIA: Plugin(
        name="instantstart-nvidia-device-plugin",
        part="k8s-device-plugin",
        image="nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
    ),
    EFA: Plugin(
        name="instantstart-efa-device-plugin",
        part="aws-efa-k8s-device-plugin",
        image="602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13",
        labels=(LABEL_GROUP, LABEL_EFA),
        infiniband=True,
    ),
}
"""(NVIDIA/k8s-device-plugin, deployments/static; aws/eks-charts, stable/aws-efa-k8s-device-plugin)"""


class DevicePluginActivities:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=ENSURE_DEVICE_PLUGINS.name)
    def ensure_device_plugins(self, request: EnsureDevicePlugins) -> DevicePlugins:
        """A DaemonSet for each resource that we know a plugin for, unless another one serves node groups already."""
        wanted = [PLUGINS[resource] for resource in request.resources if resource in PLUGINS]
        if not wanted:
            return DevicePlugins(names=[], changed=False)
        names, changed = [], False
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            apps = client.AppsV1Api(api)
            there: Any = apps.list_daemon_set_for_all_namespaces(_request_timeout=REQUEST_TIMEOUT)
            for plugin in wanted:
                serving = next((each for each in there.items if _serves(each, plugin)), None)
                if serving is not None:
                    names.append(f"{serving.metadata.namespace}/{serving.metadata.name}")
                    continue
                apps.patch_namespaced_daemon_set(
                    plugin.name,
                    NAMESPACE,
                    manifest(plugin, request.scope.cluster),
                    **APPLY,
                )
                names.append(f"{NAMESPACE}/{plugin.name}")
                changed = True
        return DevicePlugins(names=names, changed=changed)


def _serves(daemon_set: Any, plugin: Plugin) -> bool:
    """Whether a DaemonSet is the plugin, and runs on EC2 types of a node group."""
    spec = daemon_set.spec.template.spec
    images = [container.image.rpartition("@")[0] or container.image for container in spec.containers]
    if not any(image.rpartition("/")[2].partition(":")[0] == plugin.part for image in images):
        return False
    if spec.node_selector and set(spec.node_selector) - {LABEL_GROUP, LABEL_EFA, "kubernetes.io/os"}:
        return False
    required = (
        spec.affinity
        and spec.affinity.node_affinity
        and spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    )
    return not required or any(_admits(term) for term in required.node_selector_terms)


def _admits(term: Any) -> bool:
    """Whether a term lets nodes of a node group through, whatever their EC2 type is.

    Where a term needs labels that are unknown here, it does not: a second plugin on a node does no harm, a missing one
    does.
    """
    for expression in term.match_expressions or []:
        if expression.key in (LABEL_GROUP, LABEL_EFA, "kubernetes.io/os") or expression.operator in (
            "NotIn",
            "DoesNotExist",
        ):
            continue
        return False
    return True


def manifest(plugin: Plugin, cluster: str) -> dict[str, Any]:
    """The plugin's DaemonSet, on nodes of EKS node groups only. NVIDIA's idles on nodes without GPUs."""
    labels = {"app.kubernetes.io/name": plugin.name, "app.kubernetes.io/managed-by": FIELD_MANAGER}
    mounts = [{"name": "device-plugin", "mountPath": SOCKETS}]
    volumes: list[dict[str, Any]] = [{"name": "device-plugin", "hostPath": {"path": SOCKETS}}]
    if plugin.infiniband:
        mounts.append({"name": "infiniband", "mountPath": "/dev/infiniband"})
        volumes.append({"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": plugin.name,
            "namespace": NAMESPACE,
            "labels": {**labels, LABEL_CLUSTER: ClusterNames(cluster).label},
            "annotations": {ANNOTATION_OPERATION: operation_id()},
        },
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": plugin.name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    "hostNetwork": plugin.infiniband,
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": key, "operator": "Exists"} for key in plugin.labels]}
                                ]
                            }
                        }
                    },
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [
                        {
                            "name": "device-plugin",
                            "image": plugin.image,
                            "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": mounts,
                        }
                    ],
                    "volumes": volumes,
                },
            },
        },
    }
