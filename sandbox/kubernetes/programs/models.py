"""What the name of a model says about it: size, heads, context, whether it is gated.

Nothing is downloaded. Values of known families are those of their config.json on the Hugging Face Hub; others are
guesses from the size in the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_LOAD_SECONDS = ((0.6, 25.0), (7.0, 60.0), (70.0, 300.0), (405.0, 900.0))
"""Billions of parameters to sandbox seconds until the server answers."""

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)
_NAMED_SIZES = ((r"gpt2|opt-125", 0.1), (r"deepseek-(v3|r1)(?!-distill)", 671.0), (r"phi-3|phi-4-mini", 3.8))
_CONTEXTS = (
    (r"qwen3", 40_960),
    (r"qwen", 32_768),
    (r"llama-3\.[1-9]|llama-4|gemma-3|r1-distill|gpt-oss", 131_072),
    (r"llama-3|gemma-2", 8_192),
    (r"llama-2|vicuna", 4_096),
    (r"deepseek", 163_840),
    (r"tinyllama|opt-", 2_048),
    (r"gpt2", 1_024),
)
_HEADS = (
    (r"qwen2\.5-0\.5b", 14),
    (r"qwen2\.5-1\.5b", 12),
    (r"qwen2\.5-7b", 28),
    (r"(qwen2\.5|qwen3)-14b|qwen2\.5-32b", 40),
)
_HEADS_BY_SIZE = ((2.0, 16), (13.0, 32), (35.0, 40))
_GATED = re.compile(r"meta-llama/.+|google/gemma-.+|mistralai/(mistral-large|codestral).*|.*gated.*", re.IGNORECASE)
_ABSENT = re.compile(r".*(does-not-exist|no-such-model).*", re.IGNORECASE)


@dataclass(frozen=True)
class Model:
    name: str
    billions: float
    heads: int
    context: int
    gated: bool
    """Whether the Hub wants a token."""
    absent: bool
    """Whether the Hub has no such repository."""

    @property
    def gib(self) -> float:
        """The weights in 16 bits."""
        return self.billions * 2 / 1.0737

    @property
    def shards(self) -> int:
        return max(1, min(30, round(self.gib / 4.6)))

    @property
    def load_seconds(self) -> float:
        sizes = _LOAD_SECONDS
        if self.billions <= sizes[0][0]:
            return sizes[0][1]
        for (small, fast), (large, slow) in pairwise(sizes):
            if self.billions <= large:
                return fast + (slow - fast) * (self.billions - small) / (large - small)
        return sizes[-1][1]


def _size(name: str) -> float:
    if found := _SIZE.search(name):
        many, number, unit = found.groups()
        return int(many or 1) * float(number) / (1 if unit in "bB" else 1000)
    return next((size for pattern, size in _NAMED_SIZES if re.search(pattern, name, re.IGNORECASE)), 7.0)


def describe(name: str) -> Model:
    """A model by the name of its repository or its folder."""
    own, size = name.rstrip("/").rsplit("/", 1)[-1], _size(name.rstrip("/").rsplit("/", 1)[-1])
    heads = next((n for limit, n in _HEADS_BY_SIZE if size < limit), 64)
    local = name.startswith(("/", "./"))
    return Model(
        name,
        size,
        next((n for pattern, n in _HEADS if re.search(pattern, own, re.IGNORECASE)), heads),
        next((n for pattern, n in _CONTEXTS if re.search(pattern, own, re.IGNORECASE)), 32_768),
        gated=not local and bool(_GATED.fullmatch(name)),
        absent=not local and bool(_ABSENT.fullmatch(name)),
    )
