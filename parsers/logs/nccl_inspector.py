"""What NCCL's Inspector plugin recorded: one JSON object per completed operation and line (v4.0 to
v5.1), or Prometheus text.

Sources: `plugins/profiler/inspector` of NCCL 2.28.3 to 2.30.7. A file may hold millions of
operations, so the document has one series per rank, operation and size; `operations` gives them one
by one.

>>> line = b'{"header":{"id":"0x5c9a","rank":5,"n_ranks":32},"metadata":{"hostname":"node-b","pid":52017},"coll_perf":{"coll":"AllReduce",' \\
...     b'"coll_sn":6649,"coll_msg_size_bytes":1024,"coll_exec_time_us":50,"coll_timing_source":"kernel_gpu","coll_busbw_gbs":4.1}}'
>>> (log,) = read([line]).records
>>> log.series[0].operation, log.series[0].rank, log.series[0].last_sequence, log.series[0].time_mean_us
('AllReduce', 5, 6649, 50.0)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from busbw.errors import UnknownLayout
from busbw.model import InspectorLog, InspectorMetric, InspectorOp, InspectorSeries
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.blocks import cut_lines
from busbw.parsers.logs.json_values import flag, integer, loaded, mapping, number, text_of

_MOST_SERIES = 200_000
_MOST_METRICS = 200_000
_MOST_GROUPS = 4
_LONGEST_LINE = 1024 * 1024
_METRIC = re.compile(r"^(nccl_\w+)\{(.*)\}\s+([-+.\deE]{1,40}|NaN|[-+]?Inf)(?:\s+\d{1,20})?\s*$")
_LABEL = re.compile(r'(?<!\w)(\w+)="((?:[^"\\]|\\.)*)"')
_COMMENT = re.compile(r"#\s*(?:(?:HELP|TYPE|UNIT)\s|EOF\b|$)")
"""Of Prometheus' text; behind another `#` stands what somebody else wrote."""
_NOT_FINITE = re.compile(r"(:\s*)-?inf(?=\s*[,}])")
"""What NCCL writes for the bandwidth of an operation that took 0 µs, which is no JSON."""
_KINDS = (("coll_perf", "coll"), ("p2p_perf", "p2p"))
"""Key of a record's measurement, and the prefix of the keys inside it."""
_NEXT = (
    "set NCCL_PROFILER_PLUGIN, NCCL_INSPECTOR_ENABLE=1 and"
    " NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500000"
)


@dataclass(slots=True)
class _Sums:
    """Growing counterpart of one series."""

    first: InspectorOp
    last_sequence: int
    first_sequence: int
    count: int = 0
    total_us: float = 0.0
    least_us: float = float("inf")
    most_us: float = 0.0
    busbw_total: float = 0.0
    busbw_count: int = 0

    def add(self, operation: InspectorOp) -> None:
        self.count += 1
        self.total_us += operation.time_us
        self.least_us = min(self.least_us, operation.time_us)
        self.most_us = max(self.most_us, operation.time_us)
        self.first_sequence = min(self.first_sequence, operation.sequence)
        self.last_sequence = max(self.last_sequence, operation.sequence)
        if operation.busbw_gb_s is not None:
            self.busbw_total += operation.busbw_gb_s
            self.busbw_count += 1

    def series(self) -> InspectorSeries:
        first = self.first
        return InspectorSeries(
            communicator=first.communicator,
            communicator_name=first.communicator_name,
            rank=first.rank,
            nranks=first.nranks,
            host=first.host,
            operation=first.operation,
            size_bytes=first.size_bytes,
            timing_source=first.timing_source,
            count=self.count,
            first_sequence=self.first_sequence,
            last_sequence=self.last_sequence,
            time_min_us=self.least_us,
            time_mean_us=self.total_us / self.count,
            time_max_us=self.most_us,
            busbw_mean_gb_s=self.busbw_total / self.busbw_count if self.busbw_count else None,
        )


class _Reading:
    """What one file has shown so far."""

    def __init__(self) -> None:
        self.sums: dict[tuple[object, ...], _Sums] = {}
        self.metrics: list[InspectorMetric] = []
        self.version: str | None = None
        self.first_line = ""
        self.unread = 0
        self.last_unread = False
        """The last line was no record."""
        self.dropped = 0

    def take(self, text: str) -> None:
        """Read one line that is not blank."""
        self.first_line = self.first_line or text[:200]
        self.last_unread = False
        operation = operation_of(text)
        if operation is not None:
            self._add(operation, text)
            return
        metric = metric_of(text)
        if metric is not None and len(self.metrics) < _MOST_METRICS:
            self.metrics.append(metric)
            self.version = self.version or dict(metric.labels).get("version")
        elif not (_COMMENT.match(text) or '"dump_stats"' in text):
            self.unread += 1
            self.last_unread = True

    def _add(self, operation: InspectorOp, text: str) -> None:
        key = (
            operation.communicator,
            operation.rank,
            operation.host,
            operation.operation,
            operation.size_bytes,
            operation.timing_source,
        )
        sums = self.sums.get(key)
        if sums is None:
            if len(self.sums) >= _MOST_SERIES:
                self.dropped += 1
                return
            sums = self.sums[key] = _Sums(operation, operation.sequence, operation.sequence)
        sums.add(operation)
        self.version = self.version or _version(text)

    def document(self) -> Document:
        if not self.sums and not self.metrics:
            raise UnknownLayout(
                "no record of NCCL's Inspector in it", seen=self.first_line, next_step=_NEXT
            )
        series = sorted((sums.series() for sums in self.sums.values()), key=_order)
        log = InspectorLog(self.version, tuple(series), tuple(self.metrics))
        problems = _problems(self.unread, self.last_unread, self.dropped)
        return Document("nccl-inspector", (log,), _summary(log), not problems, problems)


def read(chunks: Iterable[bytes]) -> Document:
    """Read one file, of either form.

    Raises:
        UnknownLayout: no line of it is Inspector's.
    """
    reading = _Reading()
    for line in cut_lines(chunks, _LONGEST_LINE + 1):
        text = line.decode("utf-8", "replace").strip()
        if text:
            reading.take(text)
    return reading.document()


def operations(chunks: Iterable[bytes]) -> Iterator[InspectorOp]:
    """The operations of one file, one by one, in its order; lines that are none are passed over."""
    for line in cut_lines(chunks, _LONGEST_LINE + 1):
        operation = operation_of(line.decode("utf-8", "replace"))
        if operation is not None:
            yield operation


def operation_of(text: str) -> InspectorOp | None:
    """The operation in one line; None = it is not a whole record of one."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        value = _record(text)
    except ValueError:
        return None
    header = mapping(value.get("header"))
    metadata = mapping(value.get("metadata"))
    key, prefix = next((kind for kind in _KINDS if kind[0] in value), ("", ""))
    perf = mapping(value.get(key))
    name = text_of(perf, prefix)
    communicator = text_of(header, "id")
    if name is None or communicator is None:
        return None
    rank = integer(header, "rank")
    nranks = integer(header, "n_ranks")
    sequence = integer(perf, f"{prefix}_sn")
    size = integer(perf, f"{prefix}_msg_size_bytes")
    time_us = number(perf, f"{prefix}_exec_time_us")
    if rank is None or nranks is None or sequence is None or size is None or time_us is None:
        return None
    return InspectorOp(
        communicator=communicator.removeprefix("0x"),
        communicator_name=text_of(header, "comm_name"),
        rank=rank,
        nranks=nranks,
        nnodes=integer(header, "nnodes"),
        host=text_of(metadata, "hostname"),
        pid=integer(metadata, "pid"),
        operation=name,
        sequence=sequence,
        size_bytes=size,
        time_us=time_us,
        algbw_gb_s=number(perf, f"{prefix}_algobw_gbs"),
        busbw_gb_s=number(perf, f"{prefix}_busbw_gbs"),
        timing_source=text_of(perf, f"{prefix}_timing_source"),
        peer=integer(perf, "p2p_peer"),
        algorithm=text_of(perf, f"{prefix}_algo"),
        protocol=text_of(perf, f"{prefix}_proto"),
        graph_captured=flag(perf, "graphCaptured"),
        dumped_us=integer(metadata, "dump_timestamp_us"),
    )


def metric_of(text: str) -> InspectorMetric | None:
    """The sample in one line of Prometheus text; None = it is not Inspector's."""
    match = _METRIC.match(text)
    if match is None:
        return None
    labels = []
    for name, value in _LABEL.findall(match[2]):
        labels.append((name, value.replace('\\"', '"').replace("\\\\", "\\")))
    try:
        return InspectorMetric(match[1], tuple(sorted(labels)), float(match[3]))
    except ValueError:
        return None


def _record(text: str) -> dict[str, object]:
    """Raises ValueError where it is no JSON."""
    return mapping(loaded(_NOT_FINITE.sub(r"\1null", text) if "inf" in text else text))


def _version(text: str) -> str | None:
    return text_of(mapping(_record(text).get("metadata")), "inspector_output_format_version")


def _order(series: InspectorSeries) -> tuple[str, int, str, str, int, str]:
    return (
        series.communicator,
        series.rank,
        series.host or "",
        series.operation,
        series.size_bytes,
        series.timing_source or "",
    )


def _problems(unread: int, last_unread: bool, dropped: int) -> tuple[str, ...]:
    problems = []
    if last_unread:
        unread -= 1
        problems.append(
            "the last line is not a complete record: the file was still being written, or is truncated"
        )
    if unread:
        problems.append(f"{unread} lines are no records of the Inspector")
    if dropped:
        problems.append(f"{dropped} operations of more than {_MOST_SERIES} series were left out")
    return tuple(problems)


def _summary(log: InspectorLog) -> tuple[tuple[str, str], ...]:
    rows = [("format", log.format_version)] if log.format_version else []
    if log.series:
        communicators = {each.communicator for each in log.series}
        count = sum(each.count for each in log.series)
        ranks = len({(each.communicator, each.rank) for each in log.series})
        rows.append(
            ("operations", f"{count} of {ranks} ranks on {len(communicators)} communicators")
        )
    rows += [("ranks", text) for text in _ranks_texts(log.series)]
    for each in sorted(log.series, key=lambda series: -series.size_bytes)[:8]:
        rows.append(("series", _series_text(each)))
    rows += [("metric", f"{each.name} {each.value:g}") for each in log.metrics[:8]]
    return tuple(rows)


def _ranks_texts(series: Iterable[InspectorSeries]) -> Iterator[str]:
    """Of the four largest operations of more than one rank: the mean over the ranks, and between which
    ranks it lies."""
    groups: dict[tuple[int, str, str], list[InspectorSeries]] = {}
    for each in series:
        key = (-each.size_bytes, each.operation, each.communicator)
        groups.setdefault(key, []).append(each)
    several = (group for _, group in sorted(groups.items()) if len(group) > 1)
    for group in itertools.islice(several, _MOST_GROUPS):
        times = [each.time_mean_us for each in group]
        fastest = min(group, key=lambda each: each.time_mean_us)
        slowest = max(group, key=lambda each: each.time_mean_us)
        host = f" on {slowest.host}" if slowest.host else ""
        yield (
            f"{slowest.operation} {slowest.size_bytes} B, {len(group)} ranks: mean"
            f" {sum(times) / len(times):g} us, fastest {fastest.time_mean_us:g} us (rank"
            f" {fastest.rank}), slowest {slowest.time_mean_us:g} us (rank {slowest.rank}{host})"
        )


def _series_text(series: InspectorSeries) -> str:
    text = (
        f"{series.operation} {series.size_bytes} B rank {series.rank}: {series.count} times,"
        f" {series.time_min_us:g} / {series.time_mean_us:g} / {series.time_max_us:g} us"
    )
    if series.busbw_mean_gb_s is not None:
        text += f", busbw {series.busbw_mean_gb_s:.2f} GB/s"
    return text


def _looks_like(head: bytes) -> float:
    if b'"coll_perf"' in head or b'"p2p_perf"' in head:
        return 0.95
    if not head.startswith(b"nccl_") and b"\nnccl_" not in head:
        return 0.0
    return 0.9 if re.search(rb"^nccl_\w+\{", head, re.MULTILINE) else 0.0


FORMAT = Format("nccl-inspector", "NCCL Inspector record", _looks_like, read)
