"""Arguments of the original's tools whose values are written in another way here, or are not taken at all."""

from __future__ import annotations

from typing import Any

from client.aio import GatewayProblem
from mcp_server.problems import wrong_argument
from mcp_server.toolbox import Alias

UNSET = (None, "", -1, "-1")
"""What the original's tools took for nothing."""


def unless_unset(argument: str) -> Alias:
    """The same value under its present name; −1 and nothing are nothing. Numbers may come as text, with Gi or not."""
    return lambda value: {} if value in UNSET else {argument: _number(value)}


def listed(argument: str) -> Alias:
    """A list that the original's tools took as text with commas."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, str):
            return {argument: value}
        return {argument: found} if (found := [each.strip() for each in value.split(",") if each.strip()]) else {}

    return read


def never_a_token(name: str) -> Alias:
    """A token of the Hugging Face Hub, which no tool takes: the conversation would keep it."""

    def refuse(value: Any) -> dict[str, Any]:
        if value in UNSET:
            return {}
        raise GatewayProblem(
            wrong_argument(
                name,
                "no tool takes a token: this conversation, and whoever keeps it, would have it. It was not used",
                "Ask the user to store it in the console (Storage and models, Credentials) or with `instantstart "
                "credential store CLUSTER huggingface`, and to renew one that they have written here already. Then "
                "send `credential` with its name: one of credential_list.",
            )
        )

    return refuse


def whole_gpus(value: Any) -> dict[str, Any]:
    """Memory of a GPU that is shared, which is not offered."""
    if value in UNSET:
        return {}
    raise GatewayProblem(
        wrong_argument(
            "gpuMemory",
            "GPUs are not shared by their memory here: a replica has whole ones",
            "Leave it out, and let the engine take a part of the memory (vLLM: --gpu-memory-utilization).",
        )
    )


def _number(value: Any) -> Any:
    text = value.removesuffix("Gi").strip() if isinstance(value, str) else ""
    try:
        number = float(text)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number
