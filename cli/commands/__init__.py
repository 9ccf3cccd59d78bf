"""The subcommands, one module per noun."""
