"""The image has all that its roles need of the project, and of packages what the lock names."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from deploy.image.answers import main as answers
from tests.deploy.composed import OURS, ROOT, composed
from tests.deploy.layout import CONTAINERFILE, copied, lay_out

_IMPORT = """
import importlib, json, sys
sys.path[:] = [folder for folder in sys.path if folder != {root!r}]
sys.path.insert(0, {layout!r})
for name in {modules!r}:
    importlib.import_module(name)
found = {{name: module.__file__ for name, module in sys.modules.items() if getattr(module, "__file__", None)}}
print(json.dumps(found))
"""


def imported(layout: Path, *modules: str) -> dict[str, str]:
    """Where each module comes from that is imported in the image's folder, where the checkout cannot be seen."""
    program = _IMPORT.format(root=str(ROOT), layout=str(layout), modules=modules)
    run = subprocess.run([sys.executable, "-P", "-c", program], cwd=layout, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    lay_out(folder)
    return folder


def test_every_role_finds_its_modules_in_the_image(layout: Path) -> None:
    roles = ("worker.__main__", "server.__main__", "temporal.setup", "api.tokens", "cli.main", "worker.deployment")
    faces = ("api.app", "mcp_server.http", "ui.app")
    found = imported(layout, *roles, *faces)
    assert not [name for name, file in found.items() if file.startswith(f"{ROOT}/") and ".venv" not in file]
    assert {"workflows.registry", "activities.registry", "contracts.catalogue", "telemetry.process"} <= set(found)
    assert not [name for name in found if name.split(".")[0] in ("sandbox", "tests", "moto")], "none of the simulated"


def test_the_simulated_cloud_finds_its_modules_in_its_image(tmp_path: Path) -> None:
    lay_out(tmp_path, sandbox=True)
    found = imported(tmp_path, "sandbox.__main__", "sandbox.kubernetes.dataplane")
    assert not [name for name, file in found.items() if file.startswith(f"{ROOT}/") and ".venv" not in file]


def test_packages_come_from_the_lock_with_their_hashes() -> None:
    text = CONTAINERFILE.read_text().replace("\\\n", "")
    installs = [line for line in text.splitlines() if re.search(r"\bpip\b.* install\b", line)]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line
        assert "--only-binary :all:" in line


def test_bases_are_named_by_their_content_and_the_last_stage_is_the_platform() -> None:
    text = CONTAINERFILE.read_text()
    assert re.search(r"^ARG PYTHON=python:3\.12-slim@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)
    names = [name for _, name in stages]
    assert {base for base, _ in stages} <= {"${PYTHON}", *names}
    assert names[-1] == "platform"
    assert {composed()["services"][name]["build"]["target"] for name in ("gateway", "sandbox")} <= set(names)


def test_an_image_runs_as_nobody_and_has_bytecode() -> None:
    for stage in ("platform", "sandbox"):
        text = CONTAINERFILE.read_text().partition(f" AS {stage}\n")[2].partition("\nFROM ")[0]
        assert "USER 10001:10001" in text
        assert "compileall" in text
    assert "PYTHONDONTWRITEBYTECODE" not in CONTAINERFILE.read_text()


def test_what_is_copied_is_what_the_build_is_sent() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in lines if line.startswith("!")]
    for stage in ("packages", "sandbox-packages", "project", "sandbox"):
        for source, _ in copied(stage):
            path = str(source.relative_to(ROOT))
            assert source.exists(), path
            assert any(fnmatch.fnmatch(path, each) or path.startswith(f"{each}/") for each in sent), path
    assert "**/__pycache__" in lines


def test_compose_runs_every_role_where_the_image_has_it() -> None:
    packages = {target.rstrip("/") for stage in ("project", "sandbox") for _, target in copied(stage)}
    for name in OURS:
        assert composed()["services"][name]["command"][2].partition(".")[0] in packages


def test_a_health_check_says_whether_it_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 503)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert answers(f"{url}/health") == 0
        assert answers(f"{url}/other") == 1
        assert "503" in capsys.readouterr().out
        server.shutdown()
    assert answers(f"{url}/health") == 1
