"""Two looks at a node in which a job makes no progress: ranks of the job and network interfaces,
twice.

`parse` reads the plain form that runs recorded before the looks were part of the collecting script;
`busbw.triage.samples` reads both.
"""

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

    @property
    def has_link(self) -> bool:
        """The kernel says that there is a link. `operstate unknown` with a carrier is a link
        (tunnels, loopback, some virtual ports)."""
        return self.carrier is True and self.operstate not in ("down", "lowerlayerdown")


@dataclass(frozen=True, slots=True)
class Looks:
    """Both looks at one node."""

    ranks: tuple[tuple[RankState, ...], tuple[RankState, ...]]
    interfaces: tuple[tuple[InterfaceState, ...], tuple[InterfaceState, ...]]
    complete: bool
    """False = the node stopped answering in between."""
    moved_bytes: int | None = None
    """Bytes that the job moved between the looks, where that is known better than from all
    interfaces; None = it is not."""


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
        elif current >= 0 and (interface := _interface(line, line_no)):
            nets[current].append(interface)
    return Looks((tuple(ranks[0]), tuple(ranks[1])), (tuple(nets[0]), tuple(nets[1])), complete)


def parse_interfaces(text: str) -> tuple[InterfaceState, ...]:
    """The interface lines alone, wherever they stand."""
    return tuple(
        i for line_no, line in enumerate(text.splitlines(), 1) if (i := _interface(line, line_no))
    )


def _interface(line: str, line_no: int) -> InterfaceState | None:
    match = _NET.match(line)
    if not match:
        return None
    carrier = {"1": True, "0": False}.get(match[3])
    return InterfaceState(
        match[1], match[2], carrier, _number(match[4]), _number(match[5]), line_no
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
