"""What a container of a training job is started with, whatever the framework and the submission path.

The container's command is our entry script, which comes in by a ConfigMap: it finds its place among the nodes, has the
launcher of the path (hyperpodrun, torchrun, or none) start the program, and runs nothing through a shell.
(recipes/train/entry.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from contracts.model import Model
from contracts.recipes.shape import Shape

RECIPE_MOUNT = "/opt/instantstart/recipe"
"""Where the files and scripts of a launch are mounted, read-only."""
LOCAL_MOUNT = "/local"
"""The node's own fast disk as pods see it. Where it is missing, the entry script takes ``/tmp`` instead."""
CACHE_FOLDER = f"{LOCAL_MOUNT}/instantstart"
SCRIPTS = "train"
"""The folder of ``recipes/`` with the entry script."""
ENTRY = f"{RECIPE_MOUNT}/entry.py"

HYPERPOD, RAY, SAGEMAKER = "hyperpod", "ray", "sagemaker"
LAUNCHERS = {HYPERPOD: "hyperpodrun", RAY: "none", SAGEMAKER: "torchrun"}
"""What starts the processes of a node: a RayJob's entrypoint runs once, on the head."""


class Launch(Model):
    """What a container of the job is started with."""

    argv: list[str]
    """Every word of the command, byte for byte: a manifest must keep Kubernetes from expanding it
    (contracts.commands.literal)."""
    env: dict[str, str] = Field(default_factory=dict)
    """Defaults of the recipe: what the run's own ``env`` says wins."""
    files: dict[str, str] = Field(default_factory=dict)
    """Name to text, mounted at RECIPE_MOUNT beside the scripts."""
    scripts: str = SCRIPTS
    """Folder of ``recipes/`` whose ``*.py`` go along."""
    image: str | None = None
    """The recipe's pinned image; null: none is known that everybody can pull, so the run must name one."""

    def at(self, mount: str) -> Launch:
        """The same where files and scripts are found elsewhere, e.g. in a channel of a SageMaker training job."""
        moved = [word.replace(RECIPE_MOUNT, mount) for word in self.argv]
        return self.model_copy(update={"argv": moved})


def caches(place: str = CACHE_FOLDER) -> dict[str, str]:
    """Where libraries keep what can be had again: on the node's own disk, never in the container's layer or on S3.

    (Hugging Face Hub: environment variables; Triton: TRITON_CACHE_DIR; PyTorch: TORCHINDUCTOR_CACHE_DIR, TORCH_HOME)
    """
    return {
        "HF_HOME": f"{place}/huggingface",
        "MODELSCOPE_CACHE": f"{place}/modelscope",
        "TORCH_HOME": f"{place}/torch",
        "TORCHINDUCTOR_CACHE_DIR": f"{place}/inductor",
        "TORCH_EXTENSIONS_DIR": f"{place}/torch-extensions",
        "TRITON_CACHE_DIR": f"{place}/triton",
        "VLLM_CACHE_ROOT": f"{place}/vllm",
        "XDG_CACHE_HOME": f"{place}/cache",
        "TMPDIR": f"{place}/tmp",
    }


def environment(shape: Shape) -> dict[str, str]:
    """Variables of every recipe.

    Where there is EFA, libfabric is told to use it, so that a job without it fails instead of crawling over TCP.
    NCCL's start is logged: whether it took EFA is the first question of a slow job.
    (AWS: Get started with EFA and NCCL; NCCL: environment variables)
    """
    fabric = {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1"} if shape.efa_per_node else {}
    return {
        **caches(),
        **fabric,
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0",
        "PYTHONUNBUFFERED": "1",
        "LOGLEVEL": "INFO",
    }


def entry(
    shape: Shape,
    submission: str,
    program: Sequence[str],
    *,
    chdir: str | None = None,
    requirements: str | None = None,
    requirements_if_there: str | None = None,
    arguments_from: str | None = None,
    tracked: Iterable[str] = (),
    look_into: str | None = None,
) -> list[str]:
    """The words that have the entry script start ``program``: a script's path or ``-m`` and a module, and arguments.

    ``arguments_from``: a file of JSON or YAML whose members are further arguments (``--key value``). ``tracked``: words
    added where the run reports to MLflow, which is known by MLFLOW_TRACKING_URI, unless that file, or the configuration
    ``look_into``, says already whom to report to.
    """
    words = ["python3", ENTRY, "--launcher", LAUNCHERS[submission]]
    words += ["--nodes", str(shape.nodes), "--processes", str(shape.processes_per_node)]
    for option, value in (
        ("--chdir", chdir),
        ("--requirements", requirements),
        ("--requirements-if-there", requirements_if_there),
        ("--arguments-from", arguments_from),
        ("--look-into", look_into),
    ):
        if value is not None:
            words += [option, value]
    return [*words, *(f"--tracked={word}" for word in tracked), "--", *program]
