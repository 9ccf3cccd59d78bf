"""Routers on a cluster of the sandbox: planned, made with the least rights, asked, and deleted without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from activities.routers.read import metrics_of
from contracts.catalogue import CREATE_ROUTER, DELETE_DEPLOYMENT, DELETE_ROUTER
from contracts.deployment_parts import Verification
from contracts.deployments import (
    WAIT_FOR_ANSWERS,
    WAIT_FOR_ROLLOUT,
    Answered,
    DeploymentSpec,
    DeploymentState,
    WatchAnswers,
    WatchRollout,
)
from contracts.plans import Action
from contracts.problem import ProblemCode
from contracts.routers import (
    APPLY_ROUTER,
    APPLY_ROUTER_SERVICES,
    ENSURE_ROUTER_ACCESS,
    LIST_ROUTERS,
    READ_ROUTER,
    START_ROUTER_DELETION,
    WAIT_FOR_ROUTER_GONE,
    WAIT_FOR_ROUTER_WORKERS,
    ApplyRouter,
    ListRouters,
    ReadRouter,
    RouterRef,
    RouterSpec,
    WatchWorkers,
)
from tests.activities.conftest import Sandbox, problem
from tests.activities.pools import Pools, pools_of


@pytest.fixture(scope="module")
def servers(sandbox: Sandbox, activities: Activities) -> Pools:
    return pools_of(sandbox)


@pytest.fixture(scope="module")
def chat(servers: Pools) -> DeploymentSpec:
    spec = servers.spec("chat", replicas=2)
    servers.serve(spec)
    return spec


def router(name: str, **more: Any) -> RouterSpec:
    return RouterSpec.model_validate({"name": name, "target": {"deployment": "chat"}, **more})


def ref(servers: Pools, spec: RouterSpec) -> RouterRef:
    return RouterRef(**servers.place, name=spec.name, namespace=spec.namespace)


def asked(servers: Pools, spec: RouterSpec) -> ApplyRouter:
    return ApplyRouter(**servers.place, spec=spec, worker_port=8000)


def remove(servers: Pools, spec: RouterSpec) -> None:
    servers.run(START_ROUTER_DELETION, ref(servers, spec))
    servers.run(WAIT_FOR_ROUTER_GONE, ref(servers, spec))


@contextmanager
def given(servers: Pools, spec: RouterSpec) -> Iterator[Answered]:
    """A router that answers, for as long as a test needs it."""
    servers.run.operation = f"create-router/routers/{spec.name}"
    named = {**servers.place, "name": spec.name, "namespace": spec.namespace}
    servers.run(ENSURE_ROUTER_ACCESS, asked(servers, spec))
    made = servers.run(APPLY_ROUTER, asked(servers, spec))
    servers.run(WAIT_FOR_ROLLOUT, WatchRollout(**named, generation=made.generation, limit_minutes=15))
    servers.run(APPLY_ROUTER_SERVICES, asked(servers, spec))
    servers.run(WAIT_FOR_ROUTER_WORKERS, WatchWorkers(**named, target=spec.target, port=spec.port))
    watched = WatchAnswers(**named, port=spec.port, service=spec.name, verification=Verification())
    try:
        yield servers.run(WAIT_FOR_ANSWERS, watched)
    finally:
        remove(servers, spec)


def blocked(servers: Pools, spec: RouterSpec) -> list[tuple[str, str]]:
    return [(each.field, each.detail) for each in servers.plan(CREATE_ROUTER.name, spec).blockers]


def test_a_router_sees_its_servers_and_a_model_answers_through_it(servers: Pools, chat: DeploymentSpec) -> None:
    spec = router("front")
    assert blocked(servers, spec) == []
    with given(servers, spec) as answered:
        assert answered.model == "Qwen/Qwen3-0.6B"
        view = {each.name: each for each in servers.run(LIST_ROUTERS, ListRouters(**servers.place)).routers}["front"]
        assert (view.state, view.targets, view.policy) == (DeploymentState.READY, 2, "cache_aware")
        assert view.target == "deployment chat"
        detail = servers.run(READ_ROUTER, ReadRouter(**ref(servers, spec).model_dump()))
        assert detail.spec == spec
        assert sorted(worker.pod or "" for worker in detail.workers) == sorted(
            pod.name for pod in servers.read(chat).pods
        )
        assert all(worker.healthy for worker in detail.workers)
        assert detail.metrics["sgl_router_active_workers"] == 2
        # Made once, and nothing else when it is asked for again.
        assert not servers.run(ENSURE_ROUTER_ACCESS, asked(servers, spec)).changed
        assert not servers.run(APPLY_ROUTER, asked(servers, spec)).changed
        assert not servers.run(APPLY_ROUTER_SERVICES, asked(servers, spec)).changed
        assert {each.action for each in servers.plan(CREATE_ROUTER.name, spec).changes} == {Action.NOTHING}
        users = servers.plan(DELETE_DEPLOYMENT.name, {"name": "chat"}).blockers
        assert users[0].detail == "router default/front leads to it"


def test_it_may_look_for_pods_in_its_namespace_and_nothing_else(servers: Pools, chat: DeploymentSpec) -> None:
    with given(servers, router("meek")), servers.api() as api:
        rbac: Any = client.RbacAuthorizationV1Api(api)
        (rule,) = rbac.read_namespaced_role("meek", "default").rules
        assert (rule.resources, rule.verbs) == (["pods"], ["get", "list", "watch"])
        assert not [each for each in rbac.list_cluster_role_binding().items if "meek" in each.metadata.name]


def test_many_routers_stand_side_by_side_and_each_goes_alone(servers: Pools, chat: DeploymentSpec) -> None:
    with given(servers, router("one", policy="round_robin")):
        with given(servers, router("two", policy="random", replicas=2)):
            found = servers.run(LIST_ROUTERS, ListRouters(**servers.place)).routers
            assert [(each.name, each.policy) for each in found] == [("one", "round_robin"), ("two", "random")]
        assert [each.name for each in servers.run(LIST_ROUTERS, ListRouters(**servers.place)).routers] == ["one"]
    with servers.api() as api:
        core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
        selector = "instantstart.dev/router"
        for listing in (
            core.list_namespaced_service,
            core.list_namespaced_service_account,
            core.list_namespaced_pod,
            rbac.list_namespaced_role,
            rbac.list_namespaced_role_binding,
        ):
            assert listing("default", label_selector=selector).items == []
    assert servers.plan(DELETE_ROUTER.name, {"name": "one"}).blockers[0].code is ProblemCode.NOT_FOUND
    # Absent is done.
    remove(servers, router("one"))


def test_a_pools_service_is_a_target_and_labels_are(servers: Pools, chat: DeploymentSpec) -> None:
    target = {"pool": "shared", "service": "search"}
    assert blocked(servers, router("far", target=target))[0][0] == "/target/pool"
    with servers.given("shared", 2) as pool:
        assert blocked(servers, router("far", target=target))[0] == (
            "/target/service",
            "no pods of shared are assigned to search",
        )
        servers.hand_out(pool, search=1)
        with given(servers, router("far", target=target)) as answered:
            assert answered.model == "Qwen/Qwen3-0.6B"
            told = servers.plan("delete-model-pool", {"name": "shared"}).blockers
            assert [each.detail for each in told] == ["router far chooses among its pods"]
    labels = {"selector": {"instantstart.dev/deployment": "chat"}}
    with given(servers, router("labels", target=labels)) as answered:
        assert answered.model == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": {"deployment": "nobody"}}, "/target/deployment"),
        ({"target": {"selector": {"app": "nobody"}}}, "/target/selector"),
        ({"worker_port": 9000}, "/worker_port"),
        ({"service": "public"}, "/service"),
        ({"namespace": "nowhere"}, "/namespace"),
        ({"name": "chat"}, "/name"),
    ],
)
def test_what_stands_in_the_way_is_told_at_its_field(
    servers: Pools, chat: DeploymentSpec, change: dict[str, Any], field: str
) -> None:
    found = servers.plan(CREATE_ROUTER.name, {"name": "r", "target": {"deployment": "chat"}, **change}).blockers
    assert found[0].field == field
    assert all(each.remedy for each in found)


def test_another_form_is_refused_with_the_difference(servers: Pools, chat: DeploymentSpec) -> None:
    with given(servers, router("fixed")):
        other = router("fixed", policy="random")
        words = 'policy is "cache_aware", asked is "random"'
        assert words in blocked(servers, other)[0][1]
        servers.run.operation = "create-router/routers/another"
        with pytest.raises(ApplicationError) as caught:
            servers.run(APPLY_ROUTER, asked(servers, other))
        assert words in problem(caught).detail


def test_metrics_are_summed_over_labels() -> None:
    text = 'sgl_router_requests_total{route="a"} 3\nsgl_router_requests_total{route="b"} 4\nother 9\n'
    assert metrics_of(text) == {"sgl_router_requests_total": 7.0}
