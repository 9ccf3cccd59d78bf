"""What a specification becomes: always valid for Kubernetes, and with what a model server needs."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes import client

from activities.deployments.manifests import default_mounts, deployment, services
from contracts.deployment_parts import StorageMount
from contracts.deployments import DeploymentSpec
from sandbox.kubernetes import defaulting, validation
from sandbox.kubernetes.schemas import built_ins

NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
ENV_NAME = st.from_regex(r"[A-Z_][A-Z0-9_]{0,15}", fullmatch=True)


@st.composite
def specs(draw: st.DrawFn) -> DeploymentSpec:
    engine = draw(st.sampled_from(["vllm", "sglang", "custom"]))
    first = {
        "vllm": ["vllm", "serve", draw(st.sampled_from(["org/m", "/s3/m"]))],
        "sglang": ["python3", "-m", "sglang.launch_server", "--model-path", "org/m"],
        "custom": ["serve", "me"],
    }[engine]
    service = draw(st.sampled_from(["in_cluster", "public", "none"]))
    given: dict[str, Any] = {
        "name": draw(NAME),
        "namespace": draw(NAME),
        "argv": [*first, *draw(st.lists(TEXT, max_size=5))],
        "gpu_count": draw(st.integers(0, 8)),
        "replicas": draw(st.integers(1, 9)),
        "instance_types": draw(st.lists(st.sampled_from(["ml.g5.8xlarge", "g6.xlarge"]), unique=True)),
        "service": service,
        "public": draw(st.sampled_from(["internal", "internet-facing"])) if service == "public" else "internal",
        "confirm_public": True,
        "port": draw(st.integers(1, 65535)),
        "env": draw(st.dictionaries(ENV_NAME, TEXT, max_size=3)),
        "resources": draw(st.sampled_from([{}, {"cpu": 0.5, "memory_gib": 0.7}, {"cpu": 96, "memory_gib": 1000.25}])),
        "shm_gib": draw(st.sampled_from([None, 1, 64])),
        "efa": draw(st.integers(0, 4)),
        "startup_timeout_minutes": draw(st.sampled_from([None, 1, 600])),
        "grace_seconds": draw(st.integers(0, 3600)),
        "strategy": draw(st.sampled_from(["rolling", "recreate"])),
        "labels": draw(st.sampled_from([{}, {"team": "a", "example.com/x": "y"}])),
        "verify": draw(st.sampled_from([None, {"kind": "http", "path": "/up"}, {"kind": "none", "reason": "batch"}])),
    }
    if engine == "custom":
        given["image"] = "registry.example.com/me:1"
    if "HF_TOKEN" not in given["env"] and draw(st.booleans()):
        given["credential"] = "huggingface"
    if draw(st.booleans()):
        given["storage"] = [
            {"claim": "s3-claim", "mount_path": "/s3"},
            {"claim": "s3-claim", "mount_path": "/more", "read_only": False, "sub_path": "a/b"},
            {"claim": "fsx-claim", "mount_path": "/fsx"},
        ]
    return DeploymentSpec.model_validate(given)


def manifest(spec: DeploymentSpec, mounts: list[StorageMount] | None = None, **more: Any) -> dict[str, Any]:
    mounts = spec.storage or [] if mounts is None else mounts
    return deployment("demo", spec, mounts, operation="create-deployment/demo/x", run="run-1", **more)


def of(**changes: Any) -> DeploymentSpec:
    return DeploymentSpec.model_validate(
        {"name": "chat", "command": "vllm serve org/m --port 8000", "gpu_count": 1, **changes}
    )


def check(document: dict[str, Any], plural: str, group: str = "") -> None:
    """As the sandbox's API takes it: strict about unknown members, with its defaults, and against its schemas."""
    kind, whole = built_ins()[group, "v1", plural], copy.deepcopy(document)
    validation.drop_unknown_fields(kind, whole, "Strict", [])
    defaulting.apply(kind, whole, None)
    validation.validate(kind, whole)


@settings(max_examples=60, deadline=None)
@given(specs())
def test_every_manifest_is_valid_for_kubernetes(spec: DeploymentSpec) -> None:
    made = manifest(spec)
    check(made, "deployments", "apps")
    read = client.V1Deployment.from_dict(made)
    assert client.ApiClient().sanitize_for_serialization(read) == made
    for each in services("demo", spec, "create-deployment/demo/x"):
        check(each, "services")
        assert client.ApiClient().sanitize_for_serialization(client.V1Service.from_dict(each)) == each


@settings(max_examples=60, deadline=None)
@given(specs())
def test_accelerators_are_limited_to_what_is_requested_and_pods_are_found_by_their_services(
    spec: DeploymentSpec,
) -> None:
    made = manifest(spec)["spec"]
    resources = made["template"]["spec"]["containers"][0]["resources"]
    limits = resources.get("limits", {})
    assert {key: resources["requests"][key] for key in limits} == limits
    assert limits.get("nvidia.com/gpu") == (str(spec.gpu_count) if spec.gpu_count else None)
    labels = made["template"]["metadata"]["labels"].items()
    assert made["selector"]["matchLabels"].items() <= labels
    for each in services("demo", spec, "-"):
        assert each["spec"]["selector"].items() <= labels


def server(spec: DeploymentSpec, **more: Any) -> Any:
    return manifest(spec, **more)["spec"]["template"]["spec"]["containers"][0]


def test_a_server_is_not_judged_alive_before_it_has_loaded() -> None:
    container = server(of(), startup_minutes=45)
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 45 * 60
    assert startup["httpGet"] == {"path": "/health", "port": "http"}
    assert {"readinessProbe", "livenessProbe"} <= set(container)
    asked = server(of(startup_timeout_minutes=5), startup_minutes=45)["startupProbe"]
    assert asked["periodSeconds"] * asked["failureThreshold"] == 300


def test_a_replica_has_shared_memory_and_no_token_of_the_cluster() -> None:
    pod = manifest(of())["spec"]["template"]["spec"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]
    assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)


def test_a_credential_is_referred_to_and_never_written_down() -> None:
    env = server(of(credential="huggingface", secret_env={"API_KEY": "other"}))["env"]
    reference = {"secretKeyRef": {"name": "instantstart-credential-huggingface", "key": "token"}}
    assert {"name": "HF_TOKEN", "valueFrom": reference} in env
    assert "API_KEY" in [each["name"] for each in env if "valueFrom" in each]


def test_arguments_reach_the_server_as_they_were_written() -> None:
    spec = of(command=None, argv=["vllm", "serve", "m", "--x", "$(HOSTNAME)", "$$", "$HOME"])
    container = server(spec)
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == ["m", "--x", "$$(HOSTNAME)", "$$$$", "$HOME"]
    in_shell = server(of(**{"command": "cd / && exec vllm serve $MODEL", "shell": "sh"}))
    assert (in_shell["command"], in_shell["args"]) == (["sh", "-c"], ["cd / && exec vllm serve $MODEL"])
    alone = server(of(command="--model m", image="vllm/vllm-openai:v0.11.0"))
    assert ("command" in alone, alone["args"]) == (False, ["--model", "m"])


def test_an_update_leaves_no_gap_unless_that_is_asked_for() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert manifest(of())["spec"]["strategy"] == rolling
    assert manifest(of(strategy="recreate"))["spec"]["strategy"] == {"type": "Recreate"}


def test_requests_under_way_have_time_to_end() -> None:
    pod = manifest(of(grace_seconds=120))["spec"]["template"]["spec"]
    waits = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] == 120 + waits


def test_public_servers_have_a_load_balancer_of_the_scheme_that_was_asked_for() -> None:
    inside, outside = services("demo", of(service="public", public="internet-facing", confirm_public=True), "-")
    assert (inside["metadata"]["name"], inside["spec"]["type"]) == ("chat", "ClusterIP")
    assert (outside["metadata"]["name"], outside["spec"]["type"]) == ("chat-public", "LoadBalancer")
    prefix = "service.beta.kubernetes.io/aws-load-balancer-"
    annotations = outside["metadata"]["annotations"]
    assert annotations[f"{prefix}scheme"] == "internet-facing"
    assert annotations[f"{prefix}nlb-target-type"] == "ip"
    assert services("demo", of(service="none"), "-") == []


def test_shared_storage_is_there_to_read_where_the_namespace_has_it() -> None:
    pod = manifest(of(), default_mounts(True))["spec"]["template"]["spec"]
    assert {"name": "claim-0", "mountPath": "/s3", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert default_mounts(False) == []


def test_what_a_server_fetches_outlives_its_restarts() -> None:
    fetching = server(of())
    assert {"name": "HF_HOME", "value": "/model-cache/huggingface"} in fetching["env"]
    stored = server(of(command="vllm serve /s3/m --port 8000"))
    assert "HF_HOME" not in [each["name"] for each in stored["env"]]
