"""What took the CPU time of nodes while they were measured: a limit of their containers or jobs, or other
work. A launch that waits for a CPU looks like a slow node."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Collection
from dataclasses import dataclass, replace

from busbw.assess import counter_texts
from busbw.assess.counter_texts import NodeTexts, Taken
from busbw.assess.launches import Launch
from busbw.faults import Fault, attempt
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.tools.cpu_shares import tasks, throttling
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
    """What took a node's CPU time in one launch."""

    amount: float
    """Share of the periods, or tasks for each CPU."""
    evidence: Evidence


def findings(
    run: RunDir, launches: tuple[Launch, ...], *, emulated: bool = False
) -> tuple[Finding, ...]:
    """One for all nodes that a limit stopped, one for all on which other work ran; () = neither, or
    nobody knows. `emulated`: all nodes share one machine, whose tasks are no single node's.

    Raises:
        RunDirError: an artefact is not readable.
    """
    limited: dict[str, list[_Seen]] = {}
    loaded: dict[str, list[_Seen]] = {}
    measured: dict[str, int] = {}
    for launch in launches:
        for node in counter_texts.of_case(run, launch.artefact.case.id) or ():
            if node.before is None or node.after is None:
                continue
            measured[node.node] = measured.get(node.node, 0) + 1
            seen = attempt(functools.partial(_seen, node, node.before, node.after, emulated))
            # Of a node whose text a reader breaks on nothing is known; its counters say so.
            stopped, others = (None, None) if isinstance(seen, Fault) else seen
            if stopped is not None:
                limited.setdefault(node.node, []).append(stopped)
            if others is not None:
                loaded.setdefault(node.node, []).append(others)
    warnings = []
    stopped_often = _often(limited)
    if stopped_often:
        warnings.append(_throttled(stopped_often, measured))
    # What runs there all the time: what comes and goes slows now this launch and now that.
    always = {node: own for node, own in _often(loaded).items() if 2 * len(own) >= measured[node]}
    if always:
        warnings.append(_shared(always, measured))
    return tuple(warnings)


def with_suspects(warnings: tuple[Finding, ...], suspects: Collection[str]) -> tuple[Finding, ...]:
    """The same as advice where none of the nodes is suspected of being slow."""
    return tuple(
        each if set(each.where) & set(suspects) else replace(each, required=False)
        for each in warnings
    )


def _seen(
    node: NodeTexts, before: Taken, after: Taken, emulated: bool
) -> tuple[_Seen | None, _Seen | None]:
    return _stopped(node, before, after), _others(node, before, after, emulated=emulated)


def _stopped(node: NodeTexts, before: Taken, after: Taken) -> _Seen | None:
    """How often its limit stopped a node; None = seldom, or it has none."""
    limit = throttling(before.text, after.text)
    if limit is None or limit.throttled < FEWEST_PERIODS or limit.share < LEAST_SHARE:
        return None
    text = (
        f"{node.node}: stopped in {limit.throttled} of {limit.periods} periods by the limit of"
        f" {limit.group.removesuffix('/cpu.stat')}"
    )
    return _Seen(limit.share, Evidence(after.path, limit.line_no, text))


def _others(node: NodeTexts, before: Taken, after: Taken, *, emulated: bool) -> _Seen | None:
    """How many tasks wanted each CPU of the node right before the launch and right after it, without
    that which counted them; None = not more than one at both moments, or it is not known."""
    least: _Seen | None = None
    for taken in (before, after):
        counted = tasks(taken.text)
        if counted is None:
            return None
        number = (counted.own if emulated else max(counted.own, counted.machine)) - 1
        if number <= counted.cpus:
            return None
        text = f"{node.node}: {number} tasks of others for {counted.cpus} CPUs"
        seen = _Seen(number / counted.cpus, Evidence(taken.path, counted.line_no, text))
        least = seen if least is None or seen.amount < least.amount else least
    return least


def _often(seen: dict[str, list[_Seen]]) -> dict[str, list[_Seen]]:
    return {node: own for node, own in seen.items() if len(own) >= FEWEST_LAUNCHES}


def _throttled(seen: dict[str, list[_Seen]], measured: dict[str, int]) -> Finding:
    one = len(seen) == 1
    by = "was stopped by its CPU limit in" if one else "were stopped by their CPU limits in up to"
    share, when = f"{_most(seen):.0%} of the scheduler's periods", _when(seen, measured)
    return _warning("cpu-throttled", f"{_named(seen, measured)} {by} {share}, {when}", seen)


def _shared(seen: dict[str, list[_Seen]], measured: dict[str, int]) -> Finding:
    up_to = "" if len(seen) == 1 else "up to "
    amount, when = f"{up_to}{_most(seen):.1f} tasks for each CPU", _when(seen, measured)
    title = f"{_named(seen, measured)} ran other work: {amount}, {when}"
    return _warning("cpu-shared", title, seen)


def _warning(finding_id: str, title: str, seen: dict[str, list[_Seen]]) -> Finding:
    return filled(
        Finding(
            id=finding_id,
            status=Status.WARN,
            title=title,
            where=tuple(sorted(seen)),
            evidence=_evidence(seen),
            confidence=Confidence.CERTAIN,
        )
    )


def _most(seen: dict[str, list[_Seen]]) -> float:
    return max(statistics.median(each.amount for each in own) for own in seen.values())


def _when(seen: dict[str, list[_Seen]], measured: dict[str, int]) -> str:
    launches = max(map(len, seen.values()))
    return f"in {launches} of {max(measured[node] for node in seen)} launches"


def _named(seen: dict[str, list[_Seen]], measured: dict[str, int]) -> str:
    if len(seen) == len(measured) and len(seen) > 1:
        return f"all {len(seen)} nodes"
    nodes = sorted(seen)
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(nodes[:_NAMED]) + more


def _evidence(seen: dict[str, list[_Seen]]) -> tuple[Evidence, ...]:
    return tuple(each.evidence for node in sorted(seen) for each in seen[node][:_QUOTED])
