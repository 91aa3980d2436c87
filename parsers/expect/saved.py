"""A saved table of nccl-tests against the hardware that it names itself: its GPUs, ranks and hosts.

NICs and fabric stand in no table. So a number above what physics allows with any network is wrong
for certain, and all that can be said of a low one is how far it is from the usual, with what that
assumes and the command that judges it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.errors import UsageError
from busbw.fabrics.profiles import intra_node_fabrics, network_fabrics
from busbw.inventory.hostlist import fold
from busbw.model import Limit, Reference, Status
from busbw.model.benchmark import BenchmarkResult
from busbw.parsers.expect import baselines, cluster, figures, judge
from busbw.parsers.expect.cluster import Expectation, Question
from busbw.parsers.expect.figures import Curve, NicSet
from busbw.parsers.expect.hardware import LINKS, Gpu, find_gpu, recognise_gpu
from busbw.parsers.expect.link_rates import pcie
from busbw.parsers.logs import Document
from busbw.parsers.nccl_tests import shape
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.units import format_bandwidth, format_size

_LARGE_BYTES = 128 << 20
_LARGE_BYTES_PER_RANK = 1 << 20
"""From both on, published multi-node runs are near their largest number: what a smaller message
gives is latency, too."""
_SLOW_GB_S = 1e-3
"""A network so slow that it alone bounds every collective."""
_FASTEST_GBIT_S = max(link.data_gbit_s for link in LINKS)
_QUESTIONS = 256
"""Answers that are kept: the tables of one cluster ask the same few, and each takes 1 to 10 ms."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that the numbers show."""

    text: str
    is_fault: bool = False
    """True = the result is wrong."""


@dataclass(frozen=True, slots=True)
class _Hardware:
    """What a table says it ran on."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int


def with_remarks(document: Document) -> Document:
    """The document of nccl-tests tables, with what their numbers show among its problems, and what is
    impossible among its faults."""
    results = [each for each in document.records if isinstance(each, BenchmarkResult)]
    records: list[object] = []
    problems, faults = list(document.problems), list(document.faults)
    for number, result in enumerate(results, 1):
        label = f"run {number}: " if len(results) > 1 else ""
        found = remarks(result)
        texts = tuple(each.text for each in found)
        wrong = tuple(each.text for each in found if each.is_fault)
        records.append(
            replace(result, problems=(*result.problems, *texts), faults=(*result.faults, *wrong))
        )
        problems += [label + text for text in texts]
        faults += [label + text for text in wrong]
    if len(results) != len(document.records):
        return document
    problems += shape.contradictions(results)
    problems += shape.low_alltoall(tuple(filter(None, map(shape.level, results))))
    return replace(document, records=tuple(records), problems=tuple(problems), faults=tuple(faults))


def remarks(result: BenchmarkResult) -> tuple[Remark, ...]:
    """What the numbers of a table show; () = nothing worth a word."""
    shown = tuple(Remark(text) for text in shape.remarks(result.rows))
    shown += tuple(map(Remark, _of_head(result)))
    uneven = uneven_nodes(result)
    if uneven:
        shown = (*shown, Remark(f"{uneven}: not every GPU took part, or they are not all there"))
    hardware = _hardware(result)
    best = _best(result)
    if hardware is None or best is None or result.collective not in cluster.COLLECTIVES:
        return shown
    busbw_gb_s, size_bytes = best
    above = _above_physics(result, hardware, busbw_gb_s, size_bytes)
    if above is not None:
        return (*shown, above)
    low = _low(result, hardware)
    return shown if low is None else (*shown, low)


def _of_head(result: BenchmarkResult) -> Iterator[str]:
    """What the lines above the rows say, or leave open."""
    if result.complete and not result.ranks and not result.config:
        yield (
            "what stood above the table is missing: which sizes were planned, and which GPUs took"
            " part, is not known"
        )
    elif result.complete and not result.ranks and {"nGpus", "ngpus"} & set(dict(result.config)):
        yield "the list of devices is missing: which GPUs took part is not known"
    if RunFacts(config=result.config).number("warmup iters", "warmup_iters") == 0:
        yield "no warm-up (-w 0): NCCL makes its connections while the first size is timed"
    models = Counter(line.device_name for line in result.ranks if line.device_name)
    if len(models) > 1:
        named = ", ".join(f"{count} x {model}" for model, count in models.most_common(4))
        yield f"several GPU models in one run: {named}"


def uneven_nodes(result: BenchmarkResult) -> str:
    """`gpu-008 has 4 ranks, gpu-[001-007] 8 each`; empty = all have as many, or the list of devices
    is not complete, or of several communicators."""
    groups = {line.group for line in result.ranks}
    if len(groups) != 1 or len(result.ranks) != result.nranks:
        return ""
    ranks = Counter(line.host for line in result.ranks)
    times = Counter(ranks.values())
    usual = max(times, key=lambda count: (times[count], count))
    odd: dict[int, list[str]] = {}
    for host, count in sorted(ranks.items()):
        odd.setdefault(count, []).append(host)
    others = fold(odd.pop(usual))
    if not odd:
        return ""
    parts = [
        f"{fold(hosts)} {'have' if len(hosts) > 1 else 'has'} {count} {'rank' if count == 1 else 'ranks'}"
        for count, hosts in sorted(odd.items())
    ]
    return f"{', '.join(parts)}, {others} {usual} each"


def expect_command(
    gpu: Gpu | None,
    ranks: int | None,
    nodes: int | None,
    collective: str | None,
    size_bytes: int | None,
    busbw_gb_s: float,
) -> str:
    """The command that judges a number, with what is not known in angle brackets. A log's own words do
    not enter a command to type: the table's name of the GPU does."""
    options = f"--gpu {gpu.name}" if gpu is not None else "--gpu <model>"
    if nodes and ranks is not None and ranks % nodes == 0:
        options += f" --gpus-per-node {ranks // nodes}"
    if nodes != 1:
        options += " --nics <NxRATE> --fabric <profile>"
    options += f" --collective {collective or '<name>'}"
    options += f" --nodes {'<nodes>' if nodes is None else nodes}"
    options += "" if size_bytes is None else f" --size {size_bytes}"
    return f"busbw expect {options} --measured {busbw_gb_s:g}"


def _hardware(result: BenchmarkResult) -> _Hardware | None:
    """None = the table does not say it for certain: no complete list of devices, several models or
    one that the tables do not know, several communicators, ranks that share a GPU."""
    nodes, ranks = result.nodes, result.nranks
    if not nodes or ranks is None or ranks < 2 or ranks % nodes or not result.ranks:
        return None
    if len({line.group for line in result.ranks}) > 1:
        return None
    devices = Counter((line.host, line.device, line.bus_id) for line in result.ranks)
    if max(devices.values()) > 1:
        return None
    models = {recognise_gpu(line.device_name) for line in result.ranks}
    gpu = models.pop()
    return None if models or gpu is None else _Hardware(gpu, nodes, ranks // nodes)


def _best(result: BenchmarkResult, from_bytes: int = 0) -> tuple[float, int] | None:
    """The highest busbw of messages from this size on, and its size; None = there is none, or times
    are those of the CPU, which does not wait for the GPUs."""
    best: tuple[float, int] | None = None
    for row in result.rows:
        if row.size_bytes < from_bytes:
            continue
        for value in (row.out_of_place, row.in_place):
            if value is None:
                continue
            if value.cputime:
                return None
            if best is None or value.busbw_gb_s > best[0]:
                best = (value.busbw_gb_s, row.size_bytes)
    return best


def _above_physics(
    result: BenchmarkResult, hardware: _Hardware, busbw_gb_s: float, size_bytes: int
) -> Remark | None:
    limit = _limit(result.collective or "", hardware)
    too_much = None if limit is None else baselines.implausible(busbw_gb_s, limit)
    if too_much is None:
        return None
    means = "any network behind their PCIe links" if hardware.nodes > 1 else "one node"
    if hardware.nodes > 1 and hardware.gpu.pcie_generation is None:
        means = "all of them in one NVLink domain"
    return Remark(
        f"busbw at {format_size(size_bytes)}: {too_much} ({_named(hardware)}, {means}); the table is"
        " not of this hardware, ranks share a host that it names apart, or its times are wrong",
        is_fault=True,
    )


def _named(hardware: _Hardware) -> str:
    nodes = f"{hardware.nodes} nodes" if hardware.nodes > 1 else "1 node"
    return f"{nodes} x {hardware.gpus_per_node} {hardware.gpu.name}"


@functools.lru_cache(_QUESTIONS)
def _limit(collective: str, hardware: _Hardware) -> Limit | None:
    """What no measurement exceeds, whatever the network: that of the GPUs' own PCIe links, or, where
    GPUs have none to the NIC, one NVLink domain over all nodes. None = nothing bounds it."""
    gpu = hardware.gpu
    try:
        if hardware.nodes == 1 or gpu.pcie_generation is None:
            ranks = hardware.nodes * hardware.gpus_per_node
            return cluster.answer(_inside(collective, gpu, ranks)).limit
        network = pcie(gpu.pcie_generation).value_gb_s * hardware.gpus_per_node
        question = replace(_across(collective, hardware, network), sharp=True)
        return cluster.answer(question).limit
    except (UsageError, ValueError):
        return None


def _inside(collective: str, gpu: Gpu, ranks: int) -> Question:
    return Question(collective, 1, ranks, intra_node_fabrics()[0], gpu=gpu)


def _across(collective: str, hardware: _Hardware, network_gb_s: float) -> Question:
    return Question(
        collective,
        hardware.nodes,
        hardware.gpus_per_node,
        network_fabrics()[0],
        gpu=hardware.gpu,
        network_gb_s=network_gb_s,
    )


def _low(result: BenchmarkResult, hardware: _Hardware) -> Remark | None:
    """Far below the usual; None = not so far, or no message is large enough to say. A slow network is
    full with small messages, so that the best of all sizes may be one of them."""
    ranks = hardware.nodes * hardware.gpus_per_node
    best = _best(result, max(_LARGE_BYTES, _LARGE_BYTES_PER_RANK * ranks))
    if best is None:
        return None
    busbw_gb_s, size_bytes = best
    try:
        why = (
            _low_inside(result, hardware, busbw_gb_s, size_bytes)
            if hardware.nodes == 1
            else _low_across(result, hardware, busbw_gb_s)
        )
    except (UsageError, ValueError):
        return None
    if not why:
        return None
    command = expect_command(
        hardware.gpu, ranks, hardware.nodes, result.collective, size_bytes, busbw_gb_s
    )
    return Remark(
        f"low: busbw {format_bandwidth(busbw_gb_s)} at {format_size(size_bytes)} on"
        f" {_named(hardware)} {why}; not judged, {command}"
    )


def _low_inside(
    result: BenchmarkResult, hardware: _Hardware, busbw_gb_s: float, size_bytes: int
) -> str:
    question = _inside(result.collective or "", hardware.gpu, hardware.gpus_per_node)
    expectation = _answer(question)
    lows = [each.low_gb_s for each in expectation.expected if each.low_gb_s is not None]
    if busbw_gb_s >= judge.FAULTY * max(lows, default=0.0):
        return ""  # no size has a higher one: the tables, which take 0.2 s, are not needed
    found = judge.judge(busbw_gb_s, size_bytes, expectation, *_published(question))
    if found.status is not Status.FAIL:
        return ""
    return f"is {found.reason.split(':')[0]}, if NVLink joins them all as their data sheet says"


@functools.lru_cache(_QUESTIONS)
def _answer(question: Question) -> Expectation:
    return cluster.answer(question)


@functools.lru_cache(_QUESTIONS)
def _published(question: Question) -> tuple[Reference, tuple[Curve, ...]]:
    """What the tables have for it: the reference, and curves over sizes."""
    tables = figures.load()
    curves = baselines.curves(
        tables, question.collective, question.gpu, question.nodes, question.gpus_per_node
    )
    return baselines.reference(judge.published(tables, _answer(question))), curves


def _low_across(result: BenchmarkResult, hardware: _Hardware, busbw_gb_s: float) -> str:
    """One of the usual NICs would carry all of it."""
    question = _across(result.collective or "", hardware, _SLOW_GB_S)
    needed_gbit_s = busbw_gb_s * _SLOW_GB_S / _answer(question).limit.value_gb_s * 8
    if needed_gbit_s >= _FASTEST_GBIT_S:
        return ""
    usual = _usual_nics(hardware.gpu.name, hardware.gpus_per_node)
    if usual is None or usual.rate_gbit_s is None:
        return ""
    if needed_gbit_s >= usual.rate_gbit_s or (usual.count or 0) < 2:
        return ""
    return (
        f"needs {needed_gbit_s:.0f} Gb/s of network per node, and most published runs of"
        f" {hardware.gpu.name} have {usual.count} x {usual.rate_gbit_s:g} Gb/s; this table does not"
        " name its NICs"
    )


@functools.cache
def _usual_nics(gpu_name: str, gpus_per_node: int) -> NicSet | None:
    """The NICs of a node in most published runs of a GPU between nodes; None = in none."""
    counted: Counter[NicSet] = Counter()
    for row in figures.load().published:
        gpu = find_gpu(row.gpu) if row.gpu is not None else None
        is_same = gpu is not None and gpu.name == gpu_name and row.gpus_per_node == gpus_per_node
        if is_same and row.nics is not None and row.nics.rate_gbit_s and (row.nodes or 0) > 1:
            counted[row.nics] += 1
    return counted.most_common(1)[0][0] if counted else None
