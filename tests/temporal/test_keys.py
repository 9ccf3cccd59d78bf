"""Key files: how they are made, replaced and refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from temporal.faults import ConnectionFaultError
from temporal.keys import Key, key_ring, main, read_lines
from temporal.settings import ConnectionSettings


def _ring(file: Path) -> list[str]:
    return [key.id for key in key_ring(ConnectionSettings(codec_key_file=file)).keys]


def test_without_a_file_there_is_no_key() -> None:
    assert key_ring(ConnectionSettings(codec_key_file=None)).first is None


def test_a_key_is_replaced_in_three_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "codec.keys"
    assert main(["add", str(file)]) == 0
    (old,) = _ring(file)
    assert main(["add", str(file)]) == 0
    assert _ring(file)[0] == old, "a key that others do not have yet must not encrypt"
    new = _ring(file)[1]
    assert main(["promote", str(file), new]) == 0
    assert _ring(file) == [new, old]
    assert main(["remove", str(file), old]) == 0
    assert _ring(file) == [new]
    printed = capsys.readouterr().out
    assert not any(line in printed for line in read_lines(file))


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    main(["add", str(file)])
    assert file.stat().st_mode & 0o777 == 0o600


def test_notes_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    file.write_text(f"# since May\n\n{base64.b64encode(b'k' * 32).decode()}\n")
    assert _ring(file) == [Key(b"k" * 32).id]


def test_what_people_have_noted_stays_and_goes_where_its_key_goes(tmp_path: Path) -> None:
    first, second = (base64.b64encode(secret * 32).decode() for secret in (b"k", b"l"))
    file = tmp_path / "codec.keys"
    file.write_text(f"# for production\n\n# since May\n{first}\n\n# since June\n{second}\n# the end\n")
    assert main(["promote", str(file), Key(b"l" * 32).id]) == 0
    assert file.read_text() == f"# for production\n\n\n# since June\n{second}\n# since May\n{first}\n# the end\n"
    assert main(["remove", str(file), Key(b"k" * 32).id]) == 0
    assert file.read_text() == f"# for production\n\n\n# since June\n{second}\n# the end\n"
    assert main(["add", str(file)]) == 0
    assert file.read_text().startswith(f"# for production\n\n\n# since June\n{second}\n")
    assert _ring(file)[0] == Key(b"l" * 32).id


@pytest.mark.parametrize("text", ["", "# nothing\n", "not base64 at all!\n", base64.b64encode(b"short").decode()])
def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "codec.keys"
    file.write_text(text)
    with pytest.raises(ConnectionFaultError, match="INSTANTSTART_CODEC_KEY_FILE") as refused:
        _ring(file)
    assert not text.strip() or text.strip() not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFaultError, match=r"codec\.keys"):
        _ring(tmp_path / "codec.keys")


@pytest.mark.parametrize("arguments", [[], ["add"], ["promote", "file"], ["rotate", "file"]])
def test_what_is_not_understood_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("others", [0, 1])
def test_the_key_that_encrypts_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str], others: int) -> None:
    file = tmp_path / "codec.keys"
    for _ in range(1 + others):
        main(["add", str(file)])
    before = file.read_text()
    assert main(["remove", str(file), _ring(file)[0]]) == 1
    assert "promote it first" in capsys.readouterr().err
    assert file.read_text() == before


def test_an_unknown_key_is_neither_promoted_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    main(["add", str(file)])
    before = file.read_text()
    for action in ("promote", "remove"):
        assert main([action, str(file), "0" * 16]) == 1
    assert file.read_text() == before
