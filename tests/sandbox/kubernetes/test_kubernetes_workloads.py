"""Workloads run on the sandbox's clock: pods, what makes them, what they mount, and where they may go."""

from __future__ import annotations

from typing import Any

from kubernetes import client, watch
from kubernetes_support import Standalone, deployment, wait_for


def job(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def conditions(obj: Any) -> dict[str, str]:
    return {c.type: c.status for c in obj.status.conditions or []}


def test_deployment_rolls_out_and_back(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("web", 3))

    def settled(image: str) -> bool:
        found = apps.read_namespaced_deployment("web", namespace)
        status = found.status
        pods = core.list_namespaced_pod(namespace).items
        return (
            status.observed_generation == found.metadata.generation
            and status.updated_replicas == status.available_replicas == status.replicas == 3
            and {pod.spec.containers[0].image for pod in pods} == {image}
        )

    wait_for(lambda: settled("nginx:1"))
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}
    apps.patch_namespaced_deployment("web", namespace, change)
    wait_for(lambda: settled("nginx:2"))
    found = apps.read_namespaced_deployment("web", namespace)
    assert found.metadata.annotations["deployment.kubernetes.io/revision"] == "2"
    assert conditions(found) == {"Available": "True", "Progressing": "True"}
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    wait_for(lambda: len(core.list_namespaced_pod(namespace).items) == 1)


def test_job_succeeds_with_logs(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    batch.create_namespaced_job(namespace, job("j", {"sandbox/log": "hello\nworld"}))
    wait_for(lambda: conditions(batch.read_namespaced_job("j", namespace)).get("Complete") == "True")
    (pod,) = core.list_namespaced_pod(namespace, label_selector="job-name=j").items
    assert pod.status.phase == "Succeeded"
    text = core.read_namespaced_pod_log(pod.metadata.name, namespace)
    assert text.splitlines() == ["hello", "world", "exit 0"]
    followed = watch.Watch().stream(core.read_namespaced_pod_log, pod.metadata.name, namespace)
    assert list(followed) == ["hello", "world", "exit 0"]
    assert core.read_namespaced_pod_log(pod.metadata.name, namespace, tail_lines=1).strip() == "exit 0"


def test_job_fails_after_its_retries(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    batch.create_namespaced_job(
        namespace, job("j", {"sandbox/exit-code": "3", "sandbox/run-seconds": "1"}, backoffLimit=1)
    )
    wait_for(lambda: conditions(batch.read_namespaced_job("j", namespace)).get("Failed") == "True")
    found = batch.read_namespaced_job("j", namespace)
    assert found.status.failed == 2
    assert {p.status.phase for p in core.list_namespaced_pod(namespace).items} == {"Failed"}


def test_stateful_set_keeps_order_and_claims(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_stateful_set(
        namespace,
        {
            "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db",
                "replicas": 2,
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "main", "image": "db:1"}]},
                },
            },
        },
    )
    wait_for(lambda: apps.read_namespaced_stateful_set("db", namespace).status.ready_replicas == 2)
    names = [pod.metadata.name for pod in core.list_namespaced_pod(namespace).items]
    assert names == ["db-0", "db-1"]


def test_daemon_set_runs_on_each_node(api: client.ApiClient, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_daemon_set(
        namespace,
        {
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
                },
            },
        },
    )
    wait_for(lambda: apps.read_namespaced_daemon_set("agent", namespace).status.number_available)
    status = apps.read_namespaced_daemon_set("agent", namespace).status
    assert status.desired_number_scheduled == status.number_ready == status.updated_number_scheduled


def test_unschedulable_says_why(core: client.CoreV1Api, namespace: str) -> None:
    pod = {
        "metadata": {"name": "big"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
    }
    core.create_namespaced_pod(namespace, pod)
    wait_for(lambda: core.list_namespaced_event(namespace, field_selector="reason=FailedScheduling").items)
    (event,) = core.list_namespaced_event(namespace, field_selector="reason=FailedScheduling").items
    assert event.message.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert event.type == "Warning"


def test_claim_binds_to_its_volume_and_mounts_with_its_driver(
    api: client.ApiClient, core: client.CoreV1Api, namespace: str
) -> None:
    core.create_persistent_volume(
        {
            "metadata": {"name": f"pv-{namespace}"},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "csi": {"driver": "s3.csi.aws.com", "volumeHandle": "bucket"},
            },
        }
    )
    core.create_namespaced_persistent_volume_claim(
        namespace,
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": f"pv-{namespace}",
                "resources": {"requests": {"storage": "10Gi"}},
            },
        },
    )
    wait_for(lambda: core.read_namespaced_persistent_volume_claim("data", namespace).status.phase == "Bound")
    assert core.read_persistent_volume(f"pv-{namespace}").spec.claim_ref.name == "data"
    core.create_namespaced_pod(
        namespace,
        {
            "metadata": {"name": "reader"},
            "spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
                "containers": [{"name": "main", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
            },
        },
    )
    wait_for(lambda: core.list_namespaced_event(namespace, field_selector="reason=FailedMount").items)
    assert core.read_namespaced_pod("reader", namespace).status.phase == "Pending"
    client.StorageV1Api(api).create_csi_driver(
        {"metadata": {"name": "s3.csi.aws.com"}, "spec": {"attachRequired": False}}
    )
    wait_for(lambda: core.read_namespaced_pod("reader", namespace).status.phase == "Running")
    core.delete_namespaced_persistent_volume_claim("data", namespace)
    assert core.read_namespaced_persistent_volume_claim("data", namespace).metadata.finalizers == [
        "kubernetes.io/pvc-protection"
    ]
    core.delete_namespaced_pod("reader", namespace)
    wait_for(lambda: not core.list_namespaced_persistent_volume_claim(namespace).items)
    wait_for(lambda: core.read_persistent_volume(f"pv-{namespace}").status.phase == "Released")


def test_service_finds_its_endpoints(api: client.ApiClient, core: client.CoreV1Api, namespace: str) -> None:
    client.AppsV1Api(api).create_namespaced_deployment(namespace, deployment("web", 2))
    core.create_namespaced_service(
        namespace, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    )

    def addresses() -> int:
        found = core.list_namespaced_endpoints(namespace, field_selector="metadata.name=web").items
        return len(found[0].subsets[0].addresses or []) if found and found[0].subsets else 0

    wait_for(lambda: addresses() == 2)
    slices = client.DiscoveryV1Api(api).list_namespaced_endpoint_slice(namespace).items
    assert [e.conditions.ready for e in slices[0].endpoints] == [True, True]


def test_pods_of_a_lost_node_start_elsewhere(
    api: client.ApiClient, core: client.CoreV1Api, standalone: Standalone, namespace: str
) -> None:
    label = {"only": namespace}
    for name in ("lost", "spare"):
        core.create_node({"metadata": {"name": f"{name}-{namespace}", "labels": label}})
    core.patch_node(f"spare-{namespace}", {"spec": {"unschedulable": True}})
    client.AppsV1Api(api).create_namespaced_deployment(namespace, deployment("web", 1, nodeSelector=label))

    def nodes() -> set[str | None]:
        return {p.spec.node_name for p in core.list_namespaced_pod(namespace).items if p.status.phase == "Running"}

    wait_for(lambda: nodes() == {f"lost-{namespace}"})
    core.patch_node(f"spare-{namespace}", {"spec": {"unschedulable": False}})
    core.delete_node(f"lost-{namespace}")
    wait_for(lambda: nodes() == {f"spare-{namespace}"})
    core.delete_node(f"spare-{namespace}")


def test_eviction_respects_the_budget(
    api: client.ApiClient, core: client.CoreV1Api, standalone: Standalone, namespace: str
) -> None:
    client.AppsV1Api(api).create_namespaced_deployment(namespace, deployment("web", 1))
    client.PolicyV1Api(api).create_namespaced_pod_disruption_budget(
        namespace,
        {"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
    )
    wait_for(lambda: [p for p in core.list_namespaced_pod(namespace).items if p.status.phase == "Running"])
    name = core.list_namespaced_pod(namespace).items[0].metadata.name
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    wait_for(lambda: standalone.request("POST", path, body)[0] == 429)
    client.PolicyV1Api(api).delete_namespaced_pod_disruption_budget("pdb", namespace)
    assert standalone.request("POST", path, body)[0] == 201


def test_pods_that_cannot_be_made_do_not_keep_the_controllers_busy(
    standalone: Standalone, api: client.ApiClient, namespace: str
) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, deployment("bad", serviceAccountName="none"))

    def failure() -> Any:
        sets = apps.list_namespaced_replica_set(namespace).items
        conditions = sets[0].status.conditions if sets else None
        return conditions[0] if conditions else None

    found = wait_for(failure)
    assert found.reason == "FailedCreate"
    assert 'serviceaccount "none" not found' in found.message
    revision = standalone.cluster.store.revision
    apps.create_namespaced_deployment(namespace, deployment("good"))
    wait_for(lambda: apps.read_namespaced_deployment("good", namespace).status.available_replicas == 1)
    assert standalone.cluster.store.revision - revision < 500
