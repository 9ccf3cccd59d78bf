"""The entry script of training jobs, run for real: what it starts, where, with which environment, and how it ends where
it cannot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.recipes import RECIPES, Recipe
from contracts.recipes.launch import LAUNCHERS, RECIPE_MOUNT
from contracts.recipes.shape import Shape

FOLDER = Path(__file__).parents[2] / "recipes"
RECORDER = """#!{python}
import json, os, sys
json.dump({{"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}}, open({record!r}, "w"))
"""
PIP = """
import json, os, sys
if "fail" in os.environ.get("PIP_FAILS", ""): sys.exit(3)
json.dump(sys.argv, open(os.environ["PIP_RECORD"], "w"))
"""
"""What stands for pip: it writes down what it was asked to install."""


@dataclass
class Ran:
    code: int
    err: str
    started: dict[str, Any] = field(default_factory=dict)
    installed: list[str] = field(default_factory=list)
    message: str = ""

    @property
    def argv(self) -> list[str]:
        found: list[str] = self.started["argv"][1:]
        return found

    @property
    def env(self) -> dict[str, str]:
        found: dict[str, str] = self.started["env"]
        return found


@dataclass
class Entry:
    """The script with programs of a test's own on its PATH."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ("hyperpodrun", "torchrun")

    def file(self, name: str, text: str = "") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def __call__(self, *words: str) -> Ran:
        record, pip, log = self.folder / "record.json", self.folder / "pip.json", self.folder / "termination-log"
        binaries = self.folder / "bin"
        binaries.mkdir(exist_ok=True)
        for name in self.programs:
            program = binaries / name
            program.write_text(RECORDER.format(python=sys.executable, record=str(record)))
            program.chmod(0o755)
        self.file("site/pip/__init__.py")
        self.file("site/pip/__main__.py", PIP)
        env = {
            "PATH": str(binaries),
            "PYTHONPATH": str(self.folder / "site"),
            "PIP_RECORD": str(pip),
            "TERMINATION_LOG": str(log),
            "RESOURCE_CONFIG": str(self.folder / "resourceconfig.json"),
            **self.env,
        }
        command = [sys.executable, str(FOLDER / "train" / "entry.py"), *words]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        return Ran(
            ended.returncode,
            ended.stderr,
            json.loads(record.read_text()) if record.exists() else {},
            json.loads(pip.read_text())[1:] if pip.exists() else [],
            json.loads(log.read_text())["detail"] if log.exists() else "",
        )


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return Entry(tmp_path)


def test_hyperpodrun_takes_the_scripts_place_with_the_agents_server_and_every_word_as_it_stands(entry: Entry) -> None:
    script = entry.file("code/train.py")
    words = ["--note", "a  b", "", "$HOME", "it's; rm -rf /", "*", "ü", "--", "x"]
    ran = entry("--launcher", "hyperpodrun", "--nodes", "2", "--processes", "8", "--", script, *words)
    assert ran.code == 0, ran.err
    assert ran.argv == [
        *("--server-host=0.0.0.0", "--server-port=8080", "--tee=3", "--log_dir=/tmp/hyperpod"),
        *("--nnodes=2", "--nproc-per-node=8", script, *words),
    ]
    assert ran.env["NNODES"] == "2"


def test_what_the_operator_tells_of_nodes_and_agent_wins(entry: Entry) -> None:
    entry.env = {"NNODES": "3", "NPROC_PER_NODE": "auto", "AGENT_HOST": "1.2.3.4", "AGENT_PORT": "9000"}
    ran = entry("--launcher", "hyperpodrun", "--nodes", "2", "--processes", "8", "--", "-m", "package.train", "--x")
    assert ran.argv[:2] == ["--server-host=1.2.3.4", "--server-port=9000"]
    assert ran.argv[4:] == ["--nnodes=3", "--nproc-per-node=8", "-m", "package.train", "--x"]


def test_the_agent_is_installed_where_an_image_has_no_hyperpodrun_and_its_absence_afterwards_is_said(
    entry: Entry,
) -> None:
    entry.programs = ()
    ran = entry("--launcher", "hyperpodrun", "--", "-m", "package.train")
    assert re.fullmatch(r"hyperpod-elastic-agent==\d+\.\d+\.\d+", ran.installed[-1])
    assert ran.code == 127
    assert "no hyperpodrun" in ran.message
    assert "no hyperpodrun" in ran.err


@pytest.mark.parametrize("told", ["file", "toolkit"])
def test_torchrun_finds_a_training_jobs_nodes_and_the_first_of_them(entry: Entry, told: str) -> None:
    hosts = [f"algo-{number}" for number in (10, 2, 1)]
    if told == "file":
        resources = {"current_host": "algo-10", "hosts": hosts, "network_interface_name": "ens5"}
        entry.file("resourceconfig.json", json.dumps(resources))
    else:
        entry.env = {"SM_HOSTS": json.dumps(hosts), "SM_CURRENT_HOST": "algo-10", "SM_NETWORK_INTERFACE_NAME": "ens5"}
    ran = entry("--launcher", "torchrun", "--nodes", "3", "--processes", "4", "--", "-m", "a.b", "--lr", "1")
    assert ran.code == 0, ran.err
    assert ran.argv[:5] == [
        *("--nnodes=3", "--node-rank=2", "--nproc-per-node=4", "--master-addr=algo-1", "--master-port=29500"),
    ]
    assert ran.argv[5:] == ["-m", "a.b", "--lr", "1"]
    assert ran.env["NCCL_SOCKET_IFNAME"] == "ens5"


def test_a_node_that_is_none_of_the_jobs_does_not_start_with_somebody_elses_rank(entry: Entry) -> None:
    entry.file("resourceconfig.json", json.dumps({"current_host": "algo-9", "hosts": ["algo-1"]}))
    ran = entry("--launcher", "torchrun", "--", "-m", "a")
    assert (ran.code, ran.started) == (66, {})
    assert "algo-9" in ran.message


def test_without_a_launcher_this_python_runs_the_program(entry: Entry) -> None:
    record = entry.folder / "mine.json"
    code = f"import json, sys; json.dump(sys.argv[1:], open({str(record)!r}, 'w'))"
    script = entry.file("driver.py", code)
    assert entry("--launcher", "none", "--", script, "trainer.nnodes=2", "a='b c'").code == 0
    assert json.loads(record.read_text()) == ["trainer.nnodes=2", "a='b c'"]


def test_signals_reach_the_launcher_because_it_takes_the_scripts_process(entry: Entry) -> None:
    script = entry.file("driver.py", "import os, sys; print(os.getpid())")
    command = [sys.executable, str(FOLDER / "train" / "entry.py"), "--launcher", "none", "--", script]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output, _ = started.communicate(timeout=60)
    assert output.split() == [str(started.pid)]


def test_it_runs_in_the_folder_that_was_asked_for(entry: Entry) -> None:
    script = entry.file("code/train.py")
    ran = entry("--launcher", "torchrun", "--chdir", str(entry.folder / "code"), "--", script)
    assert ran.started["cwd"] == str(entry.folder / "code")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--launcher", "torchrun", "--", "/not/there.py"), 66, "/not/there.py"),
        (("--launcher", "torchrun", "--chdir", "/not/there", "--", "-m", "a"), 66, "/not/there"),
        (("--launcher", "torchrun", "--requirements", "/not/there.txt", "--", "-m", "a"), 66, "/not/there.txt"),
        (("--launcher", "torchrun", "--arguments-from", "/not/there.yaml", "--", "-m", "a"), 66, "/not/there.yaml"),
        (("--launcher", "torchrun", "--"), 64, "program is missing"),
        (("--launcher", "torchrun", "--", "-m"), 64, "program is missing"),
        (("--launcher", "torchrun", "-m", "a"), 64, "behind --"),
        (("--launcher", "bash", "--", "-m", "a"), 64, "options"),
    ],
)
def test_what_cannot_be_started_ends_with_its_reason_in_the_termination_message(
    entry: Entry, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = entry(*words)
    assert (ran.code, ran.started) == (code, {})
    assert said in ran.message


def test_requirements_are_installed_first_and_a_failure_ends_it(entry: Entry) -> None:
    wanted = entry.file("requirements.txt", "einops\n")
    ran = entry("--launcher", "torchrun", "--requirements", wanted, "--", "-m", "a")
    assert ran.installed[-2:] == ["-r", wanted]
    entry.env = {"PIP_FAILS": "fail"}
    (entry.folder / "record.json").unlink()
    ran = entry("--launcher", "torchrun", "--requirements", wanted, "--", "-m", "a")
    assert (ran.code, ran.started) == (69, {})


def test_requirements_that_a_project_need_not_have_are_no_fault(entry: Entry) -> None:
    ran = entry("--launcher", "torchrun", "--requirements-if-there", "/not/there.txt", "--", "-m", "a")
    assert (ran.code, ran.installed) == (0, [])
    wanted = entry.file("requirements.txt")
    assert entry("--launcher", "torchrun", "--requirements-if-there", wanted, "--", "-m", "a").installed[-1] == wanted


@pytest.mark.parametrize("name", ["options.yaml", "options.json"])
def test_arguments_come_from_a_file_as_ms_swift_would_write_them(entry: Entry, name: str) -> None:
    options = {"model": "a b", "dataset": ["x", "y#100"], "lora": {"r": 8}, "flag": True, "lr": 1e-05, "none": None}
    path = entry.file(name, json.dumps(options))
    ran = entry("--launcher", "torchrun", "--arguments-from", path, "--", "-m", "swift.cli.sft", "--seed", "1")
    assert ran.argv[5:] == [
        *("-m", "swift.cli.sft", "--seed", "1", "--model", "a b", "--dataset", "x", "y#100"),
        *("--lora", '{"r": 8}', "--flag", "True", "--lr", "1e-05", "--none", "None"),
    ]


def test_words_for_mlflow_are_added_only_where_it_is_there_and_the_configuration_says_nothing_of_it(
    entry: Entry,
) -> None:
    ask = ("--launcher", "torchrun", "--tracked=--report_to", "--tracked=mlflow")
    assert entry(*ask, "--", "-m", "a").argv[5:] == ["-m", "a"]
    entry.env = {"MLFLOW_TRACKING_URI": "http://mlflow"}
    assert entry(*ask, "--", "-m", "a").argv[5:] == ["-m", "a", "--report_to", "mlflow"]
    config = entry.file("c.yaml", "x: 1\nreport_to: tensorboard\n")
    assert "mlflow" not in entry(*ask, "--look-into", config, "--", "-m", "a").argv
    assert "mlflow" not in entry(*ask, "--arguments-from", config, "--", "-m", "a").argv
    other = entry.file("d.yaml", "# report_to\nlogging: 1\n")
    assert "mlflow" in entry(*ask, "--look-into", other, "--", "-m", "a").argv


def test_caches_go_to_the_nodes_disk_and_into_the_container_where_there_is_none(entry: Entry) -> None:
    there = str(entry.folder / "disk" / "hf")
    entry.env = {"HF_HOME": there, "TMPDIR": "/local/instantstart/tmp", "TRITON_CACHE_DIR": "/dev/null/x"}
    ran = entry("--launcher", "torchrun", "--", "-m", "a")
    assert ran.env["HF_HOME"] == there
    assert os.path.isdir(there)
    usable = os.path.isdir("/local") and os.access("/local", os.W_OK)
    assert ran.env["TMPDIR"] == ("/local" if usable else "/tmp") + "/instantstart/tmp"
    assert "TRITON_CACHE_DIR" not in ran.env


EXAMPLES: dict[str, dict[str, Any]] = {
    "pytorch": {"module": "package.train", "arguments": ["--x", "a b"]},
    "script": {"project_path": "/s3/code", "entry": "train.py"},
    "llama-factory": {"config": {"model_name_or_path": "/s3/m", "dataset": "d", "output_dir": "/s3/o"}},
    "ms-swift": {"config": {"model": "/s3/m", "dataset": ["d"], "output_dir": "/s3/o"}},
    "verl": {"config": {"data": {"train_files": "/s3/a.parquet"}}},
    "torchtitan": {"config": {"training": {"steps": 10}}},
}


@pytest.mark.parametrize("kind", RECIPES)
def test_what_a_recipe_asks_of_the_entry_script_is_understood_by_it(
    entry: Entry, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = TypeAdapter[Any](Recipe).validate_python({"kind": kind, **EXAMPLES[kind]})
    for submission in recipe.submissions:
        launch = recipe.launch(Shape(nodes=2, gpus_per_node=4), submission)
        for name, text in launch.files.items():
            entry.file(name, text)
        argv = launch.at(str(entry.folder)).argv
        assert argv[:2] == ["python3", f"{entry.folder}/entry.py"]
        if LAUNCHERS[submission] == "none":
            program = argv[argv.index("--") + 1 :]
            assert program[:2] == ["-m", "verl.trainer.main_ppo"]
            argv = [*argv[: argv.index("--")], "--", entry.file("driver.py"), *program[2:]]
        if kind == "script":
            argv = [word.replace("/s3/code", str(entry.folder)) for word in argv]
            entry.file("train.py")
        ran = entry(*argv[2:])
        assert ran.code == 0, ran.err
        assert RECIPE_MOUNT not in " ".join(argv)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/Containerfile")), ids=lambda path: path.parent.name)
def test_a_container_definition_is_pinned_and_copies_what_is_there(path: Path) -> None:
    text = path.read_text()
    (base,) = re.findall(r"^FROM (\S+)$", text, re.MULTILINE)
    tag = base.rpartition("/")[2].partition(":")[2]
    assert re.search(r"\d+\.\d+", tag)
    assert "latest" not in text
    for copied in re.findall(r"^COPY (\S+) ", text, re.MULTILINE):
        assert list(FOLDER.glob(copied)), copied
    install = text.partition("pip install")[2].partition("COPY")[0].replace("\\\n", " ").split()
    packages = [word for word in install if not word.startswith("-")]
    assert packages
    assert all(re.search(r"==\d", package) for package in packages)
    assert "curl" not in text
    assert "wget" not in text


def test_the_containers_have_the_agent_that_the_entry_script_would_install() -> None:
    agent = re.search(r'AGENT = "(\S+)"', (FOLDER / "train" / "entry.py").read_text())
    assert agent is not None
    texts = {path.parent.name: path.read_text() for path in FOLDER.glob("*/Containerfile")}
    assert {name for name, text in texts.items() if agent[1] not in text} == {"verl"}


def test_the_scripts_need_nothing_but_the_standard_library() -> None:
    allowed = set(sys.stdlib_module_names) | {path.stem for path in (FOLDER / "train").glob("*.py")}
    for path in (FOLDER / "train").glob("*.py"):
        names = re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
        assert set(names) <= allowed, path.name
