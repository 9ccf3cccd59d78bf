"""Which words a pattern cannot match without: a cheap look at a text before the pattern is tried.

Logs have hundreds of lines, and rules hundreds of patterns. A word is found in a line many times faster than a pattern.
"""

from __future__ import annotations

SHORTEST = 3
_CLASSES = "dDwWsS"
_BOUNDARIES = "bBAZ"


def words_of(pattern: str) -> frozenset[str] | None:
    """Lower-case words of which every text that the pattern matches has at least one; None where there are none.

    Of every branch the longest run of characters counts, else those of a group that must be there.
    """
    found: set[str] = set()
    for branch in _branches(pattern):
        words = _of_branch(branch)
        if words is None:
            return None
        found |= words
    return frozenset(found)


def _branches(pattern: str) -> list[str]:
    """The alternatives of a pattern, outside of its groups."""
    branches, depth, start, at = [], 0, 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":
            at = _end_of_class(pattern, at)
        elif character == "|" and depth == 0:
            branches.append(pattern[start:at])
            start = at + 1
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
        at += 1
    return [*branches, pattern[start:]]


def _of_branch(branch: str) -> set[str] | None:
    runs, groups = _parts(branch)
    longest = max(runs, key=len, default="")
    if len(longest) >= SHORTEST:
        return {longest}
    for group in groups:
        if (words := words_of(group)) is not None:
            return set(words)
    return None


def _parts(branch: str) -> tuple[list[str], list[str]]:
    """Runs of characters that must be there, and contents of groups that must."""
    runs, groups, run, at = [], list[str](), "", 0
    while at < len(branch):
        character = branch[at]
        if character == "\\" and branch[at + 1] in _BOUNDARIES:
            at += 2
            continue
        literal = None
        if character == "\\":
            literal = None if branch[at + 1] in _CLASSES else branch[at + 1]
            end = at + 2
        elif character == "[":
            end = _end_of_class(branch, at) + 1
        elif character == "(":
            end = _end_of_group(branch, at)
        else:
            literal = None if character in ".^$" else character
            end = at + 1
        optional, after = _quantifier(branch, end)
        if character == "(" and not optional and not branch.startswith(("(?!", "(?<", "(?="), at):
            groups.append(branch[at:end].removeprefix("(").removeprefix("?:").removesuffix(")"))
        if literal is not None and not optional:
            run += literal.lower()
        if literal is None or after != end:
            runs.append(run)
            run = ""
        at = after
    return [*runs, run], groups


def _quantifier(branch: str, at: int) -> tuple[bool, int]:
    """Whether what stands before ``at`` may be absent, and where its quantifier ends."""
    if at >= len(branch) or branch[at] not in "?*+{":
        return False, at
    if branch[at] != "{":
        return branch[at] in "?*", at + 1
    end = branch.index("}", at)
    return branch[at + 1] == "0", end + 1


def _end_of_class(pattern: str, at: int) -> int:
    """The index of the bracket that closes the one at ``at``; one that comes first is a member."""
    at += 2 if pattern.startswith("[^", at) else 1
    at += 1 if pattern[at] == "]" else 0
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at


def _end_of_group(pattern: str, at: int) -> int:
    """Behind the parenthesis that closes the one at ``at``."""
    depth = 0
    while True:
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":
            at = _end_of_class(pattern, at)
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
        at += 1
        if depth == 0:
            return at
