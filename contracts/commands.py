"""Command lines of model servers, read as a POSIX shell reads words, and nothing of a shell beyond that.

What a shell would do besides (operators, variables, patterns) is told and never guessed: whoever asks chooses between
``exec`` (every character is meant as it stands) and ``sh`` (a shell carries the text out).
(POSIX.1-2024, Shell Command Language, 2.2 Quoting and 2.3 Token Recognition)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import Field

from contracts.command_words import Unfinished, Word, assigns, words_of
from contracts.model import Model

Shell = Literal["exec", "sh"]


class Engine(StrEnum):
    """What serves the model."""

    VLLM = "vllm"
    SGLANG = "sglang"
    CUSTOM = "custom"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Model):
    """Something about a command that its author should know."""

    rule: str
    """Stable: programs branch on it."""
    severity: Severity
    message: str
    remedy: str | None = None
    token: int | None = None
    """Index into ``argv``; null: it is about the whole."""
    text: str | None = None
    """That token, where it holds no secret."""
    field: str = "/command"
    """JSON pointer into the deployment's specification."""


class Command(Model):
    """A command as a container starts it."""

    argv: list[str] = Field(default_factory=list)
    """Every word, byte for byte; with ``sh``: ``sh``, ``-c`` and the text."""
    engine: Engine = Engine.CUSTOM
    program: int = 0
    """How many of the words name the program; 0: all are arguments of the image's own entry point."""
    words: list[str] = Field(default_factory=list)
    """The words of the model server's own command: ``argv`` itself, with ``sh`` a part of the text."""
    model: str | None = None
    """What is served: a path, or an ID of Hugging Face; null where the command does not say."""
    served_names: list[str] = Field(default_factory=list)
    """Names that clients ask for; empty: the model's own."""
    findings: list[Finding] = Field(default_factory=list)
    """Why the text is no plain command; empty where it is one."""


def parse(text: str, engine: Engine | None = None, shell: Shell | None = None) -> Command:
    """Read a command line. ``engine`` null: told by the program. Never raises; what is wrong is among the findings."""
    try:
        words = list(words_of(text, shell == "sh"))
    except Unfinished as error:
        return Command(
            findings=[
                Finding(
                    rule="unfinished-quote",
                    severity=Severity.ERROR,
                    message=str(error),
                    remedy="Close it, or put a backslash before a quotation mark that is meant literally.",
                )
            ]
        )
    if not words:
        message = "the command is empty"
        return Command(findings=[Finding(rule="empty", severity=Severity.ERROR, message=message)])
    if shell == "sh":
        found = _recognised(_segments(words), engine)
        command = of_words(found, engine)
        return command.model_copy(update={"argv": ["sh", "-c", text], "findings": _without_exec(found, text)})
    command = of_words([word.text for word in words], engine)
    if shell == "exec":
        return command
    return command.model_copy(update={"findings": list(_shell_findings(words))})


def of_words(words: Sequence[str], engine: Engine | None = None) -> Command:
    """The command of words that are given one by one: each is meant as it stands."""
    told, program = _program(words)
    if engine is not None and engine is not told:
        program = 0 if words and words[0].startswith("-") else min(1, len(words))
        told = engine
    command = Command(argv=list(words), words=list(words), engine=told, program=program)
    options, positional = options_of(command)
    model = _first(options, "--model", "--model-path")
    if model is None and told is Engine.VLLM and positional:
        model = words[positional[0]]
    names = [option.value for option in options if option.name == "--served-model-name" and option.value]
    more = [words[index] for option in options if option.name == "--served-model-name" for index in option.rest]
    return command.model_copy(update={"model": model, "served_names": [*names, *more]})


@dataclass(frozen=True)
class Option:
    """An option as it was written. ``name`` has two hyphens and no underscores where it is a long one."""

    name: str
    value: str | None
    index: int
    """Of the option's own word."""
    value_index: int | None = None
    rest: tuple[int, ...] = ()
    """Of further values."""


FLAGS = frozenset(
    {
        *("--trust-remote-code", "--enable-prefix-caching", "--enable-chunked-prefill", "--enforce-eager"),
        *("--enable-auto-tool-choice", "--enable-lora", "--enable-expert-parallel", "--disable-log-requests"),
        *("--disable-log-stats", "--async-scheduling", "--headless", "--enable-dp-attention", "--enable-metrics"),
        *("--disable-radix-cache", "--disable-cuda-graph", "--enable-torch-compile", "--log-requests"),
        *("--skip-tokenizer-init", "--is-embedding", "--enable-mixed-chunk", "--enable-p2p-check"),
        *("--disable-custom-all-reduce", "--enable-sleep-mode", "--enable-log-requests", "--skip-server-warmup"),
        *("-ep", "--help", "--version"),
    }
)
"""Options that take no value, as far as a word behind them could be taken for one."""
SEVERAL = frozenset({"--served-model-name", "--lora-modules", "--lora-paths", "--cuda-graph-bs", "--api-key"})
"""Options of vLLM and SGLang that take several values."""


def options_of(command: Command) -> tuple[list[Option], list[int]]:
    """The options of the model server's command, and the indexes of words that belong to none."""
    words, options, positional = command.words, [], []
    index = command.program
    while index < len(words):
        word = words[index]
        if not _is_option(word):
            positional.append(index)
            index += 1
            continue
        name, equals, value = word.partition("=")
        name = _canonical(name)
        if equals:
            options.append(Option(name, value, index, index))
            index += 1
            continue
        following = index + 1
        takes = name not in FLAGS and not name.startswith("--no-") and following < len(words)
        if not takes or _is_option(words[following]):
            options.append(Option(name, None, index))
            index += 1
            continue
        end = following + 1
        while name in SEVERAL and end < len(words) and not _is_option(words[end]):
            end += 1
        options.append(Option(name, words[following], index, following, tuple(range(following + 1, end))))
        index = end
    return options, positional


def literal(word: str) -> str:
    """A word as a container's ``command``, ``args`` or ``env`` must have it to mean just this: Kubernetes expands
    ``$(NAME)`` there, and reads ``$$`` as one. (Kubernetes API: Container, command)"""
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit() and word[1] != "." and " " not in word


def _canonical(name: str) -> str:
    """vLLM reads ``--max_model_len`` as ``--max-model-len``, and ``--hf-overrides.x`` as a part of ``--hf-overrides``.

    (vllm/utils: FlexibleArgumentParser)
    """
    return name.partition(".")[0].replace("_", "-") if name.startswith("--") else name


def _first(options: list[Option], *names: str) -> str | None:
    return next((option.value for option in options if option.name in names and option.value), None)


def _program(words: Sequence[str]) -> tuple[Engine, int]:
    """Who serves, and how many words say so."""
    if not words or words[0].startswith("-"):
        return Engine.CUSTOM, 0
    begin = 1 if words[0] == "exec" else 0
    names = [word.rpartition("/")[2] for word in words[begin : begin + 4]]
    if names[:2] == ["vllm", "serve"]:
        return Engine.VLLM, begin + 2
    if names[:2] == ["sglang", "serve"]:
        return Engine.SGLANG, begin + 2
    if len(names) > 2 and names[0].rstrip("0123456789.") == "python" and names[1] == "-m":
        if names[2] == "vllm.entrypoints.openai.api_server":
            return Engine.VLLM, begin + 3
        if names[2:4] == ["vllm.entrypoints.cli.main", "serve"]:
            return Engine.VLLM, begin + 4
        if names[2] == "sglang.launch_server":
            return Engine.SGLANG, begin + 3
    return Engine.CUSTOM, 1


def _segments(words: list[Word]) -> list[list[str]]:
    """The simple commands of a text, without assignments before them, and without where they read and write."""
    parts: list[list[str]] = [[]]
    redirected = False
    for word in words:
        if word.operator and set(word.text) & set("<>"):
            redirected = True
            continue
        if redirected:
            redirected = False
            continue
        if word.operator or word.after_line_break:
            parts.append([])
        if not word.operator and (parts[-1] or not assigns(word.text)):
            parts[-1].append(word.text)
    return [part for part in parts if part]


def _recognised(segments: list[list[str]], engine: Engine | None) -> list[str]:
    """The command that serves: the first whose program is known, else the last."""
    for segment in segments:
        if _program(segment)[0] is not Engine.CUSTOM:
            return segment
    return segments[-1] if segments else []


def _without_exec(words: list[str], text: str) -> list[Finding]:
    if words[:1] == ["exec"]:
        return []
    return [
        Finding(
            rule="sh-signals",
            severity=Severity.INFO,
            message="the shell stays in front of the server and does not pass on the signal to end",
            remedy="Write exec before the server's command, so that requests are finished when a pod ends.",
        )
    ]


def _shell_findings(words: list[Word]) -> Iterator[Finding]:
    choice = (
        'Send shell "sh" to have a shell carry it out, or shell "exec" to pass every word as it stands'
        " (or put it in single quotes)."
    )

    def found(rule: str, what: str, index: int) -> Finding:
        severity, text = Severity.ERROR, words[index].text
        return Finding(rule=rule, severity=severity, message=what, remedy=choice, token=index, text=text)

    for index, word in enumerate(words):
        if word.after_line_break and not word.text.startswith("-"):
            what = f"a line ends before {word.text!r}: a shell would begin another command there"
            yield found("shell-line-break", what, index)
        for what in dict.fromkeys(word.shell):
            yield found("shell-syntax", f"{what} in {word.text!r} means something to a shell only", index)
    if words and words[0].text == "exec":
        yield found("shell-syntax", "exec is a shell's own word, not a program", 0)
    if words and assigns(words[0].text):
        shown = words[0].text.partition("=")[0] + "=…"
        what = f"{shown} sets a variable for a shell's command; without a shell it is the program's name"
        yield found("shell-assignment", what, 0).model_copy(
            update={"remedy": f"Move it to env, or choose: {choice}", "text": shown}
        )
