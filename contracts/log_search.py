"""Looking for a text or a regular expression in lines, in time that grows with their length and nothing else.

Python's ``re`` goes back and tries again, for ever where an expression is made so. Here an expression becomes a set of
states that all take each character at once (Thompson 1968), and sets that were seen are remembered (as RE2 does). What
needs going back (references, looking around) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")
"""How Python itself takes expressions apart; typeshed does not know it."""

LONGEST = 500
"""Characters of an expression."""
MOST_STATES = 250
MOST_STEPS = 5000
"""Of writing an expression out: a repetition of nothing makes no state however often it is written."""
MOST_REMEMBERED = 2000
SEARCHED = 4096
"""Characters of a line that an expression is tried on."""

Item = tuple[Any, Any]
Test = Callable[[str], bool]

_START, _WORD, _OTHER, _END = range(4)
"""What stands before, or behind, a place in the text."""
_TOO_LARGE = f"it is too large: more than {MOST_STATES} places once its repetitions are written out"
_UNKNOWN = "references to groups, looking around, atomic groups and possessive repetitions are not known here"
_CATEGORIES: dict[Any, Test] = {
    ops.CATEGORY_DIGIT: str.isdecimal,
    ops.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    ops.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
    ops.CATEGORY_NOT_WORD: lambda character: not (character.isalnum() or character == "_"),
}


def violation(pattern: str) -> str | None:
    """Why lines cannot be searched by ``pattern``; None if they can."""
    if len(pattern) > LONGEST:
        return f"it has {len(pattern)} characters, at most {LONGEST} are allowed"
    try:
        _Automaton(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is no regular expression: {error}"
    except _Refused as error:
        return str(error)
    return None


class Matcher:
    """Finds a text or an expression anywhere in a line, whatever the case of letters."""

    def __init__(self, search: str, *, regex: bool = False) -> None:
        """Raises ValueError for an expression that :func:`violation` refuses."""
        if regex and (why := violation(search)) is not None:
            raise ValueError(why)
        self._automaton = _Automaton(search) if regex else None
        self._text = search.lower()

    def __call__(self, line: str) -> bool:
        if self._automaton is None:
            return self._text in line.lower()
        return self._automaton.found(line[:SEARCHED])


class _Refused(Exception):
    pass


class _State:
    """``test``: goes to ``into`` with a character. ``place``: goes there without one, where the place is right.
    Neither: goes there at once."""

    __slots__ = ("into", "place", "test")

    def __init__(self, into: list[int], test: Test | None = None, place: Any = None) -> None:
        self.into, self.test, self.place = into, test, place


class _Automaton:
    def __init__(self, pattern: str) -> None:
        parsed = parser.parse(pattern, re.IGNORECASE)
        if parsed.state.flags & (re.MULTILINE | re.LOCALE):
            raise _Refused("lines are searched one by one; leave out the flags m and L")
        self._states: list[_State] = []
        self._steps = 0
        self._classes: dict[int, Test] = {}
        self._all = bool(parsed.state.flags & re.DOTALL)
        self._accept = self._new([])
        self._start = self._sequence(list(parsed), self._accept)
        self._forget()

    def found(self, text: str) -> bool:
        current = self._first
        for character in text:
            following = current.get(character)
            if following is None:
                following = self._step(current, character)
            if following is self._accepted:
                return True
            current = following
        return self._accept in self._closure(*self._known[id(current)], _END)

    def _forget(self) -> None:
        self._takers: dict[str, frozenset[int]] = {}
        self._accepted: dict[str, Any] = {}
        self._sets: dict[tuple[frozenset[int], int], dict[str, Any]] = {}
        self._known: dict[int, tuple[frozenset[int], int]] = {}
        self._first = self._remembered(frozenset({self._start}), _START)

    def _remembered(self, states: frozenset[int], before: int) -> dict[str, Any]:
        """The transitions of a set of states, as far as they are known."""
        row = self._sets.get((states, before))
        if row is None:
            row = self._sets[states, before] = {}
            self._known[id(row)] = (states, before)
        return row

    def _step(self, row: dict[str, Any], character: str) -> dict[str, Any]:
        states, before = self._known[id(row)]
        if len(self._sets) > MOST_REMEMBERED:
            self._forget()
            row = self._remembered(states, before)
        kind = _WORD if _is_word(character) else _OTHER
        reached = self._closure(states, before, kind)
        following: dict[str, Any]
        if self._accept in reached:
            following = self._accepted
        else:
            into = {self._start}
            for number in reached & self._taking(character):
                into.update(self._states[number].into)
            following = self._remembered(frozenset(into), kind)
        row[character] = following
        return following

    def _taking(self, character: str) -> frozenset[int]:
        """The states that go on with a character. A class may name hundreds, so that each is asked about one once."""
        found = self._takers.get(character)
        if found is None:
            forms = [form for form in {character, character.lower(), character.upper()} if len(form) == 1]
            tests = {state.test for state in self._states if state.test is not None}
            passed = {test for test in tests if any(test(form) for form in forms)}
            found = self._takers[character] = frozenset(
                number for number, state in enumerate(self._states) if state.test in passed
            )
        return found

    def _closure(self, states: Iterable[int], before: int, behind: int) -> set[int]:
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.test is None and (state.place is None or _is_at(state.place, before, behind)):
                waiting += state.into
        return reached

    # From an expression to states, from its end to its beginning

    def _new(self, into: list[int], test: Test | None = None, place: Any = None) -> int:
        if len(self._states) >= MOST_STATES:
            raise _Refused(_TOO_LARGE)
        self._states.append(_State(into, test, place))
        return len(self._states) - 1

    def _sequence(self, items: Sequence[Item], behind: int) -> int:
        for item in reversed(items):
            behind = self._item(item, behind)
        return behind

    def _step_on(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _Refused(_TOO_LARGE)

    def _item(self, item: Item, behind: int) -> int:
        self._step_on()
        op, argument = item
        match op:
            case ops.LITERAL:
                return self._new([behind], chr(argument).__eq__)
            case ops.NOT_LITERAL:
                return self._new([behind], _none_of([(ops.LITERAL, argument)]))
            case ops.ANY:
                return self._new([behind], lambda character: self._all or character != "\n")
            case ops.IN:
                # Written out by a repetition, it is one test all the same.
                return self._new([behind], self._classes.setdefault(id(argument), _class(argument)))
            case ops.AT:
                if argument not in _PLACES:
                    raise _Refused(_UNKNOWN)
                return self._new([behind], place=argument)
            case ops.BRANCH:
                return self._new([self._sequence(list(branch), behind) for branch in argument[1]])
            case ops.SUBPATTERN:
                return self._sequence(list(argument[-1]), behind)
            case ops.MAX_REPEAT | ops.MIN_REPEAT:
                low, high, body = argument
                return self._repeat(low, high, body, behind)
        raise _Refused(_UNKNOWN)

    def _repeat(self, low: int, high: Any, body: Any, behind: int) -> int:
        items = list(body)
        if low > MOST_STATES or (high is not ops.MAXREPEAT and high > MOST_STATES):
            raise _Refused(f"a repetition in it has a count of more than {MOST_STATES}")
        if high is ops.MAXREPEAT:
            loop = self._new([behind])
            self._states[loop].into = [self._sequence(items, loop), behind]
            behind = loop
        else:
            after = behind
            for _ in range(high - low):
                behind = self._new([self._sequence(items, behind), after])
        for _ in range(low):
            self._step_on()
            behind = self._sequence(items, behind)
        return behind


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_PLACES = {
    ops.AT_BEGINNING,
    ops.AT_BEGINNING_STRING,
    ops.AT_END,
    ops.AT_END_STRING,
    ops.AT_BOUNDARY,
    ops.AT_NON_BOUNDARY,
}


def _is_at(place: Any, before: int, behind: int) -> bool:
    if place in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        return before == _START
    if place in (ops.AT_END, ops.AT_END_STRING):
        return behind == _END
    boundary = (before == _WORD) != (behind == _WORD)
    return boundary if place == ops.AT_BOUNDARY else not boundary


def _class(members: Sequence[Item]) -> Test:
    if members and members[0][0] is ops.NEGATE:
        return _none_of(members[1:])
    tests = [_member(*member) for member in members]
    return lambda character: any(test(character) for test in tests)


def _none_of(members: Sequence[Item]) -> Test:
    """Not one of ``members`` in either case: a class that leaves out ``a`` leaves out ``A``."""
    tests = [_member(*member) for member in members]

    def test(character: str) -> bool:
        return not any(one(form) for form in (character.lower(), character.upper()) if len(form) == 1 for one in tests)

    return test


def _member(op: Any, argument: Any) -> Test:
    if op is ops.LITERAL:
        return chr(argument).__eq__
    if op is ops.RANGE:
        low, high = argument
        return lambda character: low <= ord(character) <= high
    if op is ops.CATEGORY and argument in _CATEGORIES:
        return _CATEGORIES[argument]
    raise _Refused(_UNKNOWN)
