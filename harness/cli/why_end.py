"""Texts that end without an end: in the middle of a line, or with progress and no word behind it. No
line reports a failure then, and none shows that the work completed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw import intake
from busbw.cli.why_reading import Reading
from busbw.errors import ReadError, UsageError
from busbw.parsers.logs import HEAD_BYTES
from busbw.text import decoded

_TAIL_BYTES = 1 << 16
_MOST_TEXTS = 64
"""Of a thousand ranks' logs each may end in its own way: one end decides nothing."""
_LINES = 40
"""From the end, in which progress repeats."""
_ALIKE = 4
"""Lines of one shape that are progress, where their first number rises; 2 show what is cut off."""
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")
_SHORTEST = 8
_OF_HOW_MANY = re.compile(r"(?<![\d.:/-])(\d+)\s?(?:/|of)\s?(\d+)(?![\d./-])")
_STEP = re.compile(r"(?i)\b(?:step|iter(?:ation)?|epoch|batch|global_step|it)\b\W{0,4}(\d+)|\d+%\|")
_QUOTE = 80


def with_missing_ends(reading: Reading) -> Reading:
    """The reading, with the texts that end without an end as gaps. Reads every text once more."""
    if len(reading.sources) > _MOST_TEXTS:
        return reading
    ends = [f"{source.name}: {end}" for source in reading.sources if (end := _end_of(source))]
    return replace(reading, gaps=(*reading.gaps, *ends), ends_open=True) if ends else reading


def _end_of(source: intake.Source) -> str:
    tail = b""
    try:
        if intake.is_binary(intake.head_of(source, HEAD_BYTES)):
            return ""
        for chunk in source.open():
            tail = (tail + chunk)[-_TAIL_BYTES:]
    except (ReadError, UsageError):
        return ""  # it stands among the problems already
    return end_of(decoded(tail))


def end_of(text: str) -> str:
    """How the text ends without an end; "" = it does not, or nothing shows it.

    >>> end_of("step 10 loss 2.31\\nstep 20 loss 2.12\\nstep 30 lo")
    "the text ends in the middle of a line: 'step 30 lo'"
    >>> end_of("".join(f"step {n}/500 loss 2.{n}\\n" for n in range(10, 60, 10)))
    "the text ends with progress and no word behind it, at 50 of 500: 'step 50/500 loss 2.50'"
    >>> end_of("step 10 loss 2.31\\nstep 20 loss 2.12\\nsaved\\n")
    ''
    """
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    if not lines:
        return ""
    last = lines[-1]
    if not text.endswith(("\n", "\r")) and _is_cut(last, lines[:-1]):
        return f"the text ends in the middle of a line: {_quoted(last)}"
    steps = list(_progress(lines[-_LINES:]))
    if len(steps) < _ALIKE or steps[-1].line != last or not _rises(steps):
        return ""
    at = steps[-1]
    if at.planned is not None and at.number >= at.planned:
        return ""
    where = f"at {at.number}" if at.planned is None else f"at {at.number} of {at.planned}"
    return f"the text ends with progress and no word behind it, {where}: {_quoted(last)}"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _QUOTE else f"{line[:_QUOTE]}…")


def _shape(line: str) -> str:
    return _NUMBER.sub("0", line)


def _is_cut(last: str, before: Sequence[str]) -> bool:
    """Two lines before begin as it does, and go on."""
    shape = _shape(last)
    if len(last) < _SHORTEST:
        return False
    longer = [line for line in map(_shape, before) if line != shape and line.startswith(shape)]
    return len(longer) >= 2 and shape not in set(map(_shape, before))


@dataclass(frozen=True, slots=True)
class _Step:
    """One line of progress."""

    line: str
    number: int
    planned: int | None


def _progress(lines: Sequence[str]) -> Iterator[_Step]:
    """The lines of progress of the last line's shape."""
    shape = _shape(lines[-1])
    for line in lines:
        counted, step = _OF_HOW_MANY.search(line), _STEP.search(line)
        if _shape(line) != shape or step is None:
            continue
        if counted is not None:
            yield _Step(line, int(counted[1]), int(counted[2]))
        elif step[1] is not None:
            yield _Step(line, int(step[1]), None)


def _rises(steps: Sequence[_Step]) -> bool:
    numbers = [step.number for step in steps]
    return numbers == sorted(set(numbers))
