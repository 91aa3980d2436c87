"""What records say under the names that the table's expressions read: benchmark results, checks,
comparisons."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev

from busbw.model import BenchmarkResult, CheckResult, Comparison, Evidence, Measurement, Status
from busbw.model.counters import CounterDelta, NicPort
from busbw.parsers.findings.evidence import COUNTER, RESULT, Fact
from busbw.parsers.findings.table import Value
from busbw.parsers.findings.table import load as load_symptoms
from busbw.parsers.stats import spikes, spread
from busbw.parsers.tools.counters import IB_WORD_BYTES, LEVELS
from busbw.parsers.tools.fi_info import FabricProvider
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsInfo
from busbw.parsers.tools.mlnx_qos import Qos
from busbw.parsers.tools.nvidia_smi import NvlinkGpu, SmiTable, Topology
from busbw.parsers.tools.pci import AcsBridge
from busbw.parsers.tools.rdma_sysfs import PartitionKey

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


# What the outputs of a node's tools say, handed in as texts, under the names that the table's
# expressions read.
#
# Nobody says here which ports and links a job uses: a port that is down counts where its like are
# up, or where no port is up at all.

MOST_BYTES = 1 << 20
"""The output of a tool is smaller; of a longer text the beginning is read."""
_MARKS = (
    b"CA type:",
    b"hca_id:",
    b"NVIDIA-SMI ",
    b"\tGPU0",
    b"ACSC",
    b"PFC configuration",
    b"Priority trust state",
    b"provider: ",
    b"pkeys/",
    b"PORT\tINDEX",
    b"Link 0: ",
)
_STATES = {
    "initializing": "INIT",
    "init": "INIT",
    "active": "ACTIVE",
    "down": "DOWN",
    "armed": "ARMED",
}
_ALIKE = 3
"""Ports of one kind, from which on one that differs from them says something."""


@dataclass(frozen=True, slots=True)
class _Port:
    """One port, whichever tool printed it."""

    device: str
    kind: str
    state: str
    physical: str | None
    link_layer: str | None
    mtu: int | None


def looks_like(head: bytes) -> bool:
    """Whether the output of such a tool is in the start of a text."""
    return any(mark in head for mark in _MARKS)


def from_nodes(artefact: str, records: Iterable[object], text: str) -> tuple[Fact, ...]:
    """The facts in what the parsers of `parsers.tools` found in one text."""
    found: list[Fact] = []
    for record in records:
        group = record if isinstance(record, tuple) else (record,)
        for source, values, name in _facts_of(group):
            line_no = _line_of(text, name)
            found.append(
                Fact(
                    f"preflight:{source}",
                    values,
                    Evidence(artefact, line_no, name),
                    (name,) if name else (),
                )
            )
    return tuple(found)


_Told = tuple[str, tuple[tuple[str, Value], ...], str]
"""(check, values, the name it is about: a device or a GPU)."""


def _facts_of(group: tuple[object, ...]) -> Iterator[_Told]:
    first = group[0]
    if isinstance(first, Ibstat | VerbsInfo):
        yield from _ports_told(tuple(port for record in group for port in _ports(record)))
    elif isinstance(first, SmiTable):
        yield from _smi(first)
    elif isinstance(first, NvlinkGpu):
        yield from _nvlink(group)
    elif isinstance(first, AcsBridge):
        acting = [
            each
            for each in group
            if isinstance(each, AcsBridge) and "SrcValid+" in (each.control or "")
        ]
        yield (
            "pci.acs",
            (("srcvalid_bridges", float(len(acting))),),
            acting[0].address if acting else "",
        )
    elif isinstance(first, Gid):
        usable = sum(
            isinstance(each, Gid) and each.version == "v2" and each.ipv4 is not None
            for each in group
        )
        yield "rdma.gid", (("rocev2_ipv4_count", float(usable)),), ""
    elif isinstance(first, Qos):
        yield from _qos(first)
    elif isinstance(first, FabricProvider):
        domains = {
            each.domain
            for each in group
            if isinstance(each, FabricProvider) and each.provider == "efa"
        }
        yield "efa.provider", (("domains", float(len(domains))),), ""
    elif isinstance(first, PartitionKey):
        limited = first.index == 0 and not first.key & 0x8000
        yield "rdma.pkey", (("limited_at_0", limited),), ""
    elif isinstance(first, Topology):
        yield from _topology(first)


def _ports(record: object) -> Iterator[_Port]:
    if isinstance(record, Ibstat):
        for device in record.devices:
            for port in device.ports:
                yield _Port(
                    device.name,
                    device.ca_type or "",
                    _state(port.state),
                    port.physical_state,
                    port.link_layer,
                    None,
                )
    elif isinstance(record, VerbsInfo):
        for verbs in record.ports:
            state = _state((verbs.state or "").removeprefix("PORT_"))
            yield _Port(
                record.name,
                str(record.vendor_part_id),
                state,
                None,
                verbs.link_layer,
                verbs.active_mtu,
            )


def _state(printed: str | None) -> str:
    return _STATES.get((printed or "").casefold(), (printed or "unknown").upper())


def _ports_told(ports: tuple[_Port, ...]) -> Iterator[_Told]:
    active = [port for port in ports if port.state == "ACTIVE"]
    for port in ports:
        alike = sum(
            other.kind == port.kind and other.link_layer == port.link_layer for other in active
        )
        values: list[tuple[str, Value]] = [("state", port.state)]
        values += [("active_ports", float(len(active))), ("most_alike_active", alike >= _ALIKE)]
        values += [
            (name, value)
            for name, value in (("phys_state", port.physical), ("link_layer", port.link_layer))
            if value is not None
        ]
        yield "rdma.port_state", tuple(values), port.device
        if port.mtu is not None and port.state == "ACTIVE" and port.link_layer is not None:
            yield (
                "rdma.mtu",
                (("active_mtu", float(port.mtu)), ("link_layer", port.link_layer)),
                port.device,
            )


def _smi(table: SmiTable) -> Iterator[_Told]:
    yield "gpu.driver", (("version", table.driver),), ""
    for gpu in table.gpus:
        if gpu.persistence is not None:
            yield (
                "gpu.persistence",
                (("mode", "Enabled" if gpu.persistence else "Disabled"),),
                gpu.bus_id,
            )
        if gpu.mig is not None:
            yield "gpu.mig", (("mode", "Enabled" if gpu.mig else "Disabled"),), gpu.bus_id
        if gpu.ecc_uncorrected_volatile is not None:
            yield (
                "gpu.ecc",
                (("uncorrected_volatile", float(gpu.ecc_uncorrected_volatile)),),
                gpu.bus_id,
            )


def _nvlink(gpus: tuple[object, ...]) -> Iterator[_Told]:
    """Links that are inactive where others of the same output are active; GPUs that are not bridged
    have none."""
    for gpu in gpus:
        if isinstance(gpu, NvlinkGpu) and any(rate is not None for _, rate in gpu.rates_gb_s):
            inactive = sum(rate is None for _, rate in gpu.rates_gb_s)
            yield "gpu.nvlink_status", (("inactive_links", float(inactive)),), f"GPU {gpu.index}"
        if isinstance(gpu, NvlinkGpu) and gpu.errors:
            recovered = sum(each.recovery or 0 for each in gpu.errors)
            yield "gpu.nvlink_errors", (("recovery", float(recovered)),), f"GPU {gpu.index}"


def _qos(qos: Qos) -> Iterator[_Told]:
    values: list[tuple[str, Value]] = []
    if qos.pfc_priorities is not None:
        values.append(
            (
                "pfc_enabled_prio",
                ",".join(str(priority) for priority in qos.pfc_priorities) or "none",
            )
        )
    if qos.trust is not None:
        values.append(("trust", qos.trust))
    if values:
        yield "eth.qos", tuple(values), ""


def _topology(topology: Topology) -> Iterator[_Told]:
    """GPUs that reach every NIC only across sockets, where other GPUs have a near one."""
    nics = set(topology.nics)
    whole = [row for row in topology.rows if not row.torn]
    near = [
        row
        for row in whole
        if any(column in nics and word not in ("SYS", "X") for column, word in row.paths)
    ]
    if nics and near:
        yield "os.numa", (("gpus_far_from_nics", float(len(whole) - len(near))),), ""


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
            (("status", check.status.value.lower()), ("found_text", check.found), *check.values),
            check.evidence or Evidence(check.command, None, f"{check.node}: {check.found}"),
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
