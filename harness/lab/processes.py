"""What runs where: processes of this machine, each proven to be a node's by its namespace or its
environment before it is touched."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from busbw.errors import LabError
from busbw.lab.state import LabNode, LabState, Mode, Process


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a running benchmark."""

    process: Process
    node: str
    rank: int
    """Its number in the whole job (OMPI_COMM_WORLD_RANK from mpirun, PMIX_RANK from srun)."""
    executable: str


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None = there is no such process, or it
    has ended and waits to be collected."""
    fields = _stat(pid)
    return None if not fields or fields[0] in (b"Z", b"X") else int(fields[19])


def stopped(process: Process) -> bool:
    """True = it is stopped by a signal, or has ended. A stop takes effect when the process is next
    given a CPU."""
    fields = _stat(process.pid)
    return gone(process) or fields[:1] == [b"T"]


def identify(pid: int) -> Process | None:
    """The process with that number; None = there is none."""
    start = start_ticks(pid)
    return None if start is None else Process(pid, start)


def alive(process: Process | None) -> bool:
    """True = it still runs, and it is the same one."""
    return process is not None and start_ticks(process.pid) == process.start_ticks


def gone(process: Process | None) -> bool:
    """True = it has ended."""
    return not alive(process)


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal if it is still the same process; False = it had ended. The pidfd keeps a
    successor of the same number safe."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def limit_memlock(process: Process, most: int | None) -> None:
    """Set the limit of locked memory of the process and what it starts from now on, in bytes; None
    = as high as it may be."""
    if alive(process):
        _, highest = resource.prlimit(process.pid, resource.RLIMIT_MEMLOCK)
        resource.prlimit(
            process.pid, resource.RLIMIT_MEMLOCK, (highest if most is None else most, highest)
        )


def pids() -> tuple[int, ...]:
    """All process numbers, ascending."""
    return tuple(sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()))


def netns(pid: int) -> int | None:
    """Inode number of the process's network namespace; None = it has ended, or is somebody
    else's."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def environment(pid: int) -> dict[str, str]:
    """The environment the process was started with; empty = it has ended, or is somebody else's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as handle:
            entries = handle.read().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def executable(pid: int) -> str:
    """The file the process runs; empty = it has ended, or is somebody else's."""
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def command_line(pid: int) -> str:
    """The words the process was started with, or calls itself by, with spaces between; empty = it
    has ended, or has none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            return handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def children(pid: int) -> tuple[int, ...]:
    """Process numbers of its children, ascending."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as handle:
            return tuple(sorted(int(word) for word in handle.read().split()))
    except FileNotFoundError:
        return tuple(other for other in pids() if _parent(other) == pid)


def of_node(state: LabState, node: LabNode) -> tuple[int, ...]:
    """Process numbers of what runs on the node, ascending: by network namespace, in loopback mode
    by the environment its sshd gave."""
    if state.mode is Mode.LOOPBACK:
        return tuple(pid for pid in pids() if _carries(pid, state.marker, node.name))
    return () if node.netns is None else tuple(pid for pid in pids() if netns(pid) == node.netns)


def of_loopback_lab(state: LabState) -> tuple[int, ...]:
    """Process numbers of everything that a lab without namespaces started, ascending."""
    return tuple(pid for pid in pids() if pid != os.getpid() and _carries(pid, state.marker, None))


def ranks(state: LabState, nodes: tuple[LabNode, ...]) -> tuple[Rank, ...]:
    """The ranks of running benchmarks (executables named `*_perf` started by mpirun or srun) on
    these nodes, by rank."""
    result: list[Rank] = []
    for node in nodes:
        for pid in of_node(state, node):
            name = os.path.basename(executable(pid))
            number = _rank(environment(pid)) if name.endswith("_perf") else ""
            process = identify(pid)
            if number.isdigit() and process is not None:
                result.append(Rank(process, node.name, int(number), name))
    return tuple(sorted(result, key=lambda rank: (rank.rank, rank.process.pid)))


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until the condition holds.

    Raises:
        LabError: it did not within the time; `what` says what was waited for.
    """
    for _ in polling(timeout_s):
        if condition():
            return
    raise LabError(
        f"waited {timeout_s:g} s in vain for {what}", next_step="busbw lab down, then try again"
    )


def polling(timeout_s: float) -> Iterator[None]:
    """Yields now and every 5 ms until the time is over."""
    end = time.monotonic() + timeout_s
    yield
    while time.monotonic() < end:
        time.sleep(0.005)
        yield


def _rank(variables: dict[str, str]) -> str:
    return variables.get("OMPI_COMM_WORLD_RANK", variables.get("PMIX_RANK", ""))


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[bytes]:
    """/proc/PID/stat from the third field on (state, parent, …); empty = there is no such
    process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            return handle.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _carries(pid: int, marker: str, node: str | None) -> bool:
    variables = environment(pid)
    return variables.get("BUSBW_LAB") == marker and node in (None, variables.get("LAB_NODE"))
