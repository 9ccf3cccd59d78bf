"""The gateway's client: what the console and the MCP server speak through."""
