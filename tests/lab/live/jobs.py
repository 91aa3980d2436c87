"""Jobs to be looked at, started on a lab's nodes by their own launcher or by mpirun, and ended by
their recorded processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, processes
from busbw.lab.state import LabNode, LabState

RING = Path(__file__).with_name("ring_job.py")
GLOO = Path(__file__).with_name("gloo_job.py")
PER_NODE = 2


@dataclass
class LiveJob:
    """The processes of one job: one launcher per rank here, the rank itself inside the node."""

    state: LabState
    world: int
    logs: Path
    launchers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def node_of(self, rank: int) -> LabNode:
        """Where the rank was started."""
        return self.state.nodes[rank * len(self.state.nodes) // self.world]

    def log(self, rank: int) -> str:
        """What the rank wrote."""
        with contextlib.suppress(FileNotFoundError):
            return (self.logs / f"rank{rank}.log").read_text()
        return ""

    def process(self, rank: int) -> processes.Process:
        """The rank, as this machine numbers it."""
        node = self.node_of(rank)
        for pid in processes.of_node(self.state, node):
            words = processes.environment(pid)
            if (
                words.get("RANK") == str(rank)
                and words.get("RING_JOB")
                and "python" in os.path.basename(processes.executable(pid))
            ):
                found = processes.identify(pid)
                if found is not None:
                    return found
        raise AssertionError(f"rank {rank} does not run on {node.name}: {self.log(rank)}")

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send the rank a signal, and wait until it shows."""
        process = self.process(rank)
        processes.send(process, number)
        if number is signal.SIGSTOP:
            processes.wait_until(lambda: processes.stopped(process), 20, "the rank to stop")
        if number is signal.SIGKILL:
            processes.wait_until(lambda: processes.gone(process), 20, "the rank to end")

    def await_log(
        self, text: str, ranks: range | tuple[int, ...] | None = None, deadline_s: float = 60.0
    ) -> None:
        """Wait until those ranks (all) wrote it."""
        until(
            lambda: all(
                text in self.log(rank)
                for rank in (ranks if ranks is not None else range(self.world))
            ),
            deadline_s,
            text,
        )

    def end(self) -> None:
        """Kill the ranks, by what they carry, and reap the launchers."""
        for node in self.state.nodes:
            for pid in processes.of_node(self.state, node):
                if processes.environment(pid).get("RING_JOB") == str(self.logs):
                    found = processes.identify(pid)
                    if found is not None:
                        processes.send(found, signal.SIGKILL)
        for launcher in self.launchers:
            launcher.kill()
            launcher.wait()


def until(true: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Poll until it is so."""
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def little_memory(state: LabState, node: str) -> Iterator[Path]:
    """A control group of 64 MiB: whoever writes itself into it is soon killed by the kernel. It is
    taken away when it is empty."""
    group = Path("/sys/fs/cgroup/memory") / f"busbw-live-{state.marker}" / node
    try:
        group.mkdir(parents=True)
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"no memory control group of version 1 can be made here: {error}")
    try:
        yield group
    finally:
        members = group / "cgroup.procs"
        until(lambda: not members.read_text().strip(), 20, "the control group to be empty")
        group.rmdir()
        group.parent.rmdir()


@contextlib.contextmanager
def job(
    state: LabState,
    logs: Path,
    program: Path = RING,
    *,
    per_node: int = PER_NODE,
    leave_out: tuple[int, ...] = (),
    wrap: Callable[[int], tuple[str, ...]] = lambda rank: (),
    **settings: str,
) -> Iterator[LiveJob]:
    """Start one process per rank on the nodes, block by block; `leave_out` = ranks that are never
    started, `wrap` = words before a rank's own."""
    world = per_node * len(state.nodes)
    logs.mkdir(parents=True, exist_ok=True)
    hosts = ",".join(state.nodes[rank // per_node].rails[0].address for rank in range(world))
    running = LiveJob(state, world, logs)
    try:
        for rank in range(world):
            if rank in leave_out:
                continue
            node = state.nodes[rank // per_node]
            own: Mapping[str, str] = {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(rank % per_node),
                "LOCAL_WORLD_SIZE": str(per_node),
                "MASTER_ADDR": state.nodes[0].rails[0].address,
                "MASTER_PORT": "29500",
                "RING_HOSTS": hosts,
                "RING_JOB": str(logs),
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": sysconfig.get_paths()["purelib"],
                **settings,
            }
            # Nodes have a /tmp of their own: neither a checkout nor a virtual environment below it
            # is seen there.
            python, text = os.path.realpath(sys.executable), program.read_text(encoding="utf-8")
            words = ("env", *(f"{k}={v}" for k, v in own.items()), *wrap(rank), python, "-c", text)
            with (logs / f"rank{rank}.log").open("wb") as log:
                argv = enter.node_argv(state, node, words)
                running.launchers.append(
                    subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                )
        yield running
    finally:
        running.end()


def why(state: LabState, out: Path, *words: str) -> Any:
    """The JSON answer of `busbw why --live` about the lab's job, with the exit status."""
    argv = (sys.executable, "-m", "busbw", "why", "--live", "-i", f"lab:{state.name}", "--json")
    done = subprocess.run(
        (*argv, "--interval", "2", "--out", str(out), *words),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout, done
    return {**json.loads(done.stdout), "exit_status": done.returncode}
