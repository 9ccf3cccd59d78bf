"""Model servers on a cluster of the sandbox: made, reached, asked, changed with a way back, and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.deployment_parts import Verification
from contracts.deployments import (
    APPLY_DEPLOYMENT,
    APPLY_SERVICES,
    RESTORE_DEPLOYMENT,
    SET_REPLICAS,
    START_DEPLOYMENT_DELETION,
    WAIT_FOR_ADDRESS,
    ApplyDeployment,
    ApplyServices,
    DeploymentSpec,
    DeploymentState,
    RestoreDeployment,
    SetReplicas,
)
from contracts.problem import ProblemCode
from tests.activities.conftest import Sandbox, problem
from tests.activities.serving import Servers, furnished


@pytest.fixture(scope="module")
def servers(sandbox: Sandbox, activities: Activities) -> Servers:
    return furnished(sandbox)


@pytest.fixture(autouse=True)
def _calm(servers: Servers) -> Iterator[None]:
    yield from servers.calm()


def test_a_server_is_made_once_runs_and_answers(servers: Servers) -> None:
    spec = servers.spec(replicas=2)
    first = servers.apply(spec)
    again = servers.apply(spec)
    assert (first.changed, again.changed, again.generation) == (True, False, first.generation)
    services = servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec))
    assert (services.names, services.changed) == ([spec.name], True)
    assert not servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec)).changed
    rolled = servers.roll_out(spec, first.generation)
    assert (rolled.replicas, rolled.ready) == (2, 2)
    answer = servers.ask(spec)
    assert (answer.model, bool(answer.sample)) == ("Qwen/Qwen3-0.6B", True)
    assert answer.latency_ms is not None
    view = servers.list()[spec.name]
    assert (view.state, view.engine, view.model, view.gpu_count) == (
        DeploymentState.READY,
        "vllm",
        "Qwen/Qwen3-0.6B",
        1,
    )
    assert [each.name for each in view.services] == [spec.name]
    detail = servers.read(spec)
    assert detail.spec == spec
    assert len(detail.pods) == 2
    # Read by the clock that the times of its objects come from: the sandbox's is ahead of this machine's.
    assert timedelta(0) <= detail.read_at - view.created_at < timedelta(days=365)
    assert detail.read_at.microsecond == 0


def test_a_lost_answer_of_kubernetes_makes_no_second_server(servers: Servers) -> None:
    spec = servers.spec()
    servers.sandbox.lose_response("patch", "kubernetes")
    made = servers.apply(spec)
    assert made.generation == 1
    assert list(servers.list()) == [spec.name]


def test_sglang_is_served_as_well(servers: Servers) -> None:
    line = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --host 0.0.0.0 --port 8000"
    spec = servers.spec(command=line)
    servers.serve(spec)
    assert servers.ask(spec).model == "Qwen/Qwen3-0.6B"
    assert servers.list()[spec.name].engine == "sglang"


def test_a_server_without_a_service_is_asked_in_its_pod(servers: Servers) -> None:
    spec = servers.spec(service="none")
    servers.serve(spec)
    assert servers.ask(spec).sample
    assert servers.list()[spec.name].services == []


def test_what_exists_and_differs_is_a_conflict_that_shows_the_difference(servers: Servers) -> None:
    spec = servers.spec()
    servers.apply(spec)
    servers.run.operation = "create-deployment/demo/another"
    with pytest.raises(ApplicationError) as caught:
        servers.run(
            APPLY_DEPLOYMENT,
            ApplyDeployment(**servers.place, spec=servers.spec(spec.name, gpu_count=2, replicas=3)),
        )
    found = problem(caught)
    assert (found.code, found.field) == (ProblemCode.CONFLICT, "/name")
    assert "gpu_count is 1, asked is 2" in found.detail
    assert "replicas is 1, asked is 3" in found.detail
    assert "update-deployment" in (found.remedy or "")


def test_what_others_made_is_left_alone(servers: Servers) -> None:
    spec = servers.spec("theirs")
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
    body = {"metadata": {"name": "theirs"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    with servers.api() as api:
        client.AppsV1Api(api).create_namespaced_deployment("default", body)
    with pytest.raises(ApplicationError) as caught:
        servers.apply(spec)
    assert problem(caught).code is ProblemCode.FOREIGN
    with pytest.raises(ApplicationError) as caught:
        servers.run(START_DEPLOYMENT_DELETION, servers.ref(spec))
    assert problem(caught).code is ProblemCode.FOREIGN
    assert servers.blocked(spec)[0][0] == "/name"
    with servers.api() as api:
        client.AppsV1Api(api).delete_namespaced_deployment("theirs", "default")


@pytest.mark.parametrize(
    ("command", "field", "code"),
    [
        ("vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 999999", "/command", ProblemCode.NOT_READY),
        ("vllm serve Qwen/Qwen3-0.6B --port 8000 -tp 2", "/gpu_count", ProblemCode.NOT_READY),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --port 8000", "/credential", ProblemCode.DENIED),
        ("vllm serve acme/no-such-model --port 8000", "/command", ProblemCode.NOT_FOUND),
        ("vllm serve Qwen/Qwen3-0.6B --port 8000 --tensor-paralel-size 1", "/command", ProblemCode.INVALID),
        ("vllm serve /elsewhere/model --port 8000", "/command", ProblemCode.NOT_FOUND),
    ],
)
def test_a_server_that_cannot_serve_is_told_by_its_own_last_words(
    servers: Servers, command: str, field: str, code: ProblemCode
) -> None:
    found = servers.fails(servers.spec(command=command))
    assert (found.field, found.code, bool(found.remedy)) == (field, code, True)


def test_an_image_that_cannot_be_pulled_is_told_with_its_name(servers: Servers) -> None:
    servers.misfortune(fault="image_pull")
    found = servers.fails(servers.spec(image="vllm/vllm-openai:v0.0.0"))
    assert found.field == "/image"
    assert "v0.0.0" in found.detail


def test_a_server_that_takes_too_much_memory_is_told(servers: Servers) -> None:
    servers.misfortune(fault="oom_at_load")
    assert servers.fails(servers.spec()).field == "/resources/memory_gib"


def test_a_server_that_loads_for_too_long_is_told_to_need_more_time(servers: Servers) -> None:
    servers.misfortune(fault="slow_load", factor=1000.0)
    found = servers.fails(servers.spec(startup_timeout_minutes=1), minutes=1)
    assert (found.code, found.field) == (ProblemCode.TIMEOUT, "/startup_timeout_minutes")


def test_a_crash_without_a_known_cause_is_told_with_its_last_line(servers: Servers) -> None:
    servers.misfortune(fault="crash_loop", message="RuntimeError: the moon is full, hf_abcdefgh1234")
    found = servers.fails(servers.spec())
    assert "the moon is full" in found.detail
    assert "hf_abc" not in found.detail


def test_a_replica_that_finds_no_node_is_a_matter_of_capacity(servers: Servers) -> None:
    found = servers.fails(servers.spec(command="vllm serve Qwen/Qwen3-0.6B --port 8000 -dp 8", gpu_count=8))
    assert (found.code, found.retryable) == (ProblemCode.CAPACITY, True)
    assert "nvidia.com/gpu" in found.detail


def test_an_update_changes_what_runs_and_the_former_form_can_come_back(servers: Servers) -> None:
    spec = servers.spec()
    servers.serve(spec)
    former, before = servers.remember(spec), servers.template(spec)
    assert former.healthy
    changed = servers.spec(spec.name, "vllm serve Qwen/Qwen3-0.6B --port 8000 --seed 7", env={"A": "1"})
    made = servers.apply(changed, update=True)
    assert made.changed
    servers.roll_out(changed, made.generation)
    assert "--seed" in servers.template(spec)["spec"]["containers"][0]["args"]
    restored = servers.run(RESTORE_DEPLOYMENT, RestoreDeployment(**servers.place, former=former))
    servers.roll_out(spec, restored.generation)
    assert servers.template(spec) == before
    assert servers.read(spec).spec == spec
    again = servers.run(RESTORE_DEPLOYMENT, RestoreDeployment(**servers.place, former=former))
    assert not again.changed


def test_a_stopped_server_is_stopped_again_when_its_update_fails(servers: Servers) -> None:
    spec = servers.spec()
    servers.serve(spec)
    servers.run(SET_REPLICAS, SetReplicas(**servers.ref(spec).model_dump(), replicas=0))
    former = servers.remember(spec)
    servers.apply(servers.spec(spec.name, replicas=2, env={"A": "1"}), update=True)
    back = servers.run(RESTORE_DEPLOYMENT, RestoreDeployment(**servers.place, former=former))
    assert (former.replicas, back.replicas) == (0, 0)
    assert servers.list()[spec.name].replicas == 0, "nothing is paid for that was not before"


def test_without_room_for_both_the_former_form_comes_when_the_new_one_is_gone(servers: Servers) -> None:
    spec = servers.spec(command="vllm serve Qwen/Qwen3-0.6B --port 8000 -dp 4", gpu_count=4, replicas=2)
    servers.serve(spec)
    former = servers.remember(spec)
    changed = DeploymentSpec.model_validate({**spec.model_dump(), "env": {"A": "1"}, "strategy": "recreate"})
    servers.roll_out(changed, servers.apply(changed, update=True).generation)
    back = RestoreDeployment(**servers.place, former=former, recreate=True)
    servers.roll_out(spec, servers.run(RESTORE_DEPLOYMENT, back).generation)
    last = servers.run(RESTORE_DEPLOYMENT, back.model_copy(update={"recreate": False}))
    assert last.changed
    assert servers.roll_out(spec, last.generation).ready == 2
    assert servers.remember(spec).spec == former.spec


def test_an_update_after_a_way_back_leaves_nothing_of_either_behind(servers: Servers) -> None:
    spec = servers.spec(env={"FORMER": "1"})
    servers.apply(spec)
    former = servers.remember(spec)
    servers.apply(servers.spec(spec.name, env={"FAILED": "1"}, efa=0), update=True)
    servers.run(RESTORE_DEPLOYMENT, RestoreDeployment(**servers.place, former=former))
    servers.apply(servers.spec(spec.name, env={"LAST": "1"}), update=True)
    names = [each["name"] for each in servers.template(spec)["spec"]["containers"][0]["env"]]
    assert {"FORMER", "FAILED", "LAST"} & set(names) == {"LAST"}


def test_an_update_of_nothing_is_refused(servers: Servers) -> None:
    with pytest.raises(ApplicationError) as caught:
        servers.apply(servers.spec(), update=True)
    assert problem(caught).code is ProblemCode.NOT_FOUND


def test_replicas_are_set_to_none_and_back(servers: Servers) -> None:
    spec = servers.spec()
    servers.serve(spec)
    none = servers.run(SET_REPLICAS, SetReplicas(**servers.ref(spec).model_dump(), replicas=0))
    assert servers.roll_out(spec, none.generation).ready == 0
    assert servers.list()[spec.name].state is DeploymentState.STOPPED
    two = servers.run(SET_REPLICAS, SetReplicas(**servers.ref(spec).model_dump(), replicas=2))
    assert servers.roll_out(spec, two.generation).ready == 2
    same = servers.run(SET_REPLICAS, SetReplicas(**servers.ref(spec).model_dump(), replicas=2))
    assert not same.changed


def test_a_deleted_server_is_gone_with_its_services_and_may_be_deleted_again(servers: Servers) -> None:
    spec = servers.spec(service="public")
    servers.serve(spec)
    servers.delete(spec)
    assert servers.list() == {}
    with servers.api() as api:
        services = client.CoreV1Api(api).list_namespaced_service("default").items
    assert [each.metadata.name for each in services] == ["kubernetes"]
    assert not servers.run(START_DEPLOYMENT_DELETION, servers.ref(spec)).changed


def test_services_that_are_not_asked_for_any_more_go(servers: Servers) -> None:
    spec = servers.spec(service="public")
    servers.apply(spec)
    made = servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec))
    assert made.names == [spec.name, f"{spec.name}-public"]
    hidden = servers.spec(spec.name)
    after = servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=hidden))
    assert (after.names, after.removed) == ([spec.name], [f"{spec.name}-public"])


def test_a_server_that_calls_its_model_otherwise_is_refused(servers: Servers) -> None:
    spec = servers.spec()
    servers.serve(spec)
    with pytest.raises(ApplicationError) as caught:
        servers.ask(spec, served_model="chat")
    assert problem(caught).field == "/served_model"
    assert servers.ask(spec, verification=Verification(kind="http", path="/health")).verified.startswith("/health")
    nobody = servers.ask(spec, verification=Verification(kind="none", reason="it is a batch server"))
    assert "batch" in nobody.verified


def test_a_server_that_wants_a_key_is_known_to_be_well(servers: Servers) -> None:
    with servers.api() as api:
        secret = {"metadata": {"name": "instantstart-credential-key"}, "stringData": {"token": "tests-only"}}
        client.CoreV1Api(api).create_namespaced_secret("default", secret)
    spec = servers.spec(secret_env={"VLLM_API_KEY": "key"})
    servers.serve(spec)
    found = servers.ask(spec)
    assert (found.sample, "wants a key" in found.verified) == (None, True)


def test_a_public_server_has_an_address(servers: Servers) -> None:
    spec = servers.spec(service="public")
    servers.apply(spec)
    servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec))
    with servers.api() as api:
        status = {"status": {"loadBalancer": {"ingress": [{"hostname": "nlb.example.com"}]}}}
        client.CoreV1Api(api).patch_namespaced_service_status(f"{spec.name}-public", "default", status)
    assert servers.run(WAIT_FOR_ADDRESS, servers.ref(spec)).hostname
