"""What `nvidia-smi --query-…=FIELDS --format=csv,nounits` prints: a head line with the fields, then one
line per GPU or process.

`[N/A]`, `[Not Supported]` and `[Unknown Error]` are values; the last usually means a GPU that fell off
the bus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_QUERY_HEAD = re.compile(r"^(?:index|gpu_uuid|uuid|pid|name)\b[^\n]*,[^\n]*$", re.M)
_REASONS = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
CLOCK_EVENTS = {
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
}
"""Why clocks are below what was asked, and the bit of each in the mask: nvml.h."""
_FAULTS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake")


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


def clock_events(row: QueryRow) -> tuple[str, ...] | None:
    """Those of `CLOCK_EVENTS` that are active, by the mask or by fields of their own; None = neither
    was asked.

    >>> head = "index, clocks_event_reasons.hw_power_brake_slowdown, clocks_event_reasons.active\\n"
    >>> rows = parse(head + "0, Active, [N/A]\\n1, Not Active, 0x0000000000000048\\n")
    >>> [clock_events(row) for row in rows or ()]
    [('hw_power_brake',), ('hw_slowdown', 'hw_thermal_slowdown')]
    """
    asked = [name for name, _ in row.values if _REASONS.match(name) and row.text(name) is not None]
    if not asked:
        return None
    active: set[str] = set()
    for name in asked:
        reason = name.rpartition(".")[2]
        if reason == "active":
            mask = int(row.number(name) or 0)
            active.update(event for event, bit in CLOCK_EVENTS.items() if mask & bit)
        elif row.text(name) == "Active":
            active.add("hw_power_brake" if reason == "hw_power_brake_slowdown" else reason)
    return tuple(event for event in CLOCK_EVENTS if event in active)


def _subject(row: QueryRow) -> str:
    for name in ("index", "pci.bus_id", "gpu_bus_id", "gpu_uuid", "uuid"):
        if value := row.text(name):
            return f"GPU {value}"
    return ""


def _counted(row: QueryRow) -> Iterator[tuple[str, str, float]]:
    """Check, name in it, and number of what a good GPU has none of."""
    names = (
        ("gpu.ecc", "uncorrected_volatile", "ecc.errors.uncorrected.volatile.total"),
        ("gpu.remap", "failure", "remapped_rows.failure"),
        ("gpu.remap", "pending", "remapped_rows.pending"),
    )
    for check, value, name in names:
        number = 1.0 if row.text(name) == "Yes" else row.number(name)
        if number:
            yield check, value, number


def _facts(rows: tuple[QueryRow, ...]) -> Iterator[ToolFact]:
    for row in rows:
        for event in clock_events(row) or ():
            yield ToolFact("gpu.throttle", ((event, "active"),), _subject(row))
        for check, value, number in _counted(row):
            yield ToolFact(check, ((value, number),), _subject(row))


def _errors(row: QueryRow) -> Iterator[str]:
    is_slowed = not set(_FAULTS).isdisjoint(clock_events(row) or ())
    if row.broken or is_slowed or any(_counted(row)):
        yield f"nvidia-smi --query: {_query_line(row)}"


def _query_line(row: QueryRow) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.values)


TOOL = Tool(
    name="nvidia-smi --query",
    marks=(
        "uuid",
        "[MiB]",
        "[MHz]",
        "current_link",
        "clocks_event_reasons.",
        "clocks_throttle_reasons.",
    ),
    parse=lambda text: parse(text) or (),
    lines=lambda row: (_query_line(row),),
    facts=_facts,
    errors=_errors,
)
