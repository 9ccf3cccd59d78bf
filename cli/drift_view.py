"""Drift for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cli.output import age, columns


def drift_lines(answer: dict[str, Any]) -> list[str]:
    """What a check found, and what can be done about it."""
    report = answer.get("report")
    if report is None:
        return [f"{answer['cluster']} was never compared with its record: `instantstart drift check` does it."]
    found = report.get("differences") or []
    lines = [drift_line(report)]
    if found:
        rows = ((each["severity"], each["id"], age(each["since"]), _ways(each)) for each in found)
        lines += ["", *columns(("SEVERITY", "DIFFERENCE", "SINCE", "CAN BE"), rows), ""]
        lines += [f"{each['id']}: {said(each)}" for each in found]
    if report.get("more"):
        lines.append(f"{report['more']} more are not listed")
    at_work = Counter(each.rpartition(": ")[2] for each in report.get("skipped") or [])
    lines += [f"left out, as {operation} is at work on them: {count}" for operation, count in at_work.items()]
    for each in report.get("unread") or []:
        lines.append(f"could not be read: {', '.join(each['kinds'])} ({each['detail']})")
    return lines


def drift_line(report: dict[str, Any]) -> str:
    """How many differences there are, and when it was looked."""
    count = len(report.get("differences") or []) + (report.get("more") or 0)
    none = "nothing differs in what could be read" if report.get("unread") else "nothing differs"
    what = none if not count else f"{count} difference{'s' if count > 1 else ''}"
    return f"{what}, looked {age(report['checked_at'])} ago"


def said(each: dict[str, Any]) -> str:
    """A difference in a sentence, with who did it and what to do where neither way is open."""
    by = f" (by {each['by']})" if each.get("by") else ""
    hole = "; to adopt it accepts a hole in security" if each.get("weakens") else ""
    other = "" if each["restore"]["possible"] else f"; not restored: {_why(each['restore'])}"
    neither = "" if each["adopt"]["possible"] else f"; not adopted: {_why(each['adopt'])}"
    return f"{each['detail']}{by}{hole}{neither}{other}"


def _why(way: dict[str, Any]) -> str:
    return f"{way['why'].rstrip('.')}" + (f" (use {way['operation']})" if way.get("operation") else "")


def _ways(each: dict[str, Any]) -> str:
    ways = [word for word, way in (("adopted", "adopt"), ("restored", "restore")) if each[way]["possible"]]
    return " or ".join(ways) or "neither"
