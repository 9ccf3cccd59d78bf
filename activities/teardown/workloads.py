"""What in Kubernetes holds resources of AWS, and must go while the controllers that made them still run.

EKS User Guide, delete a cluster: Services with a load balancer first. Volumes go with their claims where their
StorageClass says Delete: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.teardown.lookup import is_kept
from activities.teardown.objects import Object, Objects, named, waits_for
from contracts.teardown import Kept, Level, Part, Resource, Teardown

SERVICES = "/api/v1/services"
CLAIMS, VOLUMES, PODS = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes", "/api/v1/pods"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"
ENDPOINTS = {
    "InferenceEndpointConfig": "/apis/inference.sagemaker.aws.amazon.com/v1/inferenceendpointconfigs",
    "JumpStartModel": "/apis/inference.sagemaker.aws.amazon.com/v1/jumpstartmodels",
}
"""What the HyperPod inference operator serves: with a SageMaker endpoint and a load balancer."""
CLOUD_DRIVERS = frozenset({"ebs.csi.aws.com", "fsx.csi.aws.com", "fsx.openzfs.csi.aws.com", "efs.csi.aws.com"})
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

HYPERPOD_CLASS = "HyperpodNodeClass"
NODE_POOLS, NODE_CLAIMS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
NODE_CLASSES = {
    HYPERPOD_CLASS: "/apis/karpenter.sagemaker.amazonaws.com/v1/hyperpodnodeclasses",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
}


class ObjectDeleter:
    """Finds and deletes objects of the cluster's EKS clusters. A resource's ``id`` is ``cluster/path``."""

    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    def find(self, asked: Teardown, part: Part, cluster: str) -> list[tuple[Resource, Object]]:
        """What there is of a part in one EKS cluster, each with the object. Raises where its API does not answer."""
        with self._kubernetes.connect(asked.scope.region, cluster) as api:
            return list(self._found(asked, part, cluster, Objects(api)))

    def delete(self, asked: Teardown, part: Part, cluster: str) -> tuple[list[Resource], list[Kept]]:
        """Begin the deletion of everything of a part; what is there, and the volumes that stay."""
        with self._kubernetes.connect(asked.scope.region, cluster) as api:
            objects = Objects(api)
            found = list(self._found(asked, part, cluster, objects))
            kept = list(self._kept_volumes(asked, objects)) if part is Part.WORKLOADS else []
            for resource, content in found:
                if not content["metadata"].get("deletionTimestamp"):
                    objects.delete(resource.id.removeprefix(cluster))
            return [resource for resource, _ in found], kept

    def running(self, asked: Teardown, cluster: str) -> list[str]:
        """Names of pods that run on the cluster's nodes and are somebody's work."""
        with self._kubernetes.connect(asked.scope.region, cluster) as api:
            return [named(pod) for pod in Objects(api).list(PODS) if _is_work(pod)]

    def _found(self, asked: Teardown, part: Part, cluster: str, objects: Objects) -> Iterator[tuple[Resource, Object]]:
        listed = self._workloads(asked, objects) if part is Part.WORKLOADS else self._pools(asked, objects)
        for kind, path, content in listed:
            yield (
                Resource(part=part, kind=kind, id=f"{cluster}{path}", name=named(content), detail=_detail(content)),
                content,
            )

    def _workloads(self, asked: Teardown, objects: Objects) -> Iterator[tuple[str, str, Object]]:
        # Their operator makes a load balancer anew as long as it is asked for.
        for kind, path in ENDPOINTS.items():
            for endpoint in objects.list(path):
                if not is_kept(asked, named(endpoint)):
                    yield kind, _path(path, endpoint), endpoint
        for service in objects.list(SERVICES):
            hosts = _hosts(service)
            if service["spec"].get("type") == "LoadBalancer" and not self._keeps(asked, service, *hosts):
                yield "Service", _path(SERVICES, service), service
        for ingress in objects.list(INGRESSES):
            if not self._keeps(asked, ingress, *_hosts(ingress)):
                yield "Ingress", _path(INGRESSES, ingress), ingress
        volumes = {volume["metadata"]["name"]: volume for volume in objects.list(VOLUMES) if self._goes(asked, volume)}
        claims = [claim for claim in objects.list(CLAIMS) if (claim.get("spec") or {}).get("volumeName") in volumes]
        yield from _users(objects, claims)
        for claim in claims:
            yield "PersistentVolumeClaim", _path(CLAIMS, claim), claim
        claimed = {claim["spec"]["volumeName"] for claim in claims}
        for name, volume in volumes.items():
            if name not in claimed:
                yield "PersistentVolume", _path(VOLUMES, volume), volume

    def _goes(self, asked: Teardown, volume: Object) -> bool:
        spec = volume["spec"]
        claim = spec.get("claimRef") or {}
        names = [_handle(volume), f"{claim.get('namespace')}/{claim.get('name')}", volume["metadata"]["name"]]
        return (
            _is_provisioned(volume)
            and spec.get("persistentVolumeReclaimPolicy") == "Delete"
            and not is_kept(asked, *names)
        )

    def _kept_volumes(self, asked: Teardown, objects: Objects) -> Iterator[Kept]:
        """Dynamically made volumes that outlive the cluster. One that is only to be kept now is made to be retained."""
        for volume in objects.list(VOLUMES):
            if not _is_provisioned(volume) or self._goes(asked, volume):
                continue
            claim = volume["spec"].get("claimRef") or {}
            why = f"its PersistentVolume is retained (claim {claim.get('namespace')}/{claim.get('name')})"
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                objects.patch(_path(VOLUMES, volume), {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
                why = "named in keep"
            yield Kept(kind="volume", id=_handle(volume), why=why)

    def _keeps(self, asked: Teardown, found: Object, *hosts: str) -> bool:
        return is_kept(asked, named(found), *hosts, *self._balancers(asked, hosts))

    def _balancers(self, asked: Teardown, hosts: tuple[str, ...]) -> list[str]:
        """Names and ARNs of the load balancers behind host names; asked only where something is to be kept."""
        if not asked.spec.keep or not hosts:
            return []
        elb = self._aws.read.elbv2(asked.scope.region)
        return [
            name
            for page in elb.get_paginator("describe_load_balancers").paginate()
            for each in page["LoadBalancers"]
            if each.get("DNSName") in hosts
            for name in (each["LoadBalancerName"], each["LoadBalancerArn"])
        ]

    def _pools(self, asked: Teardown, objects: Objects) -> Iterator[tuple[str, str, Object]]:
        """Karpenter's node pools, claims and classes; at level hyperpod those of HyperPod alone."""
        whole = asked.spec.level.includes(Level.EKS)
        pools = [pool for pool in objects.list(NODE_POOLS) if whole or _class_of(pool) == HYPERPOD_CLASS]
        for pool in pools:
            yield "node pool", _path(NODE_POOLS, pool), pool
        for claim in objects.list(NODE_CLAIMS):
            if whole or _class_of(claim) == HYPERPOD_CLASS:
                yield "node claim", _path(NODE_CLAIMS, claim), claim
        for kind, path in NODE_CLASSES.items():
            if whole or kind == HYPERPOD_CLASS:
                for each in objects.list(path):
                    yield "node class", _path(path, each), each


def _path(collection: str, found: Object) -> str:
    root, _, plural = collection.rpartition("/")
    namespace = found["metadata"].get("namespace")
    place = f"{root}/namespaces/{namespace}" if namespace else root
    return f"{place}/{plural}/{found['metadata']['name']}"


def _hosts(found: Object) -> list[str]:
    ingress = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return [str(each["hostname"]) for each in ingress if each.get("hostname")]


def _detail(found: Object) -> str | None:
    if found["metadata"].get("deletionTimestamp"):
        return waits_for(found)
    storage = (((found.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    return ", ".join(_hosts(found)) or storage


def _class_of(found: Object) -> str:
    spec = found.get("spec") or {}
    holder = (spec.get("template") or {}).get("spec") or spec
    return str((holder.get("nodeClassRef") or {}).get("kind", ""))


def _handle(volume: Object) -> str:
    return str((volume["spec"].get("csi") or {}).get("volumeHandle") or volume["metadata"]["name"])


def _is_provisioned(volume: Object) -> bool:
    """Whether a driver has made it for a claim, in AWS."""
    annotations = volume["metadata"].get("annotations") or {}
    driver = (volume["spec"].get("csi") or {}).get("driver")
    return PROVISIONED_BY in annotations and (driver in CLOUD_DRIVERS or "awsElasticBlockStore" in volume["spec"])


def _is_work(pod: Object) -> bool:
    if (pod.get("status") or {}).get("phase") != "Running" or pod["metadata"]["namespace"] == "kube-system":
        return False
    requests = [
        (container.get("resources") or {}).get("limits") or {} for container in pod["spec"].get("containers") or []
    ]
    return any("nvidia.com/gpu" in each or "aws.amazon.com/neuron" in each for each in requests) or any(
        owner.get("kind") == "Job" for owner in pod["metadata"].get("ownerReferences") or []
    )


def _users(objects: Objects, claims: list[Object]) -> Iterator[tuple[str, str, Object]]:
    """Who runs pods that mount the claims: a claim that is in use does not go. Each pod is followed to the owner that
    would make it anew."""
    wanted = {named(claim) for claim in claims}
    seen: set[str] = set()
    for pod in objects.list(PODS) if wanted else ():
        namespace = pod["metadata"]["namespace"]
        mounts = {
            f"{namespace}/{volume['persistentVolumeClaim']['claimName']}"
            for volume in pod["spec"].get("volumes") or ()
            if volume.get("persistentVolumeClaim")
        }
        # A pod that a template's claim belongs to names it in its volumes, too (ephemeral volumes go with the pod).
        if not mounts & wanted:
            continue
        kind, path, content = _top(objects, pod)
        if path not in seen:
            seen.add(path)
            yield kind, path, content


def _top(objects: Objects, pod: Object) -> tuple[str, str, Object]:
    """The outermost controller of a pod."""
    kind, path, current = "Pod", _path(PODS, pod), pod
    while True:
        owner: Any = next((o for o in current["metadata"].get("ownerReferences") or [] if o.get("controller")), None)
        if owner is None:
            return kind, path, current
        namespace = pod["metadata"]["namespace"]
        above = objects.path_of(owner["apiVersion"], owner["kind"], namespace, owner["name"])
        found = objects.get(above) if above else None
        if above is None or found is None:
            return kind, path, current
        kind, path, current = owner["kind"], above, found
