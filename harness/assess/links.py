"""The fleet's link test: a row a node and rail, judged by the same blame model as the survey's
groups, and what it comes to as checks.

The model is handed each pair's slower direction as a group over that rail; in a second view what is
left of it while all rails of the pair are busy, which shows what rails share on the way to the
memory. A latency is compared with the level and the noise of the same rail of the others: what nodes
and the way between them take adds up, so no slowest part rules it. What cannot be measured is UNKNOWN
with the node's name, never PASS; where too few nodes were measured to compare, so are all.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.assess import layout
from busbw.checks import Check
from busbw.checks.links import ALL_RAILS, BANDWIDTH, LATENCY
from busbw.model import (
    Blame,
    CheckResult,
    Component,
    ComponentKind,
    Evidence,
    Status,
    Uncovered,
    worst,
)
from busbw.model.links import LinkRow, LinkTable, PortFacts
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.constants import DEVIATIONS
from busbw.parsers.blame.courses import PASSING
from busbw.parsers.blame.noise import spread
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline
from busbw.survey.link_baseline import LinkBaselineArtefact, PairTest
from busbw.survey.link_commands import PROGRAMS
from busbw.text import decoded
from busbw.units import format_link_rate

FEWEST_TESTS = 2
"""Partners with whom a rail must have been measured before it passes."""
SLOW_LATENCY = 2.0
"""Latency over the others', from which on it is late: the way through a spine adds about half of an
adapter's own microsecond."""
FEWEST_LATENCIES = 3
"""Partners with all of whom a late rail is late: of two, both may be so by chance or be late
themselves."""
_EXPECTED = "each rail carries what the same rail of the other nodes does"
_EXPECTED_TOGETHER = "all rails at once carry what they carry one by one"
_EXPECTED_LATENCY = "the latency of the same rail of the other nodes"


@dataclass(frozen=True, slots=True)
class View:
    """What the blame model says of the tests between memories of one kind."""

    memory: str
    """`host` or `gpu`."""
    bandwidth: BlameOutcome
    together: BlameOutcome
    """Of what is left while all rails are busy."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One row with what each check says of it."""

    row: LinkRow
    results: Mapping[str, tuple[Status, str]]
    """{check id: (status, why it is not PASS)}; what was not measured has none."""


@dataclass(frozen=True, slots=True)
class LinkTest:
    """What the link test of a run comes to."""

    table: LinkTable
    judged: tuple[Judged, ...]
    """Of the rows of `table`, in their order."""
    views: tuple[View, ...]
    failed: tuple[str, ...]
    """Tests that gave no number, each with its reason."""


@dataclass(slots=True)
class _Rail:
    """What was measured of one rail of one node."""

    sent: list[float] = dataclasses.field(default_factory=list)
    received: list[float] = dataclasses.field(default_factory=list)
    latency: list[float] = dataclasses.field(default_factory=list)
    together: list[float] = dataclasses.field(default_factory=list)
    partners: set[str] = dataclasses.field(default_factory=set)
    reasons: list[str] = dataclasses.field(default_factory=list)
    artefact: str = ""


def load(run: RunDir, plan: RunPlan) -> LinkTest | None:
    """The fleet's link test; None = the run made none.

    Raises:
        RunDirError: an artefact is not readable.
    """
    artefact = link_baseline.kept(run)
    if artefact is None or artefact.budget_s is None or artefact.origin:
        return None
    return judge(run, plan, artefact)


def judge(run: RunDir, plan: RunPlan, artefact: LinkBaselineArtefact) -> LinkTest:
    """What the rounds come to, also while more of them follow.

    Raises:
        RunDirError: the fabric's artefact is not readable.
    """
    ports = {
        node: link_baseline.parse_ports(decoded(run.kept(path))) for node, path in artefact.ports
    }
    tests = link_baseline.pair_tests(run, artefact)
    judged, views, failed = of_tests(plan, layout.fabric(run, plan), tests, artefact.memory, ports)
    table = LinkTable(
        tool=PROGRAMS.get(artefact.tool, artefact.tool.value),
        memory=artefact.memory,
        rounds=max((output.round for output in artefact.outputs), default=0),
        seconds=artefact.seconds,
        visible_loss=max(view.bandwidth.visible_loss for view in views),
        rows=tuple(each.row for each in judged),
    )
    return LinkTest(table, judged, views, failed)


def of_tests(
    plan: RunPlan,
    of_fabric: Fabric,
    tests: tuple[PairTest, ...],
    memory: str,
    ports: Mapping[str, Mapping[str, PortFacts]],
) -> tuple[tuple[Judged, ...], tuple[View, ...], tuple[str, ...]]:
    """(every rail judged, the views that judged them, the tests without a number and why).
    `memory`: `host`, `gpu`, or `both`."""
    views: list[View] = []
    judged: list[Judged] = []
    failed: list[str] = []
    for kind in ("host", "gpu") if memory == "both" else (memory,):
        own = tuple(test for test in tests if test.output.memory == kind)
        view = View(
            kind,
            blame.solve(samples(own), of_fabric),
            blame.solve(together_samples(own), of_fabric),
        )
        rails: dict[tuple[str, int], _Rail] = {
            (node.name, rail): _Rail()
            for node in plan.cluster.nodes
            for rail in range(max(1, len(node.data_interfaces)))
        }
        failed += [text for test in own for text in _gathered(test, rails)]
        judged += _rows(plan, rails, view, ports)
        views.append(view)
    return tuple(judged), tuple(views), tuple(dict.fromkeys(failed))


def samples(tests: tuple[PairTest, ...]) -> tuple[GroupSample, ...]:
    """Each rail of each pair as a group: its slower direction, in GB/s."""
    return tuple(
        _sample(test, rail, min(known) / 8)
        for test in tests
        for rail in range(len(test.output.interfaces))
        if (known := _directions(test, rail))
    )


def together_samples(tests: tuple[PairTest, ...]) -> tuple[GroupSample, ...]:
    """Each rail of each pair as a group: the share of its rate that is left while all rails of the
    pair are busy."""
    return tuple(
        _sample(test, rail, share, "-together")
        for test in tests
        for rail in range(len(test.output.interfaces))
        if (share := _left(test, rail)) is not None
    )


def _sample(test: PairTest, rail: int, value: float, side_by_side: str = "") -> GroupSample:
    """`side_by_side`: what the names of the launches have in common, where all rails ran at
    once."""
    return GroupSample(
        test.output.pair,
        1,
        (value,),
        test.output.path or f"raw/{link_baseline.FILE}",
        launch=f"links-{test.output.round}{side_by_side}-rail-{rail}",
        rail=rail if len(test.output.interfaces) > 1 else None,
        concurrent_with=f"links-{test.output.round}{side_by_side}" if side_by_side else "",
    )


def _directions(test: PairTest, rail: int) -> list[float]:
    """Both directions in Gbit/s; [] = one of them was not measured."""
    rates = [rate.gbit_s for rate in test.rates if rate.rail == rail]
    known = [rate for rate in rates if rate is not None]
    return known if len(known) == len(rates) and len(rates) > 1 else []


def _left(test: PairTest, rail: int) -> float | None:
    """The share of a rail's rate that is left while all rails are busy, in the direction that
    loses more; None = not measured in both."""
    rates = [rate for rate in test.rates if rate.rail == rail]
    shares = [
        rate.together_gbit_s / rate.gbit_s
        for rate in rates
        if rate.gbit_s and rate.together_gbit_s is not None
    ]
    return min(shares) if len(shares) == len(rates) and len(rates) > 1 else None


def _gathered(test: PairTest, rails: dict[tuple[str, int], _Rail]) -> list[str]:
    """Adds one pair's numbers to the rails of both nodes; returns what failed."""
    first, second = test.output.pair
    failed = []
    for rail in range(max(1, len(test.output.interfaces))):
        own = [rails[node, rail] for node in test.output.pair if (node, rail) in rails]
        if len(own) < 2:
            continue
        rates = [rate for rate in test.rates if rate.rail == rail]
        there = next((rate.gbit_s for rate in rates if not rate.reverse), None)
        back = next((rate.gbit_s for rate in rates if rate.reverse), None)
        if there is None or back is None:
            why = test.output.problem or next((rate.problem for rate in rates if rate.problem), "")
            why = why or "no result"
            for node, record in zip(test.output.pair, own, strict=True):
                if test.output.at_fault in ("", node):
                    record.reasons.append(why)
                else:
                    record.reasons.append(f"with {test.output.at_fault}: {why}")
            failed.append(f"{first} – {second} round {test.output.round}: {why}")
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
        latency = (
            test.latencies.get(test.output.interfaces[rail]) if test.output.interfaces else None
        )
        left = _left(test, rail)
        for record in own:
            record.together += [left] if left is not None else []
            record.artefact = record.artefact or test.output.path or ""
            record.latency += [latency] if latency is not None else []
    return failed


def _rows(
    plan: RunPlan,
    rails: dict[tuple[str, int], _Rail],
    view: View,
    ports: Mapping[str, Mapping[str, PortFacts]],
) -> tuple[Judged, ...]:
    usual: dict[int, list[float]] = {}
    waits: dict[int, list[float]] = {}
    kept = [statistics.median(record.together) for record in rails.values() if record.together]
    for (_, rail), record in rails.items():
        if record.sent and record.received:
            usual.setdefault(rail, []).append(_slower(record))
        if record.latency:
            waits.setdefault(rail, []).append(min(record.latency))
    rows = []
    for (node, rail), record in rails.items():
        interfaces = plan.cluster.node(node).data_interfaces
        name = interfaces[rail] if rail < len(interfaces) else ""
        share = None
        if record.sent and record.received and statistics.median(usual[rail]) > 0:
            share = _slower(record) / statistics.median(usual[rail])
        latency_us = statistics.median(record.latency) if record.latency else None
        row = LinkRow(
            node,
            rail,
            name,
            statistics.median(record.sent) if record.sent else None,
            statistics.median(record.received) if record.received else None,
            latency_us,
            len(record.partners),
            share,
            Status.PASS,
            "",
            ports.get(node, {}).get(name) or PortFacts(problem="not asked"),
            record.artefact,
            view.memory,
            statistics.median(record.together) if record.together else None,
        )
        results = {BANDWIDTH.id: _judged(row, record, view.bandwidth)}
        if row.together is not None:
            results[ALL_RAILS.id] = _judged_together(row, statistics.median(kept), view.together)
        if len(record.latency) >= FEWEST_LATENCIES:
            results[LATENCY.id] = _judged_latency(min(record.latency), waits[rail])
        status = worst(tuple(each for each, _ in results.values()))
        why = "; ".join(text for _, text in results.values() if text)
        rows.append(Judged(dataclasses.replace(row, status=status, why=why), results))
    return tuple(rows)


def _slower(record: _Rail) -> float:
    return min(statistics.median(record.sent), statistics.median(record.received))


def _judged(row: LinkRow, record: _Rail, outcome: BlameOutcome) -> tuple[Status, str]:
    """What the blame model says of one rail by itself, where it was measured."""
    if not record.partners:
        own = [text for text in record.reasons if not text.startswith("with ")]
        why = next(iter((*own, *record.reasons)), "no test of it was made within the budget")
        return Status.UNKNOWN, f"not measured: {why}"
    flagged = _flagged(row, outcome)
    if flagged is not None:
        doubt = " (one of several that would explain it)" if flagged.also else ""
        return Status.FAIL, f"{_part(row, flagged).label} is slow{doubt}"
    if outcome.reference_gb_s is None:
        why = outcome.inseparable or "too few pairs were measured to compare"
        return Status.UNKNOWN, f"measured, not compared: {why}"
    for doubt_of in outcome.open:
        part = doubt_of.account.part
        if _holds(part, row.node, row.rail):
            return Status.UNKNOWN, f"{part.label} may be slow: too few tests to tell"
    if len(record.partners) < FEWEST_TESTS:
        return Status.UNKNOWN, "measured with one partner only"
    if row.share is not None and row.share < 1 - PASSING:
        return Status.UNKNOWN, f"{row.share:.0%} of the others: too few tests to flag it"
    return Status.PASS, ""


def _judged_together(row: LinkRow, usual: float, outcome: BlameOutcome) -> tuple[Status, str]:
    """What is left of its rate while all rails are busy. `usual`: of all rails of the fleet."""
    flagged, left = _flagged(row, outcome), row.together
    if left is None or left >= 1 - PASSING:
        return Status.PASS, ""
    if flagged is None:
        others = "as of most" if usual < 1 - PASSING else f"most keep {usual:.0%}"
        return Status.WARN, f"{left:.0%} of its rate with all rails busy, {others}"
    part = _part(row, flagged)
    return Status.FAIL, f"{part.label} keeps {left:.0%} of its rate with all rails busy"


def _judged_latency(own_us: float, all_us: list[float]) -> tuple[Status, str]:
    """Its latency to the partner that answered soonest, among those of all nodes: late is what lies
    far above them with every partner."""
    level_us = statistics.median(all_us)
    late = own_us >= SLOW_LATENCY * level_us and own_us >= level_us + DEVIATIONS * spread(all_us)
    if not late:
        return Status.PASS, ""
    return Status.WARN, f"answers late to every partner: {own_us / level_us:.3g} times the others"


def _flagged(row: LinkRow, outcome: BlameOutcome) -> Blame | None:
    """The blame that holds the rail, by itself or with others that would explain it too."""
    for each in outcome.blames:
        if any(_holds(part, row.node, row.rail) for part in (each.component, *each.also)):
            return each
    return None


def _part(row: LinkRow, flagged: Blame) -> Component:
    parts = (flagged.component, *flagged.also)
    return next(part for part in parts if _holds(part, row.node, row.rail))


def _holds(part: Component, node: str, rail: int) -> bool:
    """A node's rail, the node with all its rails, or a pair of nodes."""
    if part.kind not in (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.PAIR):
        return False
    return node in part.names and part.rail in (None, rail)


def settled(test: LinkTest) -> bool:
    """More rounds would say nothing new: nothing is suspected without being flagged."""
    unsure = (
        each.row.share is not None
        and each.row.share < 1 - PASSING
        and each.results[BANDWIDTH.id][0] is Status.UNKNOWN
        for each in test.judged
    )
    is_open = any(view.bandwidth.open for view in test.views)
    shared = (
        each.results.get(ALL_RAILS.id, (Status.PASS, ""))[0] is Status.WARN
        and any(
            _holds(doubt.account.part, each.row.node, each.row.rail)
            for view in test.views
            for doubt in view.together.open
        )
        for each in test.judged
    )
    return not is_open and not any(unsure) and not any(shared)


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
    by_node: dict[str, list[Judged]] = {}
    for judged in test.judged:
        by_node.setdefault(judged.row.node, []).append(judged)
    results = [
        _of_node(check, node, own, test)
        for node, rows in by_node.items()
        for check in (BANDWIDTH, ALL_RAILS, LATENCY)
        if (own := [each for each in rows if check.id in each.results])
    ]
    for each in (blamed for view in test.views for blamed in view.bandwidth.blames):
        part = each.component
        if part.kind not in (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.PAIR):
            text = f"{part.label}: {_rate(each.capacity_gb_s)} of {_rate(each.expected_gb_s)}"
            results.append(
                CheckResult(
                    BANDWIDTH.id, part.label, Status.FAIL, text, _EXPECTED, "busbw check --links",
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


_SAID = {
    BANDWIDTH.id: ("{} of {} rails like the others'", _EXPECTED),
    ALL_RAILS.id: ("{} of {} rails as fast beside the others as alone", _EXPECTED_TOGETHER),
    LATENCY.id: ("{} of {} rails answer as fast as the others'", _EXPECTED_LATENCY),
}
"""What is seen where all is well, and what is expected."""


def _of_node(check: Check, node: str, rows: list[Judged], test: LinkTest) -> CheckResult:
    status = worst(tuple(each.results[check.id][0] for each in rows))
    bad = [each for each in rows if each.results[check.id][0] is status]
    well, expected = _SAID[check.id]
    seen, reason = well.format(len(rows), len(rows)), ""
    if status is not Status.PASS:
        seen = "; ".join(filter(None, (_seen(check, each.row, status) for each in bad)))
        reason = "; ".join(dict.fromkeys(each.results[check.id][1] for each in bad))
    path = bad[0].row.artefact or f"raw/{link_baseline.FILE}"
    return CheckResult(
        check.id,
        node,
        status,
        seen or "not measured",
        expected,
        "busbw check --links",
        reason,
        Evidence(path, None, reason or seen),
    )


def _seen(check: Check, row: LinkRow, status: Status) -> str:
    name = row.interface or f"rail {row.rail}"
    if check is ALL_RAILS and row.together is not None:
        return f"{shown(row)} by itself, {row.together:.0%} of it with all rails busy"
    if check is LATENCY and row.latency_us is not None:
        return f"{name} answers in {row.latency_us:.3g} µs"
    if status is Status.UNKNOWN:
        return row.interface
    share = f", {row.share:.0%} of the others" if row.share is not None else ""
    memory = f" ({row.memory} memory)" if row.memory != "host" else ""
    return f"{shown(row)}{memory}{share}"


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
