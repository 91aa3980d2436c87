"""What the counters of a case's nodes did while it ran, from the two snapshots in `raw/cases/`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from busbw.assess.counter_texts import NodeTexts, Taken, load_snapshots, of_case
from busbw.faults import Fault, attempt
from busbw.model.counters import CounterDelta, CounterSnapshot, RailBytes
from busbw.parsers.tools import counters
from busbw.store.run_directory import RunDir


@dataclass(frozen=True, slots=True)
class NodeCounters:
    """One node during one case."""

    before: CounterSnapshot
    after: CounterSnapshot

    @property
    def deltas(self) -> tuple[CounterDelta, ...]:
        """What every counter did that did not stand still; the bytes of ports are always there."""
        return counters.deltas(self.before, self.after, still=False)

    @property
    def rails(self) -> tuple[RailBytes, ...]:
        """What every port sent and received."""
        return counters.rail_bytes(self.before, self.after)


@dataclass(frozen=True, slots=True)
class CaseCounters:
    """All nodes of one case."""

    nodes: tuple[NodeCounters, ...]
    """In the order of the launch; a node without both snapshots is in `problems`."""
    problems: tuple[str, ...]
    """`NODE: why`: of these nothing, or not everything, is known."""


def load(run: RunDir, case_id: str) -> CaseCounters | None:
    """The counters of a case; None = none were taken (an older run, or the launch did not start).

    Raises:
        RunDirError: an artefact is not readable.
    """
    return _parsed(of_case(run, case_id))


def between(run: RunDir, first_id: str, next_id: str) -> CaseCounters | None:
    """What the counters did after one case and before the next; None = it is not known.

    Raises:
        RunDirError: an artefact is not readable.
    """
    return _parsed(
        load_snapshots(
            run, f"cases/{first_id}/counters-after.json", f"cases/{next_id}/counters-before.json"
        )
    )


def _parsed(taken: tuple[NodeTexts, ...] | None) -> CaseCounters | None:
    if taken is None:
        return None
    nodes, problems = [], []
    for node in taken:
        problems += [f"{node.node}: {problem}" for problem in node.problems]
        if node.before is not None and node.after is not None:
            pair = attempt(functools.partial(_pair, node.node, node.before, node.after))
            if isinstance(pair, Fault):
                problems.append(f"{node.node}: its counters cannot be read: {pair.text}")
                continue
            problems += [
                f"{node.node}: {moment}: {problem}"
                for moment, each in zip(("before", "after"), pair, strict=True)
                for problem in each.problems
            ]
            nodes.append(NodeCounters(*pair))
    return CaseCounters(tuple(nodes), tuple(dict.fromkeys(problems)))


def _pair(node: str, before: Taken, after: Taken) -> tuple[CounterSnapshot, CounterSnapshot]:
    return counters.parse_pair(before.text, after.text, node, (before.path, after.path))
