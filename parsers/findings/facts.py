"""What records say under the names that the table's expressions read: benchmark results, checks,
comparisons."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev

from busbw.model import BenchmarkResult, CheckResult, Comparison, Evidence, Measurement, Status
from busbw.model.counters import CounterDelta, NicPort
from busbw.parsers import tools
from busbw.parsers.findings.evidence import COUNTER, RESULT, Fact
from busbw.parsers.findings.table import Value
from busbw.parsers.findings.table import load as load_symptoms
from busbw.parsers.stats import spikes, spread
from busbw.parsers.tools.counters import IB_WORD_BYTES, LEVELS

# What counters did during a benchmark, under the names that the table's `counter:` expressions
# read.
#
# A counter that stood still says nothing by itself on a node that did not use it. So nothing that
# did not move becomes a fact, with two
# exceptions: a stated rail that carried nothing while its peers did, and the congestion
# notifications of a port that was paused.

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
        names = {
            device,
            f"{device}:1",
            *(port.interface for port in self.ports if port.device == device),
        }
        return not names.isdisjoint(self.rails)


@functools.cache
def _wanted() -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Counters that the table reads: plain names, and (start, end) of those with digits in
    between."""
    names = {
        s.source.partition(":")[2]
        for symptom in load_symptoms().symptoms
        for s in symptom.signals
        if s.source.startswith("counter:")
    }
    starred = [name.partition("*") for name in sorted(names) if "*" in name]
    return frozenset(name for name in names if "*" not in name), tuple(
        (start, end) for start, _, end in starred
    )


def _is_wanted(counter: str) -> bool:
    plain, starred = _wanted()
    return counter in plain or any(
        counter.startswith(start)
        and counter.endswith(end)
        and counter[len(start) : len(counter) - len(end)].isdigit()
        for start, end in starred
    )


def from_counters(nodes: Sequence[NodeChanges]) -> tuple[Fact, ...]:
    """The facts of all nodes of one benchmark."""
    found: list[Fact] = []
    for node in nodes:
        summed = (*node.changes, *_summed(node.changes))
        paused = _paused_devices(node)
        for change in summed:
            if (
                _is_wanted(change.counter)
                and change.counter not in (_SENT, _WAIT)
                and (values := _values(change, node, paused))
            ):
                found.append(_fact(change, node, values))
        found += _rails(node)
    return (*found, *_waits(nodes))


def _values(
    change: CounterDelta, node: NodeChanges, paused: frozenset[str]
) -> list[tuple[str, Value]]:
    if change.counter in LEVELS:
        return [("value", float(change.after))] if change.after else []
    if change.delta is None or (
        change.delta == 0 and not (change.counter in _WHEN_PAUSED and change.device in paused)
    ):
        return []
    values: list[tuple[str, Value]] = [("delta", float(change.delta))]
    if change.after is not None:
        values.append(("value", float(change.after)))
    if change.seconds:
        values += [
            ("rate_per_sec", change.delta / change.seconds),
            ("rate_per_min", change.delta / change.seconds * 60),
        ]
        if change.counter.endswith("_pause_duration"):
            # Microseconds on mlx5.
            values.append(("share_of_time", change.delta / (change.seconds * 1e6)))
    if change.counter.endswith("_bytes"):
        carried = _rdma_bytes(node, change)
        values += [("share_of_rdma", change.delta / carried)] if carried else []
    return values


def _rdma_bytes(node: NodeChanges, change: CounterDelta) -> float | None:
    """Bytes of RDMA on the port over which this interface stands; None = not known."""
    devices = {port.device for port in node.ports if port.interface == change.device}
    name = _SENT if change.counter.startswith("tx_") else "port_rcv_data"
    moved = [c.delta for c in node.changes if c.device in devices and c.counter == name]
    known = [words for words in moved if words is not None]
    return float(sum(known) * IB_WORD_BYTES) if known and len(known) == len(moved) else None


def _paused_devices(node: NodeChanges) -> frozenset[str]:
    """RDMA devices whose interface the network told to wait."""
    waiting = {
        c.device
        for c in node.changes
        if c.delta and c.counter.startswith("rx_prio") and c.counter.endswith("_pause")
    }
    return frozenset(port.device for port in node.ports if port.interface in waiting)


def _summed(changes: Iterable[CounterDelta]) -> list[CounterDelta]:
    found = []
    for name, parts in _SUMS.items():
        by_device: dict[str, list[CounterDelta]] = {}
        for change in changes:
            if change.counter in parts and change.counter != name and change.delta is not None:
                by_device.setdefault(change.device, []).append(change)
        for device, members in by_device.items():
            total = sum(change.delta or 0 for change in members)
            first = members[0]
            found.append(
                CounterDelta(
                    first.node,
                    device,
                    name,
                    None,
                    None,
                    total,
                    seconds=first.seconds,
                    line_no=first.line_no,
                )
            )
    return found


def _rails(node: NodeChanges) -> list[Fact]:
    """How evenly the stated rails sent, and those that sent nothing."""
    sent = {
        c.device: c
        for c in node.changes
        if c.counter == _SENT and node.is_rail(c.device) and c.delta is not None
    }
    numbers = {device: float(change.delta or 0) for device, change in sent.items()}
    if len(numbers) < 2 or not any(numbers.values()):
        return []
    most = max(numbers, key=lambda device: numbers[device])
    found = [
        _fact(
            sent[most],
            node,
            [("delta", numbers[most]), ("imbalance", numbers[most] / fmean(numbers.values()))],
        )
    ]
    for device, change in sent.items():
        if not numbers[device]:
            least = min(number for other, number in numbers.items() if other != device)
            found.append(_fact(change, node, [("delta", 0.0), ("peers_delta", least)]))
    return found


def _waits(nodes: Sequence[NodeChanges]) -> list[Fact]:
    """Waits for credits per word sent, against the mean of all stated rails."""
    shares: list[tuple[float, CounterDelta, NodeChanges]] = []
    for node in nodes:
        sent = {c.device: c.delta for c in node.changes if c.counter == _SENT and c.delta}
        for change in node.changes:
            if (
                change.counter == _WAIT
                and node.is_rail(change.device)
                and change.delta is not None
                and (words := sent.get(change.device))
            ):
                shares.append((change.delta / words, change, node))
    mean = fmean(share for share, _, _ in shares) if len(shares) > 2 else 0.0
    return [
        _fact(change, node, [("delta", float(change.delta or 0)), ("imbalance", share / mean)])
        for share, change, node in shares
        if mean
        and (change.delta or 0) >= _LEAST_WAIT
        and share == max(each for each, _, _ in shares)
    ]


def _fact(change: CounterDelta, node: NodeChanges, values: Sequence[tuple[str, Value]]) -> Fact:
    steps = (
        ""
        if change.before is None or change.after is None
        else f" ({change.before} → {change.after})"
    )
    time = f" in {change.seconds:g} s" if change.seconds else ""
    moved = "" if change.delta is None else f" +{change.delta}"
    text = f"{change.node} {change.device} {change.counter}{moved}{steps}{time}"
    # The totals of a whole node (TCP) have no device of their own.
    where = (change.node,) if change.device == "tcp" else (change.node, change.device)
    return Fact(
        f"{COUNTER}:{change.counter}",
        tuple(values),
        Evidence(node.artefact, change.line_no, text),
        where,
    )


# What the outputs of a node's tools say, handed in as texts.


def from_tools(artefact: str, text: str) -> tuple[Fact, ...]:
    """The facts in the outputs of tools that are in a text."""
    return tuple(
        Fact(
            f"preflight:{fact.check_id}",
            fact.values,
            Evidence(artefact, _line_of(text, fact.subject), fact.subject),
            (fact.subject,) if fact.subject else (),
        )
        for fact in tools.facts(text)
    )


def _line_of(text: str, name: str) -> int | None:
    """The first line with the name; None = it is about the whole."""
    at = text.find(name) if name else -1
    return None if at < 0 else text.count("\n", 0, at) + 1


def across(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """What differs between the nodes of several texts."""
    drivers: dict[str, Fact] = {}
    for fact in facts:
        if fact.source == "preflight:gpu.driver":
            drivers.setdefault(str(fact.record().get("version")), fact)
    if len(drivers) < 2:
        return ()
    return tuple(
        Fact(
            "preflight:cross.driver",
            (("distinct", float(len(drivers))), ("version", version)),
            fact.evidence,
        )
        for version, fact in sorted(drivers.items())
    )


_FEWEST = 3
"""Processes, or iterations, from which on a spread is told."""
_ENOUGH_FOR_A_TAIL = 20
_PLAN = (("iters", ("iters", "iterations")), ("warmup", ("warmup iters", "warmup_iters", "warmup")))
"""Names of the table's expressions, and of the configuration as versions of nccl-tests write it."""


def from_records(artefact: str, records: Sequence[object]) -> tuple[Fact, ...]:
    """The facts in what the formats read from one text."""
    tables = [record for record in records if isinstance(record, BenchmarkResult)]
    return (_benchmark(artefact, tables),) if tables else ()


def _benchmark(artefact: str, tables: Sequence[BenchmarkResult]) -> Fact:
    values: list[tuple[str, Value]] = []
    measured = [
        each
        for table in tables
        for row in table.rows
        for each in (row.out_of_place, row.in_place)
        if each is not None
    ]
    wrong = [each.wrong for each in measured if each.wrong is not None]
    if wrong:
        values.append(("wrong_count", float(sum(wrong))))
    alone = sum(table.nranks == 1 for table in tables)
    if alone > 1:
        values.append(("header_count", float(alone)))
    sizes = [row.size_bytes for table in tables for row in table.rows]
    if sizes and all(table.complete for table in tables):
        values.append(("max_bytes", float(max(sizes))))
    largest = _at_largest(tables)
    if largest is not None:
        values.append(("busbw", largest.busbw_gb_s))
        if largest.iter_cv_percent is not None:
            values.append(("iter_cv", largest.iter_cv_percent / 100))
    values += _spread(tables)
    values += [
        (name, float(min(found))) for name, keys in _PLAN if (found := _planned(tables, keys))
    ]
    for name, numbers in (
        ("nranks", [table.nranks for table in tables]),
        ("nodes", [table.nodes for table in tables]),
    ):
        known = [number for number in numbers if number is not None]
        if known:
            values.append((name, float(max(known))))
    return Fact(RESULT, tuple(values), Evidence(artefact, None, "nccl-tests"))


def _planned(tables: Sequence[BenchmarkResult], names: Sequence[str]) -> list[int]:
    texts = (value for table in tables for name, value in table.config if name in names)
    return [int(text) for text in texts if text.isdigit()]


def _spread(tables: Sequence[BenchmarkResult]) -> list[tuple[str, Value]]:
    """How much the processes differ, and the iterations of one process, at the largest size that
    was timed one by one."""
    timed = [each for table in tables for each in table.process_times if not each.in_place]
    largest = max((each.size_bytes for each in timed), default=0)
    runs = [
        each.times_us
        for each in timed
        if each.size_bytes == largest and len(each.times_us) >= _FEWEST
    ]
    found: list[tuple[str, Value]] = []
    if len(runs) >= _FEWEST:
        speeds = [1 / fmean(times) for times in runs]
        found.append(("rank_cv", stdev(speeds) / fmean(speeds)))
    tails = [
        quantiles(times, n=100)[-1] / median(times)
        for times in runs
        if len(times) >= _ENOUGH_FOR_A_TAIL
    ]
    if tails:
        found.append(("iter_p99_over_median", max(tails)))
    whole = [
        each.times_us for each in spread.iterations(tuple(timed)) if each.size_bytes == largest
    ]
    kept = [spikes.period(spikes.spikes((times_us,)), len(times_us)) for times_us in whole]
    found += [("iter_period_s", each.seconds) for each in kept if each is not None]
    return found


def _at_largest(tables: Sequence[BenchmarkResult]) -> Measurement | None:
    rows = [row for table in tables for row in table.rows if row.size_bytes > 0]
    if not rows:
        return None
    last = max(rows, key=lambda row: row.size_bytes)
    return last.out_of_place or last.in_place


def from_checks(checks: Iterable[CheckResult]) -> tuple[Fact, ...]:
    """One fact per check that was answered: its status, what the node said, and the values behind
    it."""
    return tuple(
        Fact(
            f"preflight:{check.check_id}",
            (("status", check.status.value.lower()), ("found_text", check.seen), *check.values),
            check.evidence or Evidence(check.command, None, f"{check.node}: {check.seen}"),
            (check.node,),
        )
        for check in checks
        if check.status in (Status.PASS, Status.WARN, Status.FAIL)
    )


def from_comparisons(comparisons: Iterable[Comparison]) -> tuple[Fact, ...]:
    """The ratios of measured to expected; one that is not known gives nothing."""
    return tuple(
        Fact(
            RESULT,
            (("busbw_ratio", comparison.ratio),),
            Evidence(comparison.case_id, None, f"{comparison.case_id}: {comparison.reason}"),
            comparison.nodes,
        )
        for comparison in comparisons
        if comparison.ratio is not None
    )
