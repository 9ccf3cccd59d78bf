"""Managed endpoints on one cluster of the sandbox: refused, deployed until they answer, changed, deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from activities.teardown.workloads import ObjectDeleter
from contracts.catalogue import CREATE_ENDPOINT, DELETE_ENDPOINT, UPDATE_ENDPOINT
from contracts.managed_endpoints import (
    APPLY_ENDPOINT,
    LIST_ENDPOINTS,
    READ_ENDPOINT,
    START_ENDPOINT_DELETION,
    WAIT_FOR_ENDPOINT,
    WAIT_FOR_ENDPOINT_ANSWER,
    WAIT_FOR_ENDPOINT_GONE,
    ApplyEndpoint,
    EndpointApplied,
    EndpointRef,
    EndpointSpec,
    EndpointState,
    ListEndpoints,
    ReadEndpoint,
)
from contracts.network import Scope
from contracts.plans import Action, PlanDraft
from contracts.teardown import DeleteClusterSpec, Known, Part, Teardown
from sandbox import credentials as known
from sandbox.hub.repositories import MEMBER
from tests.activities.conftest import REGION, Runner, Sandbox, problem, settings
from tests.activities.serving_world import ServingWorld, faults
from tests.activities.world import World, until

BUCKET = "models-of-tests"
WORKER = {
    "image": "vllm/vllm-openai:v0.11.0",
    "args": ["--model", "/opt/ml/model", "--served-model-name", "qwen"],
    "gpu_count": 1,
}
GATED = "meta-llama/Llama-3.1-8B-Instruct"
FROM_S3 = {"type": "s3", "bucket": BUCKET, "location": "models/qwen"}


class Endpoints:
    def __init__(self, world: ServingWorld) -> None:
        self.world, self.run = world, world.run

    def spec(self, name: str = "qwen", **more: Any) -> EndpointSpec:
        given = {"name": name, "source": FROM_S3, "worker": WORKER, "instance_types": ["ml.g5.12xlarge"]}
        return EndpointSpec.model_validate({**given, **more})

    def apply(self, spec: EndpointSpec) -> EndpointApplied:
        return self.run(APPLY_ENDPOINT, ApplyEndpoint(scope=self.world.scope, eks_cluster=self.world.eks, spec=spec))

    def ref(self, name: str = "qwen") -> EndpointRef:
        return EndpointRef(scope=self.world.scope, eks_cluster=self.world.eks, namespace="default", name=name)

    def plan(self, spec: EndpointSpec, kind: str = CREATE_ENDPOINT.name) -> list[tuple[str, str]]:
        return faults(self.world.plan(kind, spec.model_dump(mode="json")))

    def remove(self, name: str) -> None:
        self.run(START_ENDPOINT_DELETION, self.ref(name))
        self.run(WAIT_FOR_ENDPOINT_GONE, self.ref(name))

    @property
    def place(self) -> dict[str, Any]:
        return {"cluster": self.world.scope.cluster, "region": REGION, "eks_cluster": self.world.eks}


@pytest.fixture(scope="module")
def endpoints(sandbox: Sandbox, activities: Activities) -> Endpoints:
    sandbox.call("POST", "reset")
    session = boto3.Session(known.ACCESS_KEY_ID, known.SECRET_ACCESS_KEY, region_name=REGION)
    own = Activities(settings(hugging_face_endpoint=f"{sandbox.url}/_hub"), session)
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    runner = Runner(own, f"create-endpoint/{scope.cluster}/qwen")
    world = ServingWorld(sandbox, World(runner, scope), own)
    world.put(BUCKET, "models/qwen/config.json")
    return Endpoints(world)


@pytest.fixture(autouse=True)
def calm(quiet: Sandbox) -> Iterator[None]:
    yield
    quiet.call("DELETE", "kubernetes/pods")


def test_without_its_operator_an_endpoint_is_refused_and_none_is_listed(endpoints: Endpoints) -> None:
    found = endpoints.plan(endpoints.spec())
    assert found[0][0] == ""
    assert "inference operator is needed" in found[0][1]
    assert endpoints.run(LIST_ENDPOINTS, ListEndpoints(**endpoints.place)).endpoints == []
    endpoints.world.install()
    assert endpoints.plan(endpoints.spec()) == []


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"source": {**FROM_S3, "bucket": "nobody-has-this"}}, "/source/bucket", "there is no bucket"),
        ({"source": {**FROM_S3, "location": "models/nothing"}}, "/source/location", "holds nothing"),
        ({"instance_types": ["ml.p5.48xlarge"]}, "/instance_types", "no instance group of ml.p5.48xlarge"),
        ({"worker": {**WORKER, "gpu_count": 8}}, "/worker/gpu_count", "8 GPUs of one machine"),
        ({"worker": {**WORKER, "secret_env": {"KEY": "none"}}}, "/worker/secret_env/KEY", "no credential none"),
        ({"namespace": "nowhere"}, "/namespace", "there is no namespace nowhere"),
        (
            {"source": {"type": "fsx", "file_system_id": "fs-0123456789abcdef0"}},
            "/source/file_system_id",
            "there is no file system fs-0123456789abcdef0",
        ),
        ({"source": {"type": "hugging-face", "model_id": GATED}}, "/source/credential", "is gated"),
        ({"source": {"type": "hugging-face", "model_id": "nobody/absent"}}, "/source/model_id", "shows no model"),
        ({"kv_cache": {"l2": {"backend": "tiered_storage"}}}, "/kv_cache/l2/backend", "no tiered storage"),
        ({"worker": {**WORKER, "args": ["--model", "/opt/ml/model", "--port", "9000"]}}, "/worker/args/2", "9000"),
    ],
)
def test_what_cannot_work_is_refused_up_front(
    endpoints: Endpoints, more: dict[str, Any], field: str, words: str
) -> None:
    found = endpoints.plan(endpoints.spec("refused", **more))
    assert field in [pointer for pointer, _ in found], found
    assert words in dict(found)[field]


def test_a_plan_says_how_much_room_there_is_and_how_many_replicas_would_wait(endpoints: Endpoints) -> None:
    def planned(replicas: int) -> PlanDraft:
        return endpoints.world.plan(CREATE_ENDPOINT.name, endpoints.spec(replicas=replicas).model_dump(mode="json"))

    few = planned(2)
    (room,) = [each for each in few.checks if each.name == "room on ml.g5.12xlarge"]
    assert (room.passed, room.detail) == (True, "1 node, 4 of 4 GPUs free, room for 4 replicas")
    assert not any("no free GPUs" in each for each in few.warnings)
    assert any("6 of 10 replicas find no free GPUs now" in each for each in planned(10).warnings)


def test_an_endpoint_is_made_once_answers_and_is_shown(endpoints: Endpoints, quiet: Sandbox) -> None:
    spec = endpoints.spec(replicas=2, routing="prefix_aware", sagemaker_endpoint="qwen-tests")
    quiet.fault(
        {
            "api": "kubernetes",
            "operation": "PATCH .*/inferenceendpointconfigs/.*",
            "phase": "after",
            "action": "drop",
            "times": 1,
        }
    )
    assert endpoints.apply(spec).generation == 1
    assert quiet.fired()
    assert endpoints.apply(spec).changed is False
    deployed = endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref())
    assert (deployed.state, deployed.ready_replicas, deployed.service) == (
        EndpointState.READY,
        2,
        "qwen-routing-service",
    )
    assert deployed.sagemaker_state == "CreationCompleted"
    assert (deployed.sagemaker_endpoint or "").endswith(":endpoint/qwen-tests")
    answer = endpoints.run(WAIT_FOR_ENDPOINT_ANSWER, endpoints.ref())
    assert answer.model == "qwen"
    assert answer.text
    (listed,) = endpoints.run(LIST_ENDPOINTS, ListEndpoints(**endpoints.place)).endpoints
    assert listed == deployed
    detail = endpoints.run(READ_ENDPOINT, ReadEndpoint(**endpoints.place, namespace="default", name="qwen"))
    assert any(each.type == "DeploymentComplete" and each.status == "True" for each in detail.conditions)
    assert len(detail.pods) == 2


def test_what_exists_is_told_from_what_is_asked(endpoints: Endpoints) -> None:
    spec = endpoints.spec(replicas=2, routing="prefix_aware", sagemaker_endpoint="qwen-tests")
    draft = endpoints.world.plan(CREATE_ENDPOINT.name, spec.model_dump(mode="json"))
    assert (draft.blockers, draft.changes[0].action) == ([], Action.NOTHING)
    ((field, detail),) = endpoints.plan(spec.model_copy(update={"replicas": 1}))
    assert (field, detail) == ("/name", "endpoint qwen exists and differs in replicas")
    changed = endpoints.world.plan(UPDATE_ENDPOINT.name, {**spec.model_dump(mode="json"), "replicas": 1})
    assert [(each.name, each.before, each.after) for each in changed.changes[1:]] == [("replicas", 2, 1)]
    without = {**spec.model_dump(mode="json"), "routing": None}
    ((field, detail),) = faults(endpoints.world.plan(UPDATE_ENDPOINT.name, without))
    assert field == "/routing"


def test_an_update_is_waited_for_until_the_operator_has_seen_it(endpoints: Endpoints) -> None:
    spec = endpoints.spec(replicas=1, routing="prefix_aware", sagemaker_endpoint="qwen-tests")
    applied = endpoints.apply(spec)
    assert applied.changed is True
    ready = endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref())
    assert (ready.replicas, ready.ready_replicas) == (1, 1)
    other = endpoints.spec("other", sagemaker_endpoint="qwen-tests")
    assert [field for field, _ in endpoints.plan(other)] == ["/sagemaker_endpoint"]


def test_an_update_that_does_not_come_up_is_not_taken_for_the_former_form(endpoints: Endpoints, quiet: Sandbox) -> None:
    endpoints.apply(endpoints.spec("renewed"))
    endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("renewed"))
    quiet.call("POST", "kubernetes/pods", {"add": [{"fault": "image_pull", "image": ".*:broken"}]})
    endpoints.apply(endpoints.spec("renewed", worker={**WORKER, "image": "vllm/vllm-openai:broken"}))
    with pytest.raises(ApplicationError) as caught:
        endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("renewed"))
    assert problem(caught).field == "/worker/image"
    assert endpoints.run(WAIT_FOR_ENDPOINT_ANSWER, endpoints.ref("renewed")).text, "the former form still answers"
    endpoints.remove("renewed")


def test_an_endpoint_goes_with_all_that_its_operator_made(endpoints: Endpoints) -> None:
    draft = endpoints.world.plan(DELETE_ENDPOINT.name, {"name": "qwen"})
    assert [each.kind for each in draft.changes] == ["InferenceEndpointConfig", "Deployment", "SageMaker endpoint"]
    assert endpoints.run(START_ENDPOINT_DELETION, endpoints.ref()).changed is True
    endpoints.run(WAIT_FOR_ENDPOINT_GONE, endpoints.ref())
    assert endpoints.run(START_ENDPOINT_DELETION, endpoints.ref()).changed is False
    with endpoints.world.api() as api:
        assert client.AppsV1Api(api).list_namespaced_deployment("default").items == []
        names = [each.metadata.name for each in client.CoreV1Api(api).list_namespaced_service("default").items]
    assert names == ["kubernetes"]
    with pytest.raises(ApplicationError) as caught:
        endpoints.run(READ_ENDPOINT, ReadEndpoint(**endpoints.place, namespace="default", name="qwen"))
    assert problem(caught).code == "not_found"


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"worker": {**WORKER, "args": ["--model", "/opt/ml/model", "--nonsense", "1"]}}, "invalid", "nonsense"),
        (
            {"source": {"type": "hugging-face", "model_id": "meta-llama/Llama-3.1-8B"}},
            "not_ready",
            "access to model meta-llama/Llama-3.1-8B is restricted",
        ),
    ],
)
def test_why_an_endpoint_does_not_come_up_is_said_in_words(
    endpoints: Endpoints, more: dict[str, Any], code: str, words: str
) -> None:
    endpoints.apply(endpoints.spec("broken", **more))
    with pytest.raises(ApplicationError) as caught:
        endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("broken"))
    assert words in problem(caught).detail
    assert problem(caught).code == code
    endpoints.remove("broken")


def test_an_image_that_is_not_pulled_and_a_missing_node_are_told_apart(endpoints: Endpoints, quiet: Sandbox) -> None:
    quiet.call("POST", "kubernetes/pods", {"add": [{"fault": "image_pull", "deployment": "no-image"}]})
    endpoints.apply(endpoints.spec("no-image"))
    with pytest.raises(ApplicationError) as caught:
        endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("no-image"))
    assert problem(caught).field == "/worker/image"
    endpoints.remove("no-image")
    endpoints.apply(endpoints.spec("too-many", replicas=5))
    with pytest.raises(ApplicationError) as caught:
        endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("too-many"))
    assert problem(caught).code == "capacity"
    endpoints.remove("too-many")


def test_a_jumpstart_model_is_deployed_by_its_own_resource(endpoints: Endpoints) -> None:
    source = {"type": "jumpstart", "model_id": "deepseek-llm-r1-distill-qwen-1-5b"}
    spec = endpoints.spec("deepseek", source=source, worker=None)
    assert endpoints.plan(spec) == []
    assert endpoints.apply(spec).kind == "JumpStartModel"
    endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("deepseek"))
    assert endpoints.run(WAIT_FOR_ENDPOINT_ANSWER, endpoints.ref("deepseek")).text
    endpoints.remove("deepseek")


def test_a_gated_model_is_served_with_its_credential_which_appears_nowhere(endpoints: Endpoints) -> None:
    with endpoints.world.api() as api:
        secret = {"metadata": {"name": "instantstart-credential-hub"}, "stringData": {"token": MEMBER}}
        client.CoreV1Api(api).create_namespaced_secret("default", secret)
    source = {"type": "hugging-face", "model_id": GATED, "credential": "hub"}
    spec = endpoints.spec("gated", source=source)
    assert endpoints.plan(spec) == []
    endpoints.apply(spec)
    ready = endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("gated"))
    assert ready.source == "huggingface"
    with endpoints.world.api() as api:
        place = ("inference.sagemaker.aws.amazon.com", "v1", "default", "inferenceendpointconfigs", "gated")
        made: Any = client.CustomObjectsApi(api).get_namespaced_custom_object(*place)
    model = made["spec"]["modelSourceConfig"]["huggingFaceModel"]
    assert model["tokenSecretRef"] == {"name": "instantstart-credential-hub", "key": "token"}
    assert MEMBER not in str(made)
    endpoints.remove("gated")


def test_an_endpoint_may_rest_at_no_replica(endpoints: Endpoints) -> None:
    trigger = {"type": "prometheus", "workspace_id": "ws-tests", "query": "resting_of_tests", "target": 5}
    scaling = {"min_replicas": 0, "cooldown_seconds": 5, "polling_seconds": 5, "trigger": trigger}
    endpoints.world.say("resting_of_tests", 0)
    endpoints.apply(endpoints.spec("resting", autoscaling=scaling))
    until(lambda: endpoints.world.replicas("resting") == 0)
    ready = endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("resting"))
    assert (ready.state, ready.ready_replicas) == (EndpointState.READY, 0)
    endpoints.remove("resting")


def test_an_endpoint_that_others_made_is_shown_and_left_alone(endpoints: Endpoints) -> None:
    with endpoints.world.api() as api:
        body = {
            "apiVersion": "inference.sagemaker.aws.amazon.com/v1",
            "kind": "InferenceEndpointConfig",
            "metadata": {"name": "theirs"},
            "spec": {"modelName": "theirs", "modelSourceConfig": {"modelSourceType": "kubernetesVolume"}, "worker": {}},
        }
        place = ("inference.sagemaker.aws.amazon.com", "v1", "default", "inferenceendpointconfigs")
        client.CustomObjectsApi(api).create_namespaced_custom_object(*place, body)
    (listed,) = endpoints.run(LIST_ENDPOINTS, ListEndpoints(**endpoints.place)).endpoints
    assert (listed.name, listed.managed) == ("theirs", False)
    for attempt in (
        lambda: endpoints.apply(endpoints.spec("theirs")),
        lambda: endpoints.run(START_ENDPOINT_DELETION, endpoints.ref("theirs")),
    ):
        with pytest.raises(ApplicationError) as caught:
            attempt()
        assert problem(caught).code == "foreign"
    assert "/name" in dict(endpoints.plan(endpoints.spec("theirs")))


def test_a_deleted_cluster_takes_its_endpoints_along_first(endpoints: Endpoints) -> None:
    asked = Teardown(scope=endpoints.world.scope, known=Known(), spec=DeleteClusterSpec())
    activities = endpoints.world.activities
    deleter = ObjectDeleter(activities.aws, activities.kubernetes)
    found = [resource for resource, _ in deleter.find(asked, Part.WORKLOADS, endpoints.world.eks)]
    assert (found[0].kind, found[0].name) == ("InferenceEndpointConfig", "default/theirs")


def test_replicas_that_metrics_have_set_are_kept_by_an_update(endpoints: Endpoints) -> None:
    trigger = {"type": "prometheus", "workspace_id": "ws-tests", "query": "scaled_by_tests", "target": 5}
    scaling = {"min_replicas": 1, "max_replicas": 2, "polling_seconds": 5, "trigger": trigger}
    endpoints.world.say("scaled_by_tests", 9)
    endpoints.apply(endpoints.spec("scaled", autoscaling=scaling))
    endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("scaled"))
    until(lambda: endpoints.world.replicas("scaled") == 2)
    endpoints.apply(endpoints.spec("scaled", autoscaling=scaling, metrics=False))
    endpoints.run(WAIT_FOR_ENDPOINT, endpoints.ref("scaled"))
    assert endpoints.world.replicas("scaled") == 2
    endpoints.remove("scaled")
