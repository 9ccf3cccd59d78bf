"""What a container does is told by its image and its command line, in the words of the engine that it runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes.programs import Program, Surroundings, identify
from sandbox.kubernetes.programs.arguments import parse
from sandbox.kubernetes.programs.models import describe
from sandbox.kubernetes.programs.vllm_options import SERVE

GPUS = Surroundings(mounts=("/s3",), gpus=8)
VLLM, SGLANG = "vllm/vllm-openai:v0.11.0", "lmsysorg/sglang:v0.5.4"
LAUNCH = ("python3", "-m", "sglang.launch_server", "--host", "0.0.0.0", "--model-path")
ROUTER = ("python", "-m", "sglang_router.launch_router")


def container(*args: str, image: str = VLLM, command: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"name": "main", "image": image, "args": list(args), **({"command": list(command)} if command else {})}


def run(*args: str, around: Surroundings = GPUS, **more: Any) -> Program:
    found = identify(container(*args, **more), around)
    assert found is not None
    return found


def last_words(program: Program) -> str:
    assert program.exit is not None, "it serves"
    return "\n".join(program.exit.lines)


def test_what_is_no_server_just_runs() -> None:
    for image, command in (("nginx:1", ()), ("redis:7", ("redis-server",)), ("my/vllm-proxy-app", ("node", "x.js"))):
        assert identify({"name": "main", "image": image, "command": list(command)}, GPUS) is None


@pytest.mark.parametrize(
    ("image", "command", "args"),
    [
        (VLLM, (), ("Qwen/Qwen3-0.6B", "--port", "9000", "--served-model-name", "small", "tiny")),
        (VLLM, (), ("--model", "Qwen/Qwen3-0.6B", "--port=9000", "--served_model_name", "small", "tiny")),
        ("anything", ("vllm", "serve", "Qwen/Qwen3-0.6B"), ("--served-model-name", "small", "tiny", "--port", "9000")),
        (
            "anything",
            ("sh", "-c", "set -e; exec vllm serve Qwen/Qwen3-0.6B --port $PORT \\\n --served-model-name small tiny"),
            (),
        ),
        (
            "anything",
            ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-0.6B"),
            ("--served-model-name", "small", "tiny", "--port", "$(PORT)"),
        ),
    ],
)
def test_vllm_is_known_in_every_form(image: str, command: tuple[str, ...], args: tuple[str, ...]) -> None:
    around = Surroundings(env={"PORT": "9000"}, gpus=1)
    program = run(*args, around=around, image=image, command=command)
    server = program.server
    assert server is not None
    assert (server.engine, server.port, server.names) == ("vllm", 9000, ("small", "tiny"))
    assert (server.model, server.context) == ("Qwen/Qwen3-0.6B", 40_960)


def test_sglang_listens_where_it_is_told() -> None:
    known = run("Qwen/Qwen3-8B", "--port", "8000", "--tp", "8", image=SGLANG, command=LAUNCH).server
    assert known is not None
    assert (known.engine, known.port, known.reachable, known.metrics) == ("sglang", 8000, True, False)
    default = run("--model-path", "Qwen/Qwen3-8B", image=SGLANG, command=("python3", "-m", "sglang.launch_server"))
    assert default.server is not None
    assert (default.server.port, default.server.reachable) == (30_000, False)


def test_a_router_knows_where_its_workers_are() -> None:
    args = (
        *("--service-discovery", "--selector", "app=a", "tier=b", "--service-discovery-port", "8000"),
        *("--service-discovery-namespace", "models", "--policy", "round_robin", "--prometheus-port", "29001"),
    )
    server = run(*args, image=SGLANG, command=ROUTER).server
    assert server is not None
    assert server.discovery is not None
    assert (server.port, server.metrics_port) == (30_000, 29_001)
    found = server.discovery
    assert (found.selector, found.namespace, found.port) == ("app=a,tier=b", "models", 8000)
    assert "invalid choice: 'fastest'" in last_words(run("--policy", "fastest", image=SGLANG, command=ROUTER))


@pytest.mark.parametrize(
    ("args", "around", "says", "code"),
    [
        (("Qwen/Qwen3-8B", "--no-such-flag", "3"), GPUS, "unrecognized arguments: --no-such-flag 3", 2),
        (("Qwen/Qwen3-8B", "extra"), GPUS, "unrecognized arguments: extra", 2),
        (("Qwen/Qwen3-8B", "--port"), GPUS, "argument --port: expected one argument", 2),
        (
            ("Qwen/Qwen3-8B", "-tp", "4", "-pp", "4"),
            GPUS,
            "World size (16) is larger than the number of available GPUs (8) in this node",
            1,
        ),
        (
            ("Qwen/Qwen2.5-7B-Instruct", "-tp", "8"),
            GPUS,
            "heads (28) must be divisible by tensor parallel size (8)",
            1,
        ),
        (("/models/llama",), GPUS, "Invalid repository ID or local directory specified: '/models/llama'", 1),
        (("Qwen/Qwen3-8B", "--max-model-len", "200k"), GPUS, "User-specified max_model_len (200000) is greater", 1),
        (("meta-llama/Llama-3.1-8B",), GPUS, "401 Client Error", 1),
        (("me/no-such-model",), GPUS, "is not a valid model identifier", 1),
        (("Qwen/Qwen3-8B",), Surroundings(), "Failed to infer device type", 1),
    ],
)
def test_vllm_fails_in_its_own_words(args: tuple[str, ...], around: Surroundings, says: str, code: int) -> None:
    program = run(*args, around=around)
    assert says in last_words(program)
    assert program.exit is not None
    assert program.exit.code == code
    assert program.server is None


@pytest.mark.parametrize(
    ("args", "says", "code"),
    [
        (("Qwen/Qwen3-8B", "--tensor-paralel-size", "2"), "unrecognized arguments: --tensor-paralel-size 2", 2),
        (("Qwen/Qwen3-8B", "--tp", "16"), "invalid device ordinal", 1),
        (("/elsewhere/llama",), "'/elsewhere/llama'", 1),
        (("Qwen/Qwen3-8B", "--context-length", "100000"), "greater than the derived context_length (40960)", 1),
        (("google/gemma-3-4b-it",), "gated repo", 1),
    ],
)
def test_sglang_fails_in_its_own_words(args: tuple[str, ...], says: str, code: int) -> None:
    program = run(*args, image=SGLANG, command=LAUNCH)
    assert says in last_words(program)
    assert program.exit is not None
    assert program.exit.code == code


def test_what_mends_a_failure_mends_it() -> None:
    token = Surroundings(env={"HF_TOKEN": "hf_x"}, gpus=1)
    assert run("meta-llama/Llama-3.1-8B", around=token).server
    long = Surroundings(env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, gpus=1)
    assert run("Qwen/Qwen3-8B", "--max-model-len", "200000", around=long).server
    assert run("/s3/models/llama-8b").server
    assert run("Qwen/Qwen3-8B", "-tp", "16", "--distributed-executor-backend", "ray").server


def test_a_key_is_not_printed() -> None:
    program = run("Qwen/Qwen3-8B", "--api-key", "sk-canary")
    assert "sk-canary" not in str(program.lines)
    assert program.server is not None
    assert program.server.keyed


def test_larger_models_load_longer() -> None:
    names = ["Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-7B-Instruct", "mistralai/Mixtral-8x7B", "meta-llama/Llama-3.1-70B"]
    seconds = [describe(name).load_seconds for name in names]
    assert seconds == sorted(seconds)
    assert (seconds[0], seconds[1], seconds[-1]) == (25.0, 60.0, 300.0)
    assert describe("Qwen/Qwen3-30B-A3B").billions == 30
    assert describe("openai-community/gpt2").context == 1024


@given(st.floats(0.01, 2000).map(lambda size: f"org/model-{size:.2f}b"))
def test_a_program_prints_in_order_and_serves_at_the_end(name: str) -> None:
    program = run(name)
    times = [at for at, _ in program.lines]
    assert times == sorted(times)
    assert times[-1] == program.loads
    shards = [m for _, line in program.lines if (m := re.search(r"(\d+)% Completed \| (\d+)/(\d+)", line))]
    assert [int(m[1]) for m in shards] == sorted(int(m[1]) for m in shards)
    assert shards[-1][2] == shards[-1][3]


_VALUES = st.text(st.characters(codec="ascii", exclude_characters="-\n", categories=["L", "N", "P", "S"]), min_size=1)


@given(st.dictionaries(st.sampled_from(sorted(SERVE.valued)), _VALUES, max_size=8), st.booleans())
def test_every_option_is_read_back(values: dict[str, str], joined: bool) -> None:
    words = ["org/model"]
    for name, value in values.items():
        words += [f"{name}={value}"] if joined else [name, value]
    options = parse(words, SERVE, positionals=1)
    assert (options.positional, options.unknown, options.incomplete) == (["org/model"], [], "")
    assert {name: options.get(name) for name in values} == values
