"""Parsers of what strangers write, each with the law that it keeps whatever comes.

Each target is a hypothesis test. The test suite tries a few hundred inputs of each, always the same;
``scripts/fuzz.py`` tries as many as there is time for, guided by coverage where atheris is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from api import pages
from api.filters import clause
from api.managed import _patience
from api.problems import ProblemError
from api.secret_guard import without_secrets
from contracts import log_patterns, log_search, names
from contracts.catalogue import KINDS
from contracts.command_report import ParseRequest, report
from contracts.command_words import Unfinished, words_of
from contracts.corrections import apply_corrections
from contracts.log_lines import Positions
from contracts.model import fingerprint
from contracts.network import parse_cidr
from contracts.nodes import RebootNodesSpec
from contracts.plain_yaml import MOST_VALUES, read_yaml
from contracts.problem import field_errors
from contracts.recipes.configs import read_value
from contracts.recipes.secrets import secret_in
from contracts.sealing import KEY_BYTES, Unsealable, seal, unseal
from contracts.secret_values import assigned_secret, known_secret, masked
from ui.signin import _own

KEY = bytes(range(KEY_BYTES))
SETTINGS = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
Result = TypeVar("Result")
TARGETS: dict[str, Callable[[], None]] = {}
"""By name. Called without arguments, each tries its own inputs."""

# What breaks parsers: their own signs, in any order, among anything.
SIGNS = [*"'\"\\`$;&|<>(){}[]*?!#~=%,:./-_@ \t\n\r\0", "\u2028", "\ufeff", "é", "𝔘", "--", "$(", "&&", "<<", "{{"]
WORDS = [
    *("vllm", "serve", "--port", "8000", "sh", "-c", "exec", "env", "A=b", "python", "-m", "null", "true", "1e999"),
    *("10.0.0.0/8", "10.0.0.1/33", "i-0123456789abcdef0", "hyperpod-i-0", "&a", "*a", "!!python/object", "<<: *a"),
    *(
        "hf_abcdefghijklmnop",
        "AKIA0123456789ABCDEF",
        "://u:p@h",
        "-----BEGIN PRIVATE KEY-----",
        "Bearer abc0123456789de",
    ),
    *("(a+)+$", "(?:", "[^", "\\d{1,9}", "{0,99999}", "(?P<x>", "\\1", "(?=", "wait=", "//evil.example", "/\\evil"),
]
NASTY = st.one_of(
    st.text(max_size=200),
    st.lists(st.one_of(st.sampled_from(SIGNS), st.sampled_from(WORDS), st.text(max_size=5)), max_size=30).map("".join),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), NASTY),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NASTY, inner, max_size=4)),
    max_leaves=12,
)


def target(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a law that holds for whatever the strategies give."""

    def register(law: Callable[..., None]) -> Callable[..., None]:
        TARGETS[law.__name__] = SETTINGS(given(*strategies)(law))
        return law

    return register


def _tried(call: Callable[[], Result], *refusals: type[Exception]) -> tuple[Result | None, Exception | None]:
    """What the call gives, or the refusal that it ends in; anything else that it raises breaks its law."""
    try:
        return call(), None
    except refusals as error:
        return None, error


def _validated(model: type[BaseModel], value: object) -> BaseModel | None:
    """What the model makes of it; None where it refuses it, which must be with something to say."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = field_errors(error, "", model)
        assert found
        assert all(each.detail for each in found)
        return None


@target(NASTY)
def a_tag_is_told_what_is_wrong_with_it_and_its_slug_is_one(text: str) -> None:
    names.tag_violation(text)
    assert names.tag_violation(names.slug(text)[:20].rstrip("-")) is None
    for rule in (names.EKS, names.HYPERPOD, names.KUBERNETES_NAME, names.DEPLOYMENT_NAME, names.TRAINING_NAME):
        if rule.violation(text) is None:
            assert not set(text) & set("/ \n\0'\"")


@target(NASTY)
def a_block_of_addresses_is_read_strictly_or_refused(text: str) -> None:
    block, refused = _tried(lambda: parse_cidr(text), ValueError)
    if block is None:
        assert repr(text) in str(refused)
    else:
        assert parse_cidr(str(block)) == block


@target(NASTY, st.booleans())
def a_command_line_is_words_or_unfinished(text: str, parted: bool) -> None:
    words, refused = _tried(lambda: list(words_of(text, parted)), Unfinished)
    assert str(refused) if words is None else len(words) <= len(text)


@target(NASTY, st.sampled_from([None, "sh", "exec"]))
def a_command_is_reported_on_whatever_it_is(text: str, shell: str | None) -> None:
    asked = _validated(ParseRequest, {"command": text, "shell": shell})
    if isinstance(asked, ParseRequest):
        report(asked).model_dump_json()


@target(st.lists(NASTY, max_size=3))
def nodes_are_named_as_they_are_called_or_refused(nodes: list[str]) -> None:
    spec = _validated(RebootNodesSpec, {"nodes": nodes})
    if isinstance(spec, RebootNodesSpec):
        assert all(re.fullmatch(r"[A-Za-z0-9.-]+", each) for each in spec.nodes)


@target(NASTY)
def a_pattern_of_log_monitoring_is_admitted_or_refused_with_a_reason(text: str) -> None:
    if log_patterns.violation(text) is None:
        re.compile(text)
        log_patterns.groups(text)


@target(NASTY, st.text(max_size=300))
def a_search_finds_or_does_not_but_ends(pattern: str, line: str) -> None:
    log_search.Matcher(pattern)(line)
    if log_search.violation(pattern) is None:
        log_search.Matcher(pattern, regex=True)(line)


@target(NASTY)
def a_page_token_that_was_never_given_is_refused(text: str) -> None:
    position, refused = _tried(lambda: pages.unseal("list", text), ProblemError)
    if position is None:
        assert isinstance(refused, ProblemError)
        assert refused.body.status == 422
    else:
        assert pages.unseal("list", pages.seal("list", position)) == position


@target(st.binary(min_size=1, max_size=100), NASTY, NASTY)
def a_page_token_comes_back_for_its_own_list_alone(position: bytes, listing: str, other: str) -> None:
    token = pages.seal(listing, position)
    assert pages.unseal(listing, token) == position
    if other != listing:
        assert _tried(lambda: pages.unseal(other, token), ProblemError)[0] is None


@target(NASTY)
def a_position_in_a_log_is_one_that_was_given_or_refused(text: str) -> None:
    found, _ = _tried(lambda: Positions.opened(text), ValueError)
    if found is not None:
        assert Positions.opened(found.sealed()) == found


@target(NASTY)
def yaml_is_bounded_or_refused(text: str) -> None:
    value, _ = _tried(lambda: read_yaml(text), yaml.YAMLError, ValueError, RecursionError)
    assert _size(value) <= 2 * MOST_VALUES
    read_value(text)


@target(st.integers(1, 40), st.integers(1, 40))
def yaml_that_grows_by_its_anchors_is_refused(depth: int, width: int) -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth + 1)]
    value, refused = _tried(lambda: read_yaml("\n".join(lines)), yaml.YAMLError)
    assert value is None
    assert "anchor" in str(refused)


@target(NASTY)
def what_was_never_sealed_is_not_opened(text: str) -> None:
    assert _tried(lambda: unseal(KEY, text, "use"), Unsealable)[0] is None


@target(st.text(max_size=200), NASTY)
def what_is_sealed_is_opened_for_its_use(text: str, use: str) -> None:
    assert unseal(KEY, seal(KEY, text, use), use) == text


@target(NASTY)
def a_text_without_its_secrets_has_none(text: str) -> None:
    assert known_secret(masked(text)) is None
    assigned_secret(text)


@target(JSON)
def whatever_is_looked_through_for_secrets_is_refused_without_them(value: Any) -> None:
    secret_in(value)
    _, refused = _tried(lambda: without_secrets(value), ProblemError)
    if isinstance(refused, ProblemError):
        assert known_secret(refused.body.model_dump_json()) is None
        assert refused.body.status == 422


@target(JSON, JSON)
def corrections_merge_whatever_they_are(document: Any, patch: Any) -> None:
    merged = apply_corrections(document, patch)
    if not isinstance(patch, dict | list):
        assert merged is patch


@target(st.sampled_from(sorted(KINDS)), JSON)
def a_specification_is_valid_or_every_fault_has_a_place(kind: str, value: Any) -> None:
    found = _validated(KINDS[kind].spec, value)
    if found is not None:
        assert fingerprint(found) == fingerprint(KINDS[kind].spec.model_validate(found.model_dump(mode="json")))


@target(NASTY)
def a_preference_to_wait_is_a_number_of_seconds_or_none(text: str) -> None:
    found = _patience(f"wait={text}")
    assert found is None or found > 0


@target(NASTY)
def a_condition_of_a_list_ends_where_its_value_does(text: str) -> None:
    found = clause("Cluster", text) or ""
    inner = found.removeprefix("Cluster = '").removesuffix("'")
    assert re.fullmatch(r"(?:[^'\\]|\\.)*", inner, re.DOTALL)


@target(NASTY)
def one_goes_on_to_the_console_alone(text: str) -> None:
    assert urlsplit(urljoin("http://console.example/signin", _own(text))).netloc == "console.example"
    assert "\\" not in _own(text)[:2]


def _size(value: Any) -> int:
    waiting, count = [value], 0
    while waiting:
        found = waiting.pop()
        count += 1
        if isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list | tuple | set):
            waiting += found
    return count
