"""The gateway and its faces on one port."""
