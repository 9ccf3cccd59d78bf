"""``instantstart console``: a way into the console."""

from __future__ import annotations

from typing import Any

import click

from cli.options import output_option


@click.command()
@click.option("--open", "open_it", is_flag=True, help="Open it in this machine's browser too.")
@output_option
def console(open_it: bool, output: str) -> None:
    """Print a link that opens the console, signed in as the holder of the token in use.

    It works once, and for some minutes.
    """
    from cli.errors import say
    from cli.gateway import connect
    from cli.output import emit
    from cli.sign_in import sign_in_link

    def lines(link: dict[str, Any]) -> list[str]:
        return [link["url"]]

    link = sign_in_link(connect())
    emit(output, link, lines)
    if open_it:
        import webbrowser

        if not webbrowser.open(link["url"]):
            say("there is no browser here that could be opened; use the link")
