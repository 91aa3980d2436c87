"""Every expression of the tables takes a short time on every line: what repeats a repetition must
tell where one ends and the next begins."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]  # the only parser of expressions that there is
from re import _parser  # type: ignore[attr-defined]

import pytest

from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs import required_literals
from busbw.parsers.logs.scan import Pattern, Scanner

CHARACTERS = frozenset(string.printable)
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
OF_LINES = 0.5
"""Seconds of CPU for a line as long as the scanner hands on; exponential ones take for ever."""


def members(item: tuple) -> frozenset[str]:  # type: ignore[type-arg]
    """The characters that one single-character item matches; () = it is no such item."""
    op, value = item
    if op is codes.LITERAL:
        return frozenset(chr(value).lower() + chr(value).upper())
    if op is codes.ANY:
        return CHARACTERS - {"\n"}
    if op is codes.NOT_LITERAL:
        return CHARACTERS - {chr(value)}
    if op is codes.IN:
        inside = frozenset().union(*map(_in_class, value))
        return CHARACTERS - inside if value[0][0] is codes.NEGATE else inside
    return frozenset()


def _in_class(item: tuple) -> frozenset[str]:  # type: ignore[type-arg]
    op, value = item
    if op is codes.RANGE:
        own = {chr(code) for code in range(value[0], value[1] + 1)}
        return frozenset(own) | {each.upper() for each in own} | {each.lower() for each in own}
    if op is codes.CATEGORY:
        letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[str(value).rsplit("_", 1)[1]]
        escape = letter.upper() if "_NOT_" in str(value) else letter
        return frozenset(each for each in CHARACTERS if re.match(f"\\{escape}", each))
    return members((op, value)) if op is not codes.NEGATE else frozenset()


def sequences(item: tuple) -> list[list[tuple]]:  # type: ignore[type-arg]
    """What stands inside an item, one sequence for each alternative."""
    op, value = item
    if op is codes.SUBPATTERN:
        return [list(value[3])]
    if op is codes.BRANCH:
        return [list(each) for each in value[1]]
    if op in REPEATS:
        return [list(value[2])]
    if op in (codes.ASSERT, codes.ASSERT_NOT):
        return [list(value[1])]
    return []


def first(items: list[tuple]) -> tuple[frozenset[str], bool]:  # type: ignore[type-arg]
    """The characters with which the items can begin; whether they can be empty."""
    found: frozenset[str] = frozenset()
    for item in items:
        op, value = item
        if op in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            continue
        inside = [first(each) for each in sequences(item)]
        own = members(item).union(*(each for each, _ in inside))
        found |= own
        empty = any(each for _, each in inside) or (op in REPEATS and value[0] == 0)
        if not empty:
            return found, False
    return found, True


def ambiguous(items: list[tuple], after: frozenset[str] = frozenset()) -> Iterator[str]:  # type: ignore[type-arg]
    """The repetitions inside a repetition whose end nothing marks. `after`: what follows the items
    where a repetition around them begins anew; empty = there is none."""
    for position, item in enumerate(items):
        op, value = item
        following, empty = first(items[position + 1 :])
        follows = following | (after if empty else frozenset())
        again = after
        if op in REPEATS and value[1] > 1:
            again, empty = first(list(value[2]))
            inside = members(value[2][0]) if len(value[2]) == 1 else again
            if after and inside & follows:
                yield f"{''.join(sorted(inside & follows))[:8]!r} in {value[:2]}"
        elif after:
            again = follows
        if op not in (codes.ASSERT, codes.ASSERT_NOT):
            for each in sequences(item):
                yield from ambiguous(each, again)


def doubts(regex: str) -> list[str]:
    return list(ambiguous(list(_parser.parse(regex, re.IGNORECASE | re.MULTILINE))))


@pytest.mark.parametrize("regex", [r"(?:a+)+b", r"(?:\w+\s*)+:", r"^(?:\S* *)*x", r"(?:a|a\w*)*c"])
def test_the_check_sees_what_takes_exponential_time(regex: str) -> None:
    assert doubts(regex)


@pytest.mark.parametrize(
    "regex", [r"^(?:\S+ +){0,10}x", r"(?:/\w+)+$", r"(?:[^,]*,)+x", r"a.*b.*c"]
)
def test_the_check_lets_pass_what_marks_each_end(regex: str) -> None:
    assert not doubts(regex)


def test_no_expression_of_the_tables_nor_its_shape_is_ambiguous() -> None:
    bad = {}
    for pattern in search_patterns():
        for regex in (pattern.regex, required_literals.erased(pattern.regex)):
            if found := doubts(regex):
                bad[regex] = found
    assert not bad


def test_a_scan_for_a_group_of_words_ends_where_the_words_are_others() -> None:
    words = b"xyz ghi jkl mno " * 100
    text = words + b" failed: the end\nnode [x1] failed: the end\n"
    began = time.process_time()
    scan = Scanner((Pattern("it", r"^(?:\S+ +){0,10}\[x\w+\] +failed: the end"),)).scan([text])
    assert [hit.line_count for hit in scan.hits] == [1]
    assert time.process_time() - began < OF_LINES
