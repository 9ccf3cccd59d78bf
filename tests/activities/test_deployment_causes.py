"""Why a server ended, by the end of its log: words as vLLM, SGLang and Hugging Face's library write them."""

from __future__ import annotations

import pytest

from activities.deployments.causes import cause_of, shown

TRACE = 'Traceback (most recent call last):\n  File "/usr/local/bin/vllm", line 8, in <module>\n'


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "/gpu_count"),
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "/gpu_count"),
        ("ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored"
         " in KV cache (49312).", "/command"),
        ("  Value error, User-specified max_model_len (999) is greater than the derived max_model_len", "/command"),
        ("  Value error, World size (8) is larger than the number of available GPUs (4) in this node.", "/gpu_count"),
        ("  Value error, Total number of attention heads (32) must be divisible by tensor parallel size (3).",
         "/command"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.\nCannot access gated repo.", "/credential"),
        ("OSError: org/m is not a local folder and is not a valid model identifier listed on x", "/command"),
        ("vllm: error: unrecognized arguments: --tensor-paralel-size 2", "/command"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "/image"),
        ("ValueError: Model architectures ['NewForCausalLM'] are not supported for now.", "/image"),
        ("Bus error (core dumped)", "/shm_gib"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/s3/m/config.json'", "/command"),
    ],
)  # fmt: skip
def test_a_known_failure_is_told_with_the_field_to_correct(words: str, field: str) -> None:
    cause, line = cause_of(f"INFO loading\n{TRACE}{words}\nRuntimeError: Engine core initialization failed.")
    assert cause is not None
    assert (cause.field, bool(cause.remedy)) == (field, True)
    assert line


@pytest.mark.parametrize(
    "words", ["OSError: [Errno 28] No space left on device", "exec /usr/bin/python3: exec format error"]
)
def test_a_known_failure_may_have_no_field(words: str) -> None:
    cause, _ = cause_of(words)
    assert cause is not None
    assert cause.field is None


def test_throttling_may_pass_by_itself() -> None:
    cause, _ = cause_of("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: x")
    assert cause is not None
    assert cause.passes


def test_of_an_unknown_failure_the_last_error_is_told() -> None:
    cause, line = cause_of(f"{TRACE}KeyError: 'x'\nValueError: the moon is full\nbye")
    assert (cause, line) == (None, "ValueError: the moon is full")
    assert cause_of("") == (None, None)
    assert cause_of("one\ntwo\n") == (None, "two")


@pytest.mark.parametrize(
    "line",
    ["token hf_Zabcdefghij is wrong", "api_key=abcdef123 refused", "'api-key': 'abcdef123'", "sk-abcdefghijklmnop"],
)
def test_a_line_is_told_without_what_looks_like_a_secret(line: str) -> None:
    assert not any(secret in shown(line) for secret in ("abcdefghij", "abcdef123"))
