"""Options of the model servers that matter to a deployment, as data.

(vLLM: CLI reference, ``vllm serve``; SGLang: Server Arguments)
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.commands import Engine

PINNED_IMAGES = {
    Engine.VLLM: "vllm/vllm-openai:v0.28.0-cu129",
    Engine.SGLANG: "lmsysorg/sglang:v0.5.13.post1-cu129",
}
"""Builds on CUDA 12.9, which the drivers of HyperPod's images support."""


@dataclass(frozen=True)
class EngineFlags:
    """How one engine calls things."""

    tensor: tuple[str, ...]
    pipeline: tuple[str, ...]
    data: tuple[str, ...]
    nodes: tuple[str, ...]
    """How many machines one server spans."""
    context: str
    memory: str
    """The part of a GPU's memory that may be used."""
    memory_default: float
    port: int
    """Where it listens if it is not told."""
    loopback: bool
    """It listens on 127.0.0.1 only, if it is not told otherwise."""
    data_shares_tensor: str | None
    """Option with which data parallelism divides the tensor parallel GPUs instead of multiplying them."""
    json: frozenset[str]
    """Options whose values are JSON objects or lists."""
    quantization: frozenset[str]
    others: frozenset[str]
    """Further options, to recognise misspelt ones by."""

    @property
    def known(self) -> frozenset[str]:
        own = (*self.tensor, *self.pipeline, *self.data, *self.nodes, self.context, self.memory)
        return frozenset({*own, *self.json, *self.others, *COMMON})


COMMON = (
    *("--host", "--port", "--model", "--revision", "--tokenizer-mode", "--trust-remote-code", "--load-format"),
    *("--dtype", "--kv-cache-dtype", "--quantization", "--served-model-name", "--api-key", "--chat-template"),
    *("--download-dir", "--tool-call-parser", "--reasoning-parser", "--enable-lora", "--max-loras", "--max-lora-rank"),
    *("--ssl-keyfile", "--ssl-certfile", "--seed", "--node-rank", "--log-level", "--config"),
    *("--speculative-config", "--disable-custom-all-reduce", "--limit-mm-per-prompt"),
)

FLAGS_OF = {
    Engine.VLLM: EngineFlags(
        tensor=("--tensor-parallel-size", "-tp"),
        pipeline=("--pipeline-parallel-size", "-pp"),
        data=("--data-parallel-size", "-dp"),
        nodes=("--nnodes", "-n"),
        context="--max-model-len",
        memory="--gpu-memory-utilization",
        memory_default=0.9,
        port=8000,
        loopback=False,
        data_shares_tensor=None,
        json=frozenset(
            {
                *("--hf-overrides", "--compilation-config", "--speculative-config", "--kv-transfer-config"),
                *("--override-generation-config", "--model-loader-extra-config", "--mm-processor-kwargs"),
                *("--limit-mm-per-prompt", "--media-io-kwargs", "--additional-config", "--rope-scaling"),
                *(
                    "--default-chat-template-kwargs",
                    "--kv-events-config",
                    "--pooler-config",
                    "--structured-outputs-config",
                ),
            }
        ),
        quantization=frozenset(
            {
                *("awq", "awq_marlin", "fp8", "fbgemm_fp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "gguf"),
                *(
                    "gptq",
                    "gptq_marlin",
                    "gptq_bitblas",
                    "bitblas",
                    "bitsandbytes",
                    "compressed-tensors",
                    "experts_int8",
                ),
                *("quark", "moe_wna16", "torchao", "auto-round", "inc", "mxfp4", "mxfp8", "petit_nvfp4", "ptpc_fp8"),
                *("rtn", "tpu_int8", "ipex", "hqq", "deepspeedfp", "aqlm", "marlin", "gpt_oss_mxfp4", "fp_quant"),
            }
        ),
        others=frozenset(
            {
                *("--tokenizer", "--skip-tokenizer-init", "--max-num-seqs", "--max-num-batched-tokens"),
                *("--enable-prefix-caching", "--enable-chunked-prefill", "--enforce-eager", "--block-size"),
                *("--swap-space", "--cpu-offload-gb", "--distributed-executor-backend", "--enable-expert-parallel"),
                *("--data-parallel-size-local", "--data-parallel-address", "--data-parallel-rpc-port", "--headless"),
                *("--data-parallel-backend", "--data-parallel-start-rank", "--api-server-count", "--master-addr"),
                *("--enable-auto-tool-choice", "--lora-modules", "--max-cpu-loras", "--generation-config"),
                *("--async-scheduling", "--disable-log-stats", "--disable-log-requests", "--enable-log-requests"),
                *("--allowed-origins", "--allowed-local-media-path", "--uvicorn-log-level", "--root-path"),
                *(
                    "--task",
                    "--runner",
                    "--convert",
                    "--max-logprobs",
                    "--num-gpu-blocks-override",
                    "--attention-backend",
                ),
                *("--kv-cache-memory-bytes", "--decode-context-parallel-size", "--max-seq-len-to-capture"),
                *("--disable-sliding-window", "--enable-sleep-mode", "--scheduling-policy", "--config-format"),
                *("--guided-decoding-backend", "--prefill-context-parallel-size", "--response-role", "--middleware"),
            }
        ),
    ),
    Engine.SGLANG: EngineFlags(
        tensor=("--tp-size", "--tensor-parallel-size", "--tp"),
        pipeline=("--pp-size", "--pipeline-parallel-size", "--pp"),
        data=("--dp-size", "--data-parallel-size", "--dp"),
        nodes=("--nnodes",),
        context="--context-length",
        memory="--mem-fraction-static",
        memory_default=0.88,
        port=30000,
        loopback=True,
        data_shares_tensor="--enable-dp-attention",
        json=frozenset({"--json-model-override-args", "--preferred-sampling-params", "--mm-process-config"}),
        quantization=frozenset(
            {
                *("awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf"),
                *("modelopt", "modelopt_fp8", "modelopt_fp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16"),
                *("qoq", "w4afp8", "mxfp4", "auto-round", "compressed-tensors", "quark", "unquant"),
            }
        ),
        others=frozenset(
            {
                *(
                    "--model-path",
                    "--tokenizer-path",
                    "--ep-size",
                    "--expert-parallel-size",
                    "--ep",
                    "--enable-metrics",
                ),
                *("--max-running-requests", "--max-total-tokens", "--chunked-prefill-size", "--max-prefill-tokens"),
                *("--schedule-policy", "--schedule-conservativeness", "--page-size", "--attention-backend"),
                *("--disable-radix-cache", "--disable-cuda-graph", "--cuda-graph-max-bs", "--enable-torch-compile"),
                *("--speculative-algorithm", "--speculative-draft-model-path", "--speculative-num-steps"),
                *(
                    "--moe-a2a-backend",
                    "--moe-runner-backend",
                    "--dist-init-addr",
                    "--dist-timeout",
                    "--grammar-backend",
                ),
                *(
                    "--lora-paths",
                    "--max-loras-per-batch",
                    "--log-requests",
                    "--enable-p2p-check",
                    "--watchdog-timeout",
                ),
                *("--enable-hierarchical-cache", "--hicache-ratio", "--is-embedding", "--enable-mixed-chunk"),
                *("--stream-interval", "--random-seed", "--base-gpu-id", "--device", "--sampling-backend"),
                *("--skip-server-warmup", "--warmups", "--decode-log-interval", "--disaggregation-mode"),
            }
        ),
    ),
}


def image_engine(image: str) -> Engine | None:
    """The engine of an image by its repository's name; None where the name does not tell."""
    repository = image.partition("@")[0].lower()
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    if "vllm" in repository:
        return Engine.VLLM
    return Engine.SGLANG if "sglang" in repository else None


def image_tag(image: str) -> str | None:
    """The tag, or the digest that pins it; None where the image has neither."""
    name, at, digest = image.partition("@")
    last = name.rpartition("/")[2]
    return digest if at else (last.partition(":")[2] or None)
