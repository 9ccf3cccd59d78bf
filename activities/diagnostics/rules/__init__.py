"""What is known of failures, one table per kind. A new rule is one entry, and a case of ``bench/corpus``."""

from __future__ import annotations

from activities.diagnostics.rules import containers, creation, distributed, nodes, scheduling, storage
from activities.diagnostics.rules.rule import Rule, Sign

RULES: tuple[Rule, ...] = (
    *nodes.RULES,
    *creation.RULES,
    *scheduling.RULES,
    *storage.RULES,
    *containers.RULES,
    *distributed.RULES,
)

NODE_RULES: tuple[Rule, ...] = (*nodes.RULES, *creation.RULES)
"""What can be wrong with a node: what its pods do wrong is theirs."""

__all__ = ["NODE_RULES", "RULES", "Rule", "Sign"]
