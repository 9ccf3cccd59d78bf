"""Commands for model servers, models, credentials and calls: what they send, and what they show."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.calls import called
from cli.errors import CliError
from cli.gateway import Gateway as Connection
from cli.gateway import Target
from contracts.command_report import ParseRequest, report
from contracts.credentials import CredentialList
from contracts.deployments import DeploymentDetail, DeploymentList, DeploymentSpec
from contracts.inference import InferenceService, ModelAnswer, Serves, ServicesRead
from contracts.model_pools import ModelPoolDetail, ModelPoolList, PoolPodView
from contracts.models import ModelList, ModelState, ModelView
from contracts.problem import FieldError, ProblemCode, invalid, problem
from contracts.routers import RouterDetail, RouterList, Worker
from tests.api.fake_models import HUB
from tests.api.fake_pools import FRONT, POOL
from tests.api.fake_serving import CHAT
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import NOW, TOKEN, Gateway

Cli = Callable[..., Ran]
ROOT = "/api/v1/clusters/demo"
COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000"
SERVICE = InferenceService(
    namespace="default",
    name="chat",
    serves=Serves.DEPLOYMENT,
    type="ClusterIP",
    port=8000,
    created_at=NOW,
    managed=True,
)
ANSWER = ModelAnswer(
    namespace="default", service="chat", model="m", text="Hello\n\x1b[31mred", completion_tokens=2, seconds=0.5
)


def document(model: Any) -> Any:
    return model.model_dump(mode="json")


def test_what_get_has_printed_stands_for_the_spec_that_it_was_made_from(
    gateway: Gateway, cli: Cli, tmp_path: Path
) -> None:
    spec = DeploymentSpec.model_validate({"name": "chat", "command": COMMAND, "gpu_count": 1})
    detail = DeploymentDetail(deployment=CHAT, spec=spec, read_at=NOW)
    gateway.answers["GET", f"{ROOT}/deployments/chat"] = (200, document(detail))
    gateway.answers["PUT", f"{ROOT}/deployments/chat"] = (202, document(gateway.script[0]))
    file = tmp_path / "chat.yaml"
    file.write_text(cli("deployment", "get", "demo", "chat", "-o", "yaml").out)
    assert cli("deployment", "update", "demo", "chat", "-f", str(file), "--replicas", "2").code == 0
    (asked,) = gateway.requests("PUT", "/deployments/chat")
    assert DeploymentSpec.model_validate(asked.body) == spec.model_copy(update={"replicas": 2})

    file.write_text(file.read_text().partition("spec:")[0] + f"read_at: {NOW.isoformat()}\n")
    refused = cli("deployment", "update", "demo", "chat", "-f", str(file))
    assert (refused.code, "has no spec" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("Say how many.", "remedy: Say how many."),
        (None, "remedy: Correct --gpus and --command, and run the command again."),
    ],
)
def test_a_fault_names_the_option_that_sets_its_field(
    gateway: Gateway, cli: Cli, remedy: str | None, said: str
) -> None:
    faults = [
        FieldError(field="/gpu_count", detail="Field required", remedy=remedy),
        FieldError(field="/command", detail="it holds a token"),
    ]
    refusal = invalid(faults).model_dump(mode="json", exclude_none=True)
    gateway.answers["POST", f"{ROOT}/deployments"] = (422, refusal)
    refused = cli("deployment", "create", "demo", "chat", "--command", COMMAND).err
    assert "/gpu_count: Field required (--gpus)" in refused
    assert said in refused


def test_a_deployment_is_sent_as_the_file_and_the_options_say(gateway: Gateway, cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "server.yaml"
    spec.write_text("env: {LOG_LEVEL: info}\nreplicas: 1\n")
    gateway.answers["PUT", f"{ROOT}/deployments/qwen"] = (202, document(gateway.script[0]))
    options = (
        "-f",
        str(spec),
        "--command",
        COMMAND,
        "--gpus",
        "1",
        "--replicas",
        "2",
        "--instance-type",
        "ml.g5.8xlarge",
    )

    assert cli("deployment", "create", "demo", "qwen", *options).code == 0
    assert cli("deployment", "update", "demo", "qwen", *options).code == 0

    body = {"name": "qwen", "command": COMMAND, "gpu_count": 1, "replicas": 2, "instance_types": ["ml.g5.8xlarge"]}
    expected = {**body, "env": {"LOG_LEVEL": "info"}}
    (asked,) = gateway.requests("POST", "/clusters/demo/deployments")
    (changed,) = gateway.requests("PUT", "/clusters/demo/deployments/qwen")
    assert asked.body == changed.body == expected


def test_a_number_of_gpus_that_was_not_said_is_not_sent(gateway: Gateway, cli: Cli) -> None:
    cli("deployment", "create", "demo", "qwen", "--command", COMMAND)

    (asked,) = gateway.requests("POST", "/clusters/demo/deployments")
    assert asked.body == {"name": "qwen", "command": COMMAND}


def test_scaling_and_ending_name_the_namespace_in_the_query(gateway: Gateway, cli: Cli) -> None:
    assert cli("deployment", "scale", "demo", "qwen", "0", "-n", "ml").code == 0
    assert cli("deployment", "delete", "demo", "qwen").code == 0

    (scaled,) = gateway.requests("POST", "/deployments/qwen/scale")
    assert (scaled.body, scaled.query) == ({"replicas": 0}, {"namespace": "ml"})
    (deleted,) = gateway.requests("DELETE", "/deployments/qwen")
    assert deleted.query == {}


def test_deployments_services_and_commands_are_shown_in_columns(gateway: Gateway, cli: Cli) -> None:
    served = CHAT.model_copy(update={"services": [SERVICE]})
    listed = DeploymentList(deployments=[served], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/deployments"] = (200, document(listed))
    assert "1/1" in cli("deployment", "list", "demo").out
    spec = DeploymentSpec(name="chat", command=COMMAND, gpu_count=1)
    detail = DeploymentDetail(deployment=served, spec=spec, read_at=NOW)
    gateway.answers["GET", f"{ROOT}/deployments/chat"] = (200, document(detail))
    shown = cli("deployment", "get", "demo", "chat").out
    assert COMMAND in shown
    assert "ClusterIP" not in shown
    services = ServicesRead(services=[SERVICE], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/services"] = (200, document(services))
    assert "8000" in cli("service", "list", "demo", "--public").out
    parsed = report(ParseRequest(command="vllm serve m --tensor-parallel-size 4", gpu_count=1))
    gateway.answers["POST", f"{ROOT}/deployments/parse"] = (200, document(parsed))
    shown = cli("deployment", "parse", "demo", "vllm serve m", "--gpus", "1").out
    assert "--tensor-parallel-size" in shown
    assert "parallel-gpus" in shown


def test_a_download_is_sent_as_the_options_say_and_models_are_listed_to_the_end(gateway: Gateway, cli: Cli) -> None:
    cli(
        "model",
        "download",
        "demo",
        "Qwen/Qwen3-0.6B",
        "--include",
        "*.json",
        "--include",
        "*.txt",
        "--credential",
        "hub",
    )
    (asked,) = gateway.requests("POST", "/clusters/demo/models/downloads")
    assert asked.body == {"repository": "Qwen/Qwen3-0.6B", "credential": "hub", "include": ["*.json", "*.txt"]}
    view = ModelView(claim="s3-claim", namespace="default", path="models/a", state=ModelState.READY, size=2048, files=3)
    found = ModelList(models=[view], unreadable=["default/fsx-claim: only pods see it"], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/models"] = (200, document(found))
    shown = cli("model", "list", "demo").out
    assert "2.0 KiB" in shown
    assert "only pods see it" in shown


def test_a_token_comes_from_stdin_and_is_never_shown(
    gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_secret\n"))
    gateway.answers["PUT", f"{ROOT}/credentials/hub"] = (202, document(gateway.script[0]))

    ran = cli("credential", "store", "demo", "hub", "-n", "ml")

    (asked,) = gateway.requests("PUT", "/credentials/hub")
    assert asked.body == {"token": "hf_secret", "namespace": "ml"}
    assert "hf_secret" not in ran.out + ran.err
    credentials = CredentialList(credentials=[HUB], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/credentials"] = (200, document(credentials))
    assert "Deployment server" in cli("credential", "list", "demo").out
    assert cli("credential", "delete", "demo", "hub").code == 0


def told(*events: tuple[str, Any]) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)


def test_what_a_model_writes_is_printed_and_a_terminal_does_not_act_on_it(
    gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = told(("text", {"delta": "Hello\n"}), ("text", {"delta": "\x1b[31mred"}), ("end", document(ANSWER)))
    gateway.streams["POST", f"{ROOT}/services/chat/invocations"] = stream

    whole = cli("call", "demo", "chat", "Hi.", "--max-tokens", "9")
    streamed = cli("call", "demo", "chat", "Hi.", "--stream", "-n", "ml")
    data = cli("call", "demo", "chat", "Hi.", "--stream", "-o", "json")

    assert whole.out == streamed.out == "Hello\n\\x1b[31mred\n"
    assert "0.50 s" in whole.err
    assert json.loads(data.out)["text"] == ANSWER.text
    first, second, _ = gateway.requests("POST", "/invocations")
    assert first.body == {"prompt": "Hi.", "max_tokens": 9, "stream": True}
    assert second.query == {"namespace": "ml"}


@pytest.mark.parametrize("stream", [told(("text", {"delta": "He"})), ""])
def test_an_answer_that_breaks_off_is_a_failure(gateway: Gateway, stream: str) -> None:
    gateway.streams["POST", f"{ROOT}/services/chat/invocations"] = stream
    with pytest.raises(CliError, match="broke off"):
        called(Connection(Target(gateway.url, TOKEN)), "/clusters/demo/services/chat/invocations", {}, print)


def test_a_call_that_fails_says_why(gateway: Gateway, cli: Cli) -> None:
    refused = problem(ProblemCode.NOT_FOUND, "namespace default has no Service chat", remedy="Look at the list.")
    gateway.streams["POST", f"{ROOT}/services/chat/invocations"] = told(("problem", document(refused)))

    ran = cli("call", "demo", "chat", "Hi.")

    assert ran.code == 3
    assert "has no Service chat" in ran.err
    assert "Look at the list." in ran.err


def test_a_pool_is_made_handed_out_and_shown(gateway: Gateway, cli: Cli) -> None:
    assert cli("model-pool", "create", "demo", "pool", "--command", COMMAND, "--gpus", "1", "--replicas", "4").code == 0
    (made,) = gateway.requests("POST", "/clusters/demo/model-pools")
    assert made.body == {"name": "pool", "command": COMMAND, "gpu_count": 1, "replicas": 4}
    gateway.answers["PUT", f"{ROOT}/model-pools/pool/assignments"] = (202, document(gateway.script[0]))
    assert cli("model-pool", "assign", "demo", "pool", "chat=2", "search=1", "-n", "ml", "--keep-services").code == 0
    (asked,) = gateway.requests("PUT", "/model-pools/pool/assignments")
    assert asked.body == {"assignments": {"chat": 2, "search": 1}, "keep_services": True}
    assert asked.query == {"namespace": "ml"}
    assert cli("model-pool", "scale", "demo", "pool", "3").code == 0
    assert cli("model-pool", "delete", "demo", "pool").code == 0
    listed = ModelPoolList(model_pools=[POOL], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/model-pools"] = (200, document(listed))
    assert "chat=1/1" in cli("model-pool", "list", "demo").out
    pod = PoolPodView(name="p-1", business="chat", ready=False, phase="Pending", reason="Unschedulable")
    gateway.answers["GET", f"{ROOT}/model-pools/pool"] = (
        200,
        document(ModelPoolDetail(pool=POOL, pods=[pod], read_at=NOW)),
    )
    assert "Unschedulable" in cli("model-pool", "get", "demo", "pool").out


@pytest.mark.parametrize("assignment", ["chat", "chat=", "chat=two", "=x"])
def test_what_is_no_assignment_is_not_sent(gateway: Gateway, cli: Cli, assignment: str) -> None:
    assert cli("model-pool", "assign", "demo", "pool", assignment).code == 2
    assert not gateway.requests("PUT", "/assignments")


def test_a_router_is_put_before_servers_and_shown(gateway: Gateway, cli: Cli) -> None:
    cli("router", "create", "demo", "way", "--pool", "pool", "--pool-service", "chat", "--service", "public")
    (asked,) = gateway.requests("POST", "/clusters/demo/routers")
    assert asked.body == {"name": "way", "target": {"pool": "pool", "service": "chat"}, "service": "public"}
    assert cli("router", "delete", "demo", "way").code == 0
    gateway.answers["GET", f"{ROOT}/routers"] = (200, document(RouterList(routers=[FRONT], read_at=NOW)))
    assert "deployment chat" in cli("router", "list", "demo").out
    workers = [Worker(url="http://10.0.0.1:8000", healthy=True, pod="chat-1")]
    detail = RouterDetail(router=FRONT, workers=workers, metrics={"requests": 12}, read_at=NOW)
    gateway.answers["GET", f"{ROOT}/routers/way"] = (200, document(detail))
    shown = cli("router", "get", "demo", "way").out
    assert "chat-1" in shown
    assert "healthy" in shown
