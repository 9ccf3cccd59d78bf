"""The script that starts what ``start.json`` says, run as a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

RECIPES = Path(__file__).parents[2] / "recipes"
SHOW = "import json,sys; print(json.dumps(sys.argv[1:]))"
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def start(folder: Path, told: Any) -> subprocess.CompletedProcess[str]:
    """Run the script, as it lies beside its ``start.json`` in a container."""
    for script in (RECIPES / "start" / "start.py", RECIPES / "train" / "endings.py"):
        shutil.copy(script, folder)
    (folder / "start.json").write_text(told if isinstance(told, str) else json.dumps(told))
    environment = {**os.environ, "TERMINATION_LOG": str(folder / "log")}
    return subprocess.run(
        [sys.executable, str(folder / "start.py")], env=environment, capture_output=True, text=True, check=False
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORD, max_size=5))
def test_every_word_arrives_as_it_was_meant(tmp_path: Path, words: list[str]) -> None:
    ran = start(tmp_path, {"words": [sys.executable, "-c", SHOW, *words]})
    assert (ran.returncode, json.loads(ran.stdout)) == (0, words)


def test_links_lead_to_where_the_data_is_also_when_it_is_started_again(tmp_path: Path) -> None:
    data, place = tmp_path / "input-0", tmp_path / "s3" / "datasets" / "mine"
    data.mkdir()
    (data / "a.json").write_text("[1]")
    told = {
        "words": [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(place / "a.json")],
        "links": {str(place): str(data), str(tmp_path / "s3" / "out"): str(tmp_path / "checkpoints")},
    }
    for _ in range(2):
        ran = start(tmp_path, told)
        assert (ran.returncode, ran.stdout.strip()) == (0, "[1]")
    assert (tmp_path / "checkpoints").is_dir()


@pytest.mark.parametrize(
    ("told", "code", "said"),
    [
        ("no json", 64, "does not say what is to be started"),
        ({"words": []}, 64, "names no program"),
        ({"words": [3]}, 64, "names no program"),
        ({"words": ["no-such-program"]}, 127, "the image has no no-such-program"),
        ({"words": ["true"], "links": {"/proc/none/of/it": "/tmp"}}, 66, "cannot be made to lead to /tmp"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path: Path, told: Any, code: int, said: str) -> None:
    ran = start(tmp_path, told)
    assert ran.returncode == code
    assert said in ran.stderr
    assert said in json.loads((tmp_path / "log").read_text())["detail"]


def test_something_else_where_a_link_is_to_be_is_not_written_over(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("mine")
    ran = start(tmp_path, {"words": ["true"], "links": {str(place): str(tmp_path / "data")}})
    assert (ran.returncode, place.read_text()) == (66, "mine")
