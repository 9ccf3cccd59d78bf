"""Rules on what a model's ``config.json`` tells: heads, context and memory. Memory is reckoned, not measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.command_facts import ModelShape, Subject
from contracts.commands import Finding, Severity

GIB = 2**30
DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "float8_e4m3fn": 1.0}
OVERHEAD_GIB = 1.5
"""What CUDA, graphs and activations take of a GPU besides weights and cache, at the least."""


def shape_of(config: dict[str, Any], weight_bytes: int | None = None) -> ModelShape:
    """A model by its ``config.json``; of one that sees or hears, the part that writes.

    (Transformers: PretrainedConfig)
    """
    inner = config.get("text_config") or config.get("llm_config") or {}
    text = {**config, **inner} if isinstance(inner, dict) else config

    def number(*keys: str) -> int | None:
        return next((int(text[key]) for key in keys if isinstance(text.get(key), int | float)), None)

    heads, hidden = number("num_attention_heads", "n_head"), number("hidden_size", "n_embd")
    head_size = number("head_dim") or (hidden // heads if hidden and heads else None)
    latent, rope = number("kv_lora_rank"), number("qk_rope_head_dim")
    dtype = str(text.get("dtype") or text.get("torch_dtype") or "bfloat16")
    return ModelShape(
        heads=heads,
        kv_heads=number("num_key_value_heads", "num_kv_heads") or heads,
        layers=number("num_hidden_layers", "n_layer"),
        head_size=head_size,
        latent_size=latent + (rope or 0) if latent else None,
        positions=number("max_position_embeddings", "n_positions", "seq_length"),
        value_bytes=min(DTYPE_BYTES.get(dtype, 2.0), 2.0),
        weight_bytes=weight_bytes,
    )


def heads(subject: Subject) -> Iterator[Finding]:
    """Tensor parallelism divides the attention heads evenly."""
    flags, model = subject.flags, subject.facts.model
    tensor = subject.number(*flags.tensor) if flags else None
    if flags is None or model is None or not model.heads or not tensor or model.heads % tensor == 0:
        return
    fits = [str(number) for number in (1, 2, 4, 8, 16) if model.heads % number == 0 and number <= max(tensor, 8)]
    yield subject.finding(
        "heads",
        Severity.ERROR,
        f"the model has {model.heads} attention heads, which {tensor} GPUs cannot share evenly",
        f"Use a tensor parallel size of {', '.join(fits)}.",
        subject.value(*flags.tensor),
    )


def context(subject: Subject) -> Iterator[Finding]:
    flags, model = subject.flags, subject.facts.model
    option = subject.value(flags.context) if flags else None
    if flags is None or model is None or not model.positions or option is None:
        return
    asked = subject.number(flags.context)
    overridden = subject.value("--hf-overrides", "--rope-scaling", "--json-model-override-args")
    if asked and asked > model.positions and overridden is None:
        yield subject.finding(
            "context",
            Severity.ERROR,
            f"{option.name} {asked} is more than the {model.positions} positions of the model's config.json",
            f"Write at most {model.positions}, or scale the positions (rope scaling) on purpose.",
            option,
        )


def memory(subject: Subject) -> Iterator[Finding]:
    """Weights, and the cache of one request of the full length, in the memory of the GPUs that a replica is given."""
    flags, model, facts = subject.flags, subject.facts.model, subject.facts
    sizes = [each.gpu_gib for each in facts.nodes if each.gpu_gib and each.gpus >= (facts.gpu_count or 1)]
    if flags is None or model is None or not model.weight_bytes or not sizes or not facts.gpu_count:
        return
    shares = (subject.number(*flags.tensor) or 1) * (subject.number(*flags.pipeline) or 1)
    gpu = min(sizes)
    option = subject.value(flags.memory)
    try:
        part = float(option.value or "") if option else flags.memory_default
    except ValueError:
        return
    weights = model.weight_bytes / GIB / shares
    left = gpu * part - weights - OVERHEAD_GIB
    what = f"the weights take about {weights:.1f} GiB of each GPU, which has {gpu:.0f}"
    if subject.value("--quantization", "-q", "--cpu-offload-gb") is not None:
        return
    if weights > gpu:
        remedy = "Share the model among more GPUs (tensor parallelism), use larger ones, or a quantized model."
        yield subject.finding("weights-memory", Severity.ERROR, what, remedy, pointer="/gpu_count")
        return
    if left <= 0:
        remedy = "Share the model among more GPUs, or use larger ones."
        yield subject.finding("weights-memory", Severity.WARNING, f"{what}: little is left for requests", remedy)
        return
    token = token_bytes(model, shares)
    asked = subject.number(flags.context) or model.positions
    if token and asked and token * asked > left * GIB:
        fits = int(left * GIB / token)
        yield subject.finding(
            "cache-memory",
            Severity.WARNING,
            f"a request of {asked} tokens takes about {token * asked / GIB:.1f} GiB of each GPU's cache, and about "
            f"{left:.1f} GiB are left",
            f"Write {flags.context} {max(fits // 1024 * 1024, 1024)}, or use more GPUs.",
            subject.value(flags.context),
        )


def token_bytes(model: ModelShape, shares: int) -> float | None:
    """Bytes that one token takes of the cache of each GPU; None where the shape does not tell."""
    if not model.layers:
        return None
    if model.latent_size:
        # Every GPU of a tensor parallel group keeps the whole of a latent cache.
        return model.layers * model.latent_size * model.value_bytes
    if not model.kv_heads or not model.head_size:
        return None
    return 2 * model.layers * model.kv_heads * model.head_size * model.value_bytes / min(shares, model.kv_heads)


RULES = (heads, context, memory)
