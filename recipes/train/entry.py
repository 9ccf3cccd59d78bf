"""Start a training program on this node, by the launcher of whatever runs the job.

It is the command of a training container, on any image with Python 3.9 or newer and nothing else: it finds its place
among the nodes, prepares folders for caches, installs what the program asks for, and gives way to the launcher, so that
signals reach it. Nothing is run through a shell.

    python3 entry.py --launcher hyperpodrun --nodes 2 --processes 8 -- /s3/code/train.py --epochs 3
    python3 entry.py --launcher torchrun --nodes 1 --processes 4 -- -m my_package.train

Where it cannot go on it says why on standard error and in the container's termination message
(https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/), and ends with 64 (used
wrongly), 66 (a file is not there), 69 (something cannot be installed) or 127 (a program is not there).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from arguments import named, words_from
from endings import MISSING_FILE, MISSING_PROGRAM, NOT_INSTALLED, Stop, leave
from launchers import Asked, command
from places import place

AGENT = "hyperpod-elastic-agent==1.1.3"
"""Brings hyperpodrun; installed where an image does not have it."""
LOCAL, INSTEAD = "/local", "/tmp"
"""Caches are kept on the node's own disk; in the container where a pod has none."""
CACHES = (
    *("HF_HOME", "MODELSCOPE_CACHE", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    *("TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TMPDIR"),
)


def options(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What stands before ``--``, and the program behind it."""
    if "--" not in words:
        raise Stop(64, "the program is missing: write it behind --")
    end = words.index("--")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--launcher", choices=("hyperpodrun", "torchrun", "none"), required=True)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="on each node")
    parser.add_argument("--chdir", help="folder to run in")
    parser.add_argument("--requirements", help="file of packages to install first")
    parser.add_argument("--requirements-if-there", help="the same, where the file exists")
    parser.add_argument("--arguments-from", help="file of JSON or YAML whose members are further arguments")
    parser.add_argument("--look-into", help="configuration that may say already what --tracked would")
    parser.add_argument("--tracked", action="append", default=[], help="word to add where MLFLOW_TRACKING_URI is set")
    try:
        parsed = parser.parse_args(words[:end])
    except SystemExit as error:
        raise Stop(64, f"the options of entry.py are wrong: {' '.join(words[:end])}") from error
    program = words[end + 1 :]
    if not program or (program[0] == "-m" and len(program) < 2):
        raise Stop(64, "the program is missing: write it behind --")
    return parsed, program


def prepare_caches(environment: dict[str, str], local: str = LOCAL, instead: str = INSTEAD) -> None:
    """Make the folders that caches go to; in the container where the node's disk is not there or may not be written."""
    usable = os.path.isdir(local) and os.access(local, os.W_OK)
    for name in CACHES:
        folder = environment.get(name)
        if not folder or not folder.startswith("/"):
            continue
        if folder.startswith(f"{local}/") and not usable:
            folder = f"{instead}{folder[len(local) :]}"
            environment[name] = folder
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            say(f"{name}: {folder} cannot be made ({error.strerror}); libraries use their own default")
            del environment[name]


def install(packages: list[str], environment: dict[str, str]) -> None:
    """With this Python's pip. Raises Stop where that fails."""
    words = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *packages]
    say(f"installing {' '.join(packages)}")
    ended = subprocess.run(words, env=environment, check=False)
    if ended.returncode:
        raise Stop(NOT_INSTALLED, f"pip could not install {' '.join(packages)}: it ended with {ended.returncode}")


def prepare(asked: argparse.Namespace, program: list[str], environment: dict[str, str]) -> list[str]:
    """Everything before the launcher; the program with all its arguments."""
    prepare_caches(environment)
    if asked.chdir:
        if not os.path.isdir(asked.chdir):
            raise Stop(MISSING_FILE, f"there is no folder {asked.chdir}: is the storage mounted there?")
        os.chdir(asked.chdir)
    if program[0] != "-m" and not os.path.isfile(program[0]):
        raise Stop(MISSING_FILE, f"there is no file {program[0]}: is the storage mounted, and the path right?")
    if asked.requirements:
        if not os.path.isfile(asked.requirements):
            raise Stop(MISSING_FILE, f"there is no file {asked.requirements}")
        install(["-r", asked.requirements], environment)
    elif asked.requirements_if_there and os.path.isfile(asked.requirements_if_there):
        install(["-r", asked.requirements_if_there], environment)
    if asked.launcher == "hyperpodrun" and shutil.which("hyperpodrun", path=environment.get("PATH")) is None:
        install([AGENT], environment)
    further = words_from(asked.arguments_from) if asked.arguments_from else []
    words = [*program, *further]
    if environment.get("MLFLOW_TRACKING_URI"):
        for group in groups(asked.tracked):
            if not named(group[0], further, asked.look_into):
                words += group
    return words


def groups(words: list[str]) -> list[list[str]]:
    """Words as options with their values: ``--name value`` belong together, ``name=value`` is one."""
    found: list[list[str]] = []
    for word in words:
        if found and found[-1][0].startswith("--") and "=" not in found[-1][0] and not word.startswith("--"):
            found[-1].append(word)
        else:
            found.append([word])
    return found


def say(text: str) -> None:
    print(f"instantstart: {text}", file=sys.stderr, flush=True)


def main() -> None:
    asked, program = options(sys.argv[1:])
    environment = dict(os.environ)
    words = prepare(asked, program, environment)
    where = place(environment, asked.nodes)
    environment.update(where.environment)
    # HyperPod's agent asks for it where nodes meet, and MS-Swift where it reckons with them.
    # (hyperpod_rendezvous_backend.py; swift/utils/env.py: get_node_setting)
    environment.setdefault("NNODES", str(where.nodes))
    full = command(Asked(asked.launcher, asked.nodes, asked.processes), where, words, environment)
    found = shutil.which(full[0], path=environment.get("PATH"))
    if found is None:
        raise Stop(
            MISSING_PROGRAM, f"the image has no {full[0]}; use one with PyTorch, or build recipes/*/Containerfile"
        )
    say(f"node {where.rank} of {where.nodes}: {json.dumps(full)}")
    sys.stdout.flush()
    os.execve(found, full, environment)


if __name__ == "__main__":
    try:
        main()
    except Stop as stop:
        leave(stop, Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log")))
