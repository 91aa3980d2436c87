"""What `nvidia-smi --query-…=FIELDS --format=csv,nounits` prints: a head line with the fields, then one
line per GPU or process.

`[N/A]`, `[Not Supported]` and `[Unknown Error]` are values; the last usually means a GPU that fell off
the bus.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_QUERY_HEAD = re.compile(r"^(?:index|gpu_uuid|uuid|pid|name)\b[^\n]*,[^\n]*$", re.M)


@dataclass(frozen=True, slots=True)
class QueryRow:
    """One line, as (field, value) in the order asked."""

    values: tuple[tuple[str, str], ...]

    def text(self, field: str) -> str | None:
        """The value; None = not asked, or the driver gives none."""
        value = next((text for name, text in self.values if name == field), None)
        return None if value is None or value in ("[N/A]", "N/A", "[Not Supported]", "") else value

    def number(self, field: str) -> float | None:
        """The value as a number (decimal or 0x…); None = there is none."""
        value = self.text(field)
        if value is None:
            return None
        try:
            return float(int(value, 16)) if value.startswith("0x") else float(value)
        except ValueError:
            return None

    @property
    def broken(self) -> bool:
        """Some field says `[Unknown Error]` or `[GPU is lost]`."""
        return any("Unknown Error" in value or "lost" in value for _, value in self.values)


def parse(text: str) -> tuple[QueryRow, ...] | None:
    """The lines; () = a head line alone (no process runs); None = the text is not of such a query.

    >>> head = "index, name, clocks.sm [MHz], mig.mode.current\\n"
    >>> values = "0, NVIDIA H200, 1980, Disabled\\n1, NVIDIA H200, [Unknown Error], [N/A]\\n"
    >>> rows = parse(head + values)
    >>> rows[0].number("clocks.sm"), rows[1].text("mig.mode.current"), rows[1].broken
    (1980.0, None, True)
    """
    head = _QUERY_HEAD.search(text)
    if head is None:
        return None
    fields = [_UNIT.sub("", field.strip()) for field in head[0].split(",")]
    rows = []
    for line in text[head.end() :].splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields):
            rows.append(QueryRow(tuple(zip(fields, cells, strict=True))))
    return tuple(rows)


def _query_line(row: QueryRow) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.values)


TOOL = Tool(
    name="nvidia-smi --query",
    marks=("uuid", "[MiB]", "[MHz]", "current_link"),
    parse=lambda text: parse(text) or (),
    lines=lambda row: (_query_line(row),),
    errors=lambda row: (f"nvidia-smi --query: {_query_line(row)}",) if row.broken else (),
)
