"""One thing that is wrong with a run of nccl-tests, and how its lines are quoted."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.parsers.nccl_tests.run_facts import Quoted

_QUOTE = 160
LISTED = 8
"""Lines of one kind that are quoted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    text: str
    fault: bool = False
    """True = the result is bad, however complete."""
    incomplete: bool = False
    """True = something is missing, so the result is not complete."""


def quote(line: Quoted) -> str:
    """The line with its number, cut to a readable length."""
    where = f"line {line.line_no}: " if line.line_no else ""
    return f"{where}{cut(line.text.strip())}"


def cut(text: str) -> str:
    """The text, cut to a readable length."""
    return f"{text[:_QUOTE]}{'…' if len(text) > _QUOTE else ''}"
