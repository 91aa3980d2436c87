"""Processes that name a rank and the number of ranks as they join (PyTorch Lightning's `GLOBAL_RANK: 1,
MEMBER: 2/8`, Lightning 1.0 to 2.6): as many lines as ranks, while some ranks are named twice and others
never.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_JOINING = Watch("joining", r"GLOBAL_RANK: \d+, MEMBER: \d+/\d+")
_NUMBERS = re.compile(r"GLOBAL_RANK: (\d+), MEMBER: \d+/(\d+)")


def _judge(view: View) -> Iterator[Clue]:
    lines = view.sightings(_JOINING.name)
    seen: Counter[int] = Counter()
    size = 0
    for line in lines:
        match = _NUMBERS.search(line.text)
        if match:
            seen[int(match[1])] += line.count
            size = int(match[2])
    twice = [rank for rank, count in seen.items() if count > 1]
    if len(twice) > 1 and len(seen) < size <= seen.total():
        yield lines[0].clue("duplicate-rank", Weight.STRONG, "torch")


def _text(*ranks: int) -> str:
    """Lines of a job of four ranks."""
    return "".join(
        f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in ranks
    )


RULE = Rule(
    name="repeated-ranks",
    conclusion="Ranks that are named twice while others are missing were given out twice.",
    watches=(_JOINING,),
    judge=_judge,
    fires=(Fires(_text(0, 1, 0, 1), (("duplicate-rank", "strong"),)),),
    silent=(_text(0, 1, 2, 3), _text(0, 0), _text(0, 1, 2, 3, 0, 1, 2, 3)),
)
