"""Who is behind and who is ahead in a RAS report: counts are operations launched by the host, so
the rank behind is the one that did not call.

A report lists the smaller group apart whether it is behind or ahead: only the numbers tell. Ranks
that all differ, or one that is ahead alone, launched calls that the others did not: the program
took different branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_COUNT = Watch(
    "count",
    r"\b(?:Rank \d+ has|\d+ ranks have) (?:launched up to operation \d+|not launched any"
    r" operations)",
)
_STATUS = Watch(
    "status", r"\bRank \d+ has status (?:INIT|NOCOMM|UNKNOWN)|\bRank \d+ reported .*error"
)
_LINE = re.compile(
    r"\b(?:Rank (?P<rank>\d+) has|(?P<many>\d+) ranks have) (?:launched up to operation"
    r" (?P<count>\d+)|not launched any operations)"
)
_OWNER = re.compile(r"on node (\S+)|, node (\S+)")


def _look(view: View) -> Iterator[Clue]:
    for line in view.sightings(_STATUS.name):
        yield Clue("rank-not-entering", Weight.WEAK, "ras", line.evidence(), line.place)
    read = [
        (line, found) for line in view.sightings(_COUNT.name) if (found := _LINE.search(line.text))
    ]
    counts = [int(found["count"] or 0) for _, found in read]
    if len(set(counts)) < 2:
        return
    members = [int(found["many"] or 1) for _, found in read]
    lowest, highest = min(counts), max(counts)
    behind = sum(many for many, count in zip(members, counts, strict=True) if count == lowest)
    ahead = sum(many for many, count in zip(members, counts, strict=True) if count == highest)
    scattered = len(set(counts)) > 2
    for (line, _), count in zip(read, counts, strict=True):
        if count == lowest:
            yield _clue(
                "rank-not-entering",
                Weight.WEAK if ahead < behind and not scattered else Weight.STRONG,
                line,
            )
        if scattered or ahead < behind:
            yield _clue("collective-desync", Weight.STRONG, line)


def _clue(entry: str, weight: Weight, line: Sighting) -> Clue:
    found, owner = _LINE.search(line.text), _OWNER.search(line.text)
    named = (f"rank {found['rank']}",) if found and found["rank"] else ()
    return Clue(
        entry,
        weight,
        "ras",
        line.evidence(),
        line.place,
        named + ((owner[1] or owner[2],) if owner else ()),
    )


RULE = Rule(
    name="ras-counts",
    says=(
        "Of ranks with different operation counts, few behind did not enter the collective; few"
        " ahead, or counts that all differ, are a desync."
    ),
    watches=(_COUNT, _STATUS),
    look=_look,
    fires=(
        Fires(
            "  7 ranks have launched up to operation 64\n  Rank 7 has launched up to operation 60"
            " -- GPU 3 managed by process 1650386 on node node1\n",
            (("rank-not-entering", "strong"),),
        ),
        Fires(
            "  7 ranks have launched up to operation 64\n  Rank 2 has launched up to operation 65"
            " -- GPU 3 managed by process 1650386 on node node1\n",
            (("collective-desync", "strong"), ("rank-not-entering", "weak")),
        ),
        Fires(
            "  Rank 1 has launched up to operation 27911 -- GPU 0 managed by process 1 on node"
            " 10.0.0.1\n  Rank 2 has launched up to operation 27890 -- GPU 0 managed by process 1"
            " on node 10.0.0.2\n  Rank 0 has not launched any operations -- GPU 0 managed by"
            " process 1 on node 10.0.0.3\n",
            (("collective-desync", "strong"), ("rank-not-entering", "strong")),
        ),
    ),
    silent=("  8 ranks have launched up to operation 64\n",),
)
