"""What `lstopo` or `hwloc-ls` (hwloc 1.11 to 2.x) prints as text: the NUMA nodes, processors and devices of a
machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs

_MACHINE = re.compile(
    r"^[ \t]*Machine(?: L#0)? \((?:P#0 )?(?:total )?(\d{1,9}[KMGT]?B)[^)\n]{0,40}\)", re.M
)
_NUMA = re.compile(r"\bNUMANode L#(\d{1,5}) \(P#\d{1,5}(?: local=| )(\d{1,9}[KMGT]?B)")
_PACKAGE = re.compile(r"\b(?:Package|Socket) L#\d")
_CORE = re.compile(r"\bCore L#\d")
_DEVICE = re.compile(
    r'^[ \t]*(Net|OpenFabrics|OFED|GPU|CoProc\([^)\n]{1,20}\)|Block\([^)\n]{1,20}\)|CoProc) (?:L#\d{1,5} )?"([^"\n]{1,40})"',
    re.M,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine."""

    memory: str
    """As printed: `1008GB`."""
    packages: int
    cores: int
    numa: tuple[tuple[str, str], ...]
    """Number and memory of each NUMA node."""
    devices: tuple[tuple[str, str], ...]
    """Kind and name: `OpenFabrics`, `mlx5_0`."""


def parse(text: str) -> tuple[Machine, ...]:
    """Every machine in a text.

    >>> (machine,) = parse('''Machine (1008GB total)
    ...   Package L#0
    ...     NUMANode L#0 (P#0 504GB)
    ...     HostBridge
    ...       PCI 18:00.0 (InfiniBand)
    ...         OpenFabrics "mlx5_0"
    ... ''')
    >>> machine.numa, machine.devices
    ((('0', '504GB'),), (('OpenFabrics', 'mlx5_0'),))
    """
    return tuple(
        _machine(head, part)
        for part in runs(_MACHINE, text)
        if (head := _MACHINE.search(part)) is not None
    )


def _machine(head: re.Match[str], text: str) -> Machine:
    return Machine(
        memory=head[1],
        packages=len(_PACKAGE.findall(text)),
        cores=len(_CORE.findall(text)),
        numa=tuple(_NUMA.findall(text)),
        devices=tuple(_DEVICE.findall(text)),
    )


def _lines(machine: Machine) -> Iterator[str]:
    yield f"{machine.memory}, {machine.packages} packages, {machine.cores} cores, {len(machine.numa)} NUMA nodes"
    kinds = Counter(kind for kind, _ in machine.devices)
    for kind in kinds:
        names = [name for each, name in machine.devices if each == kind]
        yield f"{kind}: {', '.join(names[:16])}" + (
            f" and {len(names) - 16} more" if len(names) > 16 else ""
        )


def _gaps(machine: Machine) -> Iterator[str]:
    if not machine.packages or not machine.numa:
        yield "lstopo: a machine without a package or a NUMA node: the text is truncated"


TOOL = Tool(
    name="lstopo",
    marks=("Machine (", "Machine L#0 ("),
    parse=parse,
    lines=_lines,
    gaps=_gaps,
)
