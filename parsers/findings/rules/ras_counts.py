"""Who is behind and who is ahead in a RAS report: counts are operations launched by the host, so
the rank behind is the one that did not call.

A report lists the smaller group separately whether it is behind or ahead: only the numbers tell. Ranks
that all differ, or one that is ahead alone, launched calls that the others did not: the program
took different branches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Place, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_COUNT = Watch(
    "count",
    r"\b(?:Rank \d+ has|\d+ ranks have) (?:launched up to operation \d+|not launched any"
    r" operations)",
)
_STATUS = Watch(
    "status", r"\bRank \d+ has status (?:INIT|NOCOMM|UNKNOWN)|\bRank \d+ reported .*error"
)
_MEMBER = Watch("member", r"\bRank \d+ -- GPU \d+ managed by process ", keep=64)
"""A rank of the group whose count stands above it."""
_RANK = re.compile(r"\bRank (\d+) -- ")
_LINE = re.compile(
    r"\b(?:Rank (?P<rank>\d+) has|(?P<many>\d+) ranks have) (?:launched up to operation"
    r" (?P<count>\d+)|not launched any operations)"
)
_NODE = re.compile(r"on node (\S+)|, node (\S+)")


def _judge(view: View) -> Iterator[Clue]:
    for line in view.sightings(_STATUS.name):
        yield line.clue("rank-not-entering", Weight.WEAK, "ras")
    counts: list[tuple[int, re.Match[str], Sighting]] = []
    ranks: Counter[int] = Counter()
    for line in view.sightings(_COUNT.name):
        match = _LINE.search(line.text)
        if match:
            count = int(match["count"] or 0)
            counts.append((count, match, line))
            ranks[count] += int(match["many"] or 1)
    if len(ranks) < 2:
        return
    scattered = len(ranks) > 2
    few_ahead = ranks[max(ranks)] < ranks[min(ranks)]
    groups = [line for _, _, line in counts]
    for count, match, line in counts:
        where = _where(match, line) or _members(line, groups, view.sightings(_MEMBER.name))
        if count == min(ranks):
            weight = Weight.WEAK if few_ahead and not scattered else Weight.STRONG
            yield line.clue("rank-not-entering", weight, "ras", where)
        if scattered or few_ahead:
            yield line.clue("collective-desync", Weight.STRONG, "ras", where)


def _where(match: re.Match[str], line: Sighting) -> tuple[str, ...]:
    """The rank and the node that a line names."""
    where = [f"rank {match['rank']}"] if match["rank"] else []
    node = _NODE.search(line.text)
    if node:
        where.append(node[1] or node[2])
    return tuple(where)


def _members(
    group: Sighting, groups: Sequence[Sighting], lines: Sequence[Sighting]
) -> tuple[str, ...]:
    """The ranks and nodes that are listed between the line of a group and that of the next one."""
    later = [each.place for each in groups if each.place > group.place]
    end = min(later, default=Place(group.place.text + 1, 0))
    ranks: list[str] = []
    nodes: list[str] = []
    for line in lines:
        if group.place < line.place < end:
            ranks += [f"rank {number}" for number in _RANK.findall(line.text)]
            node = _NODE.search(line.text)
            nodes += [node[1] or node[2]] if node else []
    return (*dict.fromkeys(nodes), *ranks)


RULE = Rule(
    name="ras-counts",
    conclusion=(
        "Ranks have different operation counts. A few ranks behind did not enter the "
        "collective. A few ahead, or all different, are desynchronised."
    ),
    watches=(_COUNT, _STATUS, _MEMBER),
    judge=_judge,
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
