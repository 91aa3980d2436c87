"""What perftest prints (`ib_write_bw`, `ib_read_bw`, `ib_send_bw`, `ib_write_lat` …, 4.5 to 26.04),
also with --report_gbits and CUDA, and what it writes with --out_json.

Since 25.07 it writes the MB of before as MiB. With service levels, or of the average alone, its JSON
is none (src/perftest_parameters.h of July 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from busbw.parsers.logs.json_values import integer, mapping, number, text_of
from busbw.parsers.nccl_tests.results_json import load_all
from busbw.parsers.tools import Tool
from busbw.parsers.tools.numbers import is_of_numbers, strange_sizes
from busbw.text import whole_number

_TITLE = re.compile(
    r"^[ \t]+(?:RDMA_)?(Write|Read|Send|Atomic\w*|Raw\w*)[ _](?:Post List |Bidirectional |IPoIB"
    r" )*.*?(BW|Latency)(?: Post List)? Test[ \t\r]*$",
    re.M | re.I,
)
_FIELD = re.compile(
    r"(?:^[ \t]*|[ \t]{2,})([A-Za-z][\w.-]{0,30}(?: [\w.-]{1,30}){0,4})[ \t]*:"
    r" +(\S.*?)(?=\s{2,}|\t|$)",
    re.M,
)
_BW_HEAD = re.compile(
    r"^[ \t]*#bytes\s+(#sl\s+)?#iterations\s+BW peak\[(\w+)/sec\]\s+BW average\[\w+/sec\][^\n]*", re.M
)  # fmt: skip
_LAT_HEAD = re.compile(r"^[ \t]*#bytes\s+#iterations\s+(t_min|t_avg)\[usec\][^\n]*", re.M)
_ROW = re.compile(r"^\s*(\d+)\s+\d+((?:\s+-?\d+(?:\.\d+)?)+)\s*$")
_BEGIN_OF_ROW = re.compile(r"^[ \t]*\d+(?:[ \t]+[\d.,]+)*(?:[ \t]+-?(?:nan|inf))*[ \t\r]*$")
_TABLE_END = re.compile(r"^-{10}")
_ERROR = re.compile(
    r"^[ \t]*((?:Couldn't|Can't|Failed|Unable|Did not (?:detect|get Message)|Completion with error|Problems?"
    r" with|Invalid|ERR(?:OR)?\b|Error(?::| occurred)|cuMemAlloc|CUDA error|A completion with|Bad wc status"
    r"|[Pp]oll [^\n]{0,40}(?:failed|error|ne=)|VALIDATION: (?:FAILED|ERROR)|IB device \S{1,60} not found|Found"
    r" Incompatibility|Function ibv_\w+ failed|rdma_create_event_channel failed|[Uu]nexpected CM event|Port number"
    r" \d+ state is|Received \d+ times ADDR_ERROR - aborting|[^\n:]{1,40} mismatch: local=).*)$",
    re.M,
)
"""How it reports what ends a test, also behind rows of results (the sources of July 2026)."""
_NOT_VALIDATED = re.compile(r"^[ \t]*(VALIDATION: WARNING[^\n]{0,200})", re.M)
_LONGEST_LINE = 1000
"""Characters; its own are below 200. Some of the expressions above take quadratic time on a
line."""
_JSON_MARKS = ('"BW_average"', '"test_info"')
_NO_DEVICE = ("Infiniband/RoCE device", "Did not detect devices")
_NOT_JSON = ((re.compile(r"^([ \t]*)sl: ", re.M), r'\1"sl": '), (re.compile(r",(\s*\})"), r"\1"))
"""What perftest writes into its documents that is no JSON, and what it means."""
_OPERATION = re.compile(r"write|read|send|atomic|raw", re.I)
_MEGABYTE = 1 << 20
"""perftest's MB (perftest_parameters.c: MEGABYTE 0x100000); its Gb are 10^9 bits."""
_NO_ROW = "no row of results: it was ended early, or the text is truncated"


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """One message size of a bandwidth test."""

    size_bytes: int
    iterations: int
    peak_gbit_s: float | None
    """None = not measured: tests that run for a time (-D) print 0."""
    average_gbit_s: float
    message_rate_mpps: float | None
    line_no: int


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One message size of a latency test; all times in µs, None = not printed."""

    size_bytes: int
    iterations: int
    minimum_us: float | None
    maximum_us: float | None
    typical_us: float | None
    average_us: float | None
    p99_us: float | None
    p999_us: float | None
    line_no: int


@dataclass(frozen=True, slots=True)
class Perftest:
    """One run of one side."""

    operation: str | None
    """`write`, `read`, `send`; None = its title is cut off."""
    device: str | None
    link_type: str | None
    """`IB` or `Ethernet`."""
    mtu_bytes: int | None
    queue_pairs: int | None
    bidirectional: bool
    cuda: bool
    """True = the buffers lie in GPU memory."""
    gid_index: int | None
    bandwidth: tuple[BandwidthRow, ...]
    latency: tuple[LatencyRow, ...]
    problem: str
    """Its own words where it failed, or why the text is not whole; "" = none."""
    failed: bool = False
    """perftest reports the problem."""

    @property
    def best_gbit_s(self) -> float | None:
        """The highest average over the sizes; None = no row."""
        return max((row.average_gbit_s for row in self.bandwidth), default=None)


def parse(text: str) -> Perftest | None:
    """What the text says; None = it is not of perftest.

    >>> run = parse('''                    RDMA_Write BW Test
    ...  Dual-port       : OFF		Device         : mlx5_0
    ...  #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
    ...  65536      5000             394.39             393.21		   0.749988
    ... ''')
    >>> run.operation, run.device, run.best_gbit_s
    ('write', 'mlx5_0', 393.21)
    """
    text = "\n".join(line[:_LONGEST_LINE] for line in text.split("\n"))
    title = _TITLE.search(text)
    bw_head, lat_head = _BW_HEAD.search(text), _LAT_HEAD.search(text)
    error = _ERROR.search(text)
    if title is None and bw_head is None and lat_head is None:
        no_device = any(words in text for words in _NO_DEVICE)
        return _nothing(error[1].strip()) if error and no_device else None
    fields = {name.strip(): value.strip() for name, value in _FIELD.findall(text)}
    bandwidth = _bandwidth(text, bw_head) if bw_head else ()
    latency = _latency(text, lat_head) if lat_head else ()
    torn = [row for head in (bw_head, lat_head) if head for row in _table(text, head).torn]
    problem = error[1].strip() if error else _doubt(text, torn, bandwidth, latency)
    return Perftest(
        operation=title[1].lower() if title else None,
        device=fields.get("Device"),
        link_type=fields.get("Link type"),
        mtu_bytes=_number(fields.get("Mtu", "").removesuffix("[B]")),
        queue_pairs=_number(fields.get("Number of qps", "")),
        bidirectional="Bidirectional" in text,
        cuda=bool(
            re.search(r"initializing CUDA|CUDA device|cuda_dmabuf|using GPU|GPU DMA", text, re.I)
        ),
        gid_index=_number(fields.get("GID index", "")),
        bandwidth=bandwidth,
        latency=latency,
        problem=problem,
        failed=error is not None,
    )


def _doubt(
    text: str,
    torn: list[str],
    bandwidth: tuple[BandwidthRow, ...],
    latency: tuple[LatencyRow, ...],
) -> str:
    """Why a text without an error is not whole, or its rows are not those of one test; "" = they
    are."""
    if torn:
        return f"a row of results is torn, or has other than numbers: {torn[0]!r}"
    if not bandwidth and not latency:
        return _NO_ROW
    unchecked = _NOT_VALIDATED.search(text)
    return (
        _contradiction(bandwidth)
        or _out_of_order(latency)
        or strange_sizes([row.size_bytes for row in bandwidth or latency])
        or (unchecked[1].strip() if unchecked else "")
    )


def _documents(text: str) -> Iterator[Perftest]:
    """The runs of JSON documents."""
    for pattern, replacement in _NOT_JSON:
        text = pattern.sub(replacement, text)
    for loaded in load_all(text):
        about = mapping(mapping(loaded.value).get("test_info"))
        results = mapping(mapping(loaded.value).get("results"))
        test = text_of(about, "test") or ""
        operation = _OPERATION.search(test)
        if not about and "BW_average" not in results:
            continue
        bandwidth, latency = _json_bandwidth(results), _json_latency(results)
        problem = ""
        if not loaded.whole:
            problem = "the document has no end, or is damaged"
        elif bandwidth is None and latency is None:
            problem = "no result with its size: only an average, or no number"
        elif results.get("BW_peak", 0) is None:
            problem = "BW_peak is no number"
        elif bandwidth is not None and not bandwidth.average_gbit_s:
            problem = f"a bandwidth of 0 for {bandwidth.size_bytes} bytes: nothing was measured"
        elif bandwidth is not None:
            problem = _contradiction((bandwidth,))
        yield Perftest(
            operation=operation[0].lower() if operation else None,
            device=text_of(about, "Device"),
            link_type=text_of(about, "Link_type"),
            mtu_bytes=integer(about, "Mtu"),
            queue_pairs=integer(about, "Number_of_qps"),
            bidirectional="Bidirectional" in test,
            cuda="cuda_device" in about,
            gid_index=integer(about, "GID_index"),
            bandwidth=() if bandwidth is None else (bandwidth,),
            latency=() if latency is None else (latency,),
            problem=problem,
        )


def _json_bandwidth(results: dict[str, object]) -> BandwidthRow | None:
    """They name no unit: it is the one in which the average is nearer to messages × size."""
    size, iterations = integer(results, "MsgSize"), integer(results, "n_iterations")
    average, rate = number(results, "BW_average"), number(results, "MsgRate")
    if size is None or average is None:
        return None
    by_messages = None if not rate else rate * size * 8e-3
    megabytes = _MEGABYTE * 8e-9
    unit = 1.0
    if by_messages and abs(average * megabytes - by_messages) < abs(average - by_messages):
        unit = megabytes
    peak = number(results, "BW_peak")
    return BandwidthRow(
        size, iterations or 0, peak * unit if peak else None, average * unit, rate, 0
    )


def _json_latency(results: dict[str, object]) -> LatencyRow | None:
    size, average = integer(results, "MsgSize"), number(results, "t_avg")
    if size is None or average is None:
        return None
    return LatencyRow(
        size,
        integer(results, "n_iterations") or 0,
        number(results, "t_min"),
        number(results, "t_max"),
        number(results, "t_typical"),
        average,
        number(results, "percentile_99"),
        number(results, "percentile_99.9"),
        0,
    )


def parse_all(text: str) -> tuple[Perftest, ...]:
    """Every run in a text, also JSON documents one after another.

    >>> (run,) = parse_all('{"test_info": {"test": "Write BW", "Device": "mlx5_0"}, "results": {"MsgSize": 65536, "n_iterations": 5000,'
    ...     ' "BW_peak": 394.39, "BW_average": 393.21, "MsgRate": 0.749988}}')
    >>> run.operation, run.device, run.best_gbit_s
    ('write', 'mlx5_0', 393.21)
    """
    runs = list(_documents(text)) if any(mark in text for mark in _JSON_MARKS) else []
    starts = [title.start() for title in _TITLE.finditer(text)]
    pieces = (text[begin:end] for begin, end in pairwise([0, *starts[1:], len(text)]))
    runs += (run for run in map(parse, pieces) if run is not None)
    return tuple(runs)


def _nothing(problem: str) -> Perftest:
    return Perftest(None, None, None, None, None, False, False, None, (), (), problem, failed=True)


def _number(text: str) -> int | None:
    return whole_number(text.strip())


class _Row(NamedTuple):
    """The numbers of one line."""

    line_no: int
    numbers: list[float]


class _Table(NamedTuple):
    """What stands under a head."""

    rows: list[_Row]
    torn: list[str]
    """Lines of fewer numbers than the head has names, or of what is no number."""


def _table(text: str, head: re.Match[str]) -> _Table:
    """The lines under a head; warnings may stand between them."""
    columns = head[0].count("#") + head[0].count("[") + head[0].count("tps average")
    table = _Table([], [])
    first = text.count("\n", 0, head.end()) + 1
    for line_no, line in enumerate(text[head.end() :].splitlines(), first):
        if _TABLE_END.match(line):
            break
        if _ROW.match(line) is not None and len(line.split()) == columns:
            table.rows.append(_Row(line_no, list(map(float, line.split()))))
        elif _BEGIN_OF_ROW.match(line) is not None or is_of_numbers(line):
            table.torn.append(line.strip())
    return table


def _bandwidth(text: str, head: re.Match[str]) -> tuple[BandwidthRow, ...]:
    mebibytes = _MEGABYTE * 8 / 1e9
    unit = {"Gb": 1.0, "MB": mebibytes, "MiB": mebibytes, "GB": 8.0}.get(head[2])
    if unit is None:
        return ()
    rows = []
    for line_no, numbers in _table(text, head).rows:
        if head[1]:
            del numbers[1]  # the service level
        size, iterations, peak, average = numbers[:4]
        rows.append(
            BandwidthRow(
                int(size),
                int(iterations),
                peak * unit if peak else None,
                average * unit,
                numbers[4] if len(numbers) > 4 else None,
                line_no,
            )
        )
    return tuple(rows)


_APART = 0.05
"""How far an average may be from the messages times their size: both are of one time, and rounded."""


def _contradiction(rows: Iterable[BandwidthRow]) -> str:
    """A bandwidth that its own message rate does not give, or one below zero; empty = there is none."""
    for row in rows:
        if row.average_gbit_s < 0:
            return f"a bandwidth of {row.average_gbit_s:g} Gb/s for {row.size_bytes} bytes is none"
        if row.message_rate_mpps is None:
            continue
        carried = row.message_rate_mpps * row.size_bytes * 8e-3
        rounded = _ROUNDED_GBIT_S + row.size_bytes * 8e-9
        if abs(carried - row.average_gbit_s) > _APART * carried + rounded:
            return (
                f"{row.average_gbit_s:g} Gb/s for {row.size_bytes} bytes, but"
                f" {row.message_rate_mpps:g} million messages a second carry {carried:g} Gb/s"
            )
    return ""


def _out_of_order(rows: Iterable[LatencyRow]) -> str:
    """A latency that does not lie between those that are less and more; "" = there is none."""
    for row in rows:
        for order in (
            (row.minimum_us, row.typical_us, row.maximum_us),
            (row.minimum_us, row.average_us, row.maximum_us),
            (row.minimum_us, row.p99_us, row.p999_us, row.maximum_us),
        ):
            known = [time for time in order if time is not None]
            if known != sorted(known):
                return f"the latencies of {row.size_bytes} bytes contradict each other: {known}"
    return ""


_ROUNDED_GBIT_S = 0.1
"""More than the last digit of any unit (0.01 GB/s)."""


def _latency(text: str, head: re.Match[str]) -> tuple[LatencyRow, ...]:
    """Columns: t_min t_max t_typical t_avg t_stdev 99 % 99.9 %; tests that run for a time (-D) have
    t_avg and a rate instead."""
    rows = []
    for line_no, numbers in _table(text, head).rows:
        size, iterations = int(numbers[0]), int(numbers[1])
        cells: list[float | None] = [*numbers[2:], *[None] * 7]
        if head[1] == "t_avg":
            cells = [None, None, None, cells[0], *[None] * 3]
        least, most, typical, average, _, p99, p999 = cells[:7]
        rows.append(LatencyRow(size, iterations, least, most, typical, average, p99, p999, line_no))
    return tuple(rows)


def _line(run: Perftest) -> str:
    best = "no bandwidth" if run.best_gbit_s is None else f"best {run.best_gbit_s:g} Gb/s"
    title = f"{run.operation or 'test'} on {run.device or 'a device not shown'}"
    return f"{title}: {best}, {len(run.latency)} latencies"


TOOL = Tool(
    name="perftest",
    marks=("#bytes ", *_JSON_MARKS, *_NO_DEVICE),
    parse=parse_all,
    lines=lambda run: (_line(run),),
    errors=lambda run: (run.problem,) if run.failed else (),
    gaps=lambda run: (run.problem,) if run.problem and not run.failed else (),
)
