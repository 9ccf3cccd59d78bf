"""Autoscalers on one cluster of the sandbox: what they would do, until they do it, and what they leave."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.autoscalers import (
    APPLY_AUTOSCALER,
    LIST_AUTOSCALERS,
    READ_AUTOSCALER,
    START_AUTOSCALER_DELETION,
    WAIT_FOR_AUTOSCALER,
    WAIT_FOR_AUTOSCALER_GONE,
    ApplyAutoscaler,
    AutoscalerApplied,
    AutoscalerDetail,
    AutoscalerRef,
    AutoscalerSpec,
    AutoscalerState,
    ListAutoscalers,
    ReadAutoscaler,
)
from contracts.catalogue import CREATE_AUTOSCALER, DELETE_AUTOSCALER
from contracts.network import Scope
from contracts.plans import Action, PlanDraft
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.serving_world import PROMETHEUS, ServingWorld, deployment, faults
from tests.activities.world import World, until


class Autoscalers:
    def __init__(self, world: ServingWorld) -> None:
        self.world, self.run = world, world.run

    def spec(self, target: str, query: str = "", **more: Any) -> AutoscalerSpec:
        trigger = {
            "type": "prometheus",
            "server_address": PROMETHEUS,
            "query": query or f"load_{target}",
            "threshold": 5,
        }
        given = {"target": target, "polling_seconds": 5, "scale_down_stabilization_seconds": 0, "triggers": [trigger]}
        return AutoscalerSpec.model_validate({**given, **more})

    def apply(self, spec: AutoscalerSpec) -> AutoscalerApplied:
        wanted = ApplyAutoscaler(scope=self.world.scope, eks_cluster=self.world.eks, spec=spec)
        return self.run(APPLY_AUTOSCALER, wanted)

    def ref(self, name: str) -> AutoscalerRef:
        return AutoscalerRef(scope=self.world.scope, eks_cluster=self.world.eks, namespace="default", name=name)

    def plan(self, spec: AutoscalerSpec) -> PlanDraft:
        return self.world.plan(CREATE_AUTOSCALER.name, spec.model_dump(mode="json"))

    def read(self, name: str) -> AutoscalerDetail:
        return self.run(READ_AUTOSCALER, ReadAutoscaler(**self.place, namespace="default", name=name))

    @property
    def place(self) -> dict[str, Any]:
        return {"cluster": self.world.scope.cluster, "region": REGION, "eks_cluster": self.world.eks}


@pytest.fixture(scope="module")
def autoscalers(sandbox: Sandbox, activities: Activities) -> Autoscalers:
    sandbox.call("POST", "reset")
    activities.lookup.forget()
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    runner = Runner(activities, f"create-autoscaler/{scope.cluster}/model")
    world = ServingWorld(sandbox, World(runner, scope), activities)
    assert world.hyperpod
    world.make_deployment("model")
    return Autoscalers(world)


pytestmark = pytest.mark.usefixtures("quiet")


def test_without_keda_an_autoscaler_is_refused_and_none_is_listed(autoscalers: Autoscalers) -> None:
    found = faults(autoscalers.plan(autoscalers.spec("model")))
    assert found[0] == ("", "KEDA is needed: the cluster does not know ScaledObject")
    assert autoscalers.run(LIST_AUTOSCALERS, ListAutoscalers(**autoscalers.place)).autoscalers == []
    autoscalers.world.install()
    assert faults(autoscalers.plan(autoscalers.spec("model"))) == []


def test_a_plan_asks_the_query_once_and_shows_what_it_would_do(autoscalers: Autoscalers) -> None:
    autoscalers.world.say("load_model", 14)
    draft = autoscalers.plan(autoscalers.spec("model"))
    change = draft.changes[-1]
    assert (change.kind, change.before, change.after) == ("Deployment", 1, 3)
    assert "load_model is 14 now: 3 replicas" in draft.warnings[0]
    assert autoscalers.world.replicas("model") == 1, "a plan changes nothing"
    autoscalers.world.say("load_model")
    assert "gives no value now" in autoscalers.plan(autoscalers.spec("model")).warnings[0]


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"target": "nothing"}, "/target", "has no Deployment nothing; it has model"),
        ({"query": "sum(load_model"}, "/triggers/0/query", "unclosed left parenthesis"),
        ({"server": "http://nobody.prometheus.svc:80"}, "/triggers/0/server_address", "nobody"),
        ({"triggers": [{"type": "cpu", "utilization": 50}], "target": "model"}, "/triggers/0", "metrics server"),
    ],
)
def test_what_cannot_work_is_refused_up_front(
    autoscalers: Autoscalers, more: dict[str, Any], field: str, words: str
) -> None:
    given = dict(more)
    server, target = given.pop("server", PROMETHEUS), given.pop("target", "model")
    spec = autoscalers.spec(target, given.pop("query", ""), **given).model_dump(mode="json")
    if spec["triggers"][0]["type"] == "prometheus":
        spec["triggers"][0]["server_address"] = server
    ((pointer, detail),) = faults(autoscalers.plan(AutoscalerSpec.model_validate(spec)))
    assert pointer == field
    assert words in detail


def test_a_query_with_several_values_is_refused(autoscalers: Autoscalers) -> None:
    autoscalers.world.say("several_values", [1, 2])
    ((field, detail),) = faults(autoscalers.plan(autoscalers.spec("model", "several_values")))
    assert (field, "gives 2 values" in detail) == ("/triggers/0/query", True)


def test_a_server_outside_of_the_cluster_is_not_asked(autoscalers: Autoscalers) -> None:
    spec = autoscalers.spec("model").model_dump(mode="json")
    spec["triggers"][0]["server_address"] = "https://prometheus.example.com"
    draft = autoscalers.plan(AutoscalerSpec.model_validate(spec))
    assert draft.blockers == []
    assert "the platform does not ask it" in draft.warnings[0]


def test_an_autoscaler_is_made_once_follows_its_metric_and_is_shown(autoscalers: Autoscalers, quiet: Sandbox) -> None:
    autoscalers.world.say("load_model", 9)
    quiet.lose_response("PATCH .*/scaledobjects/.*")
    spec = autoscalers.spec("model", max_replicas=4)
    autoscalers.apply(spec)
    assert quiet.fired()
    assert autoscalers.apply(spec).changed is False
    ready = autoscalers.run(WAIT_FOR_AUTOSCALER, autoscalers.ref("model"))
    assert (ready.state, ready.target, ready.triggers) == (AutoscalerState.ACTIVE, "model", ["prometheus"])
    until(lambda: autoscalers.world.replicas("model") == 2)
    autoscalers.world.say("load_model", 200)
    until(lambda: autoscalers.world.replicas("model") == 4)
    detail = autoscalers.read("model")
    assert [(each.value, each.wants, each.problem) for each in detail.triggers] == [(200.0, 4, None)]
    assert detail.autoscaler.last_scaled_at is not None
    assert any("ScalingActive True" in line for line in detail.conditions)
    (listed,) = autoscalers.run(LIST_AUTOSCALERS, ListAutoscalers(**autoscalers.place)).autoscalers
    assert (listed.name, listed.replicas, listed.managed) == ("model", 4, True)


def test_a_deployment_has_one_owner_of_its_replicas(autoscalers: Autoscalers) -> None:
    second = autoscalers.spec("model", name="second")
    ((field, detail),) = faults(autoscalers.plan(second))
    assert (field, "ScaledObject model scales Deployment model already" in detail) == ("/target", True)
    with pytest.raises(ApplicationError) as caught:
        autoscalers.apply(second)
    assert problem(caught).code == "conflict"
    with autoscalers.world.api() as api:
        client.AppsV1Api(api).create_namespaced_deployment("default", deployment("by-hpa"))
        hpa = {
            "metadata": {"name": "theirs"},
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "by-hpa"},
            },
        }
        client.AutoscalingV2Api(api).create_namespaced_horizontal_pod_autoscaler("default", hpa)
    ((field, detail),) = faults(autoscalers.plan(autoscalers.spec("by-hpa")))
    assert (field, "HorizontalPodAutoscaler theirs" in detail) == ("/target", True)


def test_an_autoscaler_is_changed_in_place(autoscalers: Autoscalers) -> None:
    spec = autoscalers.spec("model", max_replicas=3)
    draft = autoscalers.plan(spec)
    assert (draft.blockers, draft.changes[0].action) == ([], Action.CHANGE)
    assert autoscalers.apply(spec).changed is True
    autoscalers.run(WAIT_FOR_AUTOSCALER, autoscalers.ref("model"))
    until(lambda: autoscalers.world.replicas("model") == 3)
    assert autoscalers.plan(spec).changes[0].action is Action.NOTHING


def test_a_deleted_autoscaler_leaves_the_replicas_as_they_are(autoscalers: Autoscalers) -> None:
    draft = autoscalers.world.plan(DELETE_AUTOSCALER.name, {"name": "model"})
    assert [(each.action, each.kind) for each in draft.changes] == [
        (Action.DELETE, "ScaledObject"),
        (Action.KEEP, "Deployment"),
    ]
    asked = autoscalers.run(START_AUTOSCALER_DELETION, autoscalers.ref("model"))
    assert (asked.target, asked.replicas) == ("model", 3)
    autoscalers.run(WAIT_FOR_AUTOSCALER_GONE, autoscalers.ref("model"))
    assert autoscalers.run(START_AUTOSCALER_DELETION, autoscalers.ref("model")).changed is False
    assert autoscalers.world.replicas("model") == 3
    with autoscalers.world.api() as api:
        hpas = client.AutoscalingV2Api(api).list_namespaced_horizontal_pod_autoscaler("default").items
    assert [each.metadata.name for each in hpas] == ["theirs"]


def test_at_rest_at_no_replica_an_autoscaler_is_ready(autoscalers: Autoscalers) -> None:
    autoscalers.world.make_deployment("idle")
    autoscalers.world.say("load_idle", 0)
    autoscalers.apply(autoscalers.spec("idle", min_replicas=0, cooldown_seconds=10))
    until(lambda: autoscalers.world.replicas("idle") == 0)
    ready = autoscalers.run(WAIT_FOR_AUTOSCALER, autoscalers.ref("idle"))
    assert (ready.state, ready.replicas) == (AutoscalerState.IDLE, 0)
    autoscalers.world.say("load_idle", 3)
    until(lambda: autoscalers.world.replicas("idle") == 1)


def test_a_query_that_keeps_failing_is_told_in_kedas_words(autoscalers: Autoscalers) -> None:
    autoscalers.world.make_deployment("broken")
    autoscalers.world.say("load_broken", error="execution: query timed out")
    autoscalers.apply(autoscalers.spec("broken"))
    with pytest.raises(ApplicationError) as caught:
        autoscalers.run(WAIT_FOR_AUTOSCALER, autoscalers.ref("broken"))
    assert problem(caught).code == "not_ready"
    assert "TriggerError" in problem(caught).detail
    (trigger,) = autoscalers.read("broken").triggers
    assert "query timed out" in (trigger.problem or "")


def test_a_managed_workspace_is_asked_with_a_signature(autoscalers: Autoscalers) -> None:
    amp = autoscalers.world.activities.aws.act.amp(REGION)
    workspace = amp.create_workspace(alias="tests")["workspaceId"]
    autoscalers.world.make_deployment("managed")
    autoscalers.world.say("load_managed", 7)
    trigger = {"type": "prometheus", "workspace_id": workspace, "query": "load_managed", "threshold": 2}
    spec = autoscalers.spec("managed", triggers=[trigger], max_replicas=9)
    until(lambda: faults(autoscalers.plan(spec)) == [])
    assert autoscalers.plan(spec).changes[-1].after == 4
    unknown = autoscalers.spec("managed", triggers=[{**trigger, "workspace_id": "ws-nobody"}])
    ((field, detail),) = faults(autoscalers.plan(unknown))
    assert (field, "Workspace not found" in detail) == ("/triggers/0/workspace_id", True)


def test_a_routers_own_metrics_are_asked_for(autoscalers: Autoscalers) -> None:
    router = deployment("front", image="lmsysorg/sglang:v0.5.5")
    container = router["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["python", "-m", "sglang_router.launch_router", "--host", "0.0.0.0"]
    with autoscalers.world.api() as api:
        apps = client.AppsV1Api(api)
        apps.create_namespaced_deployment("default", router)
        until(lambda: apps.read_namespaced_deployment("front", "default").status.available_replicas)
    trigger = {"type": "router", "server_address": PROMETHEUS, "router": "front", "metric": "queue_depth"}
    autoscalers.world.make_deployment("routed")
    spec = autoscalers.spec("routed", triggers=[trigger])
    until(lambda: "is 0 now: 1 replica," in autoscalers.plan(spec).warnings[0])
    requests = autoscalers.spec("routed", triggers=[{**trigger, "metric": "requests_per_second"}])
    until(lambda: "is 0 now: 1 replica," in autoscalers.plan(requests).warnings[0])


def test_a_foreign_autoscaler_is_listed_and_not_touched(autoscalers: Autoscalers) -> None:
    body = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "foreign"},
        "spec": {"scaleTargetRef": {"name": "elsewhere"}, "triggers": [{"type": "cron", "metadata": {}}]},
    }
    with autoscalers.world.api() as api:
        place = ("keda.sh", "v1alpha1", "default", "scaledobjects")
        client.CustomObjectsApi(api).create_namespaced_custom_object(*place, body)
    listed = {
        each.name: each for each in autoscalers.run(LIST_AUTOSCALERS, ListAutoscalers(**autoscalers.place)).autoscalers
    }
    assert listed["foreign"].managed is False
    with pytest.raises(ApplicationError) as caught:
        autoscalers.run(START_AUTOSCALER_DELETION, autoscalers.ref("foreign"))
    assert problem(caught).code == "foreign"
