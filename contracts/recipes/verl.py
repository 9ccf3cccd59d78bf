"""VERL: reinforcement learning of language models on Ray.

Its driver is started once, on the head of a Ray cluster, and has the workers do the rest; how many there are is said
by two of its own options, which come from the run's nodes and GPUs. Options are Hydra's overrides.
(verl 0.6: verl/trainer/main_ppo.py, verl/trainer/config, verl/utils/config.py; Hydra: override grammar)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from contracts.commands import Finding, Severity
from contracts.model import fault
from contracts.recipes.arithmetic import Degree, parallel, positive
from contracts.recipes.base import ContainerPath, RecipeBase, finding
from contracts.recipes.configs import Config, count, flattened, number
from contracts.recipes.launch import RAY, Launch, entry, environment
from contracts.recipes.shape import Shape
from contracts.recipes.trainer import vanishes

NODES, GPUS = "trainer.nnodes", "trainer.n_gpus_per_node"
LOGGER, PROJECT = "trainer.logger", "trainer.project_name"
_NAME = re.compile(r"(\+\+?|~)?[A-Za-z_][\w@/-]*(\.[A-Za-z0-9_][\w@/-]*)*", re.ASCII)
_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_BARE = re.compile(r"[A-Za-z_/][\w./@+-]*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "none", "nan", "inf", "yes", "no", "on", "off"})
ESTIMATORS_WITHOUT_CRITIC = ("grpo", "reinforce_plus_plus", "rloo", "remax")


class VerlRecipe(RecipeBase):
    """VERL: PPO, GRPO and their relatives, on Ray."""

    kind: Literal["verl"] = "verl"
    config: Config = Field(default_factory=dict)
    """Options as Hydra names them, nested (``{"data": {"train_batch_size": 256}}``) or dotted; a name that begins with
    ``+`` adds an option. Nodes and GPUs are filled in."""
    module: str = Field("verl.trainer.main_ppo", max_length=200, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
    """The driver; one of the image's modules."""
    script_path: ContainerPath | None = Field(None, examples=["/s3/code/my_driver.py"])
    """A Python driver of one's own instead."""
    config_path: ContainerPath | None = None
    """A YAML file that takes the place of the driver's own configuration (Hydra: --config-dir, --config-name)."""
    working_directory: ContainerPath | None = None

    title: ClassVar[str] = "VERL"
    submissions: ClassVar[tuple[str, ...]] = (RAY,)
    progress: ClassVar[str] = "verl"

    @model_validator(mode="after")
    def _named(self) -> VerlRecipe:
        for name in flattened(self.config):
            if not _NAME.fullmatch(name):
                raise fault("/config", f"{name!r} is no name of an option, which is made of words parted by dots")
        for value in flattened(self.config).values():
            if wrong := next((name for name in _inner_names(value) if not _plain_name(name)), None):
                raise fault("/config", f"{wrong!r} cannot be a name within a list: Hydra has no way to write it")
        if self.script_path is not None and not self.script_path.endswith(".py"):
            raise fault("/script_path", "name a Python file, which ends in .py")
        if self.config_path is not None and not self.config_path.endswith((".yaml", ".yml")):
            raise fault("/config_path", "name a file of YAML")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Dotted names, without Hydra's signs, to values."""
        return {name.lstrip("+~"): value for name, value in flattened(self.config).items()}

    @property
    def planned_steps(self) -> int | None:
        return count(self.options.get("trainer.total_training_steps"))

    def launch(self, shape: Shape, submission: str) -> Launch:
        options = self.options
        program = [self.script_path] if self.script_path is not None else ["-m", self.module]
        if self.config_path is not None:
            folder, _, file = self.config_path.rpartition("/")
            program += ["--config-dir", folder or "/", "--config-name", file.rpartition(".")[0]]
        words = [override(name, value) for name, value in flattened(self.config).items()]
        words += [override(NODES, shape.nodes)] if NODES not in options else []
        words += [override(GPUS, shape.processes_per_node)] if GPUS not in options else []
        tracked = []
        if LOGGER not in options and self.config_path is None:
            # Its own default asks for Weights & Biases, which nobody has a key for here.
            words.append(override(LOGGER, ["console"]))
            tracked.append(override(LOGGER, ["console", "mlflow"]))
        if PROJECT not in options:
            tracked.append(f"{PROJECT}=${{oc.env:MLFLOW_EXPERIMENT_NAME,verl}}")
        argv = entry(
            shape,
            submission,
            [*program, *words],
            chdir=self.working_directory,
            tracked=tracked,
        )
        return Launch(argv=argv, env={**environment(shape), "HYDRA_FULL_ERROR": "1"})

    def examine(self, shape: Shape) -> Iterator[Finding]:
        options = self.options

        def field(name: str) -> str:
            return f"config/{name}" if name in self.config else f"config/{name.replace('.', '/')}"

        for name, size, what in ((NODES, shape.nodes, "nodes"), (GPUS, shape.processes_per_node, "GPUs per node")):
            stated = number(options.get(name))
            if stated is not None and stated != size:
                yield finding(
                    "shape",
                    Severity.ERROR,
                    field(name),
                    f"{name} is {stated}, and the run asks for {size} {what}",
                    "Leave it out: it is filled in.",
                )
        yield from _rollout(options, field, shape)
        yield from _batches(options, field, shape)
        if self.config_path is not None or self.script_path is not None:
            return
        for name in ("data.train_files", "actor_rollout_ref.model.path"):
            if not options.get(name):
                yield finding("missing", Severity.ERROR, field(name), f"there is no {name}")
        if (number(options.get("trainer.save_freq", -1)) or -1) < 1:
            yield finding(
                "never-saved",
                Severity.WARNING,
                field("trainer.save_freq"),
                "no checkpoint is saved: after a fault the job begins at step 0",
                "Set trainer.save_freq to a number of steps.",
            )
        elif vanishes(str(options.get("trainer.default_local_dir") or "")):
            yield finding(
                "output-vanishes",
                Severity.WARNING,
                field("trainer.default_local_dir"),
                "checkpoints are written into the container of the head, and vanish with it",
                "Set trainer.default_local_dir to a folder on the storage, e.g. /s3/checkpoints/my-run.",
            )


def _rollout(options: dict[str, Any], field: Any, shape: Shape) -> Iterator[Finding]:
    """How the model is split where it generates, and where it learns."""
    rollout = "actor_rollout_ref.rollout.tensor_model_parallel_size"
    size = number(options.get(rollout))
    yield from positive({field(rollout): size})
    if size is not None and size > 0:
        yield from parallel(shape, [Degree("tensor parallel", size, field(rollout))], frozenset({"tensor parallel"}))
    for actor in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"):
        sequence = f"{actor}.ulysses_sequence_parallel_size"
        if (size := number(options.get(sequence))) is not None and size > 1:
            yield from parallel(shape, [Degree("sequence parallel", size, field(sequence))])
        if options.get("actor_rollout_ref.actor.strategy") == "megatron":
            degrees = [
                Degree(name, size, field(key))
                for name in ("tensor", "pipeline", "context")
                if (key := _megatron_key(actor, name)) and (size := number(options.get(key))) is not None
            ]
            yield from parallel(shape, degrees, frozenset({"tensor"}))


def _megatron_key(actor: str, name: str) -> str:
    return f"{actor}.megatron.{name}{'' if name == 'context' else '_model'}_parallel_size"


def _batches(options: dict[str, Any], field: Any, shape: Shape) -> Iterator[Finding]:
    """What the driver asserts before it starts any worker."""
    train, mini = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
    micro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    dynamic = options.get("actor_rollout_ref.actor.use_dynamic_bsz") is True
    samples = number(options.get("actor_rollout_ref.rollout.n", 1)) or 1
    values = {name: number(options.get(name)) for name in (train, mini, micro)}
    wrong = list(positive({field(name): value for name, value in values.items()}))
    yield from wrong
    if wrong:
        return
    total, part, each = values[train], values[mini], values[micro]
    megatron = options.get("actor_rollout_ref.actor.strategy") == "megatron"
    if total is not None and not dynamic and not megatron and (total * samples) % shape.world:
        yield finding(
            "global-batch",
            Severity.ERROR,
            field(train),
            f"{total} prompts × {samples} samples = {total * samples} cannot be shared among {shape.world} GPUs",
            f"Use a multiple of {shape.world}.",
        )
    if total is not None and part is not None and part > total:
        message = f"a mini batch of {part} is larger than the batch of {total}"
        yield finding("mini-batch", Severity.ERROR, field(mini), message, f"Use at most {total}.")
    if part is not None and each is not None and not dynamic and not megatron:
        share = part * samples // shape.world
        if share and share % each:
            yield finding(
                "micro-batch",
                Severity.ERROR,
                field(micro),
                f"each GPU gets {share} samples of a mini batch ({part} × {samples} / {shape.world}), "
                f"which is no multiple of {each}",
                f"Use a divisor of {share}.",
            )
    if options.get("algorithm.adv_estimator") in ("grpo", "rloo") and samples < 2:
        yield finding(
            "samples",
            Severity.WARNING,
            field("actor_rollout_ref.rollout.n"),
            f"{options['algorithm.adv_estimator']} compares several answers to a prompt, and one is asked for",
            "Set actor_rollout_ref.rollout.n to 4 or more.",
        )


def _inner_names(value: Any) -> Iterator[str]:
    """Names of objects that are items of lists, which are not flattened."""
    if isinstance(value, dict):
        yield from value
    for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from _inner_names(each)


def _plain_name(name: str) -> bool:
    return _KEY.fullmatch(name) is not None and name.lower() not in _WORDS


def override(name: str, value: Any) -> str:
    """One override in Hydra's grammar."""
    return f"{name}={_hydra(value)}"


def _hydra(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(_hydra(each) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_hydra(each)}' for key, each in value.items())}}}"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value.lower() not in _WORDS else _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """In quotes, where only a quote, and backslashes before one or at the end, are escaped. An interpolation
    (``${…}``) stays one."""
    escaped = re.sub(r"(\\*)'", lambda found: found[1] * 2 + "\\'", text)
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return f"'{escaped}{chr(92) * trailing}'"
