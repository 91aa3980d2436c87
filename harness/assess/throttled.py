"""Nodes whose CPU limit stopped the benchmark while it was measured: containers and jobs have such
limits, and a launch that waits for its CPU time looks like a slow node."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass, replace

from busbw.assess import counter_texts
from busbw.assess.launches import Launch
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.tools.counters import Throttling, throttling
from busbw.store.run_directory import RunDir

LEAST_SHARE = 0.1
"""Of the scheduler's periods of a launch, from which on its limit held a node back: each that is cut
short stops all ranks of the node, and their partners, for up to a tenth of a second."""
FEWEST_PERIODS = 5
"""Cut short in a launch: fewer are the start of its processes."""
FEWEST_LAUNCHES = 2
"""In which that happened: one may be a passing build."""
_NAMED = 4
"""Nodes that the title names."""
_QUOTED = 6
"""Launches of a node that are quoted."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a limit did to a node in one launch."""

    throttling: Throttling
    path: str
    """The later counters."""


def findings(run: RunDir, launches: tuple[Launch, ...]) -> tuple[Finding, ...]:
    """One for all nodes that were stopped; () = none was, or no node has a limit.

    Raises:
        RunDirError: an artefact is not readable.
    """
    seen: dict[str, list[_Seen]] = {}
    measured: dict[str, int] = {}
    for launch in launches:
        for node in counter_texts.of_case(run, launch.artefact.case.id) or ():
            if node.before is None or node.after is None:
                continue
            measured[node.node] = measured.get(node.node, 0) + 1
            limited = throttling(node.before.text, node.after.text)
            if limited is not None and _held_back(limited):
                seen.setdefault(node.node, []).append(_Seen(limited, node.after.path))
    seen = {node: own for node, own in seen.items() if len(own) >= FEWEST_LAUNCHES}
    return (_finding(seen, measured),) if seen else ()


def with_suspects(stopped: tuple[Finding, ...], suspects: Collection[str]) -> tuple[Finding, ...]:
    """The same as advice where none of the nodes is suspected of being slow."""
    return tuple(
        each if set(each.where) & set(suspects) else replace(each, required=False)
        for each in stopped
    )


def _held_back(limited: Throttling) -> bool:
    return limited.throttled >= FEWEST_PERIODS and limited.share >= LEAST_SHARE


def _finding(seen: dict[str, list[_Seen]], measured: dict[str, int]) -> Finding:
    nodes = tuple(sorted(seen))
    shares = [statistics.median(each.throttling.share for each in seen[node]) for node in nodes]
    launches = max(len(own) for own in seen.values())
    of_all = max(measured[node] for node in nodes)
    evidence = []
    for node in nodes:
        for each in seen[node][:_QUOTED]:
            stopped = each.throttling
            text = (
                f"{node}: stopped in {stopped.throttled} of {stopped.periods} periods by the limit of"
                f" {stopped.group.removesuffix('/cpu.stat')}"
            )
            evidence.append(Evidence(each.path, stopped.line_no, text))
    share, when = f"{max(shares):.0%}", f"in {launches} of {of_all} launches"
    names = ", ".join(nodes[:_NAMED])
    if len(nodes) > _NAMED:
        names += f" and {len(nodes) - _NAMED} more"
    if len(nodes) == 1:
        title = (
            f"{names} was stopped by its CPU limit in {share} of the scheduler's periods, {when}"
        )
    else:
        names = f"all {len(nodes)} nodes" if len(nodes) == len(measured) else names
        title = (
            f"{names} were stopped by their CPU limits in up to {share} of the scheduler's periods,"
            f" {when}"
        )
    return filled(
        Finding(
            id="cpu-throttled",
            status=Status.WARN,
            title=title,
            where=nodes,
            evidence=tuple(evidence),
            confidence=Confidence.CERTAIN,
        )
    )
