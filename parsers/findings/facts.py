"""What records say under the names that the table's expressions read: benchmark results, checks,
comparisons."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, quantiles, stdev

from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    CheckResult,
    Comparison,
    Evidence,
    Measurement,
    Status,
)
from busbw.model.counters import CounterDelta, NicPort
from busbw.parsers import tools
from busbw.parsers.findings.catalogue import load as load_catalogue
from busbw.parsers.findings.evidence import COUNTER, RESULT, Fact
from busbw.parsers.findings.expr import Value
from busbw.parsers.stats import spikes, spread
from busbw.parsers.tools.counters import IB_WORD_BYTES, LEVELS
from busbw.text import whole_number

# What counters did during a benchmark, under the names that the table's `counter:` expressions
# read.
#
# A counter that stood still says nothing by itself on a node that did not use it. So nothing that
# did not move becomes a fact, with two exceptions: a stated rail that carried nothing while its
# peers did, and the congestion notifications of a port that was paused.

_SENT = "port_xmit_data"
_WAIT = "port_xmit_wait"
_LEAST_WAIT = 1000
"""Ticks below which waits for credits are not compared: a few are seen on idle ports."""
_SUMS = {
    "roce_slow_restart": ("roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans")
}
"""Names of the table that stand for several files."""
_WHEN_PAUSED = ("np_cnp_sent", "rp_cnp_handled")


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What the counters of one node did during one benchmark."""

    node: str
    changes: tuple[CounterDelta, ...]
    ports: tuple[NicPort, ...]
    artefact: str
    """Where the later text is kept, inside the run directory."""
    rails: tuple[str, ...] = ()
    """RDMA devices or interfaces that the job is to use, as the inventory states them; () = not
    stated, so that none can be missing."""

    def is_rail(self, device: str) -> bool:
        """Whether that RDMA device, or the interface over it, is one of the stated rails."""
        if device in self.rails or f"{device}:1" in self.rails:
            return True
        return device in self.devices_of(self.rails)

    def devices_of(self, interfaces: Collection[str]) -> frozenset[str]:
        """The RDMA devices over these interfaces."""
        return frozenset(port.device for port in self.ports if port.interface in interfaces)


@functools.cache
def _table_counters() -> re.Pattern[str]:
    """The counters that the table reads; a `*` in a name stands for digits."""
    names = set()
    for symptom in load_catalogue().entries:
        for signal in symptom.signals:
            source, _, name = signal.source.partition(":")
            if source == COUNTER:
                names.add(re.escape(name).replace(r"\*", "[0-9]+"))
    return re.compile("|".join(sorted(names)))


def from_counters(nodes: Sequence[NodeChanges]) -> tuple[Fact, ...]:
    """The facts of all nodes of one benchmark."""
    facts: list[Fact] = []
    for node in nodes:
        paused = _paused_devices(node)
        for change in (*node.changes, *_summed(node.changes)):
            if change.counter in (_SENT, _WAIT) or not _table_counters().fullmatch(change.counter):
                continue
            values = _values(change, node, paused)
            if values:
                facts.append(_fact(change, node, values))
        facts += _rails(node)
    return (*facts, *_waits(nodes))


def _values(
    change: CounterDelta, node: NodeChanges, paused: frozenset[str]
) -> list[tuple[str, Value]]:
    delta, after, seconds = change.delta, change.after, change.seconds
    if change.counter in LEVELS:
        return [("value", float(after))] if after else []
    if delta is None:
        return []
    if delta == 0 and not (change.counter in _WHEN_PAUSED and change.device in paused):
        return []
    values: list[tuple[str, Value]] = [("delta", float(delta))]
    if after is not None:
        values.append(("value", float(after)))
    if seconds:
        values += [("rate_per_sec", delta / seconds), ("rate_per_min", delta / seconds * 60)]
        if change.counter.endswith("_pause_duration"):
            # Microseconds on mlx5.
            values.append(("share_of_time", delta / (seconds * 1e6)))
    if change.counter.endswith("_bytes"):
        rdma_bytes = _rdma_bytes(node, change)
        if rdma_bytes:
            values.append(("share_of_rdma", delta / rdma_bytes))
    return values


def _rdma_bytes(node: NodeChanges, change: CounterDelta) -> float | None:
    """Bytes of RDMA on the port over which this interface stands; None = not known."""
    devices = node.devices_of({change.device})
    name = _SENT if change.counter.startswith("tx_") else "port_rcv_data"
    total = None
    for other in node.changes:
        if other.device in devices and other.counter == name:
            if other.delta is None:
                return None
            total = (total or 0) + other.delta
    return None if total is None else float(total * IB_WORD_BYTES)


def _paused_devices(node: NodeChanges) -> frozenset[str]:
    """RDMA devices whose interface received pause frames."""
    interfaces = set()
    for change in node.changes:
        is_pause = change.counter.startswith("rx_prio") and change.counter.endswith("_pause")
        if is_pause and change.delta:
            interfaces.add(change.device)
    return node.devices_of(interfaces)


def _summed(changes: Iterable[CounterDelta]) -> list[CounterDelta]:
    """The changes of `_SUMS`, each the sum of its files on one device."""
    totals: dict[tuple[str, str], CounterDelta] = {}
    for change in changes:
        for name, parts in _SUMS.items():
            if change.counter not in parts or change.counter == name or change.delta is None:
                continue
            key = (name, change.device)
            if key not in totals:
                totals[key] = replace(change, counter=name, before=None, after=None)
            else:
                total = totals[key].delta or 0
                totals[key] = replace(totals[key], delta=total + change.delta)
    return list(totals.values())


def _rails(node: NodeChanges) -> list[Fact]:
    """How evenly the stated rails sent, and those that sent nothing."""
    rails: dict[str, tuple[float, CounterDelta]] = {}
    for change in node.changes:
        if change.counter == _SENT and change.delta is not None and node.is_rail(change.device):
            rails[change.device] = (float(change.delta), change)
    ordered = sorted(rails.values(), key=lambda rail: rail[0])
    if len(ordered) < 2 or not ordered[-1][0]:
        return []
    most, top = max(rails.values(), key=lambda rail: rail[0])
    mean = fmean(words for words, _ in rails.values())
    facts = [_fact(top, node, [("delta", most), ("imbalance", most / mean)])]
    for words, change in ordered:
        if not words:
            # The least that another rail sent.
            least = ordered[1 if change is ordered[0][1] else 0][0]
            facts.append(_fact(change, node, [("delta", 0.0), ("peers_delta", least)]))
    return facts


def _waits(nodes: Sequence[NodeChanges]) -> list[Fact]:
    """Waits for credits per word sent, against the mean of all stated rails."""
    waits: list[tuple[float, CounterDelta, NodeChanges]] = []
    for node in nodes:
        sent = {each.device: each.delta for each in node.changes if each.counter == _SENT}
        for change in node.changes:
            words = sent.get(change.device)
            is_wait = change.counter == _WAIT and node.is_rail(change.device)
            if is_wait and change.delta is not None and words:
                waits.append((change.delta / words, change, node))
    shares = [share for share, _, _ in waits]
    if len(shares) < 3 or not any(shares):
        return []
    most, mean = max(shares), fmean(shares)
    facts = []
    for share, change, node in waits:
        ticks = float(change.delta or 0)
        if ticks >= _LEAST_WAIT and share == most:
            facts.append(_fact(change, node, [("delta", ticks), ("imbalance", share / mean)]))
    return facts


def _fact(change: CounterDelta, node: NodeChanges, values: Sequence[tuple[str, Value]]) -> Fact:
    text = f"{change.node} {change.device} {change.counter}"
    if change.delta is not None:
        text += f" +{change.delta}"
    if change.before is not None and change.after is not None:
        text += f" ({change.before} → {change.after})"
    if change.seconds:
        text += f" in {change.seconds:g} s"
    # The totals of a whole node (TCP) have no device of their own.
    where = (change.node,) if change.device == "tcp" else (change.node, change.device)
    evidence = Evidence(node.artefact, change.line_no, text)
    return Fact(f"{COUNTER}:{change.counter}", tuple(values), evidence, where)


# What the outputs of a node's tools say, handed in as texts.


def from_tools(artefact: str, text: str) -> tuple[Fact, ...]:
    """The facts in the outputs of tools that are in a text."""
    return from_outputs(artefact, text, tools.read(text))


def from_outputs(artefact: str, text: str, outputs: Iterable[tools.Reading]) -> tuple[Fact, ...]:
    """The facts in outputs of tools that were read from a text."""
    facts = []
    for each in (fact for output in outputs for fact in output.facts):
        evidence = Evidence(artefact, _line_of(text, each.subject), each.subject)
        where = (each.subject,) if each.subject else ()
        facts.append(Fact(f"preflight:{each.check_id}", each.values, evidence, where))
    return tuple(facts)


def tool_errors(artefact: str, text: str, outputs: Iterable[tools.Reading]) -> tuple[Evidence, ...]:
    """What tools report as errors, each at its line where it quotes one."""
    errors = dict.fromkeys(error for output in outputs for error in output.errors)
    return tuple(
        Evidence(artefact, _line_of(text, error.partition(": ")[2]), error) for error in errors
    )


def _line_of(text: str, name: str) -> int | None:
    """The first line with the name; None = it is about the whole."""
    if not name or name not in text:
        return None
    return text.count("\n", 0, text.index(name)) + 1


def node_differences(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """What differs between the nodes of several texts."""
    drivers: dict[str, Evidence] = {}
    for fact in facts:
        if fact.source == "preflight:gpu.driver":
            drivers.setdefault(str(fact.record().get("version")), fact.evidence)
    if len(drivers) < 2:
        return ()
    differences = []
    for version, evidence in sorted(drivers.items()):
        values = (("distinct", float(len(drivers))), ("version", version))
        differences.append(Fact("preflight:cross.driver", values, evidence))
    return tuple(differences)


_FEWEST = 3
"""Processes, or iterations, from which on a spread is computed."""
_ENOUGH_FOR_A_TAIL = 20
_PLAN = (("iters", ("iters", "iterations")), ("warmup", ("warmup iters", "warmup_iters", "warmup")))
"""Names of the table's expressions, and of the configuration as versions of nccl-tests write it."""


def from_records(artefact: str, records: Sequence[object]) -> tuple[Fact, ...]:
    """The facts in what the formats read from one text."""
    tables = [record for record in records if isinstance(record, BenchmarkResult)]
    return (_benchmark(artefact, tables),) if tables else ()


_JUDGED_BY_RUNS = frozenset({"max_bytes", "iters", "warmup", "iter_cv"})


def of_run(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts of a run's own outputs, without the sizes and repeats that its playbook chose, and
    without the spread of one table, which the run judges over its launches."""
    return tuple(
        replace(fact, values=tuple(each for each in fact.values if each[0] not in _JUDGED_BY_RUNS))
        for fact in facts
    )


def _benchmark(artefact: str, tables: Sequence[BenchmarkResult]) -> Fact:
    values: list[tuple[str, Value]] = []
    wrong: list[int | None] = []
    single_rank_tables = 0
    rows: list[BenchmarkRow] = []
    for table in tables:
        rows += table.rows
        single_rank_tables += table.nranks == 1
    for row in rows:
        for measurement in (row.out_of_place, row.in_place):
            if measurement is not None:
                wrong.append(measurement.wrong)
    values += _number("wrong_count", sum, wrong)
    if single_rank_tables > 1:
        values.append(("header_count", float(single_rank_tables)))
    if rows and all(table.complete for table in tables):
        values.append(("max_bytes", float(max(row.size_bytes for row in rows))))
    largest = _at_largest(rows)
    if largest is not None:
        values.append(("busbw", largest.busbw_gb_s))
        if largest.iter_cv_percent is not None:
            values.append(("iter_cv", largest.iter_cv_percent / 100))
    values += _spread(tables)
    for name, settings in _PLAN:
        values += _number(name, min, _planned(tables, settings))
    values += _number("nranks", max, [table.nranks for table in tables])
    values += _number("nodes", max, [table.nodes for table in tables])
    values += _same("collective", [table.collective for table in tables])
    values += _same("gpu", [line.device_name for table in tables for line in table.ranks])
    return Fact(RESULT, tuple(values), _first_wrong(artefact, rows))


def _same(name: str, texts: Sequence[str | None]) -> list[tuple[str, Value]]:
    """The text that all have; none where they differ or it is not known."""
    first = texts[0] if texts else None
    return [(name, first)] if first and set(texts) == {first} else []


def _first_wrong(artefact: str, rows: Iterable[BenchmarkRow]) -> Evidence:
    """The first row with wrong data; of good rows the table as a whole."""
    for row in rows:
        for measurement, side in ((row.out_of_place, "out of place"), (row.in_place, "in place")):
            if measurement is not None and measurement.wrong:
                wrong = f"{measurement.wrong} wrong elements"
                text = f"nccl-tests, first at {row.size_bytes} B {side} ({wrong})"
                return Evidence(artefact, row.line_no, text)
    return Evidence(artefact, None, "nccl-tests")


def _number(
    name: str, fold: Callable[[Iterable[int]], int], numbers: Iterable[int | None]
) -> list[tuple[str, Value]]:
    """The known numbers folded into one value under its name; [] = none is known."""
    known = [number for number in numbers if number is not None]
    return [(name, float(fold(known)))] if known else []


def _planned(tables: Sequence[BenchmarkResult], settings: Collection[str]) -> list[int]:
    numbers = []
    for table in tables:
        for name, text in table.config:
            number = whole_number(text) if name in settings else None
            if number is not None:
                numbers.append(number)
    return numbers


def _spread(tables: Sequence[BenchmarkResult]) -> list[tuple[str, Value]]:
    """How much the processes differ, and the iterations of one process, at the largest size that
    was timed one by one."""
    timed = [each for table in tables for each in table.process_times if not each.in_place]
    largest = max((each.size_bytes for each in timed), default=0)
    values: list[tuple[str, Value]] = []
    speeds, tails = [], []
    for each in timed:
        if each.size_bytes == largest and len(each.times_us) >= _FEWEST:
            speeds.append(1 / fmean(each.times_us))
            if len(each.times_us) >= _ENOUGH_FOR_A_TAIL:
                tails.append(quantiles(each.times_us, n=100)[-1] / median(each.times_us))
    if len(speeds) >= _FEWEST:
        values.append(("rank_cv", stdev(speeds) / fmean(speeds)))
    if tails:
        values.append(("iter_p99_over_median", max(tails)))
    for series in spread.iterations(tuple(timed)):
        if series.size_bytes == largest:
            period = spikes.period(spikes.spikes((series.times_us,)), len(series.times_us))
            if period is not None:
                values.append(("iter_period_s", period.seconds))
    return values


def _at_largest(rows: Sequence[BenchmarkRow]) -> Measurement | None:
    last = max(rows, key=lambda row: row.size_bytes, default=None)
    if last is None or last.size_bytes <= 0:
        return None
    return last.out_of_place or last.in_place


def from_checks(checks: Iterable[CheckResult]) -> tuple[Fact, ...]:
    """One fact per check that was answered: its status, what the node said, and the values behind
    it."""
    facts = []
    for check in checks:
        if check.status in (Status.PASS, Status.WARN, Status.FAIL):
            status = ("status", check.status.value.lower())
            values = (status, ("found_text", check.seen), *check.values)
            text = f"{check.node}: {check.seen}"
            evidence = check.evidence or Evidence(check.command, None, text)
            facts.append(Fact(f"preflight:{check.check_id}", values, evidence, (check.node,)))
    return tuple(facts)


def from_comparisons(comparisons: Iterable[Comparison]) -> tuple[Fact, ...]:
    """The ratios of measured to expected; one that is not known gives nothing."""
    facts = []
    for each in comparisons:
        if each.ratio is not None:
            evidence = Evidence(each.case_id, None, f"{each.case_id}: {each.reason}")
            facts.append(Fact(RESULT, (("busbw_ratio", each.ratio),), evidence, each.nodes))
    return tuple(facts)
