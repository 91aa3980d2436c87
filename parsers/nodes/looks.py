"""What the two looks of `busbw.triage.look` at a node print: ranks of the job and network interfaces, twice."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANK = re.compile(r"^rank (\d+) pid (\d+) state (\S) ticks (\d+) wchan (\S+)$")
_NET = re.compile(r"^net (\S+) operstate (\S+) carrier (\S+) rx (\S+) tx (\S+)$")


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank's process in one look."""

    rank: int
    pid: int
    state: str
    """As in /proc/PID/stat: R running, S sleeping, D disk sleep, T stopped, Z zombie."""
    cpu_ticks: int
    wait_channel: str
    line_no: int


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """One network interface in one look."""

    name: str
    operstate: str
    carrier: bool | None
    """None = the kernel does not say (an interface that is administratively down)."""
    rx_bytes: int | None
    tx_bytes: int | None
    line_no: int


@dataclass(frozen=True, slots=True)
class Looks:
    """Both looks at one node."""

    ranks: tuple[tuple[RankState, ...], tuple[RankState, ...]]
    interfaces: tuple[tuple[InterfaceState, ...], tuple[InterfaceState, ...]]
    complete: bool
    """False = the node stopped answering in between."""


def parse(text: str) -> Looks:
    """Reads both looks; what is missing is missing, with `complete = False`.

    >>> looks = parse("look 1\\nrank 2 pid 77 state T ticks 5 wchan do_signal_stop\\nlook 2\\nend\\n")
    >>> looks.ranks[0][0].state, looks.complete
    ('T', True)
    """
    ranks: tuple[list[RankState], list[RankState]] = ([], [])
    nets: tuple[list[InterfaceState], list[InterfaceState]] = ([], [])
    current = -1
    complete = False
    for line_no, line in enumerate(text.splitlines(), 1):
        if line in ("look 1", "look 2"):
            current = int(line[-1]) - 1
        elif line == "end":
            complete = current == 1
        elif current >= 0 and (m := _RANK.match(line)):
            ranks[current].append(RankState(int(m[1]), int(m[2]), m[3], int(m[4]), m[5], line_no))
        elif current >= 0 and (m := _NET.match(line)):
            carrier = {"1": True, "0": False}.get(m[3])
            nets[current].append(InterfaceState(m[1], m[2], carrier, _number(m[4]), _number(m[5]), line_no))
    return Looks((tuple(ranks[0]), tuple(ranks[1])), (tuple(nets[0]), tuple(nets[1])), complete)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
