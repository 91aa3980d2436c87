"""Labs without namespaces: one sshd per loopback address, run by whoever makes the lab. What needs
neither links nor root works in them.

The nodes share this machine's network, processes, files and host name. Each has a home and a host
key of its own, and two programs of its own first on its PATH: a `hostname` that gives the node's
name, and an `ssh` that knows the other nodes.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from busbw.errors import LabError
from busbw.lab import files, processes, requirements
from busbw.lab.state import LabNode, LabState, Rail

SSH_PORT = 2222
_LOGIN = Path(__file__).parent / "scripts/login.sh"
_PRIVILEGE_SEPARATION = Path("/run/sshd")
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0

CANNOT = (
    "slow, lose or cut traffic: in loopback mode all nodes share the loopback interface",
    (
        "give nodes several rails or leaves, or a rate: in loopback mode they have no links of"
        " their own"
    ),
    (
        "give nodes their own host name, /tmp or process table: ranks of all nodes report this"
        " machine's name"
    ),
)


def plan_nodes(count: int, marker: str) -> tuple[LabNode, ...]:
    """The nodes of a lab: addresses 127.A.B.1 and up, A and B taken from the lab's marker so that
    labs do not meet."""
    first, second = int(marker[:2], 16) % 254 + 1, int(marker[2:4], 16) % 254 + 1
    return tuple(_plan_node(f"127.{first}", second, number) for number in range(1, count + 1))


def start(state: LabState) -> LabState:
    """Start one sshd per node; gives the record with their processes.

    Raises:
        LabError: one did not start; `seen` is what it said.
    """
    if os.geteuid() == 0:
        # sshd started by root wants this directory; the service of its package makes it at boot, a
        # container has no boot.
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    for node in state.nodes:
        _write_programs(state, node)
    return replace(state, nodes=tuple(_start_node(state, node) for node in state.nodes))


def end(state: LabState) -> None:
    """End every process that carries the lab's marker, or is an sshd that was started with a
    configuration of this lab.

    Raises:
        LabError: one did not end.
    """

    def end_all() -> bool:
        running = tuple(
            process for process in map(processes.identify, _of_lab(state)) if process is not None
        )
        return not [process for process in running if processes.send(process, signal.SIGKILL)]

    processes.wait_until(end_all, _END_TIMEOUT_S, "the end of the lab's processes")


def _plan_node(network: str, second: int, number: int) -> LabNode:
    address = f"{network}.{(second + (number - 1) // 250) % 255}.{(number - 1) % 250 + 1}"
    return LabNode(
        name=f"node{number}",
        address=address,
        ssh_port=SSH_PORT,
        leaf="leaf1",
        rails=(Rail("lo", address, ""),),
    )


def _start_node(state: LabState, node: LabNode) -> LabNode:
    directory = files.node_directory(state, node)
    log = directory / "log"
    argv = (
        (directory / "sshd-path").read_text().strip(),
        "-f",
        str(directory / "sshd_config"),
        "-E",
        str(log),
    )
    environment = {**requirements.environment(), "BUSBW_LAB": state.marker, "LAB_NODE": node.name}
    started = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd="/",
    )
    pid_file = directory / "sshd.pid"
    if started.returncode == 0:
        # sshd forks before it listens; it writes its number once it does.
        for _ in processes.polling(_START_TIMEOUT_S):
            if pid_file.exists() and pid_file.read_text().strip():
                return replace(node, init=processes.identify(int(pid_file.read_text())))
            if "Cannot bind" in log.read_text():
                break
    output = started.stderr + (log.read_text() if log.exists() else "")
    raise LabError(
        f"the sshd of {node.name} did not start on {node.address} port {node.ssh_port}",
        seen=output,
        next_step="use another --name",
    )


def _write_programs(state: LabState, node: LabNode) -> None:
    directory = files.node_directory(state, node)
    own_home = directory / "home"
    ssh = shlex.quote(requirements.find("ssh") or "ssh")
    _script(directory / "bin/hostname", f"echo {node.name}")
    if state.node_ssh:
        _script(
            directory / "bin/ssh",
            f'exec {ssh} -F {shlex.quote(str(own_home / ".ssh/config"))} "$@"',
        )
    login = shlex.join(("sh", str(_LOGIN), str(own_home), _sftp_server()))
    _script(directory / "bin/login", f"exec {login}")


def _sftp_server() -> str:
    """Debian, then Red Hat, then SUSE."""
    places = (
        "/usr/lib/openssh/sftp-server",
        "/usr/libexec/openssh/sftp-server",
        "/usr/lib/ssh/sftp-server",
    )
    return next((place for place in places if os.path.exists(place)), places[0])


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _of_lab(state: LabState) -> tuple[int, ...]:
    own = f"{state.directory}/nodes/"
    marked = processes.of_loopback_lab(state)
    listeners = tuple(
        pid
        for pid in processes.pids()
        if own in processes.command_line(pid)
        and os.path.basename(processes.executable(pid)).startswith("sshd")
    )
    return tuple(sorted({*marked, *listeners}))
