"""Who joined a process group: each process announces its number and how many there are (Lightning's
`GLOBAL_RANK: 1, MEMBER: 2/8`).

Some numbers that nobody announces, and no line that all are there: the group waits for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MEMBER = Watch("member", r"\bMEMBER: \d{1,6}/\d{1,6}\b", distinct=True)
_COMPLETE = Watch("complete", r"All distributed processes registered|Starting with \d+ processes")
_NUMBERS = re.compile(r"MEMBER: (\d+)/(\d+)")


def _judge(view: View) -> Iterator[Clue]:
    lines = view.sightings(_MEMBER.name)
    if not lines or view.sightings(_COMPLETE.name):
        return
    seen = set()
    many = 0
    for line in lines:
        match = _NUMBERS.search(line.text)
        if match:
            seen.add(match[1])
            many = max(many, int(match[2]))
    if len(seen) >= many:
        return
    for line in lines[-1:]:
        yield line.clue("rendezvous-failed", Weight.WEAK, "torch")
        yield line.clue("rank-not-entering", Weight.WEAK, "torch")


RULE = Rule(
    name="members",
    conclusion=(
        "Members of a process group that never announce themselves, though others count them, "
        "did not reach the master address or were not started."
    ),
    watches=(_MEMBER, _COMPLETE),
    judge=_judge,
    fires=(
        Fires(
            "initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4\n"
            "initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/4\n",
            (("rendezvous-failed", "weak"), ("rank-not-entering", "weak")),
        ),
    ),
    silent=(
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
        "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4\n"
        "All distributed processes registered. Starting with 4 processes\n",
    ),
)
