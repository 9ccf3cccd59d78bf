"""Deployments of servers that take time to load: rollouts, their limits, their failures and the way back."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from kubernetes_support import Tools, wait_for
from serving_support import MODEL, Models, server

UPDATE = [MODEL, "--max-model-len", "4096"]


def change(args: list[str], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "args": args}]
    return {"spec": {"template": {"spec": {"containers": containers}}, **spec}}


def rolling(surge: int, unavailable: int) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def progressing(models: Models, name: str) -> tuple[str, str]:
    conditions = models.deployment(name).status.conditions or []
    return next(((c.status, c.reason) for c in conditions if c.type == "Progressing"), ("", ""))


def settled(models: Models, name: str) -> bool:
    found = models.deployment(name)
    wanted, status = found.spec.replicas, found.status
    counts = (status.replicas, status.updated_replicas, status.available_replicas)
    return counts == (wanted, wanted, wanted) and status.observed_generation == found.metadata.generation


def test_without_unavailable_pods_the_old_server_stays_until_the_new_one_is_ready(models: Models) -> None:
    manifest = server("chat", replicas=2)
    manifest["spec"]["strategy"] = rolling(1, 0)
    models.deploy(manifest, ready=2)
    seen: set[tuple[int, int]] = set()
    models.apps.patch_namespaced_deployment("chat", models.namespace, change(UPDATE))

    def done() -> bool:
        pods = [p for p in models.pods("chat") if p.metadata.deletion_timestamp is None]
        ready = sum(bool(p.status.container_statuses and p.status.container_statuses[0].ready) for p in pods)
        seen.add((len(pods), ready))
        return settled(models, "chat") and models.ask("chat", "/v1/models")[1]["data"][0]["max_model_len"] == 4096

    wait_for(done)
    assert max(total for total, _ in seen) == 3
    assert min(ready for _, ready in seen) >= 2


def test_a_rollout_that_cannot_succeed_times_out_and_is_undone(models: Models, tools: Tools) -> None:
    manifest = server("chat")
    manifest["spec"] |= {"strategy": rolling(1, 0), "progressDeadlineSeconds": 120}
    models.deploy(manifest, ready=1)
    assert progressing(models, "chat") == ("True", "NewReplicaSetAvailable")
    models.apps.patch_namespaced_deployment("chat", models.namespace, change([MODEL, "--no-such-flag"]))
    wait_for(lambda: progressing(models, "chat") == ("False", "ProgressDeadlineExceeded"))
    assert models.chat("chat")[0] == 200
    failed = tools.kubectl("rollout", "status", "deployment/chat", "-n", models.namespace, ok=False)
    assert "exceeded its progress deadline" in failed
    tools.kubectl("rollout", "undo", "deployment/chat", "-n", models.namespace)
    wait_for(lambda: settled(models, "chat"))
    assert models.deployment("chat").metadata.annotations["deployment.kubernetes.io/revision"] == "3"
    assert progressing(models, "chat") == ("True", "NewReplicaSetAvailable")
    sets = models.apps.list_namespaced_replica_set(models.namespace).items
    assert sorted(s.spec.replicas for s in sets) == [0, 1]


def test_a_rollout_that_is_over_does_not_time_out_when_its_pods_fail(models: Models) -> None:
    manifest = server("chat")
    manifest["spec"]["progressDeadlineSeconds"] = 60
    models.deploy(manifest, ready=1)
    models.spoil("crash_loop", deployment="chat")
    models.wait_waiting("chat", "CrashLoopBackOff")
    wait_for(lambda: not models.deployment("chat").status.available_replicas)
    models.standalone.clock.advance(300)
    assert progressing(models, "chat") == ("True", "NewReplicaSetAvailable")


def test_without_room_for_a_surge_a_rollout_waits_for_gpus(models: Models) -> None:
    manifest = server("chat", gpus=8)
    manifest["spec"]["strategy"] = rolling(1, 0)
    models.deploy(manifest, ready=1)
    models.apps.patch_namespaced_deployment("chat", models.namespace, change(UPDATE))
    message = wait_for(lambda: models.events("FailedScheduling"))[0]
    total = len(models.core.list_node().items)
    assert message.startswith(f"0/{total} nodes are available: {total} Insufficient nvidia.com/gpu. preemption: ")
    assert f"{total} No preemption victims found for incoming pod." in message
    patch = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    models.apps.patch_namespaced_deployment("chat", models.namespace, patch)
    wait_for(lambda: settled(models, "chat"))


def test_a_pod_is_available_after_it_has_been_ready_for_long_enough(models: Models) -> None:
    manifest = server("chat")
    manifest["spec"]["minReadySeconds"] = 400
    models.deploy(manifest)
    wait_for(lambda: models.deployment("chat").status.ready_replicas == 1)
    status = models.deployment("chat").status
    assert (status.available_replicas, status.unavailable_replicas) == (None, 1)
    models.standalone.clock.advance(400)
    wait_for(lambda: models.deployment("chat").status.available_replicas == 1)
    wait_for(lambda: progressing(models, "chat") == ("True", "NewReplicaSetAvailable"))


def test_scale_is_read_and_written_with_its_selector(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    scale = models.apps.read_namespaced_deployment_scale("chat", models.namespace)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (1, 1, "app=chat")
    models.apps.patch_namespaced_deployment_scale("chat", models.namespace, {"spec": {"replicas": 3}})
    models.wait_ready("chat", 3)
    models.apps.patch_namespaced_deployment_scale("chat", models.namespace, {"spec": {"replicas": 0}})
    wait_for(lambda: models.endpoints("chat") == [])
    wait_for(lambda: not models.pods("chat"))


def test_a_model_is_served_from_a_volume_of_fsx(models: Models, api: client.ApiClient) -> None:
    volume = f"fsx-{models.namespace}"
    wish = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    csi = {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-1", "volumeAttributes": {"mountname": "abc"}}
    capacity = {"capacity": {"storage": "1200Gi"}}
    models.core.create_persistent_volume({"metadata": {"name": volume}, "spec": {**wish, **capacity, "csi": csi}})
    claim = {**wish, "volumeName": volume, "resources": {"requests": {"storage": "1200Gi"}}}
    models.core.create_namespaced_persistent_volume_claim(
        models.namespace, {"metadata": {"name": "fsx"}, "spec": claim}
    )
    manifest = server("chat", "/fsx/models/qwen3-0.6b", volumeMounts=[{"name": "fsx", "mountPath": "/fsx"}])
    pod = manifest["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "fsx", "persistentVolumeClaim": {"claimName": "fsx"}}]
    models.deploy(manifest)
    wait_for(lambda: any("fsx.csi.aws.com not found" in message for message in models.events("FailedMount")))
    driver = {"metadata": {"name": "fsx.csi.aws.com"}, "spec": {"attachRequired": False}}
    client.StorageV1Api(api).create_csi_driver(driver)
    models.wait_ready("chat", 1)
    assert models.chat("chat")[1]["model"] == "/fsx/models/qwen3-0.6b"


def test_autoscalers_of_pods_are_kept(models: Models, api: client.ApiClient) -> None:
    scaling = client.AutoscalingV2Api(api)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    body = {"metadata": {"name": "chat"}, "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}}
    scaling.create_namespaced_horizontal_pod_autoscaler(models.namespace, body)
    found = scaling.read_namespaced_horizontal_pod_autoscaler("chat", models.namespace)
    assert found.spec.max_replicas == 3


def test_of_ready_pods_those_of_low_deletion_cost_go_first(models: Models) -> None:
    models.deploy(server("chat", replicas=3), ready=3)
    dear, *others = [pod.metadata.name for pod in models.pods("chat")]
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}}
    models.core.patch_namespaced_pod(dear, models.namespace, cost)
    models.apps.patch_namespaced_deployment_scale("chat", models.namespace, {"spec": {"replicas": 1}})
    wait_for(lambda: len(models.pods("chat")) == 1)
    assert [pod.metadata.name for pod in models.pods("chat")] == [dear]
    assert others
