"""``instantstart call``: ask a model."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

import click

from cli.options import output_option


@click.command()
@click.argument("tag")
@click.argument("service")
@click.argument("prompt")
@click.option("-n", "--namespace", help="The service's.  [default: default]")
@click.option("--model", help="[default: the first one that the service names]")
@click.option("--max-tokens", type=int, help="[default: 512]")
@click.option("--temperature", type=float, help="[default: 0.7]")
@click.option("--completion", is_flag=True, help="Go on with PROMPT, instead of answering it.")
@click.option("--stream", is_flag=True, help="Print what the model writes while it writes.")
@output_option
def call(
    tag: str, service: str, prompt: str, namespace: str | None, completion: bool, stream: bool, output: str, **more: Any
) -> None:
    """Ask the model behind SERVICE of the cluster TAG; as PROMPT, - reads stdin. `service list` names services."""
    from cli.calls import called
    from cli.errors import say
    from cli.gateway import cluster_path, connect
    from cli.output import emit, harmless

    def wrote(piece: str) -> None:
        if stream and output == "table":
            sys.stdout.write(harmless(piece))
            sys.stdout.flush()

    body: dict[str, Any] = {"prompt": sys.stdin.read() if prompt == "-" else prompt}
    body |= {name: value for name, value in more.items() if value is not None}
    body |= {"api": "completions"} if completion else {}
    path = cluster_path(tag, f"services/{quote(service, safe='')}/invocations")
    answer = called(connect(), path, body, wrote, namespace=namespace)
    if stream and output == "table":
        sys.stdout.write("\n")
    else:
        emit(output, answer, lambda found: [harmless(found["text"])])
    if output == "table":
        say(_numbers(answer))


def _numbers(answer: dict[str, Any]) -> str:
    """What it took, in a line."""
    told = [answer["model"], f"{answer['seconds']:.2f} s"]
    if answer.get("first_token_seconds") is not None:
        told.append(f"first token after {answer['first_token_seconds']:.2f} s")
    if answer.get("completion_tokens") is not None:
        told.append(f"{answer['completion_tokens']} tokens")
    if answer.get("finish_reason") == "length":
        told.append("cut off at --max-tokens")
    return ", ".join(told)
