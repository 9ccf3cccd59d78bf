"""HyperPod's managed Karpenter, as it acts in a cluster."""

from __future__ import annotations

from .controller import Karpenter

__all__ = ["Karpenter"]
