from __future__ import annotations

import base64
import re
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.logs.splitting import Numbering, Splitter
from contracts.log_lines import (
    LONGEST_LINE,
    Level,
    Line,
    Position,
    Positions,
    StreamKey,
    behind,
    level_of,
    nanoseconds,
    pack,
    since_text,
    stamp,
    tidy,
    unpack,
)
from contracts.log_search import Matcher, violation

TIMES = st.integers(0, 4_000_000_000_000_000_000)
positions = st.builds(Position, st.integers(0, 50), st.integers(0, 2_000_000_000_000_000_000), st.integers(-1, 100_000))
streams = st.builds(StreamKey, st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.builds(Line, streams, positions, texts)))
def test_lines_come_out_of_a_piece_as_they_went_in(lines: list[Line]) -> None:
    assert unpack(pack(lines)) == lines


@given(st.dictionaries(streams, positions))
def test_positions_come_out_of_a_cursor_as_they_went_in(known: dict[StreamKey, Position]) -> None:
    sealed = Positions(known).sealed()
    assert Positions.opened(sealed) == known
    assert re.fullmatch(r"[\w-]*", sealed)


@given(st.text(max_size=200))
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    try:
        Positions.opened(text)
    except ValueError:
        return


@given(TIMES)
def test_times_keep_every_nanosecond_and_are_asked_for_from_the_second_before(at: int) -> None:
    assert nanoseconds(stamp(at)) == at
    asked = nanoseconds(since_text(at))
    assert asked is not None
    assert asked % 1_000_000_000 == 0
    assert asked <= max(at - 1_000_000_000, 0)


@given(TIMES, TIMES)
def test_texts_of_times_are_in_their_order(one: int, other: int) -> None:
    assert (stamp(one) < stamp(other)) == (one < other)


@given(st.lists(positions, min_size=1))
def test_who_has_advanced_over_lines_has_passed_each_of_them(found: list[Position]) -> None:
    stream = StreamKey("p", "c", "u")
    known = Positions()
    known.advance(Line(stream, position, "") for position in found)
    assert all(behind(position, known[stream]) for position in found)


@given(st.text())
def test_a_shown_line_controls_no_terminal_and_is_bounded(text: str) -> None:
    shown = tidy(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert len(shown) < LONGEST_LINE + 100


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("HF_TOKEN=hf_abcdefghijkl", "HF_TOKEN=[redacted]"),
        ("ModuleNotFoundError: No module named 'hf_transfer'", "ModuleNotFoundError: No module named 'hf_transfer'"),
        ("password: hunter22", "password: [redacted]"),
        ('{"api_key": "abcdef123456"}', '{"api_key": "[redacted]"}'),
        ("AWS_SECRET_ACCESS_KEY=abcd1234/efgh+ijk", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("key AKIAABCDEFGHIJKLMNOP used", "key [redacted] used"),
        ("authorization: Bearer abcdefghijklmnop", "authorization: Bearer [redacted]"),
        ("clone https://user:pw1234@host/x", "clone https://[redacted]@host/x"),
        ("GET /k?X-Amz-Signature=0a1b2c&x=1", "GET /k?X-Amz-Signature=[redacted]&x=1"),
        ("run --token abcdef123456 --x", "run --token [redacted] --x"),
        ("['run', '--hf-token', 'abcdef123456']", "['run', '--hf-token', '[redacted]']"),
        ("x-api-key: abcdef123456", "x-api-key: [redacted]"),
        ("db pwd=hunter22x;", "db pwd=[redacted];"),
        ("token=token=abcdef", "token=[redacted]"),
        ("password=12345678", "password=[redacted]"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg\\n-----END", "-----BEGIN PRIVATE KEY-----[redacted]-----END"),
        ("-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"),
        ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "[redacted]"),
        ("Us8cKjMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtC", "[redacted]"),
        ("dVMvDuictGeurT8jNbvJZHt=", "[redacted]"),
        *(
            (text, text)
            for text in (
                "num_token=1000000",
                "token: 1234567.5",
                "pad_token=endoftext",
                "--pad-token endoftext --max_token 1000000",
                "--token-file /etc/x --tokenizer Qwen/Qwen3",
                "PWD=/home/user/training",
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "num_tokens: 12345678",
                "tokens/s: 123456",
                "eos_token='<|im_end|>'",
                "pad_token_id=151643",
                "secret=$FOO",
                "HF_HUB_DISABLE_IMPLICIT_TOKEN=1",
                "tokenizer loaded: Qwen2TokenizerFast",
            )
        ),
    ],
)
def test_secrets_are_taken_out_and_what_training_prints_stays(printed: str, shown: str) -> None:
    assert tidy(printed) == shown


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-01-01 [INFO] train: Batch 1 Loss: 2.1", Level.INFO),
        ("W0101 something", Level.WARNING),
        ("RuntimeError: CUDA out of memory", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ("node-1:12:99 [0] NCCL WARN Call to ibv_create_qp failed", Level.WARNING),
        ("DEBUG:root:x", Level.DEBUG),
        ("step 3 loss 1.2", None),
        ("validation error 0.3", None),
    ],
)
def test_a_lines_level_is_what_it_says(text: str, level: Level | None) -> None:
    assert level_of(text) is level


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "é"])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({})*".format, inner),
        st.builds("(?:{})+".format, inner),
        st.builds("({}){{0,2}}".format, inner),
        st.builds("{}?".format, st.sampled_from(["a", "(b)", r"\d"])),
        st.builds("^{}".format, inner),
        st.builds("{}$".format, inner),
        st.builds(r"\b{}".format, inner),
    ),
    max_leaves=6,
)


@given(patterns, st.text(alphabet="abAB1 _é", max_size=12))
def test_an_expression_finds_what_pythons_does(pattern: str, text: str) -> None:
    if violation(pattern) is None:
        assert Matcher(pattern, regex=True)(text) == bool(re.search(pattern, text, re.IGNORECASE))


@given(st.text(alphabet="ab. ", min_size=1, max_size=5), st.text(alphabet="abAB. ", max_size=30))
def test_a_text_is_found_whatever_its_case(search: str, text: str) -> None:
    assert Matcher(search)(text) == (search.lower() in text.lower())


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)b", "(?<!a)b", "a{1,5000}", "(a{1,100}){100}", "(?m)^a"])
def test_an_expression_that_needs_going_back_or_is_too_large_is_refused(pattern: str) -> None:
    assert violation(pattern)
    with pytest.raises(ValueError, match=r"."):
        Matcher(pattern, regex=True)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:){4000000000}",
        "(?:){4000000000,}",
        "(?:(?:){250}){250}",
        "((((){200}){200}){200}){200}",
        "(?:^){100000000}",
        "(?:|){3000000000}",
        "x(?:){0,4000000000}",
        "(" * 400,
        "a" * 501,
    ],
)
def test_an_expression_whose_counts_or_length_are_beyond_measure_is_refused_at_once(pattern: str) -> None:
    began = time.process_time()
    assert violation(pattern)
    # Written out, each would take hours: this is no measure of speed.
    assert time.process_time() - began < 60


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*c", "(x+x+)+y"])
def test_no_expression_takes_more_than_its_share_of_a_line(pattern: str) -> None:
    began = time.process_time()
    Matcher(pattern, regex=True)("a" * 100_000 + "x" * 100_000)
    # Python's own would take longer than the universe: this is no measure of speed.
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    "rows",
    [
        '[["p","c","u",0,Infinity,0]]',
        '[["p","c","u",NaN,1,0]]',
        "[" * 200_000,
        f'[["p","c","u",0,{10**30},0]]',
        '[["p","c","u",-1,1,0]]',
        '[["p","c","u",0,1,-2]]',
        '{"a": 1}',
        "5",
    ],
)
def test_a_cursor_that_was_made_by_hand_with_impossible_numbers_is_refused(rows: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Positions.opened(base64.urlsafe_b64encode(zlib.compress(rows.encode())).decode().rstrip("="))


def test_a_line_that_turns_the_direction_of_text_shows_what_it_says() -> None:
    assert tidy("user\u202e gnp.exe\u2066") == "user gnp.exe"


def test_a_line_that_is_cut_says_how_much_of_it_is_not_shown() -> None:
    splitter = Splitter()
    ((raw, dropped),) = splitter.feed(b"2026-01-01T00:00:00.000000001Z " + b"x" * 1_000_000 + b"\n")
    shown = Numbering(StreamKey("p", "c", "u"), 0).line(raw, dropped).text
    assert shown == f"{'x' * LONGEST_LINE} … [{1_000_000 - LONGEST_LINE} more characters cut]"
