"""The options of ``vllm serve``: https://docs.vllm.ai/en/stable/cli/serve/"""

from __future__ import annotations

import re

from .arguments import Grammar


def _options(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


_FLAGS = """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling calculate-kv-scales
    cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb disable-async-output-proc
    disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs
    disable-frontend-multiprocessing disable-hybrid-kv-cache-manager disable-log-requests disable-log-stats
    disable-mm-preprocessor-cache disable-nccl-for-dp-synchronization disable-sliding-window
    disable-uvicorn-access-log do-not-use-v1 dual-batch-overlap enable-auto-tool-choice enable-chunked-prefill
    enable-dbo enable-eplb enable-expert-parallel enable-flashinfer-autotune enable-force-include-usage
    enable-kv-cache-events enable-log-deltas enable-log-outputs enable-log-requests enable-logging-iteration-details
    enable-lora enable-lora-bias enable-mfu-metrics enable-mm-embeds enable-multimodal-encoder-data-parallel
    enable-offline-docs enable-per-request-metrics enable-prefix-caching enable-prompt-adapter enable-prompt-embeds
    enable-prompt-tokens-details enable-reasoning enable-request-id-headers enable-return-routed-experts
    enable-server-load-tracking enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint
    enable-tower-connector-lora enforce-eager exclude-tools-when-tool-choice-none fully-sharded-loras headless help
    interleave-mm-strings kv-cache-metrics language-model-only log-error-stack multi-step-stream-outputs numa-bind
    nixl ray-workers-use-nsight return-tokens-as-token-ids scheduler-reserve-full-isl skip-mm-profiling
    skip-tokenizer-init specialize-active-lora tokens-only trust-remote-code trust-request-chat-template
    use-tqdm-on-load use-v2-block-manager version
    """
_VALUED = """
    additional-config all2all-backend allowed-headers allowed-local-media-path allowed-media-domains allowed-methods
    allowed-origins api-server-count attention-backend attention-config block-size chat-template
    chat-template-content-format code-revision collect-detailed-traces compilation-config config config-format
    convert cp-kv-cache-interleave-size cpu-offload-gb cpu-offload-params cudagraph-capture-sizes
    data-parallel-address data-parallel-backend data-parallel-rank data-parallel-rpc-port data-parallel-size
    data-parallel-size-local data-parallel-start-rank dbo-decode-token-threshold dbo-prefill-token-threshold
    dcp-comm-backend decode-context-parallel-size default-chat-template-kwargs default-mm-loras device
    disable-access-log-for-endpoints distributed-executor-backend download-dir dtype ec-transfer-config eplb-config
    expert-placement-strategy fingerprint-mode fingerprint-value fs-io-config generation-config
    gpu-memory-utilization gpu-memory-utilization-gb guided-decoding-backend h11-max-header-count
    h11-max-incomplete-event-size hf-config-path hf-overrides hf-token host io-processor-plugin ir-op-priority
    kernel-config kv-cache-dtype kv-cache-dtype-skip-layers kv-cache-memory-bytes kv-events-config
    kv-offloading-backend kv-offloading-size kv-sharing-fast-prefill kv-transfer-config limit-mm-per-prompt
    load-format log-config-file logits-processor-pattern logits-processors logprobs-mode
    long-prefill-token-threshold lora-dtype lora-extra-vocab-size mamba-block-size mamba-cache-dtype
    mamba-cache-mode mamba-ssm-cache-dtype master-addr master-port max-cudagraph-capture-size max-cpu-loras
    max-log-len max-logprobs max-long-partial-prefills max-lora-rank max-loras max-model-len max-num-batched-tokens
    max-num-partial-prefills max-num-seqs max-parallel-loading-workers max-prompt-adapters max-seq-len-to-capture
    media-io-kwargs mm-encoder-attn-backend mm-encoder-tp-mode mm-processor-cache-gb mm-processor-cache-type
    mm-processor-kwargs mm-shm-cache-max-object-size-mb model model-class-overrides model-impl
    model-loader-extra-config nnodes node-rank nsight-profile num-gpu-blocks-override num-lookahead-slots
    num-redundant-experts num-scheduler-steps offload-backend optimization-level otlp-traces-endpoint
    override-attention-dtype override-generation-config override-neuron-config override-pooler-config
    performance-mode pipeline-parallel-size pooler-config port prefill-context-parallel-size
    prefix-caching-hash-algo preemption-mode profiler-config pt-load-map-location qlora-adapter-name-or-path
    quantization quantization-param-path reasoning-config reasoning-parser reasoning-parser-plugin response-role
    revision root-path rope-scaling rope-theta runner safetensors-load-strategy scheduler-cls scheduler-delay-factor
    scheduling-policy seed shutdown-timeout show-hidden-metrics-for-version speculative-config speculative-model
    num-speculative-tokens ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers ssl-keyfile stream-interval
    structured-outputs-config swap-space task tensor-parallel-size tokenizer tokenizer-mode tokenizer-pool-size
    tokenizer-revision tool-call-parser tool-parser-plugin tool-server ubatch-size uds uvicorn-log-level
    video-pruning-rate weight-transfer-config worker-cls worker-extension-cls worker-use-ray
    """
_LISTS = "api-key lora-modules prompt-adapters served-model-name middleware"

SERVE = Grammar(
    flags=_options(_FLAGS),
    valued=_options(_VALUED),
    lists=_options(_LISTS),
    aliases={
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-dpl": "--data-parallel-size-local",
        "-dpn": "--data-parallel-rank",
        "-dpr": "--data-parallel-start-rank",
        "-dpa": "--data-parallel-address",
        "-dpp": "--data-parallel-rpc-port",
        "-dpb": "--data-parallel-backend",
        "-dcp": "--decode-context-parallel-size",
        "-pcp": "--prefill-context-parallel-size",
        "-ep": "--enable-expert-parallel",
        "-asc": "--api-server-count",
        "-q": "--quantization",
        "-n": "--nnodes",
        "-r": "--node-rank",
        "-O": "--optimization-level",
        "-cc": "--compilation-config",
        "-sc": "--speculative-config",
        "-h": "--help",
        "-v": "--version",
    },
    families=re.compile(r"--(data-parallel|dp-supervisor|cohere|gdn|moe|spec)-[a-z0-9-]+"),
)
