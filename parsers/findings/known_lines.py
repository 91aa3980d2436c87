"""Lines that the catalogue knows to be harmless, or to end nothing."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from busbw.parsers.findings.catalogue import Role, Weight, load
from busbw.parsers.logs.scan_sieve import branches_of
from busbw.table_cache import cached


class _Sign(NamedTuple):
    """One alternative of what an entry looks for in lines, by one text that such a line may have."""

    literal: str
    """Lower case; "" = it needs none that is known."""
    regex: str


@functools.cache
def _signs_of(*roles: Role) -> tuple[_Sign, ...]:
    """What entries of these roles look for in lines."""
    names = "-".join(role.value for role in roles)
    return cached(f"signs-{names}", functools.partial(_alternatives_of, roles))


def _alternatives_of(roles: tuple[Role, ...]) -> tuple[_Sign, ...]:
    regexes = []
    for symptom in load().entries:
        for signal in symptom.signals:
            is_sign = symptom.role in roles and signal.weight is not Weight.EXCLUDES
            if is_sign and signal.regex is not None:
                regexes.append(signal.regex)
    return tuple(
        _Sign(literal.decode(), branch.text)
        for branch in branches_of(regexes)
        for literal in branch.literals or (b"",)
    )


@functools.cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.IGNORECASE | re.ASCII)


def _looked_for(lines: Sequence[str], *roles: Role) -> frozenset[str]:
    """The lines that an entry of these roles looks for. Most lines have none of the literals, and few
    of the literals are in any of the lines: an expression is compiled for the first line that has one
    of its own."""
    text = "\n".join(lines).lower()
    near = [sign for sign in _signs_of(*roles) if sign.literal in text]
    found = set()
    for line in lines:
        low = line.lower()
        regexes = (regex for literal, regex in near if literal in low)
        if any(_compiled(regex).search(line) is not None for regex in regexes):
            found.add(line)
    return frozenset(found)


def is_remark(line: str) -> bool:
    """Whether the catalogue knows the line to be harmless."""
    return bool(_looked_for((line,), Role.NOTE))


def no_failures(lines: Sequence[str]) -> frozenset[str]:
    """The lines that the catalogue knows as remarks, or as settings or conditions that cost bandwidth
    and end nothing."""
    return _looked_for(lines, Role.NOTE, Role.STATE)
