"""SGLang's server: https://docs.sglang.ai/advanced_features/server_arguments.html"""

from __future__ import annotations

import re

from . import loading
from .arguments import Grammar, Options, parse
from .loading import LOAD_BEGIN, LOAD_END
from .model import SGLANG, Exit, Line, Program, Server, Surroundings
from .models import Model, describe

IMPORT_SECONDS = 8.0
CHECK_SECONDS = 11.0

_FLAGS = """
    allow-auto-truncate crash-on-nan debug-cuda-graph debug-tensor-dump-inject delete-ckpt-after-loading
    download-weights-only flashinfer-mla-disable-ragged help is-embedding keep-mm-feature-on-device log-requests
    lora-use-virtual-experts prefill-round-robin-balance sampling-defaults-only show-time-cost skip-server-warmup
    skip-tokenizer-init sleep-on-idle tensorrt-llm trust-remote-code use-data-parallel weight-loader-disable-mmap
    """
_VALUED = """
    api-key admin-api-key attention-backend base-gpu-id bucket-e2e-request-latency bucket-inter-token-latency
    bucket-time-to-first-token chat-template chunked-prefill-size collect-tokens-histogram completion-template
    config constrained-json-whitespace-pattern context-length cpu-offload-gb cuda-graph-bs cuda-graph-max-bs
    data-parallel-size decode-attention-backend decode-log-interval deepep-config deepep-mode device dist-init-addr
    dist-timeout download-dir dp-size dtype dynamic-batch-tokenizer-batch-size ep-size expert-parallel-size
    file-storage-path fp8-gemm-backend generation-tokens-buckets gpu-id-step grammar-backend hicache-ratio
    hicache-size host hybrid-kvcache-ratio init-expert-location json-model-override-args kt-method kv-cache-dtype
    kv-events-config language-only-node load-balance-method load-format log-level log-level-http log-requests-level
    max-loaded-loras max-lora-rank max-loras-per-batch max-mamba-cache-size max-micro-batch-size max-prefill-tokens
    max-queued-requests max-running-requests max-total-tokens mem-fraction-static mm-attention-backend
    mm-process-config model-impl model-loader-extra-config model-path modelopt-quant moe-a2a-backend
    moe-dense-tp-size moe-runner-backend nccl-port nnodes node-rank num-continuous-decode-steps
    num-reserved-decode-tokens page-size pipeline-parallel-size port pp-size preferred-sampling-params
    prefill-attention-backend quantization quantization-param-path random-seed radix-eviction-policy
    reasoning-parser revision sampling-backend sampling-defaults schedule-conservativeness schedule-policy
    served-model-name stream-interval stream-output tensor-parallel-size tokenizer-mode tokenizer-path
    tokenizer-worker-num tool-call-parser tool-server torch-compile-max-bs torchao-config tp-size tp
    triton-attention-num-kv-splits triton-attention-reduce-in-fp32 triton-attention-split-tile-size warmups
    watchdog-timeout weight-loader-prefetch-num-threads
    """
_FAMILIES = r"--(enable|disable|speculative|disaggregation|hicache|lora|mamba|kt|eplb|ep|cuda-graph|mm|nsa|dsa|debug|tbo|two-batch|piecewise|prefill|decode|elastic|mooncake|rl|gc|tokenizer|crash-dump|custom|remote-instance|export|trace|otlp|soft|forward|multi)-[a-z0-9-]+"  # noqa: E501

LAUNCH = Grammar(
    flags=frozenset(f"--{name}" for name in _FLAGS.split()),
    valued=frozenset(f"--{name}" for name in _VALUED.split()),
    lists=frozenset({"--lora-paths", "--lora-target-modules", "--prompt-tokens-buckets"}),
    aliases={
        "--model": "--model-path",
        "--tp": "--tp-size",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--pp": "--pp-size",
        "--dp": "--dp-size",
        "--data-parallel-size": "--dp-size",
        "--ep": "--ep-size",
        "-h": "--help",
    },
    families=re.compile(_FAMILIES),
)


def serve(words: list[str], around: Surroundings) -> Program:
    """``words``: what follows ``python -m sglang.launch_server``."""
    options = parse(words, LAUNCH)
    problem = ""
    if options.incomplete:
        problem = f"argument {options.incomplete}: expected one argument"
    elif not options.has("--model-path"):
        problem = "the following arguments are required: --model-path/--model"
    elif options.unknown:
        problem = f"unrecognized arguments: {' '.join(options.unknown)}"
    if problem:
        lines = ("usage: launch_server.py [-h] --model-path MODEL_PATH", f"launch_server.py: error: {problem}")
        return Program(SGLANG, exit=Exit(IMPORT_SECONDS, 2, lines))
    return _load(options.get("--model-path"), options, around)


def _load(name: str, options: Options, around: Surroundings) -> Program:
    model = describe(name)
    banner: tuple[Line, ...] = ((IMPORT_SECONDS, f"[{{date}}] server_args=ServerArgs(model_path='{name}', ...)"),)
    if refused := _problem(model, options, around):
        lines = ("[{date}] Scheduler hit an exception: Traceback (most recent call last):", *refused)
        return Program(SGLANG, banner, exit=Exit(CHECK_SECONDS, 1, lines))
    seconds = model.load_seconds * 0.9
    server = Server(
        SGLANG,
        options.number("--port", 30_000),
        # Its default is the loopback interface, which no probe and no Service reaches.
        reachable=options.get("--host", "127.0.0.1") not in ("127.0.0.1", "localhost"),
        model=name,
        names=(options.get("--served-model-name", name),),
        context=options.number("--context-length", model.context),
        keyed=options.has("--api-key"),
        metrics=options.has("--enable-metrics"),
    )
    return Program(SGLANG, (*banner, *_loading(model, server, seconds)), seconds, server)


def _problem(model: Model, options: Options, around: Surroundings) -> tuple[str, ...]:
    wanted, tensor = options.number("--context-length", model.context), options.number("--tp-size", 1)
    world = tensor * options.number("--pp-size", 1)
    if not options.has("--enable-dp-attention"):
        world *= options.number("--dp-size", 1)
    if problem := loading.source_problem(model, around):
        return problem
    if wanted > model.context and around.env.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") != "1":
        return (
            f"ValueError: Warning: User-specified context_length ({wanted}) is greater than the derived "
            f"context_length ({model.context}). This may lead to incorrect model outputs or CUDA errors.",
        )
    if options.get("--device") == "cpu":
        return ()
    if not around.gpus:
        return ("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.",)
    if world > around.gpus * options.number("--nnodes", 1):
        return ("torch.AcceleratorError: CUDA error: invalid device ordinal",)
    if model.heads % tensor:
        return (f"AssertionError: {model.heads} is not divisible by {tensor}",)
    return ()


def _loading(model: Model, server: Server, seconds: float) -> list[Line]:
    def at(share: float) -> float:
        return IMPORT_SECONDS + (seconds - IMPORT_SECONDS) * share

    now, read = "[{date} TP0]", seconds * (LOAD_END - LOAD_BEGIN)
    return [
        (at(0.1), f"{now} Init torch distributed begin."),
        (at(LOAD_BEGIN), f"{now} Load weight begin. avail mem=78.50 GB"),
        *[(at(share), line) for share, line in loading.shard_lines(model.shards, read)],
        (at(LOAD_END), f"{now} Load weight end. type=ForCausalLM, dtype=torch.bfloat16, mem usage={model.gib:.2f} GB."),
        (at(0.8), f"{now} KV Cache is allocated. #tokens: {server.context * 12}, K size: 8.00 GB, V size: 8.00 GB"),
        (at(0.9), f"{now} Capture cuda graph end. Time elapsed: {seconds * 0.1:.2f} s."),
        (seconds, "[{date}] INFO:     Application startup complete."),
        (seconds, "[{date}] The server is fired up and ready to roll!"),
    ]
