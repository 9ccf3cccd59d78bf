"""The script that downloads: what arrives, what is left alone, what is told, and how it ends where it cannot go on."""

from __future__ import annotations

import ast
import errno
import json
import os
import shutil
import signal
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from activities.models import progress
from activities.models.job import Exit
from activities.settings import PROJECT
from contracts.models import FILE_LIST, MANIFEST, Manifest
from contracts.sizes import size_text
from sandbox.hub.repositories import MEMBER, READER
from sandbox.kubernetes.scripts.process import SHIM
from tests.recipes.conftest import SCRIPT, HubServer, Script

QWEN, GATED, PRIVATE = "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "acme/internal-7b"
RECORDING = """
import builtins, io, json, os, runpy, sys
opened, log, folder = io.open, open(sys.argv[1], "a"), sys.argv[2]
def opening(file, mode="r", *rest, **options):
    if isinstance(file, (str, os.PathLike)) and str(file).startswith(folder) and mode not in ("r", "rb"):
        print(json.dumps(["open", str(file), mode, os.path.exists(file)]), file=log, flush=True)
    return opened(file, mode, *rest, **options)
def forbidden(name):
    def call(*arguments, **options):
        if any(str(each).startswith(folder) for each in arguments):
            print(json.dumps([name, *map(str, arguments)]), file=log, flush=True)
        return kept[name](*arguments, **options)
    return call
kept = {name: getattr(os, name) for name in ("rename", "replace", "link", "symlink", "truncate", "chmod", "utime")}
for name in kept:
    setattr(os, name, forbidden(name))
builtins.open = io.open = opening
sys.argv = sys.argv[3:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script, and writes down what it does to a folder."""
LIBRARY = "huggingface_hub==2.4.0"
PIP = """
import os, sys
target = sys.argv[sys.argv.index("--target") + 1]
os.makedirs(target)
for name in os.listdir(os.environ["SITE"]):
    os.symlink(os.path.join(os.environ["SITE"], name), os.path.join(target, name))
open(os.path.join(target, "asked"), "w").write(sys.argv[-1])
"""
"""What stands for pip: the packages of this environment are what it installs."""
HASTY = """
import os, runpy, sys, time
pause = time.sleep
time.sleep = lambda seconds: pause(min(seconds, 0.01))
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that does not wait: the Hub's library has pauses of its own, of many seconds."""


def test_every_file_arrives_as_the_hub_has_it(script: Script, hub: HubServer) -> None:
    ran = script(QWEN)
    repository = hub.hub.repositories.find("model", QWEN)
    assert repository is not None
    assert script.files == {path: file.content for path, file in repository.files.items()}
    told = Manifest.model_validate(ran.manifest)
    assert (ran.code, told.commit, told.files, told.downloaded_files) == (0, repository.commit, 12, 12)
    assert told.size == sum(len(content) for content in script.files.values())
    assert json.loads((script.target / MANIFEST).read_text()) == ran.manifest
    listed = json.loads((script.target / FILE_LIST).read_text())
    assert {each["path"]: each["size"] for each in listed} == {k: len(v) for k, v in script.files.items()}


def test_what_is_there_is_not_downloaded_again(script: Script) -> None:
    script(QWEN)
    before = {path: path.stat().st_mtime_ns for path in script.target.rglob("*")}
    again = script(QWEN)
    assert again.manifest["downloaded_files"] == 0
    assert {path: path.stat().st_mtime_ns for path in script.target.rglob("*")} == before


def test_files_without_a_manifest_are_believed_by_their_content_alone(script: Script) -> None:
    script(QWEN)
    for name in (MANIFEST, FILE_LIST):
        (script.target / name).unlink()
    same_size = script.target / "model-00002-of-00005.safetensors"
    same_size.write_bytes(bytes(same_size.stat().st_size))
    (script.target / "config.json").write_text("{}")
    again = script(QWEN)
    assert again.manifest["downloaded_files"] == 2
    assert script.files["config.json"] != b"{}"


def test_another_revision_takes_only_what_differs(script: Script, hub: HubServer) -> None:
    hub.put("acme/one", {"a.bin": 8000, "b.bin": 8000, "c.txt": "old"})
    script("acme/one")
    commit = hub.put("acme/one", {"a.bin": 8000, "b.bin": 8000, "c.txt": "new"})
    again = script("acme/one")
    assert (again.manifest["commit"], again.manifest["downloaded_files"]) == (commit, 1)
    assert script.files["c.txt"] == b"new"


def test_globs_choose_files_and_exclusion_wins(script: Script) -> None:
    ran = script(QWEN, "--include=*.json", "--include=*.safetensors", "--exclude=model-*", "--selection=few")
    assert set(script.files) == {
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert ran.manifest["selection"] == "few"
    assert script(QWEN, "--include=*.gguf").code == Exit.NOT_FOUND


def test_a_data_set_keeps_its_folders(script: Script) -> None:
    ran = script("acme/sums", "--type=dataset", "--include=data/")
    assert (ran.code, len(script.files)) == (0, 12)
    assert all(path.startswith("data/") for path in script.files)


def test_storage_is_written_only_as_mountpoint_lets_it_be(script: Script, tmp_path: Path) -> None:
    log, recorder = tmp_path / "log", tmp_path / "recorder.py"
    recorder.write_text(RECORDING)
    storage = tmp_path / "storage"
    command = (str(recorder), str(log), str(storage), str(SCRIPT))
    for repository in (QWEN, QWEN, "Qwen/Qwen3-0.6B"):
        assert script(repository, command=command).code == 0
    done = [json.loads(line) for line in log.read_text().splitlines()]
    assert done
    # New files from their first byte on; what was there is deleted, never renamed, appended to or written over.
    assert all(each[0] == "open" and each[2] in ("w", "wb") and not each[3] for each in done), done
    assert MANIFEST in done[-1][1]


def test_progress_is_told_in_lines_that_the_platform_reads(script: Script, hub: HubServer) -> None:
    hub.fault({"action": "latency", "latency": 0.1, "operation": "GET .*resolve.*"})
    ran = script(QWEN)
    told = [each for each in ran.lines if each["event"] == "progress"]
    assert len(told) > 2
    assert [each["files_done"] for each in told] == sorted(each["files_done"] for each in told)
    log = "\n".join(json.dumps(each) for each in ran.lines)
    files, size, pace = (progress.live_line(log) or "").split(", ")
    whole = size_text(ran.manifest["size"])
    assert (files, size) == ("12 of 12 files", f"{whole} of {whole}")
    assert pace.endswith("/s")
    assert progress.manifest_of(json.dumps(ran.message)) == Manifest.model_validate(ran.manifest)


@pytest.mark.parametrize(
    ("repository", "token", "code", "kind"),
    [
        (GATED, None, Exit.DENIED, "denied"),
        (GATED, READER, Exit.DENIED, "denied"),
        (QWEN, "hf_wrong", Exit.DENIED, "denied"),
        (PRIVATE, None, Exit.NOT_FOUND, "not_found"),
        (PRIVATE, READER, Exit.NOT_FOUND, "not_found"),
        ("acme/none", MEMBER, Exit.NOT_FOUND, "not_found"),
    ],
)
def test_a_refusal_ends_it_with_its_own_code(
    script: Script, repository: str, token: str | None, code: int, kind: str
) -> None:
    script.env = {"HF_TOKEN": token} if token else {}
    ran = script(repository)
    assert (ran.code, ran.message["kind"]) == (code, kind)
    assert not (script.target / MANIFEST).exists()
    assert token is None or token not in json.dumps([ran.lines, ran.message])


@pytest.mark.parametrize("repository", [GATED, PRIVATE])
def test_a_token_opens_what_it_may_read(script: Script, repository: str) -> None:
    script.env = {"HF_TOKEN": MEMBER}
    assert script(repository).code == 0


def test_an_unknown_revision_is_not_found(script: Script) -> None:
    assert script(QWEN, "--revision=v9").code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"status": 429, "operation": ".*resolve.*"}, Exit.THROTTLED),
        ({"status": 429, "operation": ".*/tree/.*"}, Exit.THROTTLED),
        ({"action": "http500", "operation": ".*resolve.*"}, Exit.UNREACHABLE),
        ({"action": "drop", "operation": ".*"}, Exit.UNREACHABLE),
    ],
)
def test_a_hub_in_trouble_is_asked_again_until_patience_is_over(
    script: Script, hub: HubServer, rule: dict[str, Any], code: int
) -> None:
    hasty = script.folder / "hasty.py"
    hasty.write_text(HASTY)
    command = (str(hasty), str(SCRIPT))
    hub.fault({**rule, "times": 3})
    assert script(QWEN, command=command).code == 0
    assert hub.fired() == 3
    hub.fault(rule)
    assert script("Qwen/Qwen3-0.6B", "--patience=1", command=command).code == code


def test_connections_that_break_on_the_way_lose_nothing(script: Script, hub: HubServer) -> None:
    cut = {"action": "drop", "phase": "after", "operation": "GET .*/model-00003.*"}
    hub.fault({**cut, "times": 2})
    assert script(QWEN).code == 0
    assert hub.fired() == 2
    repository = hub.hub.repositories.find("model", QWEN)
    assert repository is not None
    name = "model-00003-of-00005.safetensors"
    assert script.files[name] == repository.files[name].content


def test_content_that_is_not_what_was_announced_never_stays(script: Script, hub: HubServer) -> None:
    repository = hub.hub.repositories.find("model", QWEN)
    assert repository is not None
    name = "model-00001-of-00005.safetensors"
    file = repository.files[name]
    announced = file.entry()
    file.__dict__["content"] = bytes(file.size)
    file.__dict__["sha256"] = announced["lfs"]["oid"]
    ran = script(QWEN)
    assert (ran.code, ran.message["file"]) == (Exit.MISMATCH, name)
    assert name not in script.files
    assert not (script.target / MANIFEST).exists()


def test_a_full_storage_ends_it_and_what_has_arrived_is_kept(script: Script) -> None:
    command = (str(SHIM), str(script.folder / "storage"), "4", "full", str(SCRIPT))
    ran = script(QWEN, command=command)
    assert (ran.code, ran.message["kind"]) == (Exit.NO_SPACE, "no_space")
    assert os.strerror(errno.ENOSPC) in ran.message["detail"]
    kept = len(script.files)
    again = script(QWEN)
    assert again.manifest["downloaded_files"] == 12 - kept < 12


def test_a_full_scratch_disk_is_told_apart(script: Script) -> None:
    command = (str(SHIM), str(script.folder / "scratch"), "0", "full", str(SCRIPT))
    ran = script(QWEN, command=command)
    assert (ran.code, "node's disk" in ran.message["detail"]) == (Exit.NO_SPACE, True)


def test_storage_that_may_not_be_written_is_told(script: Script) -> None:
    script.target.parent.mkdir(parents=True)
    script.target.write_text("a file where the folder should be")
    assert script(QWEN).code == 1
    guard = script.folder / "guard.py"
    guard.write_text(
        "import os, pathlib, runpy, sys\n"
        "def refuse(*_, **__): raise PermissionError(13, 'Permission denied')\n"
        "pathlib.Path.mkdir = refuse\nsys.argv = sys.argv[1:]\n"
        "sys.path[0] = os.path.dirname(sys.argv[0])\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    ran = script(QWEN, command=(str(guard), str(SCRIPT)))
    assert (ran.code, ran.message["kind"]) == (Exit.NOT_WRITABLE, "not_writable")


def test_a_killed_run_is_gone_on_with(script: Script, hub: HubServer) -> None:
    hub.fault({"action": "latency", "latency": 0.2, "operation": "GET .*resolve.*"})
    process = script.process(QWEN)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("files_done", 0) >= 3:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    hub.fault()
    again = script(QWEN)
    assert 0 < again.manifest["downloaded_files"] <= 9
    repository = hub.hub.repositories.find("model", QWEN)
    assert repository is not None
    assert script.files == {path: file.content for path, file in repository.files.items()}


def test_the_library_is_installed_where_the_image_has_none(script: Script) -> None:
    stubs = script.folder / "stubs"
    stubs.mkdir()
    (stubs / "pip.py").write_text(PIP)
    script.env = {"PYTHONPATH": str(stubs), "SITE": sysconfig.get_paths()["purelib"]}
    ran = script("Qwen/Qwen3-0.6B", command=("-S", str(SCRIPT)))
    assert (ran.code, len(script.files)) == (0, 7)
    assert (script.folder / "scratch" / "packages" / "asked").read_text() == LIBRARY
    script.env["SITE"] = str(script.folder / "nowhere")
    shutil.rmtree(script.folder / "scratch")
    failed = script("Qwen/Qwen3-0.6B", command=("-S", str(SCRIPT)))
    assert (failed.code, failed.message["kind"]) == (Exit.BOOTSTRAP, "bootstrap")
    assert "No such file" in failed.message["detail"]


def test_wrong_arguments_end_it_at_once(script: Script) -> None:
    assert script(QWEN, "--type=space").code == Exit.WRONG_ARGUMENTS


def test_exit_codes_and_names_are_those_that_the_platform_knows() -> None:
    values = {
        target.id: node.value
        for file in SCRIPT.parent.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert ast.literal_eval(values["KINDS"]) == {code.name.lower(): code.value for code in Exit}
    assert f'MANIFEST, FILE_LIST = "{MANIFEST}", "{FILE_LIST}"' in SCRIPT.read_text()
    assert ast.literal_eval(values["LIBRARY"]) == LIBRARY
    assert LIBRARY in (PROJECT / "pyproject.toml").read_text()
