"""NCCL's own log of every rank: a folder on each node before the launch, and what the ranks wrote into it, fetched after it.

NCCL writes one file per rank (NCCL_DEBUG_FILE), so that no lines mix and none land between the rows of the table. Whoever is out of reach
afterwards has no log; what the proofs make of that is theirs (`busbw.derive.proof`).
"""

from __future__ import annotations

from busbw.parsers.formats.rank_logs import HEAD
from busbw.records import Command
from busbw.stages.context import Context

LIMIT_S = 60
MOST_BYTES = 4 << 20
"""Of each rank's log; with INFO it has about 100 KiB where there are eight GPUs on each of 64 nodes."""
_COLLECT = f"""\
cd "$1" || exit 1
h=$(uname -n); h=${{h%%.*}}
for f in nccl."$h".*.log; do
  [ -f "$f" ] || continue
  printf '\\n{HEAD}%s %s\\n' "$f" "$(($(wc -c <"$f")))"; head -c "$2" "$f"
done
"""
"""Only the node's own: where nodes share a home directory, all ranks write into one folder."""


def prepare(context: Context, nodes: tuple[str, ...], directory: str) -> None:
    """Make the folder on every node: NCCL opens its file and makes no folder."""
    command = Command(("mkdir", "-p", "--", directory), timeout_s=30, label="mkdir")
    context.fleet.run({node: command for node in nodes if node in context.fleet.sessions}, deadline_s=40)


def collect(context: Context, case_id: str, nodes: tuple[str, ...], directory: str) -> None:
    """Keep what the ranks of each node wrote as `raw/cases/ID/nccl/NODE.txt`; the folder is removed with all of the run's."""
    argv = ("sh", "-c", _COLLECT, "busbw-rank-logs", directory, str(MOST_BYTES))
    commands = {
        node: Command(argv, timeout_s=LIMIT_S, label="rank-logs", store=f"cases/{case_id}/nccl/{node}.txt")
        for node in nodes
        if node in context.fleet.sessions
    }
    context.fleet.run(commands, deadline_s=LIMIT_S + 5)
