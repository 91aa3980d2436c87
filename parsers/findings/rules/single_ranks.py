"""A benchmark whose processes never joined: every one ran a world of one rank.

A row that moved data (algbw above 0) at busbw 0.00 has one rank, since the factor of every
collective is 0 for one. One such run may be meant; several processes that are each rank 0 of 1 are
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_TYPES = r"(?:u?int\d{1,2}|half|float|double|bfloat16|f8e\dm\d)\s"
# What stands ahead is asked of lines with a type alone: asked of every line, so many blanks in a
# row would take for ever in some.
_ROW = Watch(
    "row",
    rf"^(?=\W{{0,9}}[1-9]\d{{3,19}}\s{{1,30}}\d{{1,19}}\s{{1,30}}{_TYPES}"
    r".{0,60}\s(?!0\.00\s)[\d.]{1,12}\s{1,12}0\.00\s{1,12}(?:0|N/A)\s.{0,60}\s0\.00\s{1,12}(?:0|N/A)\s*$)"
    rf".{{0,90}}{_TYPES}",
)
_ALONE = Watch("alone", r"\brank 0 nranks 1 ")
_HEADER = Watch(
    "header",
    r"^.{0,60}# +(?:nccl-tests version|Collective test starting)|^.{0,60}# nThread \d+ nGpus",
)
_RANK = Watch("rank", r"# +Rank +\d+ .*Pid +\d+ on ")
_RANK_NUMBER = re.compile(r"# +Rank +(\d+) ")


def _look(view: View) -> Iterator[Clue]:
    rows, alone, ranks = (
        view.sightings(_ROW.name),
        view.sightings(_ALONE.name),
        view.sightings(_RANK.name),
    )
    zeros = [
        line for line in ranks if (found := _RANK_NUMBER.search(line.text)) and found[1] == "0"
    ]
    joined = any((found := _RANK_NUMBER.search(line.text)) and found[1] != "0" for line in ranks)
    if joined:
        return
    processes = {line.process for line in alone if line.process}
    several = len(processes) > 1 or len(zeros) > 1
    if rows:
        meant = len(zeros) == 1 and not several
        for line in (*rows[:2], *alone[:1], *zeros[:2]):
            yield Clue(
                "no-mpi-build",
                Weight.WEAK if meant else Weight.STRONG,
                "nccl-tests",
                line.evidence(),
                line.place,
            )
    elif several:
        for line in (*alone[:2], *zeros[:2]):
            yield Clue("no-mpi-build", Weight.STRONG, "nccl-log", line.evidence(), line.place)


_LINE = (
    "  1073741824     268435456     float     sum      -1   3632.4  295.60    0.00      0     0.34 "
    " 3153426.80    0.00      0\n"
)

RULE = Rule(
    name="single-ranks",
    says=(
        "Rows that moved data at busbw 0.00, or several processes that are each rank 0 of 1, come"
        " from processes that did not join one run."
    ),
    watches=(_ROW, _ALONE, _HEADER, _RANK),
    look=_look,
    fires=(
        Fires(_LINE, (("no-mpi-build", "strong"),)),
        Fires(
            "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n"
            "b:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n",
            (("no-mpi-build", "strong"),),
        ),
        Fires(
            "#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA"
            f" H200\n{_LINE}",
            (("no-mpi-build", "weak"),),
        ),
    ),
    silent=(
        "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n",
        (
            "     1048576        262144     float     sum      -1    61.20   17.13   32.13       0 "
            "   60.95   17.20   32.26       0\n"
        ),
        (
            "           0             0     float     sum      -1     3.20    0.00    0.00       0 "
            "    3.19    0.00    0.00       0\n"
        ),
    ),
)
