"""Regular expressions that HyperPod's log monitoring tries on every line of a job: whether they are sure to end.

The agent in the job's pods compiles them with Python's ``re`` and tries them from a line's beginning, in the thread
that watches the rank: an expression that backtracks without end leaves the rank unwatched, and takes its processor.
What is admitted here costs a bounded number of steps on a line of 2,000 characters, and at most their square or, with
longer words between its repetitions, a small part of their cube. (hyperpod-elastic-agent 1.1.3: logagent, LogEvaluator)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from math import factorial
from typing import Any, NamedTuple

# What ``re`` itself reads an expression with; the standard library names no other way to see its parts.
ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

LONGEST = 512
LINE = 2000
"""Characters of a line that the steps are counted for."""
MOST_STEPS = 100_000_000
"""Of trying an expression on such a line: about a second where the line is made for it."""
MOST_COUNT = 1000
MOST_PLACES = 2000
"""Of an expression whose repetitions are written out; one of nothing counts too."""
MOST_CHOICES = 256
"""Ways that options, alternatives and bounded repetitions may be combined in."""
MOST_CHARACTERS = 100
"""What is made of more of them than these fits nearly everything."""
UNBOUNDED = 64
"""A repetition that may be longer counts as one without end."""

Item = tuple[Any, Any]
Characters = frozenset[int] | None
"""Characters that something may begin with or be made of, as far as ASCII goes; null: nothing at all."""
_ANY = frozenset(range(129))
"""128 stands for everything outside ASCII."""
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = frozenset({ops.MAX_REPEAT, ops.MIN_REPEAT})
_SINGLE = frozenset({ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN})
_BEYOND = 8
"""Repetitions that no line is tried with."""
_REFUSED = {
    ops.GROUPREF: "it refers back to a group",
    ops.GROUPREF_EXISTS: "it asks whether a group has matched",
    ops.ATOMIC_GROUP: "it has an atomic group, which Python before 3.11 does not know",
    ops.POSSESSIVE_REPEAT: "it has a possessive repetition, which Python before 3.11 does not know",
}


def violation(pattern: str) -> str | None:
    """Why ``pattern`` must not be tried on the lines of a log; None if it may."""
    if len(pattern) > LONGEST:
        return f"it has {len(pattern)} characters, at most {LONGEST} are allowed"
    try:
        items = list(parser.parse(pattern))
        places = _places(items)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is no regular expression of Python: {error}"
    except _Refused as error:
        return str(error)
    try:
        cost = _cost(items, [], _Cost(), within=False)
    except _Refused as error:
        return str(error)
    if cost.choices > MOST_CHOICES:
        return f"its options can be combined in more than {MOST_CHOICES} ways"
    if cost.steps * max(1.0, places / 32, _counted(items)) > MOST_STEPS:
        return (
            f"{cost.degree} repetitions without end could share the same characters in it, so that a long line takes "
            "too long; use fewer, or put longer words between them"
        )
    return None


def groups(pattern: str) -> int:
    """How many capturing groups it has; 0 also where it is no regular expression."""
    try:
        return re.compile(pattern).groups
    except re.error:
        return 0


def is_anchored(pattern: str) -> bool:
    """Whether it fits only lines that begin with it: nothing at its beginning passes over a time or a rank."""
    try:
        items = list(parser.parse(pattern))
    except re.error:
        return False
    first = next((item for item in items if item[0] is not ops.AT), None)
    return first is None or not (
        first[0] in _REPEATS and first[1][1] > UNBOUNDED and len(_made_of(first) or ()) > MOST_CHARACTERS
    )


class _Refused(Exception):
    pass


class _Cost(NamedTuple):
    """What trying a part of an expression may cost on a line of :data:`LINE` characters."""

    degree: int = 0
    """Repetitions that may end in many places."""
    choices: int = 1
    """Ways in which options combine."""
    ends: float = 1.0
    """Ways in which those repetitions may end, and so how often what comes behind is tried."""
    scanned: float = 1.0
    """Characters that they pass over, all tries together."""

    fixed: bool = False
    """Whether what comes after the last of those repetitions has one length only."""

    @property
    def steps(self) -> float:
        """Repetitions that share a line cannot each have all of it."""
        return self.scanned / factorial(self.degree) * self.choices


def _places(items: Sequence[Item], times: int = 1) -> int:
    """How long an expression is with its repetitions written out. Raises _Refused where that is beyond measure."""
    found = 0
    for op, argument in items:
        found += times
        if op in _REPEATS or op is ops.POSSESSIVE_REPEAT:
            low, high, body = argument
            count = low if high is ops.MAXREPEAT else high
            if count > MOST_COUNT:
                raise _Refused(f"a repetition in it has a count of more than {MOST_COUNT}")
            found += _places(list(body), times * max(count, 1)) + times * count
        elif op is ops.BRANCH:
            found += sum(_places(list(branch), times) for branch in argument[1])
        elif op in (ops.SUBPATTERN, ops.ASSERT, ops.ASSERT_NOT):
            found += _places(list(argument[-1]), times)
        elif op is ops.ATOMIC_GROUP:
            found += _places(list(argument), times)
        if found > MOST_PLACES or times > MOST_PLACES:
            raise _Refused(f"it has more than {MOST_PLACES} places once its repetitions are written out")
    return found


def _counted(items: Sequence[Item]) -> int:
    """The steps that repetitions with a count take each time they are tried."""
    found = 0
    for op, argument in items:
        if op in _REPEATS:
            low, high, body = argument
            count = low if high is ops.MAXREPEAT else high
            found += 2 * count + _places(list(body), count) if count > 1 else _counted(list(body))
        elif op is ops.BRANCH:
            found += sum(_counted(list(branch)) for branch in argument[1])
        elif op in (ops.SUBPATTERN, ops.ASSERT, ops.ASSERT_NOT):
            found += _counted(list(argument[-1]))
    return found


def _cost(
    items: Sequence[Item], rest: Sequence[Item], cost: _Cost, *, within: bool, before: frozenset[int] | None = None
) -> _Cost:
    """What trying ``items`` may cost together with ``cost`` before them. Raises _Refused for what may never end.

    ``rest``: what comes behind them. ``within``: they are repeated. ``before``: what the character before them is one
    of, null where nobody knows.
    """
    for position, item in enumerate(items):
        if cost.choices > 10**9 or cost.degree > _BEYOND:
            break
        op, argument = item
        behind = [*items[position + 1 :], *rest]
        known, before = before, _made_of(item) if op in _SINGLE else None
        if op in _REFUSED:
            raise _Refused(_REFUSED[op])
        if op in _REPEATS:
            low, high, body = argument
            varies, endless = low != high, high is ops.MAXREPEAT or high > UNBOUNDED
            if within and varies and (high > 1 or not _parted(item, behind)):
                raise _Refused("a repetition in it is repeated itself (like (a+)*), which may never end")
            again = [item, *behind] if high > 1 else behind
            cost = _cost(list(body), again, cost, within=within or high > 1)
            parted = _parted(item, behind)
            # What can only succeed is never gone back to.
            if any(_may_fail(each) for each in behind):
                if endless and not parted:
                    cost = _endless(item, behind, known, cost)
                    continue
                if varies and not endless:
                    cost = cost._replace(choices=cost.choices * (high - low + 1))
            if varies:
                cost = cost._replace(fixed=False)
        elif op is ops.BRANCH:
            if within:
                raise _Refused("alternatives in it are repeated (like (a|ab)*), which may never end")
            single = cost._replace(choices=1)
            each = [_cost(list(branch), behind, single, within=within, before=known) for branch in argument[1]]
            cost = _Cost(
                max(one.degree for one in each),
                cost.choices * sum(one.choices for one in each),
                max(one.ends for one in each),
                sum(one.scanned for one in each),
                all(one.fixed for one in each),
            )
        elif op is ops.SUBPATTERN:
            cost = _cost(list(argument[-1]), behind, cost, within=within, before=known)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            cost = _cost(list(argument[1]), [(ops.AT, ops.AT_END)], cost, within=within)._replace(fixed=False)
    return cost


def _endless(item: Item, behind: Sequence[Item], before: frozenset[int] | None, cost: _Cost) -> _Cost:
    """``cost`` with a repetition without end that may end in many places.

    One that begins behind a character it is not made of begins in one place for each in which it ends: the tries of
    all that came before it share the line. And a word behind it fits only as often as it has room in the line.
    """
    made = _made_of(item)
    scanned = cost.scanned + cost.ends * LINE
    if cost.fixed and made is not None and before is not None and not _folded(made) & _folded(before):
        return cost._replace(ends=float(LINE) ** cost.degree, scanned=scanned)
    return _Cost(cost.degree + 1, cost.choices, cost.ends * LINE / _apart(behind), scanned, fixed=True)


def _apart(behind: Sequence[Item]) -> int:
    """How far apart two places are, at the least, in which the word fits that ``behind`` begins with."""
    word: list[str] = []
    for op, argument in behind:
        if op is not ops.LITERAL:
            break
        word.append(chr(argument).lower())
    return next(
        (by for by in range(1, len(word)) if all(a == b for a, b in zip(word, word[by:], strict=False))),
        max(len(word), 1),
    )


def _parted(item: Item, behind: Sequence[Item]) -> bool:
    """Whether what comes behind a repetition cannot begin with what it is made of: then it ends in one place only."""
    made = _made_of(item)
    begins: frozenset[int] = frozenset()
    for each in behind:
        first = _made_of(each, first=True)
        if first is None:
            continue
        begins |= first
        if not _may_be_empty(each):
            return made is not None and not _folded(made) & _folded(begins)
    return False


def _folded(characters: frozenset[int]) -> frozenset[int]:
    """Without their case: an expression may be told to disregard it."""
    return frozenset(ord(chr(code).lower()) for code in characters)


def _made_of(item: Item, *, first: bool = False) -> Characters:
    """The characters that ``item`` may have in it, or (``first``) begin with."""
    op, argument = item
    match op:
        case ops.LITERAL:
            return frozenset({min(argument, 128)})
        case ops.NOT_LITERAL:
            return _ANY - {argument}
        case ops.ANY:
            return _ANY
        case ops.IN:
            return _class(argument)
        case ops.AT | ops.ASSERT | ops.ASSERT_NOT:
            return None
        case ops.SUBPATTERN:
            return _sequence(list(argument[-1]), first)
        case ops.BRANCH:
            return frozenset().union(*(_sequence(list(branch), first) or frozenset() for branch in argument[1]))
        case _ if op in _REPEATS:
            return _sequence(list(argument[2]), first)
    return _ANY


def _sequence(items: Sequence[Item], first: bool) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    for item in items:
        found |= _made_of(item, first=first) or frozenset()
        if first and not _may_be_empty(item):
            break
    return found


def _class(members: Sequence[Item]) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    negated = False
    for op, argument in members:
        match op:
            case ops.NEGATE:
                negated = True
            case ops.LITERAL:
                found |= {min(argument, 128)}
            case ops.RANGE:
                found |= frozenset(range(argument[0], min(argument[1], 127) + 1)) | (
                    frozenset({128}) if argument[1] > 127 else frozenset()
                )
            case ops.CATEGORY:
                text = _CATEGORIES.get(argument)
                found |= _ANY if text is None else {code for code in range(128) if re.match(text, chr(code))} | {128}
    return (_ANY - found) | {128} if negated else found


def _may_be_empty(item: Item) -> bool:
    op, argument = item
    if op in _REPEATS:
        return argument[0] == 0 or all(_may_be_empty(each) for each in argument[2])
    if op is ops.SUBPATTERN:
        return all(_may_be_empty(each) for each in argument[-1])
    if op is ops.BRANCH:
        return any(all(_may_be_empty(each) for each in branch) for branch in argument[1])
    return op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT)


def _may_fail(item: Item) -> bool:
    op, argument = item
    if op in _REPEATS:
        return argument[0] > 0 and any(_may_fail(each) for each in argument[2])
    if op is ops.SUBPATTERN:
        return any(_may_fail(each) for each in argument[-1])
    if op is ops.BRANCH:
        return all(any(_may_fail(each) for each in branch) for branch in argument[1])
    return True
