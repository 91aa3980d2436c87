"""What `sinfo` of Slurm (20.02 to 25.05) prints in its own form: the nodes of each partition by state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_ROW = re.compile(
    r"^[ \t]*(\S{1,60}) +(up|down|drain|inact) +(\S{1,20}) +(\d{1,7}) +([a-z]\w{1,15})([*~#!%$@^+-]{0,2}) +(\S[^\n]{0,4000})$",
    re.M,
)
_TORN = re.compile(
    r"^[ \t]*(\S{1,60}) +(?:up|down|drain|inact) +\S{1,20} +\d{1,7}(?: +[a-z]\S{0,17})?[ \t]*$",
    re.M,
)
_BROKEN = ("down", "fail", "error", "unk")
"""How the names of states begin of nodes that are broken; what a person drained is not."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The nodes of one partition in one state."""

    partition: str
    nodes: int
    state: str
    """"" = the row is torn."""
    flags: str
    """`*` = they do not respond, `~` = they are off to save power…"""
    names: str

    @property
    def is_broken(self) -> bool:
        return self.state.startswith(_BROKEN) or "*" in self.flags


def parse(text: str) -> tuple[NodeState, ...]:
    """The rows in a text; () = it has no such table.

    >>> (row,) = parse("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\\nbatch*       up   infinite      2  down* gpu[01-02]\\n")
    >>> row.nodes, row.state, row.is_broken
    (2, 'down', True)
    """
    if "NODELIST" not in text:
        return ()
    torn = tuple(NodeState(partition, 0, "", "", "") for partition in _TORN.findall(text))
    return torn + tuple(
        NodeState(partition, int(nodes), state, flags, names.strip())
        for partition, _, _, nodes, state, flags, names in _ROW.findall(text)
    )


def _line(row: NodeState) -> str:
    return f"{row.partition}: {row.nodes} {row.state}{row.flags} {row.names}"


def _gaps(row: NodeState) -> Iterator[str]:
    if not row.state:
        yield f"sinfo: a row of {row.partition} is torn"


def _errors(row: NodeState) -> Iterator[str]:
    if row.is_broken:
        yield f"sinfo: {_line(row)}"


TOOL = Tool(
    name="sinfo",
    marks=("NODELIST",),
    parse=parse,
    lines=lambda row: (_line(row),) if row.state else (),
    errors=_errors,
    gaps=_gaps,
    needs=("PARTITION",),
)
