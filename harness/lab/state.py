"""What is recorded of a lab: one directory per lab, in which `lab.json` names everything that was
made for it.

A thing is recorded before it is made and taken down only if it is recorded, so that a lab left half
made, or one whose maker was killed, can be taken down as well as a whole one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from busbw import codec
from busbw.errors import LabError, NoLabError
from busbw.lab.persona import Persona

DEFAULT_NAME = "lab"
INSIDE = "BUSBW_LAB_INSIDE"
"""Environment variable that holds the directory of the lab whose head namespace a process runs
in."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
RECORD = "lab.json"


class Mode(StrEnum):
    """What a lab's nodes are made of."""

    ROOT = "root"
    """Namespaces made by root."""
    USERNS = "userns"
    """The same namespaces inside a user namespace: no root needed."""
    LOOPBACK = "loopback"
    """One sshd per loopback address: no namespaces at all."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, so that it is never mistaken for a later one with the same number."""

    pid: int
    """As numbered where the lab was made."""
    start_ticks: int
    """Clock ticks between boot and its start (field 22 of /proc/PID/stat)."""


@dataclass(frozen=True, slots=True)
class Rail:
    """One link of a node to the compute network."""

    interface: str
    """Its name on the node: `eth0`."""
    address: str
    port: str
    """Its other end, in the switch namespace: `node3-eth0`."""


@dataclass(frozen=True, slots=True)
class LabNode:
    """One node of a lab."""

    name: str
    address: str
    """Where its sshd listens, on the management link."""
    ssh_port: int
    leaf: str
    """The switch its rails end in: `leaf1`."""
    rails: tuple[Rail, ...]
    netns: int | None = None
    """Inode number of its network namespace; None = not made yet, or loopback mode."""
    init: Process | None = None
    """Its first process, the sshd; None = not started yet."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that is switched on."""

    kind: str
    """As given to `busbw lab fault`: `slow`, `loss`, `link-down`…"""
    target: str
    """Node or leaf."""
    detail: str
    """For people: `200 Mb/s both ways on eth0`."""
    interfaces: tuple[str, ...] = ()
    """Links of the node it concerns."""
    rate_bit_s: float | None = None
    percent: float | None = None
    toward: str | None = None
    """The only destination that is slowed; None = all."""
    processes: tuple[Process, ...] = ()
    """What was stopped or started."""
    index: int | None = None
    """Which GPU or adapter of the node's invented hardware, from 0; None = none in particular."""


@dataclass(frozen=True, slots=True)
class LabState:
    """A lab, as recorded."""

    name: str
    directory: str
    mode: Mode
    up: bool
    """False = it is being made, or was left half made."""
    nodes: tuple[LabNode, ...]
    gpus: int
    """Emulated GPUs per node."""
    user: str
    """Login name on every node."""
    node_ssh: bool
    """True = every node can log in to every other."""
    rate_bit_s: float | None
    """Both directions of every rail; None = as fast as the machine."""
    uplink_rate_bit_s: float | None
    leaves: int
    cpus_per_node: float | None
    cgroup: str | None
    """What the directories of the nodes' control groups begin with; None = there are none."""
    cgroup_parent_enabled: bool = False
    """True = the cpu controller was switched on for it and is to be switched off again."""
    holder: Process | None = None
    """The process whose end ends every process and namespace of the lab; None = not started, or
    loopback mode."""
    init: Process | None = None
    """First process inside the lab, through which its namespaces are reached."""
    faults: tuple[Fault, ...] = ()
    cannot: tuple[str, ...] = ()
    """What this lab cannot do, and why."""
    persona: Persona | None = None
    """The hardware that its nodes show without having it; None = they show none."""
    slurm: bool = False
    """True = slurmctld runs beside the head and a slurmd on every node."""

    @property
    def path(self) -> Path:
        """The directory of the lab."""
        return Path(self.directory)

    @property
    def rails(self) -> int:
        """Links per node."""
        return len(self.nodes[0].rails)

    @property
    def marker(self) -> str:
        """What processes of this lab carry in their environment as BUSBW_LAB: unique on this
        machine."""
        return marker(self.path)

    def node(self, name: str) -> LabNode:
        """The node of that name.

        Raises:
            NoLabError: the lab has none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise NoLabError(
            f"the lab {self.name!r} has no node {name!r}",
            seen=f"nodes: {self.nodes[0].name} to {self.nodes[-1].name}",
            next_step=f"busbw lab status{self.option}",
        )

    @property
    def option(self) -> str:
        """What follows `busbw lab COMMAND` to mean this lab, also beside others."""
        return "" if self.name == DEFAULT_NAME else f" --name {self.name}"


def base_directory() -> Path:
    """Where labs are recorded: $BUSBW_LAB_DIR, else `busbw-lab` in $XDG_RUNTIME_DIR, /run (root) or
    ~/.local/state."""
    configured = os.environ.get("BUSBW_LAB_DIR")
    if configured:
        return Path(configured).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "busbw-lab"
    if os.geteuid() == 0:
        return Path("/run/busbw-lab")
    return Path.home() / ".local/state/busbw-lab"


def directory_of(name: str) -> Path:
    """The directory of the lab of that name, whether it exists or not.

    Raises:
        LabError: the name cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise NoLabError(
            f"{name!r} cannot name a lab",
            seen="expected up to 32 letters a-z, digits and dashes",
            next_step="busbw lab up --name demo",
        )
    return base_directory() / name


def marker(directory: Path) -> str:
    """Twelve hexadecimal digits that stand for the lab recorded in `directory`."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:12]


def names() -> tuple[str, ...]:
    """All recorded labs, sorted."""
    base = base_directory()
    if not base.is_dir():
        return ()
    entries = [entry.name for entry in base.iterdir() if (entry / RECORD).exists()]
    return tuple(sorted(filter(_NAME.fullmatch, entries)))


def exists(name: str) -> bool:
    """True = a lab of that name is recorded, whole or half made."""
    return (directory_of(name) / RECORD).exists()


def load(name: str | None = None) -> LabState:
    """The recorded lab; without a name the one this process runs inside, else the only one there
    is, else the one named `lab`.

    Raises:
        LabError: there is none of that name, or its record cannot be read.
    """
    directory = os.environ.get(INSIDE)
    if name is None and directory:
        return load_directory(Path(directory))
    if name is None:
        labs = names()
        name = labs[0] if len(labs) == 1 else DEFAULT_NAME
    path = directory_of(name) / RECORD
    try:
        return _read(path)
    except FileNotFoundError:
        labs = names()
        seen = f"no lab is recorded in {base_directory()}"
        step = "busbw lab up -n 4"
        if labs:
            seen = f"labs in {base_directory()}: {', '.join(labs)}"
            step = f"name one of them, or: busbw lab up -n 4 --name {name}"
        raise NoLabError(f"there is no lab {name!r}", seen=seen, next_step=step) from None


def load_directory(directory: Path) -> LabState:
    """The lab recorded in `directory`.

    Raises:
        LabError: none is, or its record cannot be read.
    """
    try:
        return _read(directory / RECORD)
    except FileNotFoundError:
        raise LabError(
            "there is no lab",
            seen=f"{directory / RECORD}: no such file",
            next_step="busbw lab up -n 4",
        ) from None


def save(state: LabState) -> None:
    """Record the lab: the new record replaces the old one whole or not at all."""
    path = state.path / RECORD
    temporary = path.with_suffix(".new")
    temporary.write_text(codec.dump_json(state))
    os.replace(temporary, path)


@contextmanager
def locked(base: Path | None = None) -> Iterator[None]:
    """Change one lab at a time: holds the directory that labs are recorded in, and removes it when
    no lab is left in it."""
    directory = base or base_directory()
    handle = _lock(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            directory.rmdir()
        os.close(handle)


def _lock(directory: Path) -> int:
    while True:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever held it before may have removed it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(directory)):
                return handle
        os.close(handle)


def _read(path: Path) -> LabState:
    return codec.parse_json(path.read_bytes(), LabState, str(path), error=LabError)
