"""What may be asked of a model server, and what is refused before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from contracts.catalogue import CREATE_DEPLOYMENT, KINDS, UPDATE_DEPLOYMENT
from contracts.commands import Engine
from contracts.deployments import ASK_FOR_GPUS, DeploymentSpec
from contracts.problem import FieldError, field_errors

SPEC = {"name": "chat", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}


def faults(**changes: Any) -> list[FieldError]:
    given = {key: value for key, value in {**SPEC, **changes}.items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        DeploymentSpec.model_validate(given)
    return field_errors(refused.value, "", DeploymentSpec)


def test_a_number_of_gpus_must_be_said_in_words_for_everybody() -> None:
    (fault,) = faults(gpu_count=...)
    assert (fault.field, fault.remedy) == ("/gpu_count", ASK_FOR_GPUS)
    assert "the user" not in ASK_FOR_GPUS


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gpu_count": True}, "/gpu_count"),
        ({"gpu_count": -1}, "/gpu_count"),
        ({"gpu_count": 17}, "/gpu_count"),
        ({"gpu_count": "1"}, "/gpu_count"),
        ({"efa": 33}, "/efa"),
        ({"name": "Chat"}, "/name"),
        ({"name": "1chat"}, "/name"),
        ({"name": "x" * 57}, "/name"),
        ({"namespace": "Not_One"}, "/namespace"),
        ({"command": "cd /s3 && vllm serve m"}, "/command"),
        ({"command": "vllm serve 'm"}, "/command"),
        ({"command": ""}, "/command"),
        ({"command": "vllm serve m --api-key abc"}, "/command"),
        ({"command": "./x hf_abcdefghijklmnop", "image": "x:1"}, "/command"),
        ({"command": ..., "argv": ["vllm", "serve", "m", "--api-key=abc"]}, "/argv"),
        ({"command": ...}, "/command"),
        ({"argv": ["vllm", "serve", "m"]}, "/command"),
        ({"command": ..., "argv": ["vllm"], "shell": "sh"}, "/shell"),
        ({"command": "./serve"}, "/image"),
        ({"image": "two words"}, "/image"),
        ({"replicas": 0}, "/replicas"),
        ({"service": "public", "public": "internet-facing"}, "/confirm_public"),
        ({"public": "internet-facing", "confirm_public": True}, "/public"),
        ({"env": {"HF_TOKEN": "hf_abcdefghijklmnop"}}, "/env/HF_TOKEN"),
        ({"env": {"A": "b\0"}}, "/env/A"),
        ({"env": {"A": "1"}, "secret_env": {"A": "huggingface"}}, "/secret_env/A"),
        ({"credential": "huggingface", "env": {"HF_TOKEN": "x"}}, "/env/HF_TOKEN"),
        ({"storage": [{"claim": "a"}, {"claim": "b"}]}, "/storage/1/mount_path"),
        ({"storage": [{"mount_path": "/dev/shm"}]}, "/storage/0/mount_path"),
        ({"storage": [{"mount_path": "models"}]}, "/storage/0/mount_path"),
        ({"labels": {"instantstart.dev/cluster": "x"}}, "/labels"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "/labels"),
        ({"verify": {"kind": "none"}}, "/verify/reason"),
        ({"unknown": 1}, "/unknown"),
    ],
)
def test_a_fault_is_refused_at_its_field(changes: dict[str, Any], field: str) -> None:
    assert field in [fault.field for fault in faults(**changes)]


CANARY = "hf_canaryCanaryCanary"


@pytest.mark.parametrize(
    "changes",
    [
        {"command": f"HF_TOKEN={CANARY} vllm serve m"},
        {"command": f"cd /s3 && vllm serve m --x={CANARY}$A"},
        {"command": f"vllm serve m --hf-overrides {{{CANARY}}}"},
        {"command": "VLLM_API_KEY=hf_canary vllm serve m"},
        {"command": "env VLLM_API_KEY=hf_canary vllm serve m"},
        {"command": f"export HF_TOKEN={CANARY}; exec vllm serve m", "shell": "sh"},
        {"command": "export VLLM_API_KEY='hf_canary'; exec vllm serve m", "shell": "sh"},
        {"command": "cd /s3 && OPENAI_API_KEY=hf_canary exec vllm serve m", "shell": "sh"},
        {"command": ..., "argv": ["sh", "-c", f"exec vllm serve m --x {CANARY}"], "image": "x:1"},
        {"env": {"VLLM_API_KEY": "hf_canary"}},
        {"env": {"AWS_SECRET_ACCESS_KEY": "hf_canary"}},
        {"env": {"redis_password": "hf_canary"}},
    ],
)
def test_a_secret_is_refused_and_not_repeated(changes: dict[str, Any]) -> None:
    found = faults(**changes)
    assert "credential" in found[0].detail
    assert "hf_canary" not in str(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ("EOS_TOKEN", "</s>"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TLS_PRIVATE_KEY", "/etc/tls/key.pem"),
        ("HF_TOKEN", ""),
        ("VLLM_LOGGING_LEVEL", "DEBUG"),
    ],
)
def test_variables_that_only_sound_like_secrets_are_taken(name: str, value: str) -> None:
    assert DeploymentSpec.model_validate({**SPEC, "env": {name: value}}).env == {name: value}


def test_a_shell_may_hand_a_stored_credential_on() -> None:
    text = 'export OPENAI_API_KEY="$STORED_KEY"; exec vllm serve m'
    assert DeploymentSpec.model_validate({**SPEC, "command": text, "shell": "sh"}).command == text


def test_a_shell_that_was_chosen_is_no_fault() -> None:
    spec = DeploymentSpec.model_validate({**SPEC, "command": "cd /s3 && exec vllm serve m", "shell": "sh"})
    assert spec.read.argv == ["sh", "-c", "cd /s3 && exec vllm serve m"]
    assert (spec.read.engine, spec.chosen_image) == (Engine.VLLM, "vllm/vllm-openai:v0.28.0-cu129")


def test_words_may_be_given_instead_of_a_line() -> None:
    spec = DeploymentSpec.model_validate(
        {"name": "chat", "argv": ["vllm", "serve", "m", "--x", "$HOME && *"], "gpu_count": 0}
    )
    assert spec.read.argv[-1] == "$HOME && *"


def test_arguments_alone_belong_to_the_images_engine() -> None:
    spec = DeploymentSpec.model_validate({**SPEC, "command": "--model m", "image": "vllm/vllm-openai:v0.11.0"})
    assert (spec.read.engine, spec.read.model, spec.read.program) == (Engine.VLLM, "m", 0)
    assert spec.verification.kind == "openai"


def test_an_operation_is_about_a_name_and_another_namespace() -> None:
    assert CREATE_DEPLOYMENT.target(DeploymentSpec.model_validate(SPEC)) == "chat"
    there = DeploymentSpec.model_validate({**SPEC, "namespace": "team"})
    assert CREATE_DEPLOYMENT.target(there) == "team/chat"
    assert there.lease == "deployments/team/chat"


def test_what_lets_others_in_is_a_persons_to_approve_and_no_agents_to_correct() -> None:
    public = DeploymentSpec.model_validate({**SPEC, "service": "public"})
    for kind in (CREATE_DEPLOYMENT, UPDATE_DEPLOYMENT):
        assert not kind.asks_a_person(DeploymentSpec.model_validate(SPEC))
        assert kind.asks_a_person(public)
        assert kind.may_be_corrected({"image": "x:1"})
        assert not kind.may_be_corrected({"service": "public"})


@pytest.mark.parametrize(
    ("kind", "harmless", "grave"),
    [
        ("scale-deployment", {"name": "chat", "replicas": 2}, {"replicas": 0}),
        ("assign-model-pool", {"name": "pool", "assignments": {"chat": 1}}, {"public": {"chat": "internal"}}),
        ("create-router", {"name": "front", "target": {"deployment": "chat"}}, {"service": "public"}),
    ],
)
def test_a_request_that_ends_or_opens_something_is_a_persons_to_approve(
    kind: str, harmless: dict[str, Any], grave: dict[str, Any]
) -> None:
    found = KINDS[kind]
    assert not found.asks_a_person(found.spec.model_validate(harmless))
    assert found.asks_a_person(found.spec.model_validate(harmless | grave))
    assert not found.may_be_corrected(grave)
