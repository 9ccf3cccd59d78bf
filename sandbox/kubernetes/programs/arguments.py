"""Command lines: what a container executes, and the options that an engine reads from it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sandbox.kubernetes.resources import Json

_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", "ash")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_OPERATORS = ("&&", "||", ";", "|", "&")


def expand(text: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` as the kubelet replaces it: what is unknown stays.
    https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/"""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else env.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def command_line(container: Json, env: Mapping[str, str]) -> list[str]:
    """``command`` and ``args`` together."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [expand(str(word), env) for word in words]


def inside_shell(words: list[str], env: Mapping[str, str], wanted: Callable[[list[str]], bool]) -> list[str]:
    """The command that a shell is told to run: of several the first that is wanted."""
    if not words or words[0] not in _SHELLS:
        return words
    script = next((w for option, w in pairwise(words[1:]) if option.endswith("c")), None)
    if script is None:
        return words
    commands: list[list[str]] = [[]]
    for line in script.replace("\\\n", " ").splitlines():
        try:
            tokens = _tokens(_VARIABLE.sub(lambda m: env.get(m[1], ""), line))
        except ValueError:
            continue
        for token in tokens:
            if token in _OPERATORS:
                commands.append([])
            elif not (token == "exec" and not commands[-1]):
                commands[-1].append(token)
        commands.append([])
    return next((command for command in commands if command and wanted(command)), words)


def _tokens(line: str) -> list[str]:
    """The words and operators of a line of a shell. Raises ValueError for an open quotation."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)


@dataclass(frozen=True)
class Grammar:
    """The options of a program, all in the long form with dashes."""

    flags: frozenset[str]
    """Options without a value."""
    valued: frozenset[str]
    lists: frozenset[str] = frozenset()
    """Options with one or more values."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    families: re.Pattern[str] | None = None
    """Further options that are taken for known; of these the ones without a value begin with enable, disable or no."""

    def kind(self, option: str) -> str:
        """``flag``, ``value``, ``list``, or nothing for an option that does not exist."""
        if option in self.lists:
            return "list"
        if option in self.valued:
            return "value"
        positive = "--" + option.removeprefix("--no-")
        if option in self.flags or (positive in self.flags and positive != option):
            return "flag"
        if self.families is not None and self.families.fullmatch(option):
            return "flag" if option.startswith(("--enable-", "--disable-", "--no-")) else "value"
        return ""


@dataclass
class Options:
    """What a command line says; the last word counts."""

    values: dict[str, list[str]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    incomplete: str = ""
    """An option that lacks its value."""

    def get(self, name: str, default: str = "") -> str:
        found = self.values.get(name)
        return found[-1] if found else default

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def has(self, name: str) -> bool:
        return name in self.values

    def number(self, name: str, default: int) -> int:
        """A whole number, also as ``32k`` and ``1M``; the default where it is none."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", self.get(name).strip())
        if found is None:
            return default
        unit = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[found[2]]
        return int(float(found[1]) * unit)


def parse(words: Sequence[str], grammar: Grammar, positionals: int = 0) -> Options:
    """Read a command line as argparse does, without abbreviations."""
    options, rest = Options(), list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or re.fullmatch(r"-\d+(\.\d+)?", word):
            target = options.positional if len(options.positional) < positionals else options.unknown
            target.append(word)
            continue
        name, equals, value = word.partition("=")
        name = grammar.aliases.get(name, name)
        name = name.replace("_", "-") if name.startswith("--") else name
        # A nested option such as --compilation-config.level belongs to the one before the dot.
        kind = grammar.kind(name.partition(".")[0])
        if not kind:
            options.unknown.append(word)
            # Its value, if it has one, is unknown too.
            if not equals and rest and not rest[0].startswith("-"):
                options.unknown.append(rest.pop(0))
        elif kind == "flag" or equals:
            options.values.setdefault(name, []).append(value)
        elif not rest or (rest[0].startswith("--") and kind == "value"):
            options.incomplete = options.incomplete or word
        else:
            found = options.values.setdefault(name, [])
            found.append(rest.pop(0))
            while kind == "list" and rest and not rest[0].startswith("-"):
                found.append(rest.pop(0))
    return options
