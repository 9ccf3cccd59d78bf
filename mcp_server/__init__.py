"""MCP tools for agents: a thin face of the gateway."""
