"""Node types: which nodes can run each other's builds, which can stand in one launch, and how each
runs the build of its own type."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields

from busbw.checks.software import NodeFacts
from busbw.checks.toolchain import Toolchain
from busbw.inventory.hostlist import fold


@dataclass(frozen=True, slots=True)
class NodeType:
    """Everything that a build depends on; None = the node has none, or the build needs none."""

    machine: str | None
    """`x86_64`, `aarch64`."""
    libc: str | None
    """`glibc 2.36`."""
    mpi: str | None
    """Version of Open MPI."""
    mpi_home: str | None
    """Folder with include/mpi.h."""
    cuda: str | None = None
    cuda_home: str | None = None
    nccl: str | None = None
    nccl_home: str | None = None
    nccl_library: str | None = None
    capabilities: tuple[str, ...] = ()
    """Of the GPUs: `("9.0",)`; of AMD's: `("gfx942",)`."""
    rocm: str | None = None
    rocm_home: str | None = None

    def unlike(self, other: NodeType) -> str:
        """What it has otherwise than `other`, in words.

        >>> NodeType("x86_64", "glibc 2.36", "4.1.4", "/usr").unlike(NodeType("x86_64", "glibc 2.31", "4.1.4", "/usr"))
        'libc glibc 2.36 (there glibc 2.31)'
        """
        pairs = (
            (f.name.replace("_", " "), getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
        )
        return ", ".join(
            f"{name} {_text(own)} (there {_text(theirs)})"
            for name, own, theirs in pairs
            if own != theirs
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one type, one of which builds for all of them."""

    type: NodeType
    builder: str
    nodes: tuple[str, ...]


def type_of(chain: Toolchain, known: NodeFacts, *, cuda: bool) -> NodeType:
    """The type of a node; `cuda` = False: for a build that needs neither CUDA nor NCCL."""
    common = (chain.machine, chain.libc, known.mpi.version if known.mpi else None, known.mpi_home)
    if not cuda:
        return NodeType(*common)
    nccl = (chain.nccl, chain.nccl_home, chain.nccl_library)
    return NodeType(
        *common, chain.cuda, chain.cuda_home, *nccl, chain.capabilities, chain.rocm, chain.rocm_home
    )


def group(types: Mapping[str, NodeType], head: str) -> tuple[Group, ...]:
    """The distinct types in the order of their first nodes, the head's before all; the head builds
    for its own, else a type's first node."""
    groups: dict[NodeType, list[str]] = {types[head]: []}
    for node, its in types.items():
        groups.setdefault(its, []).append(node)
    return tuple(
        Group(its, head if head in nodes else nodes[0], tuple(nodes))
        for its, nodes in groups.items()
    )


def incompatible(its: NodeType, head: NodeType) -> str:
    """Why ranks of two types cannot be in one launch; empty = they can."""
    if its.machine != head.machine:
        return (
            f"{its.machine}, where the head is {head.machine}: Open MPI starts ranks of one kind of"
            " processor"
        )
    if its.nccl != head.nccl:
        return (
            f"NCCL {_text(its.nccl)}, where the head has {_text(head.nccl)}: NCCL refuses ranks of"
            " different versions"
        )
    return ""


def dispatcher(
    places: Mapping[str, tuple[str, ...]], binaries: tuple[str, ...]
) -> tuple[str, dict[str, bytes]]:
    """(stamp, files of a build folder) whose programs run, on each host, the build of its own type:
    a launch names one path for all nodes.

    `places` = folder of a build → the hosts (`uname -n`) that run it.
    """
    cases = "\n".join(
        f"{'|'.join(shlex.quote(host) for host in sorted(hosts))}) dir={shlex.quote(place)};;"
        for place, hosts in places.items()
    )
    script = (
        "#!/bin/sh\n# Each node runs the build of its own type.\nread -r host"
        f' </proc/sys/kernel/hostname\ncase $host in\n{cases}\n*) echo "busbw: nothing was built'
        ' for $host" >&2; exit 127;;\nesac\nexec "$dir/build/${0##*/}" "$@"\n'
    ).encode()
    stamp = hashlib.sha256(script + json.dumps(binaries).encode()).hexdigest()[:16]
    return stamp, {f"build/{name}": script for name in binaries}


def summary(groups: tuple[Group, ...]) -> str:
    """More than one type, in a line: who is unlike the first."""
    first, *others = groups
    unlike = "; ".join(f"{fold(each.nodes)}: {each.type.unlike(first.type)}" for each in others)
    return f"{len(groups)} node types: {fold(first.nodes)}; {unlike}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value) or "none"
    return "none" if value is None else str(value)
