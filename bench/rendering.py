"""A report as pages to read: a table and pictures for each benchmark, beside an earlier run where one is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import altair
import vl_convert

from bench.report import Benchmark, Figure, Report

MOST_BARS = 12
"""More in one picture cannot be read; the table has them all."""
OURS, BASELINE, EARLIER = "measured", "baseline", "earlier"
COLOURS = altair.Scale(domain=[OURS, BASELINE, EARLIER], range=["#2f6fb0", "#9a9a9a", "#d9a441"])


def render(report: Report, folder: Path, earlier: Report | None = None) -> Path:
    """Write ``report.md`` and its pictures into ``folder``. Returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    before = {each.name: each for each in earlier.benchmarks} if earlier else {}
    parts = [*_head(report, earlier)]
    for each in report.benchmarks:
        parts += _section(each, before.get(each.name), folder)
    page = folder / "report.md"
    page.write_text("\n".join(parts).rstrip() + "\n")
    return page


def _head(report: Report, earlier: Report | None) -> Iterator[str]:
    yield "# Benchmarks: what was measured"
    yield ""
    yield f"{report.taken_at:%Y-%m-%d}, {report.machine}."
    yield ", ".join(f"{name} {number}" for name, number in report.versions.items()) + "."
    yield f"Source: {report.commit or 'unknown'}. Load, sandbox, Temporal and platform share the machine."
    if earlier:
        yield ""
        yield f"*Before* is the run of {earlier.taken_at:%Y-%m-%d %H:%M} UTC ({earlier.commit or 'unknown'})."
    yield ""


def _section(found: Benchmark, before: Benchmark | None, folder: Path) -> Iterator[str]:
    yield f"## {found.name}"
    yield ""
    yield f"{found.seconds:.0f} s; load of the machine {found.load_before:.1f} before, {found.load_after:.1f} after."
    yield ""
    if found.failure:
        yield f"**Not finished**: {found.failure}"
        yield ""
    if found.figures:
        yield from _table(found, before)
        for number, (unit, figures) in enumerate(_by_unit(found)):
            picture = folder / f"{found.name}-{number}.svg"
            picture.write_text(_picture(unit, figures, before))
            yield f"![{found.name}, {unit or 'ratios'}]({picture.name})"
            yield ""
    for note in found.notes:
        yield f"- {note}"
    yield ""


def _table(found: Benchmark, before: Benchmark | None) -> Iterator[str]:
    yield "| | median (min – max) | before | goal |" if before else "| | median (min – max) | goal |"
    yield "| --- | --- | --- | --- |" if before else "| --- | --- | --- |"
    for figure in found.figures:
        was = _same(figure, before)
        cells = [figure.name + (" *(baseline)*" if figure.baseline else ""), figure.text()]
        cells += [was.text() if was else ""] if before else []
        yield "| " + " | ".join([*cells, figure.goal]) + " |"
    yield ""


def _by_unit(found: Benchmark) -> Iterator[tuple[str, list[Figure]]]:
    """Figures that can stand on one axis: of one unit, and at least two."""
    for unit in dict.fromkeys(each.unit for each in found.figures):
        figures = [each for each in found.figures if each.unit == unit]
        if len(figures) > 1:
            yield unit, figures[:MOST_BARS]


def _picture(unit: str, figures: list[Figure], before: Benchmark | None) -> str:
    """Bars of medians with a line from the least to the most, as SVG."""
    bars = []
    for figure in figures:
        bars.append(_bar(figure, figure.name, BASELINE if figure.baseline else OURS))
        if was := _same(figure, before):
            bars.append(_bar(was, f"{figure.name}, before", EARLIER))
    base = altair.Chart(altair.InlineData(values=bars)).encode(
        y=altair.Y("name:N", sort=None, title=None, axis=altair.Axis(labelLimit=420))
    )
    medians = base.mark_bar(height={"band": 0.7}).encode(
        x=altair.X("median:Q", title=unit or "ratio or count"),
        color=altair.Color("kind:N", scale=COLOURS, legend=altair.Legend(title=None, orient="bottom")),
    )
    spread = base.mark_rule(strokeWidth=2, color="#222").encode(x="least:Q", x2="most:Q")
    # Names are drawn wider than they were measured where another font is at hand.
    chart = (medians + spread).properties(width=460, padding={"left": 48, "top": 6, "right": 12, "bottom": 6})
    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg


def _bar(figure: Figure, name: str, kind: str) -> dict[str, str | float]:
    spread = {"least": min(figure.samples), "most": max(figure.samples)}
    return {"name": name, "kind": kind, "median": figure.median, **spread}


def _same(figure: Figure, before: Benchmark | None) -> Figure | None:
    return next((each for each in before.figures if each.name == figure.name), None) if before else None
