"""Processes that each call themselves rank 0 of 1 («Hello from rank 0 of 1», `size=1 rank=0`), or
one of 1 process although mpirun was asked for more.

One is a program that was meant to run alone. Several in one text were started without the process
manager of their MPI.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_ALONE = Watch(
    "alone",
    r"\b(?:rank|process|proc)[ =:#]{1,3}0,? (?:out )?of 1\b"
    r"|\b(?:world[_ ]?)?size[ =:]{1,3}1,? rank[ =:]{1,3}0\b"
    r"|\brank[ =:]{1,3}0,? (?:world[_ ]?)?size[ =:]{1,3}1\b",
)
_ONE = Watch(
    "one",
    r"\b(?:number|no\.?|#) of (?:mpi )?(?:processes|procs|tasks|ranks)(?: is)?[ =:]{1,3}1\s*$",
)
_LAUNCH = Watch(
    "launch", r"\b(?:mpi(?:run|exec(?:\.hydra)?)|srun|prun) .{0,90}-(?:np?|-ntasks)[ =][2-9]"
)


def _judge(view: View) -> Iterator[Clue]:
    lines = view.sightings(_ALONE.name)
    if view.sightings(_LAUNCH.name):
        lines = (*lines, *view.sightings(_ONE.name))
    if sum(line.line_count for line in lines) > 1:
        yield lines[0].clue("mpi-singletons", Weight.STRONG, "mpirun")


RULE = Rule(
    name="singletons",
    conclusion=(
        "Several processes that each call themselves rank 0 of 1 were started without the process "
        "manager of their MPI."
    ),
    watches=(_ALONE, _ONE, _LAUNCH),
    judge=_judge,
    fires=(
        Fires(
            "Hello from rank 0 of 1 on gpu1\nHello from rank 0 of 1 on gpu2\n",
            (("mpi-singletons", "strong"),),
        ),
        Fires(
            "mpirun -np 4 ./a\nTotal number of processes 1\nTotal number of processes 1\n",
            (("mpi-singletons", "strong"),),
        ),
    ),
    silent=(
        "Hello from rank 0 of 1 on gpu1\n",
        "Number of processes: 1\nNumber of processes: 1\n",
        "mpirun -n 2 ./a\nNumber of processes: 1\n",
        "Hello from rank 0 of 16 on gpu1\nHello from rank 1 of 16 on gpu1\n",
    ),
)
