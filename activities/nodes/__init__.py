"""Nodes: read, rebooted, replaced, deleted, and waited for."""
