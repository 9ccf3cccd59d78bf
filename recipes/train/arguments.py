"""Arguments that a file holds, and whether a configuration says something already."""

from __future__ import annotations

import json
import re
from typing import Any

from endings import MISSING_FILE, NOT_INSTALLED, Stop


def words_from(path: str) -> list[str]:
    """Members of a JSON or YAML file as ``--name value``: a list is several words, an object JSON.

    Raises Stop where it cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise Stop(MISSING_FILE, f"{path} cannot be read: {error.strerror}") from None
    found = _parsed(text, path)
    if not isinstance(found, dict):
        raise Stop(MISSING_FILE, f"{path} holds no options by name")
    words: list[str] = []
    for name, value in found.items():
        words.append(f"--{name}")
        words += [_word(each) for each in value] if isinstance(value, list) else [_word(value)]
    return words


def named(word: str, words: list[str], path: str | None) -> bool:
    """Whether the option that ``word`` begins is among the options of ``words``, or begins a line of a file."""
    name = word.lstrip("-").partition("=")[0]
    if f"--{name}" in words:
        return True
    if path is None:
        return False
    try:
        with open(path, encoding="utf-8") as file:
            return re.search(rf"""^\s*["']?{re.escape(name)}["']?\s*:""", file.read(), re.MULTILINE) is not None
    except OSError:
        return False


def _parsed(text: str, path: str) -> Any:
    if path.endswith(".json"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise Stop(MISSING_FILE, f"{path} is no JSON: {error}") from None
    try:
        import yaml
    except ImportError:
        raise Stop(NOT_INSTALLED, f"the image has no PyYAML to read {path} with; write it as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Stop(MISSING_FILE, f"{path} is no YAML: {' '.join(str(error).split())}") from None


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
