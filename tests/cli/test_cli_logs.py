"""Commands that show logs: what they ask for, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.log_lines import Level, LogLine
from contracts.logs import LogGap, LogPage
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
POD = "/api/v1/clusters/demo/pods/ml/solo/logs"
RUN = "/api/v1/clusters/demo/training-runs/qwen/logs"


def line(text: str, rank: int | None = 0, **more: Any) -> LogLine:
    given = {"at": "2026-01-01T00:00:00.5Z", "pod": "solo", "container": "pytorch", "rank": rank, "text": text, **more}
    return LogLine.model_validate(given)


def page(*lines: LogLine, end: bool = True, cursor: str = "c1", gaps: list[LogGap] | None = None) -> Any:
    found = LogPage(lines=list(lines), cursor=cursor, end=end, gaps=gaps or [], read_at=datetime.now(UTC))
    return found.model_dump(mode="json")


def event(name: str, document: Any, id: str = "") -> str:
    mark = f"id: {id}\n" if id else ""
    return f"{mark}event: {name}\ndata: {json.dumps(document)}\n\n"


def test_the_newest_lines_of_a_pod_are_shown_as_they_are(gateway: Gateway, cli: Cli) -> None:
    gap = LogGap(pod="solo", container="pytorch", why="rotated away")
    gateway.answers["GET", POD] = (200, page(line("one"), line("two"), gaps=[gap]))
    ran = cli("logs", "demo", "solo", "-n", "ml", "--level", "error", "--search", "NCCL", "--regex")
    assert ran.out == "one\ntwo\n"
    assert "lines of solo/pytorch are missing: rotated away" in ran.err
    (asked,) = gateway.requests("GET", "/logs")
    assert asked.query == {"tail": "200", "level": "error", "search": "NCCL", "regex": "true"}
    assert cli("logs", "demo", "solo", "-n", "ml", "--timestamps").out.startswith("2026-01-01T00:00:00.5Z one\n")
    found = json.loads(cli("logs", "demo", "solo", "-n", "ml", "-o", "json").out)
    assert [each["text"] for each in found["lines"]] == ["one", "two"]


def test_lines_of_a_run_say_which_rank_they_are_of(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", RUN] = (200, page(line("one"), line("two", 1)))
    assert cli("train", "logs", "demo", "qwen", "-n", "ml").out == "[0] one\n[1] two\n"
    assert cli("train", "logs", "demo", "qwen", "--rank", "1", "--since", "2026-01-01T00:00:00Z").out == "one\ntwo\n"
    first, second = gateway.requests("GET", "/logs")
    assert first.query == {"namespace": "ml", "tail": "200"}
    assert second.query == {"rank": "1", "since": "2026-01-01T00:00:00Z"}


def test_a_whole_log_is_printed_page_by_page_also_when_the_gateway_goes_in_the_midst_of_it(
    gateway: Gateway, cli: Cli
) -> None:
    away = {"title": "Unavailable", "status": 503, "code": "unavailable", "detail": "no worker answers"}
    gap = LogGap(pod="solo", container="pytorch", why="rotated away")
    gateway.turns["GET", RUN] = [
        (200, page(line("one"), end=False, cursor="c1")),
        (503, away),
        (200, page(line("two", 1, pod="other"), end=False, cursor="c2", gaps=[gap])),
        (200, page(line("three"))),
    ]
    ran = cli("train", "logs", "demo", "qwen", "--all")
    assert (ran.out, ran.code) == ("[solo/pytorch] one\n[other/pytorch] two\n[solo/pytorch] three\n", 0)
    assert "trying again" in ran.err
    assert "lines of solo/pytorch are missing: rotated away" in ran.err
    assert [each.query.get("cursor") for each in gateway.requests("GET", "/logs")] == [None, "c1", "c1", "c2"]
    gateway.turns["GET", RUN] = [(503, away)]
    assert cli("train", "logs", "demo", "qwen", "--all").code == 1


def test_a_followed_log_is_printed_to_its_end(gateway: Gateway, cli: Cli) -> None:
    lines = {"lines": [line("one").model_dump(mode="json"), line("two", 3).model_dump(mode="json")]}
    gap = {"pod": "solo", "container": "pytorch", "why": "gone"}
    told = event("pods", {"pods": []}) + event("lines", lines, "c2") + event("gap", gap)
    gateway.streams["GET", f"{RUN}/stream"] = told + event("end", {"reason": "gone", "kept": True})
    ran = cli("train", "logs", "demo", "qwen", "-f", "--tail", "5")
    assert (ran.out, ran.code) == ("[0] one\n[3] two\n", 0)
    assert "the pod is gone" in ran.err
    ran = cli("train", "logs", "demo", "qwen", "-f", "-o", "json")
    assert [json.loads(row)["text"] for row in ran.out.splitlines()] == ["one", "two"]


def test_a_problem_in_a_stream_is_the_commands(gateway: Gateway, cli: Cli) -> None:
    told = {"title": "Not found", "status": 404, "code": "not_found", "detail": "no pod solo", "remedy": "Look."}
    gateway.streams["GET", f"{POD}/stream"] = event("problem", told)
    ran = cli("logs", "demo", "solo", "-n", "ml", "-f")
    assert ran.code == 3
    assert "no pod solo" in ran.err


@pytest.mark.parametrize("arguments", [("-p", "-f"), ("--since", "yesterday"), ("--tail", "-1"), ("--level", "loud")])
def test_what_cannot_be_shown_is_wrong_usage(gateway: Gateway, cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("logs", "demo", "solo", *arguments).code == 2
    assert not gateway.asked


def test_every_level_can_be_asked_for(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", POD] = (200, page())
    for level in Level:
        assert cli("logs", "demo", "solo", "-n", "ml", "--level", level.value).code == 0
