"""Ray clusters for people on a cluster of the sandbox: planned, made until their heads answer, and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import CREATE_RAY_CLUSTER, DELETE_RAY_CLUSTER
from contracts.plans import Action
from contracts.problem import ProblemCode
from contracts.ray_clusters import (
    APPLY_RAY_CLUSTER,
    LIST_RAY_CLUSTERS,
    READ_RAY_CLUSTER,
    START_RAY_CLUSTER_DELETION,
    WAIT_FOR_DASHBOARD,
    WAIT_FOR_RAY_CLUSTER,
    WAIT_FOR_RAY_CLUSTER_GONE,
    ApplyRayCluster,
    DashboardAnswered,
    ListRayClusters,
    RayClusterDetail,
    RayClusterObject,
    RayClusterRef,
    RayClusterRuns,
    RayClusterSpec,
    RayClusterState,
    ReadRayCluster,
    WatchDashboard,
    WatchRayCluster,
)
from tests.activities.conftest import Sandbox, problem
from tests.activities.ray_world import OPERATOR, with_kuberay
from tests.activities.serving import TYPE, Servers


@pytest.fixture(scope="module")
def servers(sandbox: Sandbox, activities: Activities) -> Servers:
    return with_kuberay(sandbox)


@pytest.fixture(autouse=True)
def _calm(servers: Servers) -> Iterator[None]:
    servers.fortune()
    yield
    servers.fortune()
    servers.sandbox.fault()
    for view in servers.run(LIST_RAY_CLUSTERS, ListRayClusters(**servers.place)).ray_clusters:
        delete(servers, spec(view.name, namespace=view.namespace))


def spec(name: str = "notebooks", **more: Any) -> RayClusterSpec:
    return RayClusterSpec.model_validate({"name": name, "gpus_per_worker": 1, **more})


def place(servers: Servers, asked: RayClusterSpec) -> dict[str, Any]:
    return {**servers.place, "name": asked.name, "namespace": asked.namespace}


def apply(
    servers: Servers, asked: RayClusterSpec, run: str = "create-ray-cluster/serving/notebooks"
) -> RayClusterObject:
    servers.run.operation = run
    return servers.run(APPLY_RAY_CLUSTER, ApplyRayCluster(**servers.place, spec=asked))


def wait(servers: Servers, asked: RayClusterSpec) -> RayClusterRuns:
    watched = WatchRayCluster(**place(servers, asked), generation=1, workers=asked.workers)
    return servers.run(WAIT_FOR_RAY_CLUSTER, watched)


def answered(servers: Servers, asked: RayClusterSpec, version: str | None = None) -> DashboardAnswered:
    return servers.run(WAIT_FOR_DASHBOARD, WatchDashboard(**place(servers, asked), ray_version=version))


def delete(servers: Servers, asked: RayClusterSpec) -> None:
    servers.run(START_RAY_CLUSTER_DELETION, RayClusterRef(**place(servers, asked)))
    servers.run(WAIT_FOR_RAY_CLUSTER_GONE, RayClusterRef(**place(servers, asked)))


def read(servers: Servers, asked: RayClusterSpec) -> RayClusterDetail:
    return servers.run(READ_RAY_CLUSTER, ReadRayCluster(**place(servers, asked)))


def blocked(servers: Servers, asked: RayClusterSpec) -> list[tuple[str, str]]:
    return [(each.field, each.detail) for each in servers.plan(CREATE_RAY_CLUSTER.name, asked).blockers]


def test_it_is_made_until_its_head_answers_and_deleted_without_a_trace(servers: Servers) -> None:
    asked = spec(workers=2)
    plan = servers.plan(CREATE_RAY_CLUSTER.name, asked)
    assert (plan.blockers, [each.action for each in plan.changes]) == ([], [Action.CREATE])
    assert "it holds 2 GPUs until it is deleted, whether something runs on it or not" in plan.warnings
    assert apply(servers, asked).changed
    runs = wait(servers, asked)
    assert runs.workers == 2
    found = answered(servers, asked, "2.52.0")
    assert (found.ray_version, found.note) == ("2.52.0", None)
    assert found.address == "http://notebooks-head-svc.default.svc:8265"
    assert not apply(servers, asked).changed, "made once, and nothing else when it is asked for again"
    (view,) = servers.run(LIST_RAY_CLUSTERS, ListRayClusters(**servers.place)).ray_clusters
    assert (view.state, view.ready, view.head_ready, view.gpus) == (RayClusterState.READY, 2, True, 2)
    detail = read(servers, asked)
    assert (detail.spec, len(detail.pods)) == (asked, 3)
    assert detail.use is not None
    assert detail.use.note == "nothing has run on it yet; it holds 2 GPUs meanwhile"
    again = servers.plan(CREATE_RAY_CLUSTER.name, asked)
    assert [each.action for each in again.changes] == [Action.NOTHING]
    delete(servers, asked)
    with servers.api() as api:
        core = client.CoreV1Api(api)
        assert core.list_namespaced_pod("default", label_selector="ray.io/cluster=notebooks").items == []
    assert servers.plan(DELETE_RAY_CLUSTER.name, {"name": "notebooks"}).blockers[0].code is ProblemCode.NOT_FOUND
    delete(servers, asked)  # Absent is done.


def test_its_service_is_inside_the_cluster_only_and_nothing_leads_in_from_outside(servers: Servers) -> None:
    asked = spec("inside", workers=0, gpus_per_worker=0)
    apply(servers, asked)
    wait(servers, asked)
    with servers.api() as api:
        core = client.CoreV1Api(api)
        services = core.list_namespaced_service("default", label_selector="ray.io/cluster=inside").items
        assert [each.spec.type for each in services] == ["ClusterIP"]
        assert client.NetworkingV1Api(api).list_namespaced_ingress("default").items == []


def test_another_operation_does_not_change_what_is_there(servers: Servers) -> None:
    apply(servers, spec())
    with pytest.raises(ApplicationError) as caught:
        apply(servers, spec(workers=2), "create-ray-cluster/serving/other")
    assert problem(caught).code is ProblemCode.CONFLICT
    assert "workers is 1, asked is 2" in problem(caught).detail
    assert [field for field, _ in blocked(servers, spec(workers=2))] == ["/name"]


def test_a_ray_cluster_of_others_is_left_alone(servers: Servers) -> None:
    body: Any = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "theirs"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.9.0"}]}}}
        },
    }
    with servers.api() as api:
        custom = client.CustomObjectsApi(api)
        custom.create_namespaced_custom_object("ray.io", "v1", "default", "rayclusters", body)
    try:
        with pytest.raises(ApplicationError) as caught:
            apply(servers, spec("theirs"))
        assert problem(caught).code is ProblemCode.FOREIGN
        with pytest.raises(ApplicationError) as caught:
            servers.run(START_RAY_CLUSTER_DELETION, RayClusterRef(**place(servers, spec("theirs"))))
        assert problem(caught).code is ProblemCode.FOREIGN
        assert servers.run(LIST_RAY_CLUSTERS, ListRayClusters(**servers.place)).ray_clusters == []
        assert [field for field, _ in blocked(servers, spec("theirs"))] == ["/name"]
    finally:
        with servers.api() as api:
            client.CustomObjectsApi(api).delete_namespaced_custom_object(
                "ray.io", "v1", "default", "rayclusters", "theirs"
            )


def test_a_worker_without_a_node_is_told_in_words_and_the_head_waits_for_it(servers: Servers) -> None:
    asked = spec("large", workers=3, gpus_per_worker=4, instance_types=[TYPE])
    assert (
        "1 of 3 workers find no free GPUs now, and wait for them"
        in servers.plan(CREATE_RAY_CLUSTER.name, asked).warnings
    )
    apply(servers, asked)
    with pytest.raises(ApplicationError) as caught:
        wait(servers, asked)
    found = problem(caught)
    assert found.code is ProblemCode.CAPACITY
    assert found.detail.startswith("head ready, 2 of 3 workers ready: no node takes a pod: ")
    view = read(servers, asked).ray_cluster
    assert (view.state, view.reason) == (RayClusterState.DEGRADED, "Unschedulable")


def test_an_image_that_is_not_there_is_a_problem_of_the_image(servers: Servers) -> None:
    servers.misfortune(fault="image_pull")
    asked = spec("lost", image="nowhere.example.com/ray:2.52.0")
    apply(servers, asked)
    with pytest.raises(ApplicationError) as caught:
        wait(servers, asked)
    assert problem(caught).field == "/image"
    assert read(servers, asked).ray_cluster.state is RayClusterState.FAILED


def test_another_version_of_ray_than_was_said_is_told(servers: Servers) -> None:
    asked = spec("old", image="rayproject/ray:2.46.0-py312-gpu")
    apply(servers, asked)
    wait(servers, asked)
    assert answered(servers, asked, "2.9.0").note == "the image has Ray 2.46.0, not 2.9.0: correct ray_version"


@pytest.mark.parametrize(
    ("members", "field", "said"),
    [
        ({"instance_types": [TYPE], "gpus_per_worker": 5}, "/gpus_per_worker", "has 4"),
        ({"instance_types": [TYPE], "efa_per_worker": 2}, "/efa_per_worker", "EFA interfaces"),
        ({"instance_types": ["ml.z9.large"]}, "/instance_types/0", "knows no instance type"),
        ({"worker_memory_gib": 5000}, "/worker_memory_gib", "is large enough for a worker"),
        ({"storage": [{"claim": "lost"}]}, "/storage/0/claim", "has no claim lost"),
        ({"credential": "hub"}, "/credential", "has no credential hub"),
        ({"namespace": "nowhere"}, "/namespace", "there is no namespace nowhere"),
    ],
)
def test_what_can_never_run_is_blocked_at_its_field(
    servers: Servers, members: dict[str, Any], field: str, said: str
) -> None:
    (found,) = blocked(servers, spec("never", **members))
    assert found[0] == field
    assert said in found[1]


def test_without_its_operator_it_is_blocked_and_the_feature_is_offered(servers: Servers) -> None:
    with servers.api() as api:
        apps = client.AppsV1Api(api)
        scale: Any = {"spec": {"replicas": 0}}
        apps.patch_namespaced_deployment_scale(OPERATOR, "kuberay-system", scale)
        try:
            (blocker,) = servers.plan(CREATE_RAY_CLUSTER.name, spec()).blockers
            assert blocker.detail.startswith("KubeRay is needed: ")
            assert blocker.remedy == "Switch the feature kuberay on (update-features), then ask again."
        finally:
            scale["spec"]["replicas"] = 1
            apps.patch_namespaced_deployment_scale(OPERATOR, "kuberay-system", scale)
