"""Plans of model servers: what would be made, what is free, and what stands in the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import CREATE_DEPLOYMENT, DELETE_DEPLOYMENT, SCALE_DEPLOYMENT, UPDATE_DEPLOYMENT
from contracts.deployments import (
    APPLY_SERVICES,
    SET_REPLICAS,
    ApplyServices,
    SetReplicas,
)
from contracts.plans import Action
from contracts.problem import ProblemCode
from sandbox.hub.repositories import MEMBER, READER
from tests.activities.conftest import REGION, Sandbox, problem
from tests.activities.serving import TYPE, Servers, furnished
from tests.activities.world import until


@pytest.fixture(scope="module")
def servers(sandbox: Sandbox, activities: Activities) -> Servers:
    return furnished(sandbox)


@pytest.fixture(autouse=True)
def _calm(servers: Servers) -> Iterator[None]:
    yield from servers.calm()


def test_a_plan_shows_what_would_be_made_and_what_is_free(servers: Servers) -> None:
    spec = servers.spec(replicas=3, instance_types=[TYPE])
    draft = servers.plan(CREATE_DEPLOYMENT.name, spec)
    assert draft.blockers == []
    assert [(each.action, each.kind) for each in draft.changes] == [
        (Action.CREATE, "Deployment"),
        (Action.CREATE, "Service"),
    ]
    (room,) = [each for each in draft.checks if each.name == f"room on {TYPE}"]
    assert room.detail == "2 nodes, 8 of 8 GPUs free, room for 8 replicas"
    crowded = servers.plan(CREATE_DEPLOYMENT.name, servers.spec(replicas=10))
    assert crowded.blockers == []
    assert any("2 of 10 replicas find no free GPUs now" in each for each in crowded.warnings)


def test_a_load_balancer_needs_its_controller_and_is_paid_for(servers: Servers) -> None:
    labels = {"app.kubernetes.io/name": "aws-load-balancer-controller"}
    container = {"name": "controller", "image": "public.ecr.aws/eks/aws-load-balancer-controller:v2.13.2"}
    body = {
        "metadata": {"name": "balancing", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    spec = servers.spec(service="public")
    with servers.api() as api:
        apps = client.AppsV1Api(api)
        apps.create_namespaced_deployment("kube-system", body)
        until(lambda: bool(apps.read_namespaced_deployment("balancing", "kube-system").status.available_replicas))
        draft = servers.plan(CREATE_DEPLOYMENT.name, spec)
        apps.delete_namespaced_deployment("balancing", "kube-system")
    assert (draft.blockers, draft.hourly) == ([], {"load-balancer": 1})
    assert [each.field for each in servers.plan(CREATE_DEPLOYMENT.name, spec).blockers] == ["/service"]


def test_a_plan_of_what_is_there_already_changes_nothing(servers: Servers) -> None:
    spec = servers.spec()
    servers.apply(spec)
    servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec))
    draft = servers.plan(CREATE_DEPLOYMENT.name, spec)
    assert (draft.blockers, {each.action for each in draft.changes}) == ([], {Action.NOTHING})
    other = servers.blocked(servers.spec(spec.name, gpu_count=2))
    assert other[0][0] == "/name"
    assert "gpu_count is 1, asked is 2" in other[0][1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gpu_count": 8, "command": "vllm serve Qwen/Qwen3-0.6B --port 8000 -dp 8"}, "/gpu_count"),
        ({"gpu_count": 8, "instance_types": [TYPE]}, "/gpu_count"),
        ({"command": "vllm serve Qwen/Qwen3-0.6B --port 9000"}, "/command"),
        ({"command": "vllm serve Qwen/Qwen3-0.6B --port 8000 -tp 4"}, "/command"),
        ({"namespace": "nowhere"}, "/namespace"),
        ({"credential": "missing"}, "/credential"),
        ({"secret_env": {"KEY": "missing"}}, "/secret_env/KEY"),
        ({"storage": [{"claim": "missing"}]}, "/storage/0/claim"),
        ({"command": "vllm serve /s3/models/x --port 8000"}, "/command"),
        ({"service": "public"}, "/service"),
        ({"instance_types": ["ml.g5.99xlarge"]}, "/instance_types/0"),
        ({"image": "lmsysorg/sglang:v0.5.13"}, "/image"),
        ({"efa": 1, "instance_types": ["ml.g5.xlarge"]}, "/efa"),
        ({"resources": {"cpu": 500}}, "/resources/cpu"),
        ({"resources": {"memory_gib": 9000}}, "/resources/memory_gib"),
        ({"gpu_count": 0, "resources": {"memory_gib": 9000}}, "/resources/memory_gib"),
        ({"served_model": "chat"}, "/served_model"),
    ],
)
def test_a_plan_finds_what_stands_in_the_way(servers: Servers, changes: dict[str, Any], field: str) -> None:
    assert field in [each for each, _ in servers.blocked(servers.spec(**changes))]


def test_a_plan_knows_the_model_in_the_bucket(servers: Servers) -> None:
    bucket = servers.world.bucket.name
    s3 = servers.activities.aws.act.s3(REGION)
    config = {"num_attention_heads": 40, "hidden_size": 5120, "num_hidden_layers": 48, "max_position_embeddings": 4096}
    s3.put_object(Bucket=bucket, Key="models/m/config.json", Body=json.dumps(config).encode())
    s3.put_object(Bucket=bucket, Key="models/m/model.safetensors", Body=b"0" * 1024)
    with servers.api() as api:
        core = client.CoreV1Api(api)
        storage: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        csi = {"driver": "s3.csi.aws.com", "volumeHandle": "h", "volumeAttributes": {"bucketName": bucket}}
        core.create_persistent_volume(
            {"metadata": {"name": "v"}, "spec": {**storage, "capacity": {"storage": "1Gi"}, "csi": csi}}
        )
        core.create_namespaced_persistent_volume_claim(
            "default",
            {
                "metadata": {"name": "models"},
                "spec": {**storage, "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
            },
        )
    mounted = {"storage": [{"claim": "models", "mount_path": "/models"}]}
    line = "vllm serve /models/models/m --port 8000 --max-model-len 8192 -tp 3"
    found = servers.blocked(servers.spec(command=line, gpu_count=3, **mounted))
    assert any("40 attention heads" in detail for _, detail in found)
    assert any("4096 positions" in detail for _, detail in found)
    missing = servers.plan(
        CREATE_DEPLOYMENT.name, servers.spec(command="vllm serve /models/none --port 8000", **mounted)
    )
    assert any("holds nothing" in each for each in missing.warnings)


def test_a_plan_knows_the_model_at_the_hub(servers: Servers) -> None:
    asked = {"command": "vllm serve meta-llama/Llama-3.1-8B-Instruct --port 8000"}
    gated = servers.plan(CREATE_DEPLOYMENT.name, servers.spec(**asked))
    assert any("is given only to who has asked its owner" in each for each in gated.warnings)
    with servers.api() as api:
        for name, token in (("reader", READER), ("member", MEMBER)):
            secret = {"metadata": {"name": f"instantstart-credential-{name}"}, "stringData": {"token": token}}
            client.CoreV1Api(api).create_namespaced_secret("default", secret)
    reader = servers.plan(CREATE_DEPLOYMENT.name, servers.spec(**asked, credential="reader"))
    assert any("credential reader has not been admitted" in each for each in reader.warnings)
    member = servers.plan(CREATE_DEPLOYMENT.name, servers.spec(**asked, credential="member"))
    assert not any("admitted" in each for each in member.warnings)


def test_an_update_without_spare_gpus_is_warned_of_with_a_way_out(servers: Servers) -> None:
    spec = servers.spec(command="vllm serve Qwen/Qwen3-0.6B --port 8000 -dp 4", gpu_count=4, replicas=2)
    servers.serve(spec)
    changed = {**spec.model_dump(mode="json"), "env": {"A": "1"}}
    draft = servers.plan(UPDATE_DEPLOYMENT.name, changed)
    assert any('strategy "recreate"' in each for each in draft.warnings)
    gap = servers.plan(UPDATE_DEPLOYMENT.name, {**changed, "strategy": "recreate"})
    assert any(each.startswith("nothing answers") for each in gap.warnings)
    assert not any("find no free GPUs" in each for each in gap.warnings)
    same = servers.plan(UPDATE_DEPLOYMENT.name, spec)
    assert {each.action for each in same.changes} == {Action.NOTHING}
    hidden = servers.plan(UPDATE_DEPLOYMENT.name, {**spec.model_dump(mode="json"), "service": "none"})
    assert [(each.action, each.kind) for each in hidden.changes] == [
        (Action.CHANGE, "Deployment"),
        (Action.DELETE, "Service"),
    ]


def test_scaling_is_planned_and_refused_where_an_autoscaler_decides(servers: Servers) -> None:
    spec = servers.spec()
    servers.apply(spec)
    scale = {"name": spec.name, "replicas": 3}
    draft = servers.plan(SCALE_DEPLOYMENT.name, scale)
    assert [(each.before, each.after) for each in draft.changes] == [(1, 3)]
    scaler = {
        "metadata": {"name": "auto"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.name},
            "minReplicas": 1,
            "maxReplicas": 5,
        },
    }
    with servers.api() as api:
        autoscaling = client.AutoscalingV2Api(api)
        autoscaling.create_namespaced_horizontal_pod_autoscaler("default", scaler)
        try:
            (blocker,) = servers.plan(SCALE_DEPLOYMENT.name, scale).blockers
            assert (blocker.field, "HorizontalPodAutoscaler auto" in blocker.detail) == ("/replicas", True)
            (blocker,) = servers.plan(DELETE_DEPLOYMENT.name, {"name": spec.name}).blockers
            assert blocker.code is ProblemCode.CONFLICT
            with pytest.raises(ApplicationError) as caught:
                servers.run(SET_REPLICAS, SetReplicas(**servers.ref(spec).model_dump(), replicas=3))
            assert problem(caught).code is ProblemCode.CONFLICT
        finally:
            autoscaling.delete_namespaced_horizontal_pod_autoscaler("auto", "default")


def test_nodes_that_take_no_such_replica_do_not_count(servers: Servers) -> None:
    taint = {"key": "example.com/reserved", "effect": "NoSchedule"}
    with servers.api() as api:
        core = client.CoreV1Api(api)
        core.patch_node("node-2", {"spec": {"taints": [taint]}})
        try:
            draft = servers.plan(CREATE_DEPLOYMENT.name, servers.spec())
        finally:
            core.patch_node("node-2", {"spec": {"taints": []}})
    (room,) = [each for each in draft.checks if each.name.startswith("room on")]
    assert (room.detail or "").startswith("1 node, 4 of 4 GPUs free")


@pytest.mark.parametrize("kind", [UPDATE_DEPLOYMENT, SCALE_DEPLOYMENT, DELETE_DEPLOYMENT])
def test_what_is_not_there_is_told_with_what_is(servers: Servers, kind: Any) -> None:
    there = servers.spec()
    servers.apply(there)
    spec: Any = servers.spec("nobody") if kind is UPDATE_DEPLOYMENT else {"name": "nobody"}
    given = {**spec, "replicas": 1} if kind is SCALE_DEPLOYMENT else spec
    (blocker,) = servers.plan(kind.name, given).blockers
    assert blocker.code is ProblemCode.NOT_FOUND
    assert there.name in blocker.detail
