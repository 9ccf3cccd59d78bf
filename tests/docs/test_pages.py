"""The runbook names every problem, and no page a command, route, page or heading that there is not."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path

import click
import pytest

from api.app import create_app
from api.settings import Settings
from cli.main import root
from cli.stack.environment import temporal_binary
from contracts.problem import ProblemCode
from tests.security.roles import routes

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
IN_TEXT = re.compile(r"`((?:instantstart|temporal|python -m) [^`]+)`")
GATEWAY = re.compile(r"(?:(?:http://)?(?:localhost|127\.0\.0\.1):3099|\$(?:URL|GATEWAY))(?P<path>/[^?]*)")
SHELL = ("|", "&&", ";", ">", "<", "||", "&")


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every command of a page, in its blocks and in its text."""
    text = page.read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                yield from _commands(line[2:], lines[number + 1 :])
    if page.parent != DOCS / "reference":
        for found in IN_TEXT.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            yield from _commands(found, [])


def _commands(line: str, after: list[str]) -> Iterator[list[str]]:
    """The simple commands of a line; one whose quotation is open goes on in the lines ``after`` it."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        if not after:
            raise
        yield from _commands(f"{line}\n{after[0]}", after[1:])
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in SHELL:
            command += [word] if command or not re.match(r"[A-Z_]+=", word) else []
        elif command:
            yield command
            command = []


def of(program: str) -> list[tuple[str, list[str]]]:
    """Commands of a program, with the page that has them."""
    found = [(page.name, words) for page in PAGES for words in commands(page)]
    return [(page, words) for page, words in found if Path(words[0]).name == program]


def named(case: object) -> str:
    return shlex.join(case) if isinstance(case, list) else str(case)


def test_every_problem_code_has_a_section_of_the_runbook() -> None:
    sections = re.findall(r"^### `(\w+)`\n+(.+?)(?=^#)", (DOCS / "runbook.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [code for code, _ in sections] == list(ProblemCode)
    for code, text in sections:
        assert all(f"\n- {part}:" in text for part in ("Check", "Do", "Escalate")), code


def test_commands_of_every_program_are_found() -> None:
    assert len(of("instantstart")) > 100
    assert len(requests()) > 10
    assert {"worker", "server", "temporal.setup"} <= set(modules())


@pytest.mark.parametrize(("page", "words"), of("instantstart"), ids=named)
def test_a_command_takes_what_the_page_gives_it(
    page: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for option, name in pairwise(words):
        if option in ("-f", "--file"):
            (tmp_path / name).write_text("{}")
    command: click.Command = root
    context, rest = click.Context(root), words[1:]
    while isinstance(command, click.Group):
        if not rest or rest[0].startswith("-") or rest[0].isupper():
            return  # the group alone is spoken of
        inner = command.get_command(context, rest[0])
        assert inner is not None, f"{page}: there is no {shlex.join(words)}"
        command, rest = inner, rest[1:]
    try:
        command.make_context(command.name, rest, parent=click.Context(root, info_name="instantstart"))
    except click.exceptions.Exit:
        pass  # --help
    except click.MissingParameter:
        assert rest == [], f"{page}: {shlex.join(words)}"  # only its name is spoken of


def requests() -> list[tuple[str, str]]:
    """The path of every request to the gateway, with the page that has it."""
    found = [(page, GATEWAY.match(word)) for page, words in of("curl") for word in words]
    return [(page, match["path"]) for page, match in found if match]


@pytest.fixture(scope="module")
def served() -> list[re.Pattern[str]]:
    """The paths that the gateway serves."""
    templates = {path for _, path in routes(create_app(Settings(data_dir=Path("/nonexistent")))).values()}
    return [re.compile(re.sub(r"\\{\w+(:path)?\\}", ".+", re.escape(template))) for template in templates]


@pytest.mark.parametrize(("page", "path"), sorted(set(requests())))
def test_a_request_is_for_a_route_that_there_is(page: str, path: str, served: list[re.Pattern[str]]) -> None:
    assert any(pattern.fullmatch(path) for pattern in served), f"{page}: {path}"


@pytest.mark.parametrize(
    "words", sorted({tuple(takewhile(lambda word: not word.startswith("-"), words)) for _, words in of("temporal")})
)
def test_a_command_of_temporal_is_one_of_its_own(words: tuple[str, ...]) -> None:
    answer = subprocess.run([temporal_binary(), *words[1:], "--help"], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0
    assert re.search(rf"Usage:\s+{' '.join(words)}\b", answer.stdout), answer.stdout


def modules() -> list[str]:
    """Modules of this project that a page runs."""
    named = {words[2] for _, words in of("python") if words[1] == "-m"}
    return sorted(name for name in named if (DOCS.parent / name.partition(".")[0]).is_dir())


@pytest.mark.parametrize("module", modules())
def test_a_module_that_is_run_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), f"{page.name}: {target}"
        if heading:
            assert heading in {_anchor(line) for line in _headings(place)}, f"{page.name}: {target}"


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)


def _anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
