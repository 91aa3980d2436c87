"""What `mlnx_qos -i IF` of MLNX_OFED prints: trust state, the DSCP map, priority flow control."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, Value, one
from busbw.text import whole_number

_ROW = re.compile(r"^[ \t]*enabled\s+((?:[01]\s+)*[01])[ \t\r]*$", re.M)
_MAP = re.compile(r"^[ \t]*prio:(\d) dscp:(\d{1,2}(?:,\d{1,2})*),?[ \t\r]*$", re.M)


@dataclass(frozen=True, slots=True)
class Qos:
    """Quality of service of one interface; None = not printed."""

    dcbx: str | None
    trust: str | None
    """`dscp` or `pcp`."""
    pfc_priorities: tuple[int, ...] | None
    """Priorities with flow control."""
    dscp_priorities: tuple[tuple[int, int], ...]
    """(DSCP, priority), by DSCP; () = not printed (trust pcp)."""
    cable_length_m: int | None


def parse(text: str) -> Qos | None:
    """The settings; None = the text is not of `mlnx_qos`.

    >>> parse("DCBX mode: OS controlled\\nPriority trust state: pcp\\nPFC configuration:\\n\\tenabled     0   0   0   1   0   0   0   0   \\n")
    Qos(dcbx='OS controlled', trust='pcp', pfc_priorities=(3,), dscp_priorities=(), cable_length_m=None)
    """
    dcbx = _after("DCBX mode", text)
    trust = _after("Priority trust state", text)
    length = _after("Cable len", text)
    row = _ROW.search(text) if "PFC configuration" in text else None
    if dcbx is None and trust is None and row is None:
        return None
    enabled = None
    if row is not None:
        enabled = tuple(i for i, bit in enumerate(row[1].split()) if bit == "1")
    mapped = []
    for priority, numbers in _MAP.findall(text):
        for dscp in numbers.split(","):
            mapped.append((int(dscp), int(priority)))
    cable_length_m = whole_number(length)
    return Qos(dcbx, trust, enabled, tuple(sorted(mapped)), cable_length_m)


def _after(label: str, text: str) -> str | None:
    match = re.search(rf"^[ \t]*{label}:\s*(\S.*?)[ \t\r]*$", text, re.M)
    return match[1] if match else None


def _line(qos: Qos) -> str:
    priorities = "".join(map(str, qos.pfc_priorities or ())) or "none"
    return f"trust {qos.trust or 'not shown'}, PFC on priorities: {priorities}"


def _facts(settings: tuple[Qos, ...]) -> tuple[ToolFact, ...]:
    (qos,) = settings
    values: list[tuple[str, Value]] = []
    if qos.pfc_priorities is not None:
        priorities = ",".join(map(str, qos.pfc_priorities))
        values.append(("pfc_enabled_prio", priorities or "none"))
    if qos.trust is not None:
        values.append(("trust", qos.trust))
    return (ToolFact("eth.qos", tuple(values)),) if values else ()


TOOL = Tool(
    name="mlnx_qos",
    marks=("PFC configuration", "Priority trust state"),
    parse=one(parse),
    lines=lambda qos: (_line(qos),),
    facts=_facts,
)
