"""Asking Slurm for an allocation: the options of `busbw run` as a command line of salloc, inside
which busbw then runs. Written against 22.05.

salloc gives the nodes back when the command in it ends, however it ends: by itself, by Ctrl-C, or
killed.
"""

from __future__ import annotations

from busbw.errors import UsageError
from busbw.inventory.hostlist import fold

JOB_NAME = "busbw"
"""`scancel --name=busbw` gives back what a killed salloc left behind."""


def salloc(
    arguments: tuple[str, ...], nodes: tuple[str, ...], count: int | None, command: tuple[str, ...]
) -> tuple[str, ...]:
    """salloc for whole nodes, with `command` inside. `nodes` = exactly these; () = `count` of any.

    >>> salloc(("--partition=gpu", "--time=30"), ("a1", "a2"), None, ("busbw", "run"))[3:]
    ('--nodes=2', '--nodelist=a[1-2]', '--partition=gpu', '--time=30', 'busbw', 'run')

    Raises:
        UsageError: neither nodes nor their number.
    """
    if nodes and count is not None and count != len(nodes):
        raise UsageError(
            f"--node-count {count} and {len(nodes)} nodes named",
            seen=fold(nodes),
            next_step="give one of them",
        )
    if not nodes and count is None:
        raise UsageError(
            "how many nodes Slurm shall give is not said",
            seen="--partition or --time without nodes",
            next_step="--node-count 4, or name the nodes with -w or -i",
        )
    place = (
        (f"--nodes={len(nodes)}", f"--nodelist={fold(nodes)}") if nodes else (f"--nodes={count}",)
    )
    return ("salloc", f"--job-name={JOB_NAME}", "--exclusive", *place, *arguments, *command)
