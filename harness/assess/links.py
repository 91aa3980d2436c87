"""The fleet's link test: a row a node and rail, judged by the same blame model as the survey's
groups, and what it comes to as checks.

The model is handed each pair's slower direction as a group over that rail. What cannot be measured
is UNKNOWN with the node's name, never PASS; where too few nodes were measured to compare, so are
all.
"""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass

from busbw.assess import fabric
from busbw.checks.links import BANDWIDTH
from busbw.model import (
    CheckResult,
    Component,
    ComponentKind,
    Evidence,
    Status,
    Uncovered,
)
from busbw.model.links import LinkRow, LinkTable, PortFacts
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.findings import PASSING
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store import artefacts
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline
from busbw.survey.link_baseline import LinkBaselineArtefact, PairTest
from busbw.text import decoded
from busbw.units import format_link_rate

FEWEST_TESTS = 2
"""Partners with whom a rail must have been measured before it passes."""
_EXPECTED = "each rail carries what the same rail of the other nodes does"


@dataclass(frozen=True, slots=True)
class LinkTest:
    """What the link test of a run comes to."""

    table: LinkTable
    outcome: BlameOutcome
    failed: tuple[str, ...]
    """Tests that gave no number, each with its reason."""


@dataclass(slots=True)
class _Rail:
    """What was measured of one rail of one node."""

    sent: list[float] = dataclasses.field(default_factory=list)
    received: list[float] = dataclasses.field(default_factory=list)
    latency: list[float] = dataclasses.field(default_factory=list)
    partners: set[str] = dataclasses.field(default_factory=set)
    reasons: list[str] = dataclasses.field(default_factory=list)
    artefact: str = ""


def load(run: RunDir, plan: RunPlan) -> LinkTest | None:
    """The fleet's link test; None = the run made none.

    Raises:
        RunDirError: an artefact is not readable.
    """
    artefact = artefacts.load(run, link_baseline.FILE, LinkBaselineArtefact)
    if artefact is None or artefact.budget_s is None or artefact.origin:
        return None
    return judge(run, plan, artefact)


def judge(run: RunDir, plan: RunPlan, artefact: LinkBaselineArtefact) -> LinkTest:
    """What the rounds come to, also while more of them follow.

    Raises:
        RunDirError: the fabric's artefact is not readable.
    """
    tests = link_baseline.pair_tests(run, artefact)
    outcome = blame.solve(samples(tests), fabric.fabric(run, plan))
    rails: dict[tuple[str, int], _Rail] = {
        (node.name, rail): _Rail()
        for node in plan.cluster.nodes
        for rail in range(max(1, len(node.data_interfaces)))
    }
    failed = [text for test in tests for text in _gathered(test, rails)]
    ports = {
        node: link_baseline.parse_ports(decoded(run.read_raw(path.removeprefix("raw/"))))
        for node, path in artefact.ports
    }
    rows = _rows(plan, rails, outcome, ports)
    table = LinkTable(
        tool=link_baseline.PROGRAMS.get(artefact.tool, artefact.tool.value),
        memory=artefact.memory,
        rounds=max(artefact.rounds, default=0),
        seconds=artefact.seconds,
        visible_loss=outcome.visible_loss,
        rows=rows,
    )
    return LinkTest(table, outcome, tuple(dict.fromkeys(failed)))


def samples(tests: tuple[PairTest, ...]) -> tuple[GroupSample, ...]:
    """Each rail of each pair as a group: its slower direction, in GB/s."""
    found = []
    for test in tests:
        for rail in range(len(test.interfaces)):
            rates = [rate.gbit_s for rate in test.rates if rate.rail == rail]
            known = [rate / 8 for rate in rates if rate is not None]
            if not known or len(known) < len(rates) or len(rates) < 2:
                continue
            found.append(
                GroupSample(
                    test.pair,
                    1,
                    (min(known),),
                    test.path or f"raw/{link_baseline.FILE}",
                    launch=f"links-{test.round}-rail-{rail}",
                    rail=rail if len(test.interfaces) > 1 else None,
                )
            )
    return tuple(found)


def _gathered(test: PairTest, rails: dict[tuple[str, int], _Rail]) -> list[str]:
    """Adds one pair's numbers to the rails of both nodes; returns what failed."""
    first, second = test.pair
    failed = []
    for rail in range(max(1, len(test.interfaces))):
        own = [rails[node, rail] for node in test.pair if (node, rail) in rails]
        if len(own) < 2:
            continue
        rates = [rate for rate in test.rates if rate.rail == rail]
        there = next((rate.gbit_s for rate in rates if not rate.reverse), None)
        back = next((rate.gbit_s for rate in rates if rate.reverse), None)
        if there is None or back is None:
            why = test.problem or next((rate.problem for rate in rates if rate.problem), "")
            why = why or "no result"
            for node, record in zip(test.pair, own, strict=True):
                if test.at_fault in ("", node):
                    record.reasons.append(why)
                else:
                    record.reasons.append(f"with {test.at_fault}: {why}")
            failed.append(f"{first} – {second} round {test.round}: {why}")
        else:
            own[0].partners.add(second)
            own[1].partners.add(first)
        client, server = own
        if there is not None:
            client.sent.append(there)
            server.received.append(there)
        if back is not None:
            server.sent.append(back)
            client.received.append(back)
        latency = test.latencies.get(test.interfaces[rail]) if test.interfaces else None
        for record in own:
            record.artefact = record.artefact or test.path or ""
            record.latency += [latency] if latency is not None else []
    return failed


def _rows(
    plan: RunPlan,
    rails: dict[tuple[str, int], _Rail],
    outcome: BlameOutcome,
    ports: dict[str, dict[str, PortFacts]],
) -> tuple[LinkRow, ...]:
    usual: dict[int, list[float]] = {}
    for (_, rail), record in rails.items():
        if record.sent and record.received:
            usual.setdefault(rail, []).append(_slower(record))
    rows = []
    for (node, rail), record in rails.items():
        interfaces = plan.cluster.node(node).data_interfaces
        name = interfaces[rail] if rail < len(interfaces) else ""
        share = None
        if record.sent and record.received and statistics.median(usual[rail]) > 0:
            share = _slower(record) / statistics.median(usual[rail])
        status, why = _judged(node, rail, record, outcome)
        if status is Status.PASS and share is not None and share < 1 - PASSING:
            status, why = Status.UNKNOWN, f"{share:.0%} of the others: too few tests to flag it"
        port = ports.get(node, {}).get(name) or PortFacts(problem="not asked")
        rows.append(
            LinkRow(
                node,
                rail,
                name,
                statistics.median(record.sent) if record.sent else None,
                statistics.median(record.received) if record.received else None,
                statistics.median(record.latency) if record.latency else None,
                len(record.partners),
                share,
                status,
                why,
                port,
                record.artefact,
            )
        )
    return tuple(rows)


def _slower(record: _Rail) -> float:
    return min(statistics.median(record.sent), statistics.median(record.received))


def _judged(node: str, rail: int, record: _Rail, outcome: BlameOutcome) -> tuple[Status, str]:
    """What the blame model says of one rail, where it was measured."""
    if not record.partners:
        own = [text for text in record.reasons if not text.startswith("with ")]
        why = next(iter((*own, *record.reasons)), "no test of it was made within the budget")
        return Status.UNKNOWN, f"not measured: {why}"
    for each in outcome.blames:
        for part in (each.component, *each.also):
            if _holds(part, node, rail):
                doubt = " (one of several that would explain it)" if each.also else ""
                return Status.FAIL, f"{part.label} is slow{doubt}"
    if outcome.reference_gb_s is None:
        why = outcome.inseparable or "too few pairs were measured to compare"
        return Status.UNKNOWN, f"measured, not compared: {why}"
    for doubt_of in outcome.open:
        part = doubt_of.account.part
        if _holds(part, node, rail):
            return Status.UNKNOWN, f"{part.label} may be slow: too few tests to tell"
    if len(record.partners) < FEWEST_TESTS:
        return Status.UNKNOWN, "measured with one partner only"
    return Status.PASS, ""


def _holds(part: Component, node: str, rail: int) -> bool:
    """A node's rail, the node with all its rails, or a pair of nodes."""
    if part.kind not in (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.PAIR):
        return False
    return node in part.names and part.rail in (None, rail)


def settled(test: LinkTest) -> bool:
    """More rounds would say nothing new: nothing is suspected without being flagged."""
    slow = (row.share is not None and row.share < 1 - PASSING for row in test.table.rows)
    unsure = (
        is_slow and row.status is Status.UNKNOWN
        for is_slow, row in zip(slow, test.table.rows, strict=True)
    )
    return not test.outcome.open and not any(unsure)


def table(run: RunDir, plan: RunPlan) -> LinkTable | None:
    """The rows alone; None = the run made no link test.

    Raises:
        RunDirError: an artefact is not readable.
    """
    test = load(run, plan)
    return test.table if test is not None else None


def checks(run: RunDir, plan: RunPlan) -> tuple[CheckResult, ...]:
    """A result for each node, and one for each slow part that belongs to no node; () = the run made
    no link test.

    Raises:
        RunDirError: an artefact is not readable.
    """
    test = load(run, plan)
    if test is None:
        return ()
    by_node: dict[str, list[LinkRow]] = {}
    for row in test.table.rows:
        by_node.setdefault(row.node, []).append(row)
    results = [_of_node(node, rows, test) for node, rows in by_node.items()]
    for each in test.outcome.blames:
        part = each.component
        if part.kind not in (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.PAIR):
            text = f"{part.label}: {_rate(each.capacity_gb_s)} of {_rate(each.expected_gb_s)}"
            results.append(
                CheckResult(
                    BANDWIDTH.id, part.label, Status.FAIL, text, _EXPECTED, test.table.tool,
                    evidence=each.seen_in[0] if each.seen_in else None,
                )
            )  # fmt: skip
    return tuple(results)


def _rate(gb_s: float | None) -> str:
    return format_link_rate(float(f"{8e9 * gb_s:.3g}")) if gb_s is not None else "?"


def shown(row: LinkRow) -> str:
    """Both directions of a rail: `eth0 sends 9.4 Gb/s, receives 4.1 Gb/s`."""
    sent = _rate(row.sent_gbit_s / 8) if row.sent_gbit_s is not None else "nothing measured"
    received = (
        _rate(row.received_gbit_s / 8) if row.received_gbit_s is not None else "nothing measured"
    )
    return f"{row.interface or f'rail {row.rail}'} sends {sent}, receives {received}"


def _of_node(node: str, rows: list[LinkRow], test: LinkTest) -> CheckResult:
    order = (Status.FAIL, Status.UNKNOWN)
    worst = next((s for s in order if any(row.status is s for row in rows)), Status.PASS)
    bad = [row for row in rows if row.status is worst] if worst is not Status.PASS else []
    measured = f"{len(rows)} of {len(rows)} rails like the others'"
    if worst is Status.PASS:
        seen = measured
    else:
        parts = []
        for row in bad:
            share = f", {row.share:.0%} of the others" if row.share is not None else ""
            parts.append(f"{shown(row)}{share}" if worst is Status.FAIL else row.interface)
        seen = "; ".join(filter(None, parts)) or "not measured"
    reason = "; ".join(dict.fromkeys(row.why for row in bad)) if bad else ""
    first = (bad or rows)[0]
    path = first.artefact or f"raw/{link_baseline.FILE}"
    return CheckResult(
        BANDWIDTH.id,
        node,
        worst,
        seen,
        _EXPECTED,
        f"{test.table.tool}, {test.table.rounds} rounds of disjoint pairs",
        reason,
        Evidence(path, None, reason or seen),
    )


def uncovered(test: LinkTest) -> tuple[Uncovered, ...]:
    """What the link test leaves open though it passes."""
    gaps = [
        Uncovered(
            "the absolute rate of the links",
            "rails are compared with each other: all of them equally slow would pass",
            "busbw check compares the ports' rates with what the inventory says",
        )
    ]
    if test.failed:
        gaps.append(
            Uncovered(
                f"{len(test.failed)} test{'' if len(test.failed) == 1 else 's'} between nodes",
                "; ".join(test.failed[:3]),
                "busbw check --links again",
            )
        )
    return tuple(gaps)
