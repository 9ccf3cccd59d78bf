"""A model server's command: its words as the gateway reads them, with what is wrong beside the word at fault."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.command_report import ParsedCommand
from contracts.commands import Finding, Severity
from ui.problems import escaped, problem_box
from ui.session import gateway

_LOOKED_AT = ("command", "shell", "engine", "image", "gpu_count", "port", "env")
"""Members of what was entered that a command is judged by."""
_ICONS = {
    Severity.ERROR: ("error", "red"),
    Severity.WARNING: ("warning", "orange"),
    Severity.INFO: ("info", "blue"),
}


def findings_shown(form: str, tag: str, body: Mapping[str, Any]) -> None:
    """Draw how the command in ``body`` is read. The gateway is asked anew when something of it has changed."""
    if "command" not in body:
        st.caption("What is wrong with the command, or may surprise, is told here once there is one.")
        return
    asked = {name: body[name] for name in _LOOKED_AT if name in body}
    if "credential" in body:
        asked["credential"] = True
    key = f"{form}/parsed"
    before, parsed = st.session_state.get(key, (None, None))
    if before != asked:
        try:
            parsed = gateway().call(endpoints.PARSE_COMMAND, asked, tag=tag)
        except GatewayProblem as error:
            problem_box(error.problem)
            return
        st.session_state[key] = (asked, parsed)
    _drawn(parsed)


def _drawn(parsed: ParsedCommand) -> None:
    at_fault = {each.token: each.severity for each in reversed(parsed.findings) if each.token is not None}
    words = [_word(word, at_fault.get(number)) for number, word in enumerate(parsed.command.argv)]
    if words:
        st.markdown(" ".join(words))
    told = [f"engine **{parsed.command.engine.value}**"]
    if parsed.command.model:
        told.append(f"model **{escaped(parsed.command.model)}**")
    if parsed.gpus_used is not None:
        told.append(f"its words take **{parsed.gpus_used} GPU{'' if parsed.gpus_used == 1 else 's'}**")
    if parsed.image:
        told.append(f"image {escaped(parsed.image)}")
    st.caption(" · ".join(told))
    for finding in parsed.findings:
        _finding(finding)
    if not parsed.findings:
        st.caption(":green[:material/check: Nothing about it is remarkable.]")


def _word(word: str, severity: Severity | None) -> str:
    shown = escaped(" ".join(shlex.quote(word).splitlines()))
    return shown if severity is None else f":{_ICONS[severity][1]}-background[{shown}]"


def _finding(finding: Finding) -> None:
    icon, color = _ICONS[finding.severity]
    where = f"**{escaped(finding.text)}** — " if finding.text else ""
    remedy = f" {escaped(finding.remedy)}" if finding.remedy else ""
    st.markdown(f":{color}[:material/{icon}:] {where}{escaped(finding.message)}.{remedy}")
