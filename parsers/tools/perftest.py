"""What perftest prints (`ib_write_bw`, `ib_read_bw`, `ib_send_bw`, `ib_write_lat` …, 4.5 to 6.2),
also with --report_gbits and CUDA, and the bandwidths that it writes with --out_json."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.logs.json_values import mapping, number, objects, text_of
from busbw.parsers.logs.json_values import whole as whole_number
from busbw.parsers.tools import Tool
from busbw.text import whole

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
    r"^[ \t]*#bytes\s+#iterations\s+BW peak\[(\w+)/sec\]\s+BW average\[\w+/sec\]", re.M
)
_LAT_HEAD = re.compile(r"^[ \t]*#bytes\s+#iterations\s+(t_min|t_avg)\[usec\]", re.M)
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)((?:\s+-?\d+(?:\.\d+)?)+)\s*$")
_ERROR = re.compile(
    r"^[ \t]*((?:Couldn't|Can't|Failed|Unable|Did not detect|Completion with error|Problems?"
    r" with|Invalid|ERR(?:OR)?\b|cuMemAlloc|CUDA error).*)$",
    re.M,
)
_LONGEST_LINE = 1000
"""Characters; its own are below 200. Some of the expressions above take quadratic time on a
line."""
_JSON_MARK = '"BW_average"'
_MEGABYTE = 1 << 20
"""perftest's MB (perftest_parameters.c: MEGABYTE 0x100000); its Gb are 10^9 bits."""


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
        no_device = "Infiniband/RoCE device" in text or "Did not detect devices" in text
        return _nothing(error[1].strip()) if error and no_device else None
    fields = {name.strip(): value.strip() for name, value in _FIELD.findall(text)}
    bandwidth = _bandwidth(text, bw_head) if bw_head else ()
    latency = _latency(text, lat_head) if lat_head else ()
    problem = ""
    if error:
        problem = error[1].strip()
    elif not bandwidth and not latency:
        problem = "no row of results: it was ended early, or the text is cut off"
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
    )


def _documents(text: str) -> Iterator[Perftest]:
    """The runs of JSON documents. They name no unit: it is the one in which the average is nearer to
    messages × size."""
    for document in objects(text):
        about, results = mapping(document.get("test_info")), mapping(document.get("results"))
        size, iterations = whole_number(results, "MsgSize"), whole_number(results, "n_iterations")
        average, rate = number(results, "BW_average"), number(results, "MsgRate")
        if size is None or average is None:
            continue
        by_messages = None if not rate else rate * size * 8e-3
        megabytes = _MEGABYTE * 8e-9
        unit = 1.0
        if by_messages and abs(average * megabytes - by_messages) < abs(average - by_messages):
            unit = megabytes
        peak = number(results, "BW_peak")
        row = BandwidthRow(
            size, iterations or 0, peak * unit if peak else None, average * unit, rate, 0
        )
        yield Perftest(
            operation=(text_of(about, "test") or "").partition(" ")[0].lower() or None,
            device=text_of(about, "Device"),
            link_type=text_of(about, "Link_type"),
            mtu_bytes=whole_number(about, "Mtu"),
            queue_pairs=whole_number(about, "Number_of_qps"),
            bidirectional="Bidirectional" in (text_of(about, "test") or ""),
            cuda=False,
            gid_index=whole_number(about, "GID_index"),
            bandwidth=(row,),
            latency=(),
            problem="",
        )


def parse_all(text: str) -> tuple[Perftest, ...]:
    """Every run in a text, also JSON documents one after another.

    >>> (run,) = parse_all('{"test_info": {"test": "Write BW", "Device": "mlx5_0"}, "results": {"MsgSize": 65536, "n_iterations": 5000,'
    ...     ' "BW_peak": 394.39, "BW_average": 393.21, "MsgRate": 0.749988}}')
    >>> run.operation, run.device, run.best_gbit_s
    ('write', 'mlx5_0', 393.21)
    """
    if _JSON_MARK in text:
        return tuple(_documents(text))
    run = parse(text)
    return () if run is None else (run,)


def _nothing(problem: str) -> Perftest:
    return Perftest(None, None, None, None, None, False, False, None, (), (), problem)


def _number(text: str) -> int | None:
    return whole(text.strip())


def _rows(text: str, head: re.Match[str]) -> list[tuple[int, int, int, list[float]]]:
    """(line, size, iterations, values) of the rows under a head; warnings may stand between
    them."""
    first = text.count("\n", 0, head.end()) + 1
    lines = text[head.end() :].splitlines()
    matches = ((first + n, m) for n, line in enumerate(lines) if (m := _ROW.match(line)))
    return [(n, int(m[1]), int(m[2]), [float(value) for value in m[3].split()]) for n, m in matches]


def _bandwidth(text: str, head: re.Match[str]) -> tuple[BandwidthRow, ...]:
    unit = {"Gb": 1.0, "MB": _MEGABYTE * 8 / 1e9, "GB": 8.0}.get(head[1])
    if unit is None:
        return ()
    rows = []
    for line_no, size, iterations, values in _rows(text, head):
        if len(values) >= 2:
            rate = values[2] if len(values) > 2 else None
            rows.append(
                BandwidthRow(
                    size,
                    iterations,
                    values[0] * unit if values[0] else None,
                    values[1] * unit,
                    rate,
                    line_no,
                )
            )
    return tuple(rows)


def _latency(text: str, head: re.Match[str]) -> tuple[LatencyRow, ...]:
    """Columns: t_min t_max t_typical t_avg t_stdev 99 % 99.9 %; tests that run for a time (-D) have
    t_avg and a rate instead."""
    rows = []
    for line_no, size, iterations, values in _rows(text, head):
        cells: list[float | None] = [*values, *[None] * 7]
        if head[1] == "t_avg":
            rows.append(
                LatencyRow(size, iterations, None, None, None, cells[0], None, None, line_no)
            )
        elif len(values) >= 2:
            rows.append(
                LatencyRow(
                    size,
                    iterations,
                    cells[0],
                    cells[1],
                    cells[2],
                    cells[3],
                    cells[5],
                    cells[6],
                    line_no,
                )
            )
    return tuple(rows)


def _line(run: Perftest) -> str:
    best = "no bandwidth" if run.best_gbit_s is None else f"best {run.best_gbit_s:g} Gb/s"
    title = f"{run.operation or 'test'} on {run.device or 'a device not shown'}"
    return f"{title}: {best}, {len(run.latency)} latencies"


TOOL = Tool(
    name="perftest",
    marks=("#bytes ", _JSON_MARK),
    parse=parse_all,
    lines=lambda run: (_line(run),),
    errors=lambda run: (run.problem,) if run.problem else (),
)
