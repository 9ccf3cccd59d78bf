"""Problems as people see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from client.sync import GatewayProblem
from contracts.problem import Problem


def problem_box(problem: Problem) -> None:
    """A problem with its field, remedy and what AWS or Kubernetes said."""
    lines = [f"**{escaped(problem.title)}** — {escaped(problem.detail)}"]
    for fault in problem.errors if len(problem.errors) > 1 else []:
        remedy = f" — {escaped(fault.remedy)}" if fault.remedy else ""
        lines.append(f"- `{fault.field or '/'}` {escaped(fault.detail)}{remedy}")
    if problem.field and len(problem.errors) < 2:
        lines.append(f"Field: `{problem.field}`")
    if problem.remedy:
        lines.append(f"**What to do:** {escaped(problem.remedy)}")
    upstream = problem.aws or problem.kubernetes
    if upstream is not None:
        request = f", request `{upstream.request_id}`" if upstream.request_id else ""
        lines.append(f"{upstream.service} `{upstream.operation}`: `{upstream.error_code}`{request}")
    st.error("\n\n".join(lines), icon=":material/error:")
    if problem.operation is not None:
        from ui.links import operation_link

        operation_link(problem.operation)


@contextmanager
def problems_shown() -> Iterator[None]:
    """Show what the gateway refuses in the block, and go on after it."""
    try:
        yield
    except GatewayProblem as error:
        problem_box(error.problem)


def escaped(text: str) -> str:
    """Text from elsewhere as text: Markdown, HTML, mathematics and icons in it are not carried out."""
    for character in "\\`*_{}[]<>()#+-!|$:~":
        text = text.replace(character, "\\" + character)
    return text
