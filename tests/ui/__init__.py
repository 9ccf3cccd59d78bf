"""The gateway, against a real Temporal dev server and through real HTTP."""
