"""Toolsets: clients drop tools beyond about forty, so what is rarely needed is switched on by name."""

from __future__ import annotations

from enum import StrEnum


class Toolset(StrEnum):
    DEFAULT = "default"
    """Create, grow and look after clusters, and follow operations."""
    NETWORK = "network"
    """Clusters in networks of one's own."""
    IMPORT = "import"
    """Take over clusters that others made."""
    TEARDOWN = "teardown"
    """Delete clusters."""
    NODES = "nodes"
    """Nodes one by one, with their pods."""
    NODE_GROUPS = "node-groups"
    """EKS node groups."""
    NODE_POOLS = "node-pools"
    """Karpenter's node pools."""
    STAGES = "stages"
    """The parts of a creation that have no tool of their own, and changes of instance groups."""
    APPROVALS = "approvals"
    """For people's own agents: approve, reject and skip. Tokens of the role agent may not."""
    AUDIT = "audit"
    """Who did what."""
