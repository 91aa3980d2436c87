"""What counters did while something ran, under the names that the symptom table reads: one fact for each counter of each port."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from statistics import fmean

from busbw.parsers.judge.diagnose_evidence import COUNTER, Fact
from busbw.parsers.symptoms import table
from busbw.parsers.symptoms.expr import Value
from busbw.records import Evidence
from busbw.records.counters import CounterDelta

CARRIED_BYTES = 1 << 20
"""A port that moved less was idle: that its other counters stand still says nothing."""
_WORD_BYTES = 4
_DATA = "port_xmit_data"
_IDLE_TELLS = frozenset({"np_cnp_sent", "rp_cnp_handled", "out_of_sequence"})
"""Counters whose standing still is a sign, where data moved."""
_RDMA_BYTES = {"rx": "rx_vport_rdma_unicast_bytes", "tx": "tx_vport_rdma_unicast_bytes"}
_PAUSED_US = re.compile(r"rx_prio\d_pause_duration")
_LOSSY_BYTES = re.compile(r"(?P<way>rx|tx)_prio0_bytes")


def from_deltas(deltas: Iterable[CounterDelta], artefact: str, rails: tuple[str, ...] = ()) -> tuple[Fact, ...]:
    """The facts of one node; counters that no entry of the table reads are left out.

    Args:
        deltas: of one node between two moments.
        artefact: where the later snapshot is kept.
        rails: devices that the job uses; () = not known, and then no port is compared with the others.
    """
    known = {(each.device, each.counter): each for each in deltas}
    found = []
    for (device, counter), change in known.items():
        if not _read_by_the_table(counter):
            continue
        values = _values(change, device, counter, known, rails)
        if values:
            over = f" in {change.seconds:.0f} s" if change.seconds else ""
            text = f"{change.node} {device}: {counter} {change.before} → {change.after}{over}"
            found.append(Fact(f"{COUNTER}:{counter}", values, Evidence(artefact, change.line_no, text), (f"{change.node} {device}",)))
    return tuple(found)


def _values(
    change: CounterDelta, device: str, counter: str, known: Mapping[tuple[str, str], CounterDelta], rails: tuple[str, ...]
) -> tuple[tuple[str, Value], ...]:
    values: list[tuple[str, Value]] = []
    if change.after is not None:
        values.append(("value", float(change.after)))
    delta = change.delta
    if delta is None or (delta == 0 and counter in _IDLE_TELLS and not _carried(device, known)):
        return tuple(values)
    values.append(("delta", float(delta)))
    if change.seconds:
        values += [("rate_per_sec", delta / change.seconds), ("rate_per_min", 60 * delta / change.seconds)]
        if _PAUSED_US.fullmatch(counter):
            values.append(("share_of_time", delta / (1e6 * change.seconds)))
    lossy = _LOSSY_BYTES.fullmatch(counter)
    rdma = known.get((device, _RDMA_BYTES[lossy["way"]])) if lossy else None
    if rdma is not None and rdma.delta is not None and rdma.delta >= CARRIED_BYTES:
        values.append(("share_of_rdma", delta / rdma.delta))
    if counter == _DATA and device in rails:
        values += _among_rails(device, known, rails)
    return tuple(values)


def _among_rails(device: str, known: Mapping[tuple[str, str], CounterDelta], rails: tuple[str, ...]) -> list[tuple[str, Value]]:
    moved = {rail: each.delta for rail in rails if (each := known.get((rail, _DATA))) is not None and each.delta is not None}
    others = [delta for rail, delta in moved.items() if rail != device]
    if not others:
        return []
    found: list[tuple[str, Value]] = [("peers_delta", float(min(others)))]
    if any(moved.values()):
        found.append(("imbalance", max(moved.values()) / fmean(moved.values())))
    return found


def _carried(device: str, known: Mapping[tuple[str, str], CounterDelta]) -> bool:
    data = known.get((device, _DATA))
    return data is not None and data.delta is not None and data.delta * _WORD_BYTES >= CARRIED_BYTES


@functools.cache
def _read_by_the_table(counter: str) -> bool:
    return any(pattern.fullmatch(counter) for pattern in _names())


@functools.cache
def _names() -> tuple[re.Pattern[str], ...]:
    sources = {signal.source for symptom in table.load().symptoms for signal in symptom.signals if signal.source.startswith(f"{COUNTER}:")}
    names = sorted(source.removeprefix(f"{COUNTER}:") for source in sources)
    return tuple(re.compile(re.escape(name).replace(r"\*", r"\d+")) for name in names)
