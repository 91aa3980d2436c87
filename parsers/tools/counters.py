"""What the script of `busbw.checks.counters` prints: the counters of a node, and what they did
between two of its snapshots.

A counter that is lower than before was reset, so that its delta is not known; one that ran over
2^32 or stands at its highest value is told apart. Nothing that is not there counts as 0, but where
the script says that it left out zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from busbw.model.counters import CounterDelta, CounterReading, CounterSnapshot, NicPort, RailBytes
from busbw.parsers.tools import nvidia_smi_details, nvidia_smi_nvlink
from busbw.text import whole_number

IB_WORD_BYTES = 4
"""Unit of port_xmit_data and port_rcv_data: InfiniBand Architecture Specification 1.4,
PortCountersExtended."""
LEVELS = frozenset({"outbound_pci_stalled_wr", "outbound_pci_stalled_rd"})
"""Shares of the last second in percent (mlx5), not counts: they have a value and no delta."""
PCI = "pci"
"""In `CounterSnapshot.sparse`: the PCI Express errors of all devices were read."""

_MARK = re.compile(r"^== (\w+)(?: (.*))?$")
_RDMA = re.compile(
    r"^([^/]+)/(?:ports/(\d+)/)?((?:hw_)?counters|link_layer|gid_attrs/ndevs)(?:/([^:/]+))?:(.*)$"
)
_FILE = re.compile(r"^([^/:]+)/(\w+):(\d+)$")
_NET = re.compile(r"^\s*([^\s:]+):\s*((?:\d+\s+){15}\d+)\s*$")
_NO_STATISTICS = "94"
"""Exit status of `ethtool -S` where the driver keeps none (ethtool 5 and 6)."""
_ETHTOOL = re.compile(r"^ *([A-Za-z]\w*): *(\d+)$")
_AER = re.compile(r"^/sys/bus/pci/devices/([^/]+)/(aer_dev_\w+):TOTAL_ERR_[A-Z]+ (\d+)$")
_NET_FIELDS = (
    *(
        "rx_bytes",
        "rx_packets",
        "rx_errors",
        "rx_dropped",
        "rx_fifo_errors",
        "rx_frame_errors",
        "",
        "",
    ),
    *(
        "tx_bytes",
        "tx_packets",
        "tx_errors",
        "tx_dropped",
        "tx_fifo_errors",
        "collisions",
        "tx_carrier_errors",
        "",
    ),
)
"""Columns of /proc/net/dev; compressed and multicast are left out."""
_TCP = frozenset(
    {"TcpOutSegs", "TcpRetransSegs", "TcpInErrs", "TcpOutRsts", "TcpEstabResets"}
) | frozenset(
    f"TcpExt{name}"
    for name in (
        "ListenOverflows",
        "ListenDrops",
        "TCPTimeouts",
        "TCPLostRetransmit",
        "TCPSynRetrans",
        "TCPAbortOnTimeout",
    )
)
_NOT_COUNTERS = frozenset({"lifespan"})
_HIGHEST: Mapping[str, int] = {
    **dict.fromkeys(("local_link_integrity_errors", "excessive_buffer_overrun_errors"), 0xF),
    **dict.fromkeys(
        (
            "link_error_recovery",
            "link_downed",
            "port_rcv_constraint_errors",
            "port_xmit_constraint_errors",
        ),
        0xFF,
    ),
    **dict.fromkeys(
        (
            "symbol_error",
            "port_rcv_errors",
            "port_rcv_remote_physical_errors",
            "port_rcv_switch_relay_errors",
        ),
        0xFFFF,
    ),
    **dict.fromkeys(("port_xmit_discards", "VL15_dropped"), 0xFFFF),
    **dict.fromkeys(
        (
            "port_xmit_data",
            "port_rcv_data",
            "port_xmit_packets",
            "port_rcv_packets",
            "port_xmit_wait",
        ),
        0xFFFFFFFF,
    ),
}
"""Where the counters of an InfiniBand port stop and stay (PortCounters attribute, same
specification); wider ones pass it and go on."""
_WRAP = 1 << 32
_KEPT = (
    "port_xmit_data:",
    "port_rcv_data:",
    "tx_bytes:",
    "rx_bytes:",
    "np_cnp_sent:",
    "rp_cnp_handled:",
)
"""What says something by standing still: the bytes of a port, and notifications of congestion on a
port that was paused."""


def parse(text: str, node: str, artefact: str = "") -> CounterSnapshot:
    """The snapshot of one node. What is missing is in `problems`.

    >>> snapshot = parse("== time 12.5\\n== rdma\\nmlx5_0/ports/1/counters/link_downed:3\\n== end\\n", "gpu-001")
    >>> snapshot.at_s, snapshot.readings
    (12.5, (CounterReading(device='mlx5_0', counter='link_downed', value=3, line_no=3),))
    """
    return _snapshot(text, node, artefact, frozenset())


def parse_pair(
    before: str, after: str, node: str, artefacts: tuple[str, str] = ("", "")
) -> tuple[CounterSnapshot, CounterSnapshot]:
    """Two snapshots of one node without what stood still in `/sys/class/infiniband`, bytes and
    congestion notifications left in.

    Most of some thousand lines are equal in both, and a thousand nodes have them: reading only the
    others takes a third of the time.
    """
    same = frozenset(before.splitlines()) & frozenset(after.splitlines())
    still = frozenset(
        line
        for line in same
        if "counters/" in line and not line.rpartition("/")[2].startswith(_KEPT)
    )
    return _snapshot(before, node, artefacts[0], still), _snapshot(after, node, artefacts[1], still)


def _snapshot(text: str, node: str, artefact: str, still: frozenset[str]) -> CounterSnapshot:
    frame = _frame(text)
    sections = [_read(section, still) for section in frame.sections]
    return CounterSnapshot(
        node=node,
        at_s=frame.at_s,
        readings=tuple(reading for each in sections for reading in each.readings),
        ports=tuple(port for each in sections for port in each.ports),
        sparse=tuple(each.sparse for each in sections if each.sparse),
        problems=(*frame.problems, *(each.problem for each in sections if each.problem)),
        artefact=artefact,
    )


@dataclass(frozen=True, slots=True)
class _Section:
    """The lines under one mark."""

    name: str
    about: str
    lines: tuple[tuple[int, str], ...]
    """(line number from 1, line)."""


@dataclass(frozen=True, slots=True)
class _Frame:
    at_s: float | None
    sections: tuple[_Section, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SectionReadings:
    readings: tuple[CounterReading, ...] = ()
    ports: tuple[NicPort, ...] = ()
    sparse: str = ""
    problem: str = ""


def _frame(text: str) -> _Frame:
    at_s: float | None = None
    sections: list[tuple[str, str, list[tuple[int, str]]]] = []
    problems: list[str] = []
    is_complete = False
    for line_no, line in enumerate(text.splitlines(), 1):
        mark = _MARK.match(line) if line.startswith("== ") else None
        name, about = (mark[1], mark[2] or "") if mark else ("", "")
        if mark is None:
            if sections:
                sections[-1][2].append((line_no, line))
        elif name == "time":
            at_s = float(about) if re.fullmatch(r"\d+(?:\.\d+)?", about) else None
        elif name == "problem":
            problems.append(f"{about}: not read within its time limit")
        elif name == "ended" and not about.endswith(" 0"):
            problems.append(
                f"nvidia-smi ({about.partition(' ')[0]}): exit status {about.partition(' ')[2]}"
            )
        elif name == "end":
            is_complete = True
        elif name != "ended":
            sections.append((name, about, []))
    if not is_complete:
        problems.append("the node did not print all of it")
    return _Frame(
        at_s,
        tuple(_Section(name, about, tuple(lines)) for name, about, lines in sections),
        tuple(problems),
    )


def _read(section: _Section, still: frozenset[str]) -> _SectionReadings:
    if section.name == "rdma":
        # Only here a line names its device, so that equal lines are of the same counter.
        return _rdma(tuple(line for line in section.lines if line[1] not in still))
    if section.name == "net":
        matches = ((n, m) for n, line in section.lines if (m := _FILE.match(line)) and m[1] != "lo")
        return _SectionReadings(tuple(CounterReading(m[1], m[2], int(m[3]), n) for n, m in matches))
    if section.name == "dev":
        return _SectionReadings(tuple(_interfaces(section.lines)))
    if section.name == "tcp":
        return _SectionReadings(tuple(_tcp(section.lines)))
    if section.name == "ethtool":
        return _ethtool(section)
    if section.name == "aer":
        matches = ((n, m) for n, line in section.lines if (m := _AER.match(line)))
        return _SectionReadings(
            tuple(CounterReading(m[1], m[2], int(m[3]), n) for n, m in matches), sparse=PCI
        )
    if section.name == "nvlink":
        return _SectionReadings(tuple(_nvlink(section.lines)))
    if section.name == "gpu":
        return _SectionReadings(tuple(_gpu(section.lines)))
    return _SectionReadings()


def _ethtool(section: _Section) -> _SectionReadings:
    interface, _, status = section.about.rpartition(" ")
    if status == "0":
        matches = ((n, m) for n, line in section.lines if (m := _ETHTOOL.match(line)))
        return _SectionReadings(
            tuple(CounterReading(interface, m[1], int(m[2]), n) for n, m in matches),
            sparse=interface,
        )
    return _SectionReadings(
        problem="" if status == _NO_STATISTICS else f"ethtool -S {interface}: exit status {status}"
    )


def _rdma(lines: tuple[tuple[int, str], ...]) -> _SectionReadings:
    readings = []
    layers: dict[str, str | None] = {}
    interfaces: dict[str, str] = {}
    for line_no, line in lines:
        match = _RDMA.match(line)
        if match is None:
            continue
        device, port, kind, counter, value = match.groups()
        name = device if port in (None, "1") else f"{device}:{port}"
        if kind == "link_layer":
            layers[name] = value.strip() or None
        elif kind == "gid_attrs/ndevs":
            interfaces[name] = value.strip()
        elif counter not in _NOT_COUNTERS and (number := whole_number(value.strip())) is not None:
            readings.append(CounterReading(name, counter, number, line_no))
            if port is not None:
                layers.setdefault(name, None)
    ports = tuple(
        NicPort(name, layer, interfaces.get(name) or None) for name, layer in layers.items()
    )
    return _SectionReadings(tuple(readings), ports)


def _interfaces(lines: tuple[tuple[int, str], ...]) -> list[CounterReading]:
    readings = []
    for line_no, line in lines:
        match = _NET.match(line)
        if match and match[1] != "lo":
            values = zip(_NET_FIELDS, match[2].split(), strict=True)
            readings += [
                CounterReading(match[1], field, int(value), line_no)
                for field, value in values
                if field
            ]
    return readings


def _tcp(lines: tuple[tuple[int, str], ...]) -> list[CounterReading]:
    """A line of names and a line of values per protocol, as in /proc/net/snmp; named as `nstat`
    does."""
    readings = []
    names: dict[str, list[str]] = {}
    for line_no, line in lines:
        protocol, _, rest = line.partition(":")
        if protocol not in ("Tcp", "TcpExt"):
            continue
        words = rest.split()
        if protocol not in names:
            names[protocol] = words
            continue
        for word, value in zip(names[protocol], words, strict=False):
            number = whole_number(value) if f"{protocol}{word}" in _TCP else None
            if number is not None:
                readings.append(CounterReading("tcp", f"{protocol}{word}", number, line_no))
    return readings


def segments(text: str) -> tuple[int, int, int] | None:
    """(TCP segments sent, those sent again, line of them) of one snapshot, all connections since
    boot; None = it does not say.

    Nothing else of the text is read: a survey has thousands of them.
    """
    start = text.find("\n== tcp")
    if start < 0:
        return None
    first = text.count("\n", 0, start) + 3
    body = text[text.find("\n", start + 1) + 1 :].partition("\n== ")[0]
    readings = {r.counter: r for r in _tcp(tuple(enumerate(body.split("\n"), first)))}
    sent, retransmitted = readings.get("TcpOutSegs"), readings.get("TcpRetransSegs")
    return (
        None
        if sent is None or retransmitted is None
        else (sent.value, retransmitted.value, retransmitted.line_no)
    )


def _nvlink(lines: tuple[tuple[int, str], ...]) -> list[CounterReading]:
    """Per GPU the sum over its links."""
    readings = []
    for gpu in nvidia_smi_nvlink.parse("\n".join(line for _, line in lines)):
        line_no = next(n for n, line in lines if line.startswith(f"GPU {gpu.index}:"))
        for kind in ("replay", "recovery", "crc"):
            counts = [count for link in gpu.errors if (count := getattr(link, kind)) is not None]
            if counts:
                readings.append(
                    CounterReading(
                        f"GPU {gpu.index}", f"nvlink_{kind}_errors", sum(counts), line_no
                    )
                )
    return readings


def _gpu(lines: tuple[tuple[int, str], ...]) -> list[CounterReading]:
    counters = nvidia_smi_details.parse_performance("\n".join(line for _, line in lines))
    return [
        CounterReading(f"GPU {each.index}", each.counter, each.value, lines[each.line_no - 1][0])
        for each in counters
    ]


def deltas(
    before: CounterSnapshot, after: CounterSnapshot, *, still: bool = True
) -> tuple[CounterDelta, ...]:
    """What every counter did, by device and counter in the order of the later snapshot. Both are of
    the same node.

    `still=False` leaves out those that stand where they stood, as far as that says nothing (see
    `parse_pair`).

    Raises:
        ValueError: they are of two nodes.
    """
    if before.node != after.node:
        raise ValueError(
            f"expected two snapshots of one node, found {before.node!r} and {after.node!r}"
        )
    old = {(r.device, r.counter): r for r in before.readings}
    new = {(r.device, r.counter): r for r in after.readings}
    seconds = (
        None if before.at_s is None or after.at_s is None else round(after.at_s - before.at_s, 3)
    )
    restarted = seconds is not None and seconds < 0
    changes = []
    for key in (*new, *(key for key in old if key not in new)):
        was = _value(old.get(key), before, key[0])
        now = _value(new.get(key), after, key[0])
        if not still and was == now and not _is_informative(key[1], now):
            continue
        delta, reset, note = (
            _change(key[1], was, now)
            if not restarted
            else (None, True, "the node was restarted in between")
        )
        line_no = new[key].line_no if key in new else None
        changes.append(
            CounterDelta(
                after.node,
                *key,
                was,
                now,
                delta,
                reset,
                note,
                None if restarted else seconds,
                line_no,
            )
        )
    return tuple(changes)


def _is_informative(counter: str, value: int | None) -> bool:
    """Whether a counter says something by standing still."""
    return counter in LEVELS or f"{counter}:".startswith(_KEPT) or value == _HIGHEST.get(counter)


def _value(reading: CounterReading | None, snapshot: CounterSnapshot, device: str) -> int | None:
    """The value; 0 where zeros of that device were left out; None = not read."""
    if reading is not None:
        return reading.value
    excluded = device in snapshot.sparse or (
        PCI in snapshot.sparse and re.match(r"[0-9a-f]{4,}:[0-9a-f]{2}:", device) is not None
    )
    return 0 if excluded else None


def _change(counter: str, was: int | None, now: int | None) -> tuple[int | None, bool, str]:
    """(delta, reset, note)."""
    if counter in LEVELS:
        return None, False, "a level, not a count"
    if was is None or now is None:
        return None, False, f"not there {'before' if was is None else 'after'}"
    if now == was == _HIGHEST.get(counter):
        return None, False, f"stands at its highest value, {now}: it cannot count further"
    if now >= was:
        return now - was, False, ""
    if 3 * _WRAP // 4 <= was < _WRAP and now < _WRAP // 4 and counter not in _HIGHEST:
        return now - was + _WRAP, False, "wrapped at 2^32"
    return None, True, "lower than before: reset, or the driver was loaded again"


_SENT = ("port_xmit_data", "tx_bytes")
_RECEIVED = ("port_rcv_data", "rx_bytes")


def rail_bytes(before: CounterSnapshot, after: CounterSnapshot) -> tuple[RailBytes, ...]:
    """What each port of the node sent and received between the two: RDMA devices first, then
    network interfaces.

    An InfiniBand or RoCE port counts in words of four bytes, EFA in bytes. A port whose counters
    were reset in between gives None.

    Raises:
        ValueError: the snapshots are of two nodes.
    """
    changes = {(d.device, d.counter): d for d in deltas(_bytes_of(before), _bytes_of(after))}
    rdma = [port for port in after.ports if any((port.device, name) in changes for name in _SENT)]
    devices = [(port.device, port.interface) for port in rdma]
    known = {name for name, _ in devices}
    devices += [
        (device, None)
        for device, counter in changes
        if counter == "tx_bytes" and device not in known
    ]
    rails = []
    for device, interface in devices:
        sent, why_sent = _moved(changes, device, _SENT)
        received, why_received = _moved(changes, device, _RECEIVED)
        rails.append(
            RailBytes(after.node, device, sent, received, interface, why_sent or why_received)
        )
    return tuple(rails)


def _bytes_of(snapshot: CounterSnapshot) -> CounterSnapshot:
    return replace(
        snapshot,
        readings=tuple(each for each in snapshot.readings if each.counter in (*_SENT, *_RECEIVED)),
    )


def _moved(
    changes: Mapping[tuple[str, str], CounterDelta], device: str, names: Iterable[str]
) -> tuple[int | None, str]:
    for name in names:
        change = changes.get((device, name))
        if change is not None:
            unit = IB_WORD_BYTES if name.startswith("port_") else 1
            return (None if change.delta is None else change.delta * unit), change.note
    return None, "no counter of bytes"
