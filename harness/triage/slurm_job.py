"""The nodes of a Slurm job, as `scontrol show job` tells them (Slurm 20.11 to 24.05). Runs on this
machine."""

from __future__ import annotations

import re

from busbw.errors import UsageError
from busbw.model import Command, Node, Unreachable
from busbw.transport import Session
from busbw.transport.local import LocalTransport

_NODES = re.compile(r"\bNodeList=(\S+)")
_STATE = re.compile(r"\bJobState=(\S+)")


def nodes_of(job: str, session: Session | None = None) -> str:
    """Its host list.

    Raises:
        UsageError: the number is none, Slurm does not know it or does not tell, or it has no nodes.
    """
    if not re.fullmatch(r"\d+(?:_\d+)?(?:\.\w+)?", job):
        raise UsageError(
            f"--job {job!r} is no Slurm job id",
            seen=job,
            next_step="give its number, as squeue prints it",
        )
    local = session or LocalTransport().connect(Node("localhost"), 5.0)
    assert not isinstance(local, Unreachable)  # this machine is always reached
    answer = local.run(
        Command(("scontrol", "show", "job", "-o", job.partition(".")[0]), timeout_s=20)
    )
    text = answer.out()
    nodes, state = _NODES.search(text), _STATE.search(text)
    if not answer.ok or nodes is None:
        problem = (
            answer.err().strip()
            or answer.problem
            or text.strip()
            or f"exit status {answer.exit_status}"
        )
        raise UsageError(
            f"slurm: job {job} cannot be looked up",
            seen=f"scontrol show job {job}: {problem}",
            next_step="name its nodes: busbw why --live -w NODES",
        )
    if nodes[1] == "(null)":
        raise UsageError(
            f"slurm: job {job} has no nodes",
            seen=f"JobState={state[1] if state else 'unknown'}",
            next_step="busbw why LOGS, for what it left behind",
        )
    return nodes[1]
