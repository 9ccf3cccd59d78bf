"""vLLM's OpenAI-compatible server: https://docs.vllm.ai/en/stable/serving/openai_compatible_server/

Its failures are in its own words: vllm/config/{model,parallel}.py, vllm/transformers_utils/config.py, argparse.
"""

from __future__ import annotations

from . import loading
from .arguments import Options, parse
from .loading import LOAD_BEGIN
from .model import LMI, VLLM, Exit, Line, Program, Server, Surroundings
from .models import Model, describe
from .vllm_options import SERVE

VERSION = "0.11.0"
IMPORT_SECONDS = 6.0
"""Until the interpreter has everything and looks at its arguments."""
CHECK_SECONDS = 9.0
DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
_API, _CORE = "(APIServer pid=1)", "(EngineCore_DP0 pid=87)"


def serve(words: list[str], around: Surroundings, program: str = "vllm") -> Program:
    """``words``: what follows ``vllm serve``."""
    options = parse(words, SERVE, positionals=1)
    if options.incomplete or options.unknown:
        problem = (
            f"argument {options.incomplete}: expected one argument"
            if options.incomplete
            else f"unrecognized arguments: {' '.join(options.unknown)}"
        )
        usage = (f"usage: {program} [-h] [-v] {{chat,complete,serve,bench,collect-env,run-batch}} ...",)
        return Program(VLLM, exit=Exit(IMPORT_SECONDS, 2, (*usage, f"{program}: error: {problem}")))
    positional = options.positional[0] if options.positional else ""
    return _load(positional or options.get("--model", DEFAULT_MODEL), options, around)


def _load(name: str, options: Options, around: Surroundings) -> Program:
    model = describe(name)
    banner: tuple[Line, ...] = (
        (IMPORT_SECONDS, f"{_API} INFO {{at}} [api_server.py:1839] vLLM API server version {VERSION}"),
        (IMPORT_SECONDS, f"{_API} INFO {{at}} [utils.py:233] non-default args: {_shown(options)}"),
    )
    if problem := _problem(model, options, around):
        trace = ("Traceback (most recent call last):", '  File "/usr/local/bin/vllm", line 8, in <module>', *problem)
        return Program(VLLM, banner, exit=Exit(CHECK_SECONDS, 1, tuple(f"{_API} {line}" for line in trace)))
    context = options.number("--max-model-len", model.context)
    seconds = model.load_seconds
    names = tuple(options.all("--served-model-name")) or (name,)
    server = Server(
        VLLM,
        options.number("--port", 8000),
        reachable=options.get("--host", "0.0.0.0") not in ("127.0.0.1", "localhost"),
        model=name,
        names=names,
        context=context,
        keyed=options.has("--api-key") or bool(around.env.get("VLLM_API_KEY")),
    )
    return Program(VLLM, (*banner, *_loading(model, context, seconds, server.port)), seconds, server)


def _shown(options: Options) -> dict[str, object]:
    shown: dict[str, object] = {"model_tag": options.positional[0]} if options.positional else {}
    for name, values in options.values.items():
        value: object = values if len(values) > 1 else values[0] or True
        shown[name.removeprefix("--").replace("-", "_")] = "***" if name in ("--api-key", "--hf-token") else value
    return shown


def _problem(model: Model, options: Options, around: Surroundings) -> tuple[str, ...]:
    """Why the engine refuses to start."""
    wanted = options.number("--max-model-len", model.context)
    tensor = options.number("--tensor-parallel-size", 1)
    world = tensor * options.number("--pipeline-parallel-size", 1)
    local = options.number("--data-parallel-size-local", options.number("--data-parallel-size", 1))
    spread = options.get("--distributed-executor-backend") in ("ray", "external_launcher") or options.has("--nnodes")
    if problem := loading.source_problem(model, around):
        return problem
    stretched = {"--hf-overrides", "--rope-scaling"} & set(options.values)
    if wanted > model.context and around.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1" and not stretched:
        return (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
            f"  Value error, User-specified max_model_len ({wanted}) is greater than the derived max_model_len "
            f"(max_position_embeddings={model.context} or model_max_length=None in model's config.json). To allow "
            "overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        )
    if not around.gpus and options.get("--device") != "cpu":
        return ("RuntimeError: Failed to infer device type, please set the environment variable "
                "`VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue.",)  # fmt: skip
    if world * local > around.gpus and not spread and options.get("--device") != "cpu":
        return (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig",
            f"  Value error, World size ({world * local}) is larger than the number of available GPUs "
            f"({around.gpus}) in this node. If this is intentional and you are using:",
            "- ray, set '--distributed-executor-backend ray'.",
            "- multiprocessing, set '--nnodes' appropriately.",
        )
    if model.heads % tensor:
        return (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
            f"  Value error, Total number of attention heads ({model.heads}) must be divisible by tensor parallel size "
            f"({tensor}).",
        )
    return ()


def _loading(model: Model, context: int, seconds: float, port: int) -> list[Line]:
    def at(share: float) -> float:
        return IMPORT_SECONDS + (seconds - IMPORT_SECONDS) * share

    info, core = f"{_API} INFO {{at}}", f"{_CORE} INFO {{at}}"
    read = seconds * (loading.LOAD_END - LOAD_BEGIN)
    return [
        (at(0.1), f"{info} [model.py:1510] Using max model len {context}"),
        (at(0.1), f"{core} [core.py:77] Initializing a V1 LLM engine (v{VERSION}) with config: model='{model.name}'"),
        (at(LOAD_BEGIN), f"{core} [gpu_model_runner.py:2602] Starting to load model {model.name}..."),
        *[(at(share), f"{_CORE} {line}") for share, line in loading.shard_lines(model.shards, read)],
        (
            at(loading.LOAD_END),
            f"{core} [gpu_model_runner.py:2653] Model loading took {model.gib:.4f} GiB and {read:.6f} seconds",
        ),
        (at(0.8), f"{core} [backends.py:559] Dynamo bytecode transform time: {seconds * 0.05:.2f} s"),
        (at(0.8), f"{core} [monitor.py:34] torch.compile takes {seconds * 0.08:.2f} s in total"),
        (at(0.9), f"{core} [gpu_worker.py:298] Available KV cache memory: {max(2.0, 70 - model.gib):.2f} GiB"),
        (at(0.9), f"{core} [kv_cache_utils.py:1087] GPU KV cache size: {context * 12:,} tokens"),
        (at(0.9), f"{_CORE} Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67"),
        (seconds, f"{info} [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:{port}"),
        (seconds, f"{_API} INFO:     Application startup complete."),
    ]


def lmi(around: Surroundings) -> Program:
    """The large model inference containers of SageMaker, which take their settings from the environment.
    https://docs.djl.ai/master/docs/serving/serving/docs/lmi/deployment_guide/configurations.html"""
    env = around.env
    name = env.get("HF_MODEL_ID") or env.get("OPTION_MODEL_ID") or "/opt/ml/model"
    model = describe(name)
    degree = env.get("OPTION_TENSOR_PARALLEL_DEGREE") or env.get("TENSOR_PARALLEL_DEGREE") or "max"
    problem = loading.source_problem(model, around)
    if not problem and degree.isdigit() and int(degree) > around.gpus:
        problem = (f"ValueError: tensor parallel degree {degree} is larger than the number of GPUs ({around.gpus})",)
    if problem:
        refusal = ("WARN  PyProcess W-87-model-stderr: Traceback (most recent call last):", *problem)
        return Program(LMI, exit=Exit(CHECK_SECONDS, 1, refusal))
    context = int(env.get("OPTION_MAX_MODEL_LEN") or model.context)
    port = int(env.get("SERVING_PORT") or env.get("SAGEMAKER_BIND_TO_PORT") or 8080)
    names = tuple(n for n in (env.get("OPTION_SERVED_MODEL_NAME") or "lmi", name) if n)
    lines = [(IMPORT_SECONDS, "INFO  ModelServer Starting djl-serving: 0.33.0 ...")]
    lines += [(at, f"INFO  PyProcess W-87-model-stdout: {text}") for at, text in _loading(model, context, 60.0, port)]
    seconds = model.load_seconds
    return Program(
        LMI,
        tuple((at * seconds / 60.0, text) for at, text in lines),
        seconds,
        Server(LMI, port, model=name, names=names, context=context),
    )
