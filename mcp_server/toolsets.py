"""Toolsets: clients drop tools beyond about forty, so what is rarely needed is switched on by name."""

from __future__ import annotations

from enum import StrEnum


class Toolset(StrEnum):
    DEFAULT = "default"
    """Create, grow and look after clusters, serve models on them, and follow operations."""
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
    STORAGE = "storage"
    """File systems, and what storage there is."""
    MODELS = "models"
    """What is on storage, and what it was fetched with."""
    SERVING = "serving"
    """Model servers one by one, pools of them, routers, and managed endpoints."""
    SCALING = "scaling"
    """Replicas by metrics."""
    STAGES = "stages"
    """The parts of a creation that have no tool of their own, and changes of instance groups."""
    APPROVALS = "approvals"
    """For people's own agents: approve, reject and skip. Tokens of the role agent may not."""
    AUDIT = "audit"
    """Who did what."""
