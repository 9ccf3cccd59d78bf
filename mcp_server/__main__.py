"""``python -P -m mcp_server``: the tools over stdio, for agents on a desktop."""

from __future__ import annotations

import argparse
import sys

from pydantic import ValidationError

from mcp_server.server import create_server
from mcp_server.settings import EVERY, Settings
from mcp_server.toolsets import Toolset
from telemetry import process


def main(arguments: list[str] | None = None) -> int:
    """Serve until standard input ends; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -P -m mcp_server",
        description="MCP server of InstantStart over stdio. The gateway and the token come from INSTANTSTART_URL and "
        "INSTANTSTART_TOKEN; make a token of the role agent for each agent.",
    )
    parser.add_argument("--url", help="the gateway's address  [INSTANTSTART_URL]")
    parser.add_argument(
        "--toolsets", help=f"comma-separated: {', '.join(Toolset)}, or {EVERY}  [INSTANTSTART_TOOLSETS; default]"
    )
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    try:
        settings = Settings(**given)
        process.begin("instantstart-mcp", temporal=False)
    except (ValidationError, process.TelemetryFaultError) as error:
        print(error, file=sys.stderr)
        return 2
    token = settings.token.get_secret_value() if settings.token else None
    create_server(settings.url, token, settings.toolsets, settings.state_key).run("stdio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
