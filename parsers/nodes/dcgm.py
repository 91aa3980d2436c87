"""What `dcgmi diag -r N` prints (DCGM 3): a table with one row per test, its warnings wrapped in the middle of words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROW = re.compile(r"^\|\s?(.{25,27}?)\s*\|\s(.*?)\s?\|\s*$")
_RESULT = re.compile(r"^(Pass|Fail|Skip|Warn)\b")


@dataclass(frozen=True, slots=True)
class DiagTest:
    """One test of the table."""

    name: str
    result: str
    """`Pass`, `Fail`, `Skip` or `Warn`."""
    warning: str
    """All its warning text with the wrapping undone as far as it can be; empty = none."""


def parse_diag(text: str) -> tuple[DiagTest, ...]:
    """The tests listed; () = the text is not of `dcgmi diag`.

    >>> parse_diag('''| GPU Memory                | Fail - GPU: 0                                  |
    ... | Warning                   | GPU 0 Error using CUDA API cuInit              |
    ... ''')
    (DiagTest(name='GPU Memory', result='Fail', warning='GPU 0 Error using CUDA API cuInit'),)
    """
    found: list[DiagTest] = []
    lines = [match for line in text.splitlines() if (match := _ROW.match(line))]
    for match in lines:
        label, value = match[1].strip(), match[2]
        if label and (result := _RESULT.match(value)):
            found.append(DiagTest(label, result[1], ""))
        elif found and label in ("", "Warning", "Error"):
            # Cells are 46 wide and cut inside words: a full cell goes on in the next without a blank.
            last = found[-1]
            found[-1] = DiagTest(last.name, last.result, (last.warning + value.rstrip() if last.warning else value.rstrip()))
    return tuple(found)
