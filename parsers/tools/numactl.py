"""What `numactl -H` (2.0) prints: the NUMA nodes of a machine, their memory and distances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs
from busbw.text import whole_number

_HEAD = re.compile(r"^[ \t]*available: (\d{1,5}) nodes? \(", re.M)
_CPUS = re.compile(r"^[ \t]*node (\d{1,5}) cpus:([\d ,-]*)$", re.M)
_MEMORY = re.compile(r"^[ \t]*node (\d{1,5}) (size|free): (\d{1,15}) MB", re.M)
_NONE = re.compile(r"^[ \t]*No NUMA (?:support )?available on this system", re.M)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node."""

    number: int
    cpus: int
    size_mb: int | None
    """None = not printed."""
    free_mb: int | None


@dataclass(frozen=True, slots=True)
class Numa:
    """The machine."""

    available: int
    """0 = the system has no NUMA support."""
    nodes: tuple[NumaNode, ...]


def parse(text: str) -> tuple[Numa, ...]:
    """The nodes of every machine in a text.

    >>> parse("available: 1 nodes (0)\\nnode 0 cpus: 0 1\\nnode 0 size: 515656 MB\\nnode 0 free: 491000 MB\\n")[0].nodes
    (NumaNode(number=0, cpus=2, size_mb=515656, free_mb=491000),)
    """
    found = map(_machine, runs(_HEAD, text))
    return tuple(numa for numa in found if numa is not None)


def _machine(text: str) -> Numa | None:
    head = _HEAD.search(text)
    if head is None:
        return Numa(0, ()) if _NONE.search(text) else None
    memory = {(number, what): int(size) for number, what, size in _MEMORY.findall(text)}
    return Numa(
        int(head[1]),
        tuple(
            NumaNode(
                int(number),
                _number(cpus),
                memory.get((number, "size")),
                memory.get((number, "free")),
            )
            for number, cpus in _CPUS.findall(text)
        ),
    )


def _number(cpus: str) -> int:
    """How many: numbers, or ranges where people shortened them."""
    number = 0
    for each in cpus.replace(",", " ").split():
        first, _, last = each.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            number += high - low + 1
    return number


def _lines(numa: Numa) -> Iterator[str]:
    if not numa.available:
        yield "no NUMA support"
    for node in numa.nodes:
        memory = "memory not shown" if node.size_mb is None else f"{node.size_mb} MB"
        free = "" if node.free_mb is None else f", {node.free_mb} MB free"
        yield f"node {node.number}: {node.cpus} CPUs, {memory}{free}"


def _gaps(numa: Numa) -> Iterator[str]:
    complete = [
        node for node in numa.nodes if node.size_mb is not None and node.free_mb is not None
    ]
    if len(complete) < numa.available:
        yield f"numactl -H: {len(complete)} of {numa.available} nodes are there"


TOOL = Tool(
    name="numactl -H",
    marks=("available: ", "No NUMA "),
    parse=parse,
    lines=_lines,
    gaps=_gaps,
    needs=("node 0 ", "No NUMA"),
)
