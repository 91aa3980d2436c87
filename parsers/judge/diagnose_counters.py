"""What counters did during a benchmark, under the names that the table's `counter:` expressions read.

A counter that stood still says nothing by itself on a node that did not use it. So nothing that did not move becomes a fact, with two
exceptions: a stated rail that carried nothing while its peers did, and the congestion notifications of a port that was paused.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from busbw.parsers.judge.diagnose_evidence import COUNTER, Fact
from busbw.parsers.nodes.counters import IB_WORD_BYTES, LEVELS
from busbw.parsers.symptoms import table
from busbw.parsers.symptoms.expr import Value
from busbw.records import Evidence
from busbw.records.counters import CounterDelta, NicPort

_SENT = "port_xmit_data"
_WAIT = "port_xmit_wait"
_LEAST_WAIT = 1000
"""Ticks below which waits for credits are not compared: a few are seen on idle ports."""
_SUMS = {"roce_slow_restart": ("roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans")}
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
    """RDMA devices or interfaces that the job is to use, as the inventory states them; () = not stated, so that none can be missing."""

    def is_rail(self, device: str) -> bool:
        """Whether that RDMA device, or the interface over it, is one of the stated rails."""
        names = {device, f"{device}:1", *(port.interface for port in self.ports if port.device == device)}
        return not names.isdisjoint(self.rails)


@functools.cache
def _wanted() -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Counters that the table reads: plain names, and (start, end) of those with digits in between."""
    names = {s.source.partition(":")[2] for symptom in table.load().symptoms for s in symptom.signals if s.source.startswith("counter:")}
    starred = [name.partition("*") for name in sorted(names) if "*" in name]
    return frozenset(name for name in names if "*" not in name), tuple((start, end) for start, _, end in starred)


def _is_wanted(counter: str) -> bool:
    plain, starred = _wanted()
    return counter in plain or any(
        counter.startswith(start) and counter.endswith(end) and counter[len(start) : len(counter) - len(end)].isdigit()
        for start, end in starred
    )


def from_counters(nodes: Sequence[NodeChanges]) -> tuple[Fact, ...]:
    """The facts of all nodes of one benchmark."""
    found: list[Fact] = []
    for node in nodes:
        summed = (*node.changes, *_summed(node.changes))
        paused = _paused_devices(node)
        for change in summed:
            if _is_wanted(change.counter) and change.counter not in (_SENT, _WAIT) and (values := _values(change, node, paused)):
                found.append(_fact(change, node, values))
        found += _rails(node)
    return (*found, *_waits(nodes))


def _values(change: CounterDelta, node: NodeChanges, paused: frozenset[str]) -> list[tuple[str, Value]]:
    if change.counter in LEVELS:
        return [("value", float(change.after))] if change.after else []
    if change.delta is None or (change.delta == 0 and not (change.counter in _WHEN_PAUSED and change.device in paused)):
        return []
    values: list[tuple[str, Value]] = [("delta", float(change.delta))]
    if change.after is not None:
        values.append(("value", float(change.after)))
    if change.seconds:
        values += [("rate_per_sec", change.delta / change.seconds), ("rate_per_min", change.delta / change.seconds * 60)]
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
    waiting = {c.device for c in node.changes if c.delta and c.counter.startswith("rx_prio") and c.counter.endswith("_pause")}
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
            found.append(CounterDelta(first.node, device, name, None, None, total, seconds=first.seconds, line_no=first.line_no))
    return found


def _rails(node: NodeChanges) -> list[Fact]:
    """How evenly the stated rails sent, and those that sent nothing."""
    sent = {c.device: c for c in node.changes if c.counter == _SENT and node.is_rail(c.device) and c.delta is not None}
    numbers = {device: float(change.delta or 0) for device, change in sent.items()}
    if len(numbers) < 2 or not any(numbers.values()):
        return []
    most = max(numbers, key=lambda device: numbers[device])
    found = [_fact(sent[most], node, [("delta", numbers[most]), ("imbalance", numbers[most] / fmean(numbers.values()))])]
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
            if change.counter == _WAIT and node.is_rail(change.device) and change.delta is not None and (words := sent.get(change.device)):
                shares.append((change.delta / words, change, node))
    mean = fmean(share for share, _, _ in shares) if len(shares) > 2 else 0.0
    return [
        _fact(change, node, [("delta", float(change.delta or 0)), ("imbalance", share / mean)])
        for share, change, node in shares
        if mean and (change.delta or 0) >= _LEAST_WAIT and share == max(each for each, _, _ in shares)
    ]


def _fact(change: CounterDelta, node: NodeChanges, values: Sequence[tuple[str, Value]]) -> Fact:
    steps = "" if change.before is None or change.after is None else f" ({change.before} → {change.after})"
    time = f" in {change.seconds:g} s" if change.seconds else ""
    moved = "" if change.delta is None else f" +{change.delta}"
    text = f"{change.node} {change.device} {change.counter}{moved}{steps}{time}"
    # The totals of a whole node (TCP) have no device of their own.
    where = (change.node,) if change.device == "tcp" else (change.node, change.device)
    return Fact(f"{COUNTER}:{change.counter}", tuple(values), Evidence(node.artefact, change.line_no, text), where)
