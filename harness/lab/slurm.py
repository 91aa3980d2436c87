"""A real Slurm in a lab: munged and slurmctld beside the head, one slurmd on every node. Written
against Slurm 22.05 and 23.11.

The daemons live in the lab's process namespace and end with it; their key, state and logs lie in
the lab's directory, so that several labs, and a Slurm of the machine's own, never meet. Inside the
lab everything is configured by /run/lab/slurm/slurm.conf; a command in the head namespace sees this
machine's files instead, and has a configuration of its own that differs in the path of munge's
socket alone.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from busbw.errors import LabError
from busbw.lab import processes, requirements
from busbw.lab.network import HEAD, HEAD_ADDRESS
from busbw.lab.state import LabState, Mode

CONF = "/run/lab/slurm/slurm.conf"
"""The configuration as nodes see it."""
ENVIRONMENT = {"SLURM_CONF": CONF, "SLURM_PMIX_FENCE": "ring"}
"""What logins on nodes have. With Slurm 22.05's other fence 7 of 80 launches of 8 ranks crashed in
MPI_Init, with `ring` none of 140."""
PARTITION = "lab"
_SOCKET_BYTES = 107
"""Longest path of a unix socket (sun_path)."""
_START_TIMEOUT_S = 60.0
_LEAST_CPUS = 4


def refused(mode: Mode) -> str:
    """Why a lab of that mode cannot have a Slurm; empty = it can."""
    if mode is Mode.ROOT:
        return ""
    return f"slurmctld and munged need root and namespaces, and the lab is in {mode.value} mode"


def conf(state: LabState) -> Path:
    """The configuration for commands in the head namespace: the value of SLURM_CONF there."""
    return state.path / "slurm/outside.conf"


def write(state: LabState) -> None:
    """Write key, configuration and folders.

    Raises:
        LabError: the lab's directory is too long for a socket.
    """
    directory = state.path / "slurm"
    socket = str(directory / "munge.socket")
    if len(os.fsencode(socket)) > _SOCKET_BYTES:
        raise LabError(
            "the lab's directory is too long for munge's socket",
            seen=f"{socket}: {len(os.fsencode(socket))} of {_SOCKET_BYTES} bytes",
            next_step="set BUSBW_LAB_DIR to a shorter path",
        )
    (directory / "state").mkdir(parents=True)
    os.chmod(directory, 0o755)
    key = directory / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    (directory / "slurm.conf").write_text(configuration(state, "/run/lab/slurm/munge.socket"))
    conf(state).write_text(configuration(state, socket))
    for node in state.nodes:
        own = state.path / "nodes" / node.name / "slurm"
        own.mkdir()
        # What a login on the node has, not what the submitting node had. Also for mpirun's daemons,
        # which srun starts.
        variables = {"BUSBW_LAB": state.marker, "LAB_NODE": node.name, "LAB_NGPU": str(state.gpus)}
        (own / "task-prolog").write_text(
            "#!/bin/sh\n"
            + "".join(f"echo export {name}={value}\n" for name, value in variables.items())
        )
        (own / "task-prolog").chmod(0o755)


def configuration(state: LabState, socket: str) -> str:
    """slurm.conf: every node with as many CPUs as ranks are started there, all in one partition.

    `config_overrides`, since nodes show more or fewer CPUs than this machine has; linuxproc and no
    task plugin, since a node has no control groups of its own.
    """
    cpus = max(_LEAST_CPUS, state.gpus)
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={HEAD}({HEAD_ADDRESS})",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={socket}",
        "StateSaveLocation=/run/lab/slurm/state",
        "SlurmctldPidFile=/run/lab/slurm/slurmctld.pid",
        "SlurmctldLogFile=/run/lab/slurm/slurmctld.log",
        "SlurmdPidFile=/run/node/slurm/slurmd.pid",
        "SlurmdLogFile=/run/node/slurm/slurmd.log",
        "SlurmdSpoolDir=/run/node/slurm",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "TaskProlog=/run/node/slurm/task-prolog",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SwitchType=switch/none",
        "MpiDefault=none",
        "PropagateResourceLimits=NONE",
        "ReturnToService=2",
        "KillWait=2",
        "SlurmctldTimeout=60",
        "SlurmdTimeout=60",
        # The two configurations differ in a path: nothing to warn of.
        "DebugFlags=NO_CONF_HASH",
        *(
            f"NodeName={node.name} NodeAddr={node.address} CPUs={cpus} Boards=1 SocketsPerBoard=1"
            f" CoresPerSocket={cpus} ThreadsPerCore=1"
            for node in state.nodes
        ),
        (
            f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 State=UP"
            " OverSubscribe=NO"
        ),
    ]
    return "\n".join(lines) + "\n"


def await_ready(state: LabState, head: tuple[str, ...]) -> None:
    """Wait until every node is idle. `head` = what to put before a command to have it run in the
    head namespace.

    Raises:
        LabError: one did not answer in time; `seen` has the end of the logs.
    """
    argv = (
        *head,
        "env",
        f"SLURM_CONF={conf(state)}",
        "sinfo",
        "--noheader",
        "--Node",
        "--format=%N %t",
    )
    seen = ""
    for _ in processes.polling(_START_TIMEOUT_S):
        answer = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=requirements.environment(),
        )
        seen = answer.stdout + answer.stderr
        if answer.stdout.split().count("idle") == len(state.nodes):
            return
    raise LabError(
        f"Slurm did not have all nodes idle within {_START_TIMEOUT_S:g} s",
        seen=f"{seen.strip()[-500:]}\n{_logs(state)}",
        next_step="busbw lab down, then try again",
    )


def _logs(state: LabState) -> str:
    logs = [state.path / "slurm/slurmctld.log", state.path / "slurm/munged.log"]
    logs += sorted(state.path.glob("nodes/*/slurm/slurmd.log"))[:2]
    return "\n".join(
        f"{log.name}: {log.read_text(errors='replace')[-400:].strip()}"
        for log in logs
        if log.exists()
    )
