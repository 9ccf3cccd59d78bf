"""Files that only their owner reads, and that several processes share."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError

from api.files import PrivateFile
from contracts.model import Model


class Count(Model):
    value: int = 0


def add_one(count: Count) -> Count:
    return Count(value=count.value + 1)


ADD = """
import sys
from pathlib import Path
from api.files import PrivateFile
from tests.api.test_private_files import Count, add_one
file = PrivateFile(Path(sys.argv[1]), Count)
for _ in range(int(sys.argv[2])):
    file.change(add_one)
"""


def test_no_change_is_lost_between_threads_and_processes(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "count.json"
    others = [subprocess.Popen([sys.executable, "-c", ADD, str(path), "40"]) for _ in range(2)]
    files = [PrivateFile(path, Count) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(files[turn % 2].change, add_one) for turn in range(40)]:
            done.result()
    assert [other.wait(60) for other in others] == [0, 0]
    assert [file.read().value for file in files] == [120, 120]


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = PrivateFile(tmp_path / "count.json", Count)
    file.change(add_one)

    def broken(count: Count) -> Count:
        raise KeyError(count.value)

    with pytest.raises(KeyError):
        file.change(broken)
    file.change(add_one)
    assert file.read() == Count(value=2)


def test_a_damaged_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    path = tmp_path / "count.json"
    path.write_text('{"value": 1')
    file = PrivateFile(path, Count)
    with pytest.raises(ValidationError):
        file.read()
    with pytest.raises(ValidationError):
        file.change(add_one)
    assert path.read_text() == '{"value": 1'


def test_what_an_ended_process_left_half_written_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "count.new").write_text("half")
    (tmp_path / "count.new").chmod(0o644)
    file = PrivateFile(tmp_path / "count.json", Count)
    file.change(add_one)
    assert file.read() == Count(value=1)
    assert (tmp_path / "count.json").stat().st_mode & 0o777 == 0o600
