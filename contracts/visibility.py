"""Search attributes of our workflows: what operations and clusters are listed by.

SQL visibility has room for 10 Keyword and 3 Bool attributes in a namespace.
"""

from __future__ import annotations

CLUSTER = "HpCluster"
KIND = "HpKind"
PHASE = "HpPhase"
STAGE = "HpStage"
STARTED_BY = "HpStartedBy"
REGION = "HpRegion"
IDEMPOTENCY_KEY = "HpIdempotencyKey"
NEEDS_ATTENTION = "HpNeedsAttention"

KEYWORDS = (CLUSTER, KIND, PHASE, STAGE, STARTED_BY, REGION, IDEMPOTENCY_KEY)
BOOLS = (NEEDS_ATTENTION,)

KEYWORD, BOOL = "Keyword", "Bool"
ATTRIBUTES = {**dict.fromkeys(KEYWORDS, KEYWORD), **dict.fromkeys(BOOLS, BOOL)}
"""What a namespace must define: each with Temporal's name of its type."""
