"""How a node itself is: memory, pressure, held-up processes, control groups that killed, file
systems; as busbw's own script prints them.

>>> host = parse("0.5 0.4 0.3 1/300 9\\noom_kill 2\\nheld 77 D wchan nfs_wait_bit name python\\n")
>>> host.oom_kills, host.blocked[0].wait_channel
(2, 'nfs_wait_bit')
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HELD = re.compile(r"^held (\d+) (\S) wchan (\S+) name (.*)$")
_GROUP = re.compile(r"^group (\d+) (\S+) oom_kill (\d+)$")
_FILE_SYSTEM = re.compile(r"^(\S+)\s+(\d+)\s+(\d+)\s+(-?\d+)\s+(?:(\d+)%|-)\s+(/.*)$")
_PRESSURE = re.compile(r"^/proc/pressure/(\w+):full avg10=(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class BlockedProcess:
    """A process that is in disk sleep, stopped, or dead and not collected."""

    pid: int
    state: str
    wait_channel: str
    name: str
    line_no: int


@dataclass(frozen=True, slots=True)
class HostState:
    """One node by itself."""

    load: float | None
    memory_available_kib: int | None
    oom_kills: int | None
    """Processes killed for lack of memory since the machine started."""
    group_kills: tuple[tuple[int, str, int], ...]
    """(pid of a rank, its control group, processes killed in it for lack of memory)."""
    blocked: tuple[BlockedProcess, ...]
    full_pressure: tuple[tuple[str, float], ...]
    """(resource, share of the last 10 s in which everything waited for it, %)."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One mounted file system that a rank uses."""

    source: str
    mount: str
    available_kib: int
    line_no: int

    @property
    def full(self) -> bool:
        """Nothing can be written to it any more."""
        return self.available_kib <= 0


def parse(text: str) -> HostState:
    """The node's state; what is missing is None or empty."""
    load = re.match(r"(\d+(?:\.\d+)?) \d+(?:\.\d+)? \d+(?:\.\d+)? \d+/\d+", text)
    available = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.M)
    kills = re.search(r"^oom_kill (\d+)$", text, re.M)
    lines = text.splitlines()
    return HostState(
        load=float(load[1]) if load else None,
        memory_available_kib=int(available[1]) if available else None,
        oom_kills=int(kills[1]) if kills else None,
        group_kills=tuple(
            (int(m[1]), m[2], int(m[3])) for line in lines if (m := _GROUP.match(line))
        ),
        blocked=tuple(
            BlockedProcess(int(m[1]), m[2], m[3], m[4], n)
            for n, line in enumerate(lines, 1)
            if (m := _HELD.match(line))
        ),
        full_pressure=tuple((m[1], float(m[2])) for line in lines if (m := _PRESSURE.match(line))),
    )


def places(text: str) -> tuple[tuple[int, str], ...]:
    """(pid, directory or open file) of the ranks."""
    return tuple(
        (int(m[1]), m[2])
        for line in text.splitlines()
        if (m := re.match(r"place (\d+) (/.*)", line))
    )


def file_systems(text: str) -> tuple[FileSystem, ...]:
    """What `df -P` says of the places of the ranks, once per mount."""
    by_mount: dict[str, FileSystem] = {}
    for line_no, line in enumerate(text.splitlines(), 1):
        if (m := _FILE_SYSTEM.match(line)) is not None and int(m[2]) > 0:
            by_mount.setdefault(m[6], FileSystem(m[1], m[6], int(m[4]), line_no))
    return tuple(by_mount.values())


def mount_of(path: str, systems: tuple[FileSystem, ...]) -> FileSystem | None:
    """The file system a path is on; None = not reported."""
    on = [
        each
        for each in systems
        if path == each.mount or path.startswith(each.mount.rstrip("/") + "/")
    ]
    return max(on, key=lambda each: len(each.mount), default=None)


@dataclass(frozen=True, slots=True)
class OomKill:
    """The kernel killed a process for lack of memory."""

    pid: int
    name: str
    group: str
    """Control group of the process."""
    up_s: float | None
    """Since the machine started."""
    text: str
    line_no: int


_KILL = re.compile(r"oom-kill:.*?task_memcg=([^,]*),task=([^,]*),pid=(\d+)")
_UP = re.compile(r"^\s*\[\s*(\d+\.\d+)\]")


def oom_kills(kernel_log: str) -> tuple[OomKill, ...]:
    """Who was killed, by the kernel's own summary line (Linux 5.0 and later), of the whole machine
    or of a control group.

    >>> oom_kills("[ 9.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=python,pid=7,uid=0\\n")[0].group
    '/a/b'
    """
    return tuple(
        OomKill(int(m[3]), m[2], m[1], up_of(line), line.strip(), number)
        for number, line in enumerate(kernel_log.splitlines(), 1)
        if (m := _KILL.search(line))
    )


def up_of(line: str) -> float | None:
    """The time in front of a line of the kernel log, in seconds since the machine started; None =
    another form of time."""
    m = _UP.match(line)
    return float(m[1]) if m else None
