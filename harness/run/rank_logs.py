"""NCCL's own log of every rank: a folder on each node before the launch, and what the ranks wrote into
it, fetched after it.

NCCL writes one file per rank (NCCL_DEBUG_FILE), so that no lines mix and none land between the
rows of the table. A node that is out of reach afterwards has no log; what the proofs make of that
is theirs (`busbw.assess.proof`).
"""

from __future__ import annotations

from busbw import shell
from busbw.model import Command
from busbw.parsers.logs.rank_logs import RANK_LOG_HEAD
from busbw.run.context import Context

LIMIT_S = 60
MOST_BYTES = 4 << 20
"""Of each rank's log; with INFO it has about 100 KiB where there are eight GPUs on each of 64
nodes."""


def prepare(context: Context, nodes: tuple[str, ...], directory: str) -> None:
    """Make the folder on every node: NCCL opens its file and makes no folder."""
    command = Command(("mkdir", "-p", "--", directory), timeout_s=30, label="mkdir")
    context.fleet.run(
        {node: command for node in nodes if node in context.fleet.sessions}, deadline_s=40
    )


def collect(context: Context, case_id: str, nodes: tuple[str, ...], directory: str) -> None:
    """Keep what the ranks of each node wrote as `raw/cases/ID/nccl/NODE.txt`; the folder is removed
    with all of the run's."""
    script = shell.load("busbw.run", "rank_logs.sh")
    argv = ("sh", "-c", script, "busbw-rank-logs", directory, str(MOST_BYTES), RANK_LOG_HEAD)
    commands = {
        node: Command(
            argv, timeout_s=LIMIT_S, label="rank-logs", store=f"cases/{case_id}/nccl/{node}.txt"
        )
        for node in nodes
        if node in context.fleet.sessions
    }
    context.fleet.run(commands, deadline_s=LIMIT_S + 5)
