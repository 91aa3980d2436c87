"""Whose block a line stands in, where the line names no host or pod itself: Open MPI's help blocks
state the host below what they report, listings of Slurm and Kubernetes state it above.

`  Local host:    gpu-n17` stands some lines below `failed to initialize while trying to`, and
`NodeName=gpu-044 Arch=…` or `Name:   trainer-2` above `State=DOWN` and `Reason: OOMKilled`.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import NO_PLACE, Clue, EvidenceSet, Place, lines_of
from busbw.parsers.findings.named_places import NO_HOST
from busbw.parsers.logs.scan import Pattern

_BELOW = (
    r"^\s*(?:Local host|Local Host|Hostname|Host|Node|Process name on node|Remote daemon)\s*:\s"
    r"+(?:\[\S+\] on node )?[\w.-]+\s*$"
)
"""The host of a help block, below what the block reports."""
_PEER = r"^\s*Peer host\s*:"
"""In a block with a peer the local host is the one that noticed."""
_BORDER = r"-{50,}\s*$"
"""Ends a help block: the host below is the next one's."""
_ABOVE = r"(?-i:^NodeName=\S+ |^Name: +[a-z0-9][\w.-]*\s*$)"
"""The heading of an object's listing."""
_FAILED_HOST = r"^\s*host {6}: [\w.-]+\s*$"
"""The host of a failure in torchrun's summary; its rank stands in the line behind."""
_FAILED_TASK = r"\bsrun: error: [\w.,\[\]-]+: tasks? \d[\d,-]*:"
_MEMBER = r"rank \d+ nranks \d+ .*- ?Init COMPLETE"
_RANK = re.compile(
    r"\brank {6}: (?P<torch>\d+)|: task (?P<task>\d+):|\brank (?P<nccl>\d+) nranks (?P<size>\d+)"
)
_HOST = re.compile(r"\bhost {6}: (?P<torch>[\w.-]+)|error: (?P<task>[\w.,\[\]-]+): tasks? ")
_NAME = re.compile(r"(?:on node |=|: +)(?P<name>(?=[\w-]*[A-Za-z])[\w.-]+)\s*(?:$|(?= \w+=))")
_NEAR_BELOW, _NEAR_ABOVE = 12, 80
"""Lines at most between a line and the one that states whose it is."""
_PEER_WITHIN = 4
_KEEP = 256
_MOST_HOSTS = 4
"""Hosts of ranks that are added: of more, the ranks say enough."""


class _Owner(NamedTuple):
    """Who the lines of a block are of."""

    line_no: int
    place: str


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    blocks = (
        Pattern(each, each, keep=_KEEP) for each in (_BELOW, _PEER, _BORDER, _ABOVE, _FAILED_TASK)
    )
    return (
        *blocks,
        Pattern(_FAILED_HOST, _FAILED_HOST, keep=_KEEP, after=1),
        Pattern(_MEMBER, _MEMBER),
    )


def with_owners(evidence: EvidenceSet, clues: Iterable[Clue]) -> list[Clue]:
    """The clues, those of lines that name no host or pod with the one whose block they stand in, or
    on which their ranks run."""
    below, above = _owners(evidence, _BELOW), _owners(evidence, _ABOVE)
    hosts, failed = _hosts_of_ranks(evidence), _failed_hosts(evidence)
    if not (below or above or hosts or failed):
        return list(clues)
    borders = _borders(evidence) if below else {}
    return [_on_hosts(_with_owner(each, below, above, borders), hosts, failed) for each in clues]


def _failed_hosts(evidence: EvidenceSet) -> Mapping[int, str]:
    """Text → the only host on which tasks failed, as srun states it."""
    hosts: dict[int, set[str]] = {}
    for line in lines_of(evidence, _FAILED_TASK):
        match = _HOST.search(line.text)
        if match is not None:
            hosts.setdefault(line.place.text, set()).add(match["task"])
    return {text: own.pop() for text, own in hosts.items() if len(own) == 1 and "[" not in min(own)}


def _hosts_of_ranks(evidence: EvidenceSet) -> Mapping[str, str]:
    """Place of a rank → its host, as NCCL's largest communicator, srun and torchrun state it."""
    members: dict[int, dict[str, str]] = {}
    for line in lines_of(evidence, _MEMBER):
        match = _RANK.search(line.text)
        if match is not None and match["nccl"] and line.host is not None:
            members.setdefault(int(match["size"]), {})[f"rank {match['nccl']}"] = line.host
    hosts = members[max(members)] if members else {}
    for pattern in (_FAILED_TASK, _FAILED_HOST):
        rows = (row for _, rows in evidence.rows_of(pattern) for row in rows)
        for _, _, examples in rows:
            for _, text, after in examples:
                host, rank = _HOST.search(text), _RANK.search(" ".join((text, *after)))
                if host is not None and rank is not None:
                    hosts[f"rank {rank['task'] or rank['torch']}"] = host["task"] or host["torch"]
    return hosts


def _on_hosts(clue: Clue, hosts: Mapping[str, str], failed: Mapping[int, str]) -> Clue:
    if _names_owner(clue):
        return clue
    if not clue.where and clue.place.text in failed and clue.weight is not Weight.EXCLUDES:
        return replace(clue, where=(failed[clue.place.text],))
    own = tuple(dict.fromkeys(hosts[place] for place in clue.where if place in hosts))
    return replace(clue, where=(*own, *clue.where)) if 0 < len(own) <= _MOST_HOSTS else clue


def _names_owner(clue: Clue) -> bool:
    return any(not NO_HOST.match(place) or place.startswith("pod ") for place in clue.where)


def _owners(evidence: EvidenceSet, pattern: str) -> Mapping[int, Sequence[_Owner]]:
    """Text → the lines that state whose block it is, in order."""
    owners: dict[int, list[_Owner]] = {}
    peers = {line.place for line in lines_of(evidence, _PEER)}
    for line in lines_of(evidence, pattern):
        match = _NAME.search(line.text)
        text, line_no = line.place
        has_peer = any(Place(text, line_no + n) in peers for n in range(1, _PEER_WITHIN))
        if match is not None and not has_peer:
            form = "pod {}" if line.text.startswith("Name:") else "{}"
            owner = _Owner(line.place.line_no, form.format(match["name"]))
            owners.setdefault(line.place.text, []).append(owner)
    return owners


def _borders(evidence: EvidenceSet) -> Mapping[int, Sequence[int]]:
    """Text → the numbers of the lines between help blocks, in order."""
    borders: dict[int, list[int]] = {}
    for line in lines_of(evidence, _BORDER):
        borders.setdefault(line.place.text, []).append(line.place.line_no)
    return borders


def _with_owner(
    clue: Clue,
    below: Mapping[int, Sequence[_Owner]],
    above: Mapping[int, Sequence[_Owner]],
    borders: Mapping[int, Sequence[int]],
) -> Clue:
    if _names_owner(clue) or clue.place == NO_PLACE or clue.weight is Weight.EXCLUDES:
        return clue
    own, line_no = below.get(clue.place.text, ()), clue.place.line_no
    at = bisect(own, line_no, key=lambda owner: owner.line_no)
    lines = borders.get(clue.place.text, ())
    border = bisect(lines, line_no)
    end = min((line_no + _NEAR_BELOW, *lines[border : border + 1]))
    if at < len(own) and own[at].line_no <= end:
        return replace(clue, where=(own[at].place, *clue.where))
    own = above.get(clue.place.text, ())
    at = bisect(own, line_no, key=lambda owner: owner.line_no)
    if at and line_no - own[at - 1].line_no <= _NEAR_ABOVE:
        return replace(clue, where=(own[at - 1].place, *clue.where))
    return clue
