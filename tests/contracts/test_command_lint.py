"""The linter: each rule speaks where it should, and is silent where it should be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import command_memory
from contracts.command_facts import LintFacts, ModelShape, NodeShape, whole_number
from contracts.command_lint import lint
from contracts.command_memory import shape_of, token_bytes
from contracts.command_report import ParseRequest, report
from contracts.commands import Severity, parse

P5 = NodeShape(instance_type="ml.p5.48xlarge", gpus=8, gpu_gib=80)
G5 = NodeShape(instance_type="ml.g5.8xlarge", gpus=1, gpu_gib=22.4)
SMALL = ModelShape(heads=32, kv_heads=8, layers=32, head_size=128, positions=32768, weight_bytes=16 * 2**30)


def rules(text: str, severity: Severity | None = None, **facts: Any) -> list[str]:
    found = lint(parse(text), LintFacts.model_validate(facts), command_memory.RULES)
    return [each.rule for each in found if severity is None or each.severity is severity]


def test_a_good_command_has_no_findings() -> None:
    facts = {"port": 8000, "gpu_count": 4, "nodes": [P5], "model": SMALL, "image": "vllm/vllm-openai:v0.28.0"}
    text = "vllm serve Qwen/Qwen3-8B --port 8000 -tp 4 --max-model-len 32768 --served-model-name chat"
    assert rules(text, **facts) == []
    sglang = "python -m sglang.launch_server --model-path m/m --host 0.0.0.0 --port 8000 --tp 4"
    assert rules(sglang, **{**facts, "image": "lmsysorg/sglang:v0.5.13"}) == []


@pytest.mark.parametrize(
    ("text", "facts", "rule"),
    [
        ("vllm serve m --port 8001", {"port": 8000}, "port"),
        ("vllm serve m", {"port": 9000}, "port"),
        ("sglang serve --model-path m --host 0.0.0.0", {"port": 8000}, "port"),
        ("sglang serve --model-path m --port 8000", {"port": 8000}, "host"),
        ("vllm serve m --host 127.0.0.1", {}, "host"),
        ("vllm serve m --host=localhost", {}, "host"),
        ("vllm serve m -tp 8", {"gpu_count": 4}, "parallel-gpus"),
        ("vllm serve m --tensor-parallel-size=2 -pp 2 -dp 2", {"gpu_count": 4}, "parallel-gpus"),
        ("vllm serve m --tensor_parallel_size 8", {"gpu_count": 4}, "parallel-gpus"),
        ("sglang serve --model-path m --host 0.0.0.0 --tp 4 --dp 2", {"gpu_count": 4}, "parallel-gpus"),
        ("vllm serve m -tp 16", {"gpu_count": 16, "nodes": [P5]}, "gpus-of-node"),
        ("vllm serve m -tp 9", {"gpu_count": 9, "nodes": [P5]}, "gpus-of-node"),
        ("sglang serve --model-path m --host 0.0.0.0 --nnodes 2 --tp 16", {"gpu_count": 16}, "several-nodes"),
        ("vllm serve m -tp 3", {"gpu_count": 3, "model": SMALL}, "heads"),
        ("vllm serve m --max-model-len 65536", {"model": SMALL}, "context"),
        ("vllm serve m --max-model-len 64K", {"model": SMALL}, "context"),
        ("vllm serve m", {"gpu_count": 1, "nodes": [G5], "model": SMALL.model_copy(update={"weight_bytes": 2**36})},
         "weights-memory"),
        ("vllm serve /s3/models/m", {"mounts": {}}, "model-path"),
        ("vllm serve /s3/m", {"mounts": {"/fsx": "fsx-claim"}}, "model-path"),
        ("vllm serve org/m", {"environment": {"HF_HUB_OFFLINE": "1"}}, "offline"),
        ("vllm serve", {}, "model"),
        ("vllm serve m --api-key abc", {}, "secret"),
        ("vllm serve m --api-key=abc", {}, "secret"),
        ("x --token hf_abcdefghijklmnop", {}, "secret"),
        ("vllm serve m\0", {}, "characters"),
        ("vllm serve m --hf-overrides {a:1}", {}, "json"),
        ("vllm serve m --compilation-config '{level:3}'", {}, "json"),
        ("vllm serve m --gpu-memory-utilization 90", {}, "memory-share"),
        ("sglang serve --model-path m --host 0.0.0.0 --mem-fraction-static 0", {}, "memory-share"),
        ("vllm serve m", {"image": "lmsysorg/sglang:v0.5.13"}, "image-engine"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_an_error(text: str, facts: dict[str, Any], rule: str) -> None:
    assert rule in rules(text, Severity.ERROR, **facts)


@pytest.mark.parametrize(
    ("text", "facts", "rule"),
    [
        ("vllm serve m -tp 2", {"gpu_count": 4}, "parallel-gpus"),
        ("vllm serve m", {"gpu_count": 0}, "no-gpus"),
        ("vllm serve m --max-model-length 8", {}, "unknown-flag"),
        ("vllm serve m --tensor-paralel-size 2", {"gpu_count": 2}, "unknown-flag"),
        ("vllm serve m \u2013tp 2", {}, "characters"),
        ("vllm serve \u201cm\u201d", {}, "characters"),
        ("vllm serve m --seed 1 --seed 2", {}, "twice"),
        ("vllm serve m --quantization awqq", {}, "quantization"),
        ("vllm serve m", {"image": "vllm/vllm-openai:latest"}, "image-tag"),
        ("vllm serve m", {"image": "registry.local:5000/vllm-openai"}, "image-tag"),
        ("vllm serve m", {"name": "vllm"}, "service-name"),
        ("vllm serve org/m", {"gated": True}, "gated"),
        ("vllm serve m --gpu-memory-utilization 0.99", {}, "memory-share"),
        ("vllm serve m", {"gpu_count": 1, "nodes": [G5], "model": SMALL}, "cache-memory"),
        ("vllm serve /s3models/m", {"mounts": {"/s3": "s3-claim"}}, "model-path"),
        ("vllm serve /opt/model", {"mounts": {"/s3": "s3-claim"}}, "model-path"),
    ],
)
def test_what_may_surprise_is_a_warning(text: str, facts: dict[str, Any], rule: str) -> None:
    assert rule in rules(text, Severity.WARNING, **facts)


@pytest.mark.parametrize(
    ("text", "facts", "rule"),
    [
        ("vllm serve m --max-model-len 65536 --rope-scaling '{}'", {"model": SMALL}, "context"),
        ("sglang serve --model-path m --host 0.0.0.0 --tp 4 --dp 4 --enable-dp-attention", {"gpu_count": 4},
         "parallel-gpus"),
        ("vllm serve /s3/models/m", {"mounts": {"/s3": "s3-claim"}}, "model-path"),
        ("vllm serve /s3/models/m", {}, "model-path"),
        ("vllm serve org/m", {"gated": True, "credential": True}, "gated"),
        ("vllm serve m --hf-overrides.rope_theta 5", {}, "json"),
        ("vllm serve m --no-enable-prefix-caching", {}, "unknown-flag"),
        ("vllm serve m", {"image": "vllm/vllm-openai@sha256:" + "0" * 64}, "image-tag"),
        ("vllm serve m", {"name": "vllm", "service": False}, "service-name"),
        ("./serve.sh --port 1 --api-server", {"port": 2, "gpu_count": 8, "image": "me/vllm:1"}, "image-engine"),
    ],
)  # fmt: skip
def test_what_is_meant_so_is_left_alone(text: str, facts: dict[str, Any], rule: str) -> None:
    assert rule not in rules(text, **facts)


def test_code_of_the_model_is_pointed_out() -> None:
    assert rules("vllm serve m --trust-remote-code") == ["remote-code"]


def test_a_secret_is_found_without_being_repeated() -> None:
    found = lint(parse("vllm serve m --api-key abcdef123"), LintFacts())
    assert [each.rule for each in found] == ["secret"]
    assert all("abcdef123" not in each.model_dump_json() for each in found)


def test_findings_name_the_word_that_they_are_about() -> None:
    (finding,) = lint(parse("vllm serve m --port 8001"), LintFacts(port=8000))
    assert (finding.token, finding.text) == (3, "--port")
    (inside,) = lint(parse("cd / && exec vllm serve m --port 8001", None, "sh"), LintFacts(port=1))
    assert inside.token is None


def test_a_cache_that_does_not_fit_is_told_with_a_length_that_does() -> None:
    found = lint(
        parse("vllm serve m --max-model-len 32768"),
        LintFacts(gpu_count=1, nodes=[G5], model=SMALL),
        command_memory.RULES,
    )
    (finding,) = [each for each in found if each.rule == "cache-memory"]
    length = int((finding.remedy or "").split("--max-model-len ")[1].split(",")[0])
    again = parse(f"vllm serve m --max-model-len {length}")
    assert "cache-memory" not in [
        each.rule for each in lint(again, LintFacts(gpu_count=1, nodes=[G5], model=SMALL), command_memory.RULES)
    ]


def test_a_models_shape_is_read_from_its_configuration() -> None:
    qwen = {"num_attention_heads": 16, "num_key_value_heads": 8, "hidden_size": 1024, "head_dim": 128}
    found = shape_of({**qwen, "num_hidden_layers": 28, "max_position_embeddings": 40960, "torch_dtype": "bfloat16"})
    assert (found.heads, found.kv_heads, found.head_size, found.positions) == (16, 8, 128, 40960)
    assert token_bytes(found, 1) == 2 * 28 * 8 * 128 * 2
    seeing = shape_of({"text_config": {**qwen, "num_hidden_layers": 2}})
    assert (seeing.heads, seeing.layers) == (16, 2)
    latent = shape_of({"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64})
    assert token_bytes(latent, 8) == 61 * 576 * 2


@given(st.integers(1, 10**9))
def test_numbers_are_read_as_vllm_reads_them(number: int) -> None:
    assert whole_number(str(number)) == number
    assert whole_number(f"{number}k") == number * 1000
    assert whole_number(f"{number}K") == number * 1024


def test_a_report_needs_no_cluster() -> None:
    found = report(ParseRequest(command="vllm serve m -tp 2 --port 8001", port=8000, gpu_count=2))
    assert (found.gpus_used, found.image) == (2, "vllm/vllm-openai:v0.28.0-cu129")
    assert [each.rule for each in found.findings] == ["port"]
    alone = report(ParseRequest(command="--model m -tp 4", image="vllm/vllm-openai:v0.11.0"))
    assert (alone.command.engine, alone.command.model, alone.gpus_used) == ("vllm", "m", 4)
    assert report(ParseRequest(command="a && b")).findings[0].rule == "shell-syntax"
