"""The processes that host workflows and activities."""
