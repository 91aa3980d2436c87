"""What `squeue` prints in busbw's own format (Slurm 20.11 to 25.05): one line per job that holds
nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

ARGV = ("squeue", "--noheader", "--states=RUNNING,COMPLETING,SUSPENDED", "--format=%i %U %u %N")
"""Job, user's number, user's name, nodes."""
_LINE = re.compile(r"^[ \t]*(\S+) (\d+) (\S+) (\S+)[ \t\r]*$", re.M)


@dataclass(frozen=True, slots=True)
class Job:
    """One job."""

    number: str
    """With its array index: `881_4`."""
    user_id: int
    user: str
    nodes: str
    """As Slurm folds them: `gpu-[001-004,006]`."""


def parse(text: str) -> tuple[Job, ...]:
    """The jobs; () = none runs, or the text is not of `squeue` in that format.

    >>> parse("8812 1001 ana gpu-[003-004]\\n")
    (Job(number='8812', user_id=1001, user='ana', nodes='gpu-[003-004]'),)
    """
    return tuple(
        Job(number, int(uid), user, nodes) for number, uid, user, nodes in _LINE.findall(text)
    )
