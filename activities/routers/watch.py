"""Watching routers: until they list their servers, or are gone."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from kubernetes import client
from temporalio import activity

from activities.inference.proxy import Upstream
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw, items
from activities.polling import Memory, Seen, wait_until
from activities.routers import objects
from activities.routers.manifests import selector_of
from activities.settings import Settings
from contracts.routers import (
    WAIT_FOR_ROUTER_GONE,
    WAIT_FOR_ROUTER_WORKERS,
    RouterGone,
    RouterRef,
    WatchWorkers,
    Worker,
    WorkersListed,
)
from contracts.words import number_of, some

SHOWN = 3


class RouterWaits:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=WAIT_FOR_ROUTER_WORKERS.name)
    async def wait_for_workers(self, request: WatchWorkers) -> WorkersListed:
        """Until every pod of the router lists every ready pod of its target, and at least one."""

        def look(memory: Memory) -> Seen[WorkersListed]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                wanted = objects.ready(objects.targets(api, request.namespace, request.target))
                own = objects.ready(pods_of(api, request.namespace, request.name))
                if not wanted:
                    return Seen(f"no pod of {request.target.words} is ready")
                if not own:
                    return Seen("no pod of the router is ready")
                for pod in own:
                    upstream = Upstream(request.namespace, pod["metadata"]["name"], request.port, "pods")
                    listed = objects.workers_of(api, upstream)
                    if listed is None:
                        return Seen(f"{upstream.name} does not say which servers it sees")
                    missing = [each for each in wanted if not _sees(listed, each)]
                    if missing:
                        unseen = ", ".join(each["metadata"]["name"] for each in missing[:SHOWN])
                        return Seen(f"{upstream.name} sees {len(wanted) - len(missing)} of {len(wanted)}: not {unseen}")
            names = [each["metadata"]["name"] for each in wanted]
            return Seen(f"it sees {number_of(len(wanted), 'server')}", WorkersListed(workers=len(wanted), pods=names))

        return await wait_until(
            look,
            what="a router that sees its servers",
            limit=WAIT_FOR_ROUTER_WORKERS.limit,
            poll_seconds=self._settings.poll_seconds,
        )

    @activity.defn(name=WAIT_FOR_ROUTER_GONE.name)
    async def wait_until_gone(self, request: RouterRef) -> RouterGone:
        """Until nothing is left of it: pods, Services with their load balancers, account, Role and binding."""

        def look(memory: Memory) -> Seen[RouterGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                left = [
                    f"{part.kind} {each['metadata']['name']}"
                    for part, each in objects.all_of(api, request.namespace, request.name)
                ]
                left += [each["metadata"]["name"] for each in pods_of(api, request.namespace, request.name)]
            if not left:
                result = RouterGone(name=request.name, namespace=request.namespace)
                return Seen(f"{request.name} is gone", result)
            return Seen(f"still there: {some(left, SHOWN)}")

        return await wait_until(
            look,
            what="the end of the router",
            limit=WAIT_FOR_ROUTER_GONE.limit,
            poll_seconds=self._settings.poll_seconds,
        )


def pods_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    wanted = ",".join(f"{key}={value}" for key, value in selector_of(name).items())
    return list(items(partial(client.CoreV1Api(api).list_namespaced_pod, namespace), label_selector=wanted))


def _sees(listed: list[Worker], pod: Raw) -> bool:
    """Whether the pod is among a router's servers, and not known to be ill."""
    return any(each.healthy is not False and address_of(each) == _address(pod) for each in listed)


def address_of(worker: Worker) -> str | None:
    return urlsplit(worker.url).hostname


def _address(pod: Raw) -> str | None:
    return (pod.get("status") or {}).get("podIP")


def with_pods(listed: list[Worker], pods: list[Raw]) -> list[Worker]:
    """A router's servers, each with the pod that has its address."""
    names = {_address(pod): pod["metadata"]["name"] for pod in pods}
    return [each.model_copy(update={"pod": names.get(address_of(each))}) for each in listed]
