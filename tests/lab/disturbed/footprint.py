"""What is on the nodes of a lab besides the lab itself: processes, files, listening ports. What a
run leaves is the difference.

A build of the benchmark is meant to stay, whole, with the folders above it; everything else is left
behind. Seen from outside the nodes, so that nothing of a node's own view is trusted.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from busbw.lab import files, processes
from busbw.lab.state import LabNode, LabState

MEANT_TO_STAY = re.compile(
    r"home/\.cache(/busbw(/jobs|/build(/[0-9a-f]{16}(-[0-9a-f]{8})?(/.*)?)?)?)?"
)
SETTLE_S = 20.0
"""How long after a run sshd may need for the end of its own children, and ranks that lost their
launcher for theirs."""
_LISTENING = {"tcp": "0A", "udp": "07"}


@dataclass(frozen=True)
class Footprint:
    """Everything of all nodes; each entry begins with the node's name."""

    processes: frozenset[str]
    files: frozenset[str]
    ports: frozenset[str]

    def beyond(self, before: Footprint) -> Footprint:
        """What there is now and was not before, and files that are other ones."""
        return Footprint(
            self.processes - before.processes, self.files - before.files, self.ports - before.ports
        )

    def told(self) -> list[str]:
        """One text per thing."""
        return [
            f"{kind} {text}"
            for kind in ("processes", "files", "ports")
            for text in sorted(getattr(self, kind))
        ]


def of(lab: LabState) -> Footprint:
    """As it is now."""
    running, lying, listening = set(), set(), set()
    for node in lab.nodes:
        running |= {
            f"{node.name} {pid} {processes.command_line(pid)}"
            for pid in processes.of_node(lab, node)
            if processes.start_ticks(pid)
        }
        lying |= {f"{node.name} {text}" for text in _files(lab, node)}
        listening |= {f"{node.name} {text}" for text in _ports(node)}
    return Footprint(frozenset(running), frozenset(lying), frozenset(listening))


def left_behind(lab: LabState, before: Footprint, settle_s: float = SETTLE_S) -> Footprint:
    """What is on the nodes that was not there before, once it no longer changes for the better."""
    end = time.monotonic() + settle_s
    while True:
        found = of(lab).beyond(before)
        if not found.told() or time.monotonic() > end:
            return found
        time.sleep(0.1)


def killed(pids: list[int]) -> int:
    """Kill them; how many there were."""
    return sum(
        processes.send(one, signal.SIGKILL) for pid in pids if (one := processes.identify(pid))
    )


def jobs(lab: LabState, node: LabNode) -> list[int]:
    """What works in a job's folder on the node."""
    found = []
    for pid in processes.of_node(lab, node):
        try:
            folder = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if "/.cache/busbw/jobs/" in folder:
            found.append(pid)
    return found


def connections(lab: LabState, node: LabNode) -> list[int]:
    """The processes of sshd that serve one connection each."""
    return [
        pid
        for pid in processes.of_node(lab, node)
        if processes.command_line(pid).startswith("sshd: ")
        and "[priv]" not in processes.command_line(pid)
        and "[listener]" not in processes.command_line(pid)
    ]


def _files(lab: LabState, node: LabNode) -> list[str]:
    """Below the node's home, /tmp and /dev/shm; those of its ssh with a digest, for they may be
    there before."""
    directory = files.node_directory(lab, node)
    assert node.init is not None  # the lab is up
    found = []
    for name, top in (
        ("home", directory / "home"),
        ("tmp", directory / "tmp"),
        ("shm", Path(f"/proc/{node.init.pid}/root/dev/shm")),
    ):
        for path in sorted(top.rglob("*")) if top.is_dir() else ():
            text = f"{name}/{path.relative_to(top)}"
            if not MEANT_TO_STAY.fullmatch(text):
                found.append(f"{text} {_digest(path)}" if path.parent.name == ".ssh" else text)
    return found


def _digest(path: Path) -> str:
    content = path.read_bytes()
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()[:8]}"


def _ports(node: LabNode) -> list[str]:
    assert node.init is not None  # the lab is up
    found = []
    for kind, state in _LISTENING.items():
        for version in ("", "6"):
            table = Path(f"/proc/{node.init.pid}/net/{kind}{version}")
            rows = (
                [line.split() for line in table.read_text().splitlines()[1:]]
                if table.exists()
                else []
            )
            found += [
                f"{kind}{version} {int(row[1].rpartition(':')[2], 16)}"
                for row in rows
                if row[3] == state
            ]
    return found
