"""Text that a model might answer with: always the same for the same prompt, and a little about it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_WORD = re.compile(r"[^\W\d_]{4,}")
_COMMON = """
    about again also because been before could does from have into just like more most much only over please said same
    should some such tell than that their them then there these they this those what when where which while will with
    would your
    """
_OPENINGS = ("The short answer on {0}:", "Here is what matters about {0}:", "In brief, {0} comes down to this:")
_SENTENCES = (
    "It depends on {0} and on how {1} is used.",
    "Most people begin with {0}, then look at {1}.",
    "A simple way to see it is to compare {0} with {1}.",
    "Without {0}, there would be little to say about {1}.",
    "In practice, {0} matters more than {1}.",
)
_CLOSING = "Ask again if you want more detail."
_FALLBACK = ("the question", "the answer", "the details")


@dataclass(frozen=True)
class Generated:
    """Tokens whose concatenation is the text."""

    tokens: tuple[str, ...]
    finish: str
    """``stop`` or ``length``."""

    @property
    def text(self) -> str:
        return "".join(self.tokens)


def count_tokens(text: str) -> int:
    """About four characters a token, as with most tokenizers and English text."""
    return max(1, (len(text) + 3) // 4)


def generate(model: str, prompt: str, limit: int, stop: list[str], variant: int = 0) -> Generated:
    """At most ``limit`` tokens. ``variant`` tells several answers to one prompt apart."""
    text, finish = _text(model, prompt, variant), "stop"
    for mark in stop:
        text = text.partition(mark)[0] if mark else text
    tokens = re.findall(r"\s*\S+", text)
    if len(tokens) > limit:
        tokens, finish = tokens[:limit], "length"
    return Generated(tuple(tokens), finish)


def _text(model: str, prompt: str, variant: int) -> str:
    found = [word for word in _WORD.findall(prompt) if word.lower() not in _COMMON.split()]
    words = list(dict.fromkeys(found))[-8:]
    words += _FALLBACK[len(words) :]
    digest = hashlib.sha256(f"{model}\0{prompt}\0{variant}".encode()).digest()
    sentences = [_OPENINGS[digest[0] % len(_OPENINGS)].format(words[0])]
    for index in range(1, 3 + digest[1] % 3):
        first, second = words[digest[index] % len(words)], words[digest[index + 8] % len(words)]
        sentences.append(_SENTENCES[digest[index + 16] % len(_SENTENCES)].format(first, second))
    return " ".join([*sentences, _CLOSING])
