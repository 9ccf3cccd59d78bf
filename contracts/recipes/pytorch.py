"""A plain PyTorch script, and a project of scripts: whatever torchrun could start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from contracts.commands import Finding, Severity
from contracts.model import fault
from contracts.recipes.arithmetic import Batch, Degree, batches, parallel
from contracts.recipes.base import Arguments, ContainerPath, RecipeBase, finding
from contracts.recipes.configs import LONGEST, count, number
from contracts.recipes.launch import RECIPE_MOUNT, Launch, entry, environment
from contracts.recipes.script_secrets import script_secret
from contracts.recipes.shape import Shape

INLINE = "script.py"
IMAGE = "public.ecr.aws/deep-learning-containers/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-ec2-v1.0"
"""AWS's own PyTorch, with EFA and the NCCL plugin for it. (AWS Deep Learning Containers)"""
_MODULE = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"


class PyTorchRecipe(RecipeBase):
    """One script, each of whose processes has RANK, WORLD_SIZE, LOCAL_RANK and the others of torchrun."""

    kind: Literal["pytorch"] = "pytorch"
    script_path: ContainerPath | None = Field(None, examples=["/s3/code/train.py"])
    """A Python file as the containers see it."""
    script_text: str | None = Field(None, min_length=1, max_length=LONGEST)
    """Or the text of one."""
    module: str | None = Field(None, max_length=200, pattern=_MODULE, examples=["my_package.train"])
    """Or a module of the image."""
    arguments: Arguments = Field(default_factory=list)
    """Words for the script, one by one: no shell reads them."""
    working_directory: ContainerPath | None = None
    """Null: the script's own folder, or the image's where the script is given as text or module."""
    requirements: ContainerPath | None = None
    """A ``requirements.txt`` to install first; null: the image has everything."""

    title: ClassVar[str] = "PyTorch script"
    programs: ClassVar[frozenset[str]] = frozenset({"script_text"})
    image: ClassVar[str | None] = IMAGE

    @model_validator(mode="after")
    def _one_source(self) -> PyTorchRecipe:
        if sum(each is not None for each in (self.script_path, self.script_text, self.module)) != 1:
            raise fault("/script_path", "give exactly one of script_path, script_text and module")
        if self.script_path is not None and not self.script_path.endswith(".py"):
            raise fault("/script_path", "name a Python file, which ends in .py; other programs are not started")
        if self.script_text is not None:
            _check_program(self.script_text)
        return self

    @property
    def planned_steps(self) -> int | None:
        return planned_steps(self.arguments)

    def launch(self, shape: Shape, submission: str) -> Launch:
        files = {}
        if self.module is not None:
            program, folder = ["-m", self.module], self.working_directory
        elif self.script_text is not None:
            program, folder, files = [f"{RECIPE_MOUNT}/{INLINE}"], self.working_directory, {INLINE: self.script_text}
        else:
            path = str(self.script_path)
            program, folder = [path], self.working_directory or path.rpartition("/")[0] or "/"
        argv = entry(shape, submission, [*program, *self.arguments], chdir=folder, requirements=self.requirements)
        return Launch(argv=argv, files=files, env=environment(shape), image=self.image)

    def examine(self, shape: Shape) -> Iterator[Finding]:
        yield from examine_arguments(self.arguments, shape)


def _check_program(text: str) -> None:
    """Raises the fault of a program that Python cannot read, or that holds a secret."""
    try:
        compile(text, INLINE, "exec", dont_inherit=True)
        secret = script_secret(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        why = getattr(error, "msg", error) if isinstance(error, SyntaxError | ValueError) else "it is nested too deeply"
        raise fault("/script_text", f"is no Python{where}: {why}") from None
    if secret is not None:
        kind, line = secret
        said = f"holds {kind} in line {line}, which everybody who may read the job would see"
        remedy = "store it as a credential, name that in secret_env, and read the variable (os.environ) in the script"
        raise fault("/script_text", f"{said}; {remedy}")


class ScriptRecipe(RecipeBase):
    """A folder of code on the storage, with the file in it that is to be started."""

    kind: Literal["script"] = "script"
    project_path: ContainerPath = Field(examples=["/s3/code/my-project"])
    """The folder as the containers see it; the job runs in it."""
    entry: str = Field(max_length=400, pattern=r"^[\w.@+-]+(/[\w.@+-]+)*\.py$", examples=["train.py"])
    """The Python file below it."""
    arguments: Arguments = Field(default_factory=list)
    requirements: str | None = Field("requirements.txt", max_length=400, pattern=r"^[\w.@+-]+(/[\w.@+-]+)*$")
    """A file below the folder that says what to install first, where it is there; null: nothing is installed."""

    title: ClassVar[str] = "Script project"
    image: ClassVar[str | None] = IMAGE

    @model_validator(mode="after")
    def _inside(self) -> ScriptRecipe:
        for name, path in (("/entry", self.entry), ("/requirements", self.requirements or "")):
            if ".." in path.split("/"):
                raise fault(name, "must stay below the project's folder")
        return self

    @property
    def planned_steps(self) -> int | None:
        return planned_steps(self.arguments)

    def launch(self, shape: Shape, submission: str) -> Launch:
        program = [f"{self.project_path}/{self.entry}", *self.arguments]
        wanted = f"{self.project_path}/{self.requirements}" if self.requirements else None
        argv = entry(shape, submission, program, chdir=self.project_path, requirements_if_there=wanted)
        return Launch(argv=argv, env=environment(shape), image=self.image)

    def examine(self, shape: Shape) -> Iterator[Finding]:
        yield from examine_arguments(self.arguments, shape)


_PARALLEL = {
    "tensor": ("tensor-parallel-size", "tensor-model-parallel-size", "tp-size", "tp"),
    "pipeline": ("pipeline-parallel-size", "pipeline-model-parallel-size", "pp-size", "pp"),
    "context": ("context-parallel-size", "cp-size"),
}
_STEPS = ("max-steps", "train-iters", "total-training-steps", "num-steps")
_BATCH = {
    "per_device": ("per-device-train-batch-size", "micro-batch-size", "train-micro-batch-size-per-gpu"),
    "accumulation": ("gradient-accumulation-steps",),
    "total": ("global-batch-size", "train-batch-size"),
}


def examine_arguments(arguments: Sequence[str], shape: Shape) -> Iterator[Finding]:
    """What the usual names of options say about sizes. A script may mean something else by them, so a sum that does
    not come out is a warning."""
    options = _options(arguments)

    def first(names: tuple[str, ...]) -> tuple[int | None, str]:
        found = next((options[name] for name in names if name in options), None)
        return (None, "arguments") if found is None else (number(found[0]), f"arguments/{found[1]}")

    degrees = []
    for name, names in _PARALLEL.items():
        size, field = first(names)
        if size is not None and size > 1:
            degrees.append(Degree(name, size, field))
    split = 1
    for degree in degrees:
        split *= degree.size
    (each, each_field), (steps, steps_field), (total, total_field) = (first(names) for names in _BATCH.values())
    batch = Batch(each, steps, total, each_field, steps_field, total_field)
    replicas = shape.world // split if shape.world % split == 0 else None
    found = [*parallel(shape, degrees), *(batches(shape, batch, replicas) if replicas else ())]
    yield from (each.model_copy(update={"severity": Severity.WARNING}) for each in found)
    index = next((index for index, word in enumerate(arguments) if "$(" in word or "${" in word), None)
    if index is not None:
        yield finding(
            "not-expanded",
            Severity.INFO,
            f"arguments/{index}",
            "no shell reads the arguments: the script gets the dollar sign as it stands",
            "Write the value out, or read the variable in the script.",
        )


def planned_steps(arguments: Sequence[str]) -> int | None:
    """By the usual names of the option."""
    options = _options(arguments)
    return next((count(options[name][0]) for name in _STEPS if name in options), None)


def _options(arguments: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Long options with their values, and where each value stands."""
    found: dict[str, tuple[str, int]] = {}
    for index, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if equals:
            found[name] = (value, index)
        elif index + 1 < len(arguments):
            found[name] = (arguments[index + 1], index + 1)
    return found
