"""What is sealed opens with its key and for its use alone."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.sealing import KEY_BYTES, SEALED, Unsealable, new_key, parse_key, seal, unseal

KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


@given(KEYS, st.text(min_size=1), st.text())
def test_what_was_sealed_comes_back_and_is_always_the_same(key: bytes, text: str, context: str) -> None:
    sealed = seal(key, text, context)
    assert unseal(key, sealed, context) == text
    assert seal(key, text, context) == sealed
    assert re.fullmatch(SEALED, sealed)


@given(KEYS, KEYS, st.text(min_size=1), st.text(), st.text())
def test_another_key_or_another_use_opens_nothing(key: bytes, other: bytes, text: str, use: str, misuse: str) -> None:
    sealed = seal(key, text, use)
    if other != key:
        with pytest.raises(Unsealable):
            unseal(other, sealed, use)
    if misuse != use:
        with pytest.raises(Unsealable):
            unseal(key, sealed, misuse)


@given(KEYS, st.text(min_size=1), st.integers(min_value=0))
def test_what_was_changed_on_the_way_opens_nothing(key: bytes, text: str, position: int) -> None:
    sealed = seal(key, text, "use")
    place = len("siv1.") + position % (len(sealed) - len("siv1.") - 1)
    letter = "A" if sealed[place] != "A" else "B"
    with pytest.raises(Unsealable):
        unseal(key, sealed[:place] + letter + sealed[place + 1 :], "use")


@given(st.text())
def test_what_was_never_sealed_opens_nothing(text: str) -> None:
    with pytest.raises(Unsealable):
        unseal(bytes(KEY_BYTES), text, "use")


def test_a_key_is_read_as_it_is_or_in_base64() -> None:
    text = new_key()
    key = base64.b64decode(text)
    assert parse_key(key) == parse_key(text.encode()) == parse_key(f"{text}\n".encode()) == key
    for wrong in (b"", b"short", key[:-1], b"!" * 88):
        with pytest.raises(ValueError, match="64 bytes"):
            parse_key(wrong)
