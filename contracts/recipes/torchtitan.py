"""torchtitan: pre-training by PyTorch's own parallelisms.

Up to 0.2 a job is configured by a TOML file (``--job.config_file``), from 0.3 on by a function of a Python module
(``--module`` and ``--config``); options behind either are ``--section.name value``.
(torchtitan 0.2: torchtitan/config/manager.py, job_config.py; 0.3: torchtitan/config/manager.py, configs.py)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from contracts.commands import Finding, Severity
from contracts.model import fault
from contracts.recipes.arithmetic import Batch, Degree, batches, parallel, positive
from contracts.recipes.base import ContainerPath, RecipeBase, finding
from contracts.recipes.configs import LONGEST, TOO_LONG, Config, count, deep, flattened, is_on, number, sized
from contracts.recipes.launch import RECIPE_MOUNT, Launch, entry, environment
from contracts.recipes.shape import Shape
from contracts.recipes.trainer import vanishes
from contracts.requests import Document

FILE = "torchtitan.toml"


def _toml(value: Any) -> Any:
    """An object out of TOML text; everything else as it is."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        raise PydanticCustomError("config", TOO_LONG)
    try:
        return json.loads(json.dumps(tomllib.loads(value), default=str, allow_nan=False))
    except (ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())[:300]
        raise PydanticCustomError("config", "cannot be read as TOML: {why}", {"why": shown}) from None


Toml = Annotated[
    Document,
    AfterValidator(sized),
    Field(max_length=500, examples=[{"model": {"name": "llama3", "flavor": "8B"}, "training": {"steps": 1000}}]),
    BeforeValidator(_toml, json_schema_input_type=dict[str, JsonValue] | str),
]


class TorchTitanRecipe(RecipeBase):
    """torchtitan, with a TOML configuration (0.2) or a configuration of one of its modules (0.3)."""

    kind: Literal["torchtitan"] = "torchtitan"
    config: Toml | None = None
    """Its TOML as text, or as an object of sections."""
    config_path: ContainerPath | None = Field(None, examples=["/s3/configs/llama3_8b.toml"])
    """Or a TOML file as the containers see it, which is not looked into here."""
    module: str | None = Field(None, max_length=200, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", examples=["llama3"])
    """Or, from torchtitan 0.3 on, the module whose configurations to use …"""
    config_name: str | None = Field(None, max_length=200, pattern=r"^[A-Za-z_]\w*$", examples=["llama3_8b"])
    """… and the name of one."""
    overrides: Config = Field(default_factory=dict)
    """Options that win, by section, e.g. ``{"training": {"steps": 500}}``."""
    train_module: str = Field("torchtitan.train", max_length=200, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
    """What is started."""
    working_directory: ContainerPath | None = None
    """Where relative paths of the configuration begin, e.g. of the tokenizer."""

    title: ClassVar[str] = "torchtitan"
    progress: ClassVar[str] = "torchtitan"

    @model_validator(mode="after")
    def _one_source(self) -> TorchTitanRecipe:
        if sum(each is not None for each in (self.config, self.config_path, self.module)) != 1:
            raise fault("/config", "give exactly one of config, config_path and module")
        if (self.module is None) != (self.config_name is None):
            missing = "/config_name" if self.config_name is None else "/module"
            raise fault(missing, "module and config_name go together")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Dotted names to values."""
        return {**flattened(self.config or {}), **flattened(self.overrides)}

    @property
    def planned_steps(self) -> int | None:
        return count(self.options.get("training.steps"))

    def launch(self, shape: Shape, submission: str) -> Launch:
        files: dict[str, str] = {}
        if self.module is not None:
            source = ["--module", self.module, "--config", str(self.config_name)]
        elif self.config is not None:
            files = {FILE: toml_text(self.config)}
            source = ["--job.config_file", f"{RECIPE_MOUNT}/{FILE}"]
        else:
            source = ["--job.config_file", str(self.config_path)]
        program = ["-m", self.train_module, *source, *_flags(flattened(self.overrides))]
        argv = entry(shape, submission, program, chdir=self.working_directory)
        return Launch(
            argv=argv, files=files, env={**environment(shape), "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
        )

    def examine(self, shape: Shape) -> Iterator[Finding]:
        options = self.options

        def stated(name: str) -> int | None:
            return number(options.get(name))

        def field(name: str) -> str:
            holder = "overrides" if deep(self.overrides, name) is not None or self.config is None else "config"
            return f"{holder}/{name.replace('.', '/')}"

        counts = ("training.steps", "training.seq_len", "training.local_batch_size")
        yield from positive({field(name): stated(name) for name in counts})
        names = {
            "replicate": "parallelism.data_parallel_replicate_degree",
            "shard": "parallelism.data_parallel_shard_degree",
            "context": "parallelism.context_parallel_degree",
            "tensor": "parallelism.tensor_parallel_degree",
            "pipeline": "parallelism.pipeline_parallel_degree",
        }
        sizes = {name: stated(key) for name, key in names.items()}
        degrees = [Degree(name, size, field(names[name])) for name, size in sizes.items() if size is not None]
        broken = list(parallel(shape, degrees, frozenset({"tensor"})))
        yield from broken
        if self.config is None and not degrees:
            return
        shard = sizes["shard"] if sizes["shard"] is not None else -1
        rest = 1
        for name, size in sizes.items():
            rest *= max(1, size or 1) if name != "shard" else 1
        if shard > 0 and not broken and rest * shard != shape.world and self.config is not None:
            yield finding(
                "parallel-sizes",
                Severity.ERROR,
                field(names["shard"]),
                f"all degrees together make {rest * shard}, and there are {shape.world} processes",
                "Set data_parallel_shard_degree to -1: it takes what is left.",
            )
        if not broken:
            yield from _experts(options, sizes, shape, field)
        split = max(1, sizes["tensor"] or 1) * max(1, sizes["pipeline"] or 1) * max(1, sizes["context"] or 1)
        total = stated("training.global_batch_size")
        if not broken and total is not None and total > 0 and shape.world % split == 0:
            batch = Batch(
                stated("training.local_batch_size")
                if self.config is None
                else stated("training.local_batch_size") or 8,
                None,
                total,
                field("training.local_batch_size"),
                "config",
                field("training.global_batch_size"),
            )
            yield from batches(shape, batch, shape.world // split)
        yield from _lengths(sizes, stated("training.seq_len"), field("training.seq_len"))
        yield from self._checkpoints(options)

    def _checkpoints(self, options: dict[str, Any]) -> Iterator[Finding]:
        if self.config is None:
            return
        on = options.get("checkpoint.enable", options.get("checkpoint.enable_checkpoint"))
        folder = str(options.get("job.dump_folder") or "./outputs")
        if not is_on(on):
            yield finding(
                "never-saved",
                Severity.WARNING,
                "config/checkpoint/enable",
                "no checkpoint is saved: after a fault the job begins at step 0",
                "Set checkpoint.enable to true.",
            )
        elif vanishes(folder):
            yield finding(
                "output-vanishes",
                Severity.WARNING,
                "config/job/dump_folder",
                f"{folder} is on the container or the node: checkpoints vanish with it",
                "Name a folder on the storage, e.g. /s3/checkpoints/my-run.",
            )


def _experts(
    options: dict[str, Any], sizes: dict[str, int | None], shape: Shape, field: Callable[[str], str]
) -> Iterator[Finding]:
    """Experts are laid over the processes of one replica of one pipeline stage.

    (torchtitan/distributed/parallel_dims.py: the sizes of its meshes)
    """
    name = "parallelism.expert_parallel_degree"
    experts = number(options.get(name)) or 1
    tensor = number(options.get("parallelism.expert_tensor_parallel_degree")) or 1
    there = shape.world // (max(1, sizes["replicate"] or 1) * max(1, sizes["pipeline"] or 1))
    if experts > 1 and tensor > 0 and there % (experts * tensor):
        yield finding(
            "parallel-sizes",
            Severity.ERROR,
            field(name),
            f"expert {experts} × expert tensor {tensor} = {experts * tensor} does not divide the {there} processes of "
            "one pipeline stage",
            f"Choose sizes whose product divides {there}.",
        )


def _lengths(sizes: dict[str, int | None], length: int | None, field: str) -> Iterator[Finding]:
    """Tensor parallelism parts a sequence (sequence parallelism), context parallelism into two parts per process.

    (torchtitan/distributed/parallel_dims.py: seq_len_divisor)
    """
    divisor = max(1, sizes["tensor"] or 1) * (2 * (sizes["context"] or 1) if (sizes["context"] or 1) > 1 else 1)
    if length is not None and length > 0 and length % divisor:
        message = f"seq_len {length} is no multiple of {divisor}, into which tensor and context parallelism part it"
        yield finding("sequence-length", Severity.ERROR, field, message)


def toml_text(config: dict[str, Any]) -> str:
    """An object as TOML. Null has no word there, and is left out: absent means the default."""
    own = [f"{_key(key)} = {_toml_value(value)}\n" for key, value in config.items() if _plain(value)]
    tables = [_table(_key(key), value) for key, value in config.items() if isinstance(value, dict)]
    return "".join([*own, *tables])


def _table(name: str, table: dict[str, Any]) -> str:
    own = [f"{_key(key)} = {_toml_value(value)}\n" for key, value in table.items() if _plain(value)]
    below = [_table(f"{name}.{_key(key)}", value) for key, value in table.items() if isinstance(value, dict)]
    return "".join([f"\n[{name}]\n", *own, *below])


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, dict)


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _string(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(each) for each in value if each is not None)}]"
    if isinstance(value, dict):
        members = (f"{_key(key)} = {_toml_value(each)}" for key, each in value.items() if each is not None)
        return f"{{{', '.join(members)}}}"
    if isinstance(value, str):
        return _string(value)
    return json.dumps(value)


def _string(text: str) -> str:
    """JSON's escapes are TOML's, but that TOML knows no surrogate pairs and wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _flags(options: dict[str, Any]) -> list[str]:
    """``--section.name value``; a switch is ``--section.name`` or ``--section.no-name``. (tyro: boolean flags)"""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            section, dot, last = name.rpartition(".")
            words.append(f"--{name}" if value else f"--{section}{dot}no-{last.replace('_', '-')}")
        elif isinstance(value, list):
            words += [f"--{name}", *(each if isinstance(each, str) else json.dumps(each) for each in value)]
        else:
            words += [f"--{name}", value if isinstance(value, str) else "None" if value is None else json.dumps(value)]
    return words
