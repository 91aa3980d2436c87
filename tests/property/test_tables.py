"""Any table nccl-tests can print, in any dialect, is read back exactly or declared incomplete,
whatever stands between its lines.

The writer below follows the printf calls of nccl-tests; the NCCL lines put in between are composed
in NCCL's documented form.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkRow, Measurement, busbw_factor
from busbw.parsers.logs import formats
from busbw.parsers.nccl_tests import rccl, results_json, table

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
ELEMENTS = {"int8": 1, "half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "uint64": 8}
SCALED = ("all_gather", "reduce_scatter", "alltoall")
PREFIXES = (
    "", "[1,0]<stdout>:", "[1,0]<stdout>: ", "[job@1,0]<stdout>: ", " 0: ", "00: ", "(worker, rank=0, pid=38) ", "[rank0]: ", "[node-a] ",
    "node-a: ", "2026-07-10T09:00:00.25Z ", "    [1,0]<stdout>:", "> ", "worker-0  | ",
)  # fmt: skip
LOG = (
    (
        "node-a:41011:41040 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x7f00 recvbuff 0x7f10"
        " count 262144 datatype 7 op 0 root 0 comm 0x55"
    ),
    "node-b:52017:52100 [3] NCCL INFO Channel 00/16 :    0   1   2   3   4   5",
    (
        "node-a:41011:41040 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB"
        " eth0:10.0.0.1<0>"
    ),
    (
        "\nnode-b:52017:52100 [3] transport/net_ib.cc:1234 NCCL WARN NET/IB: Got completion with"
        " status=12 opcode=0 len=0 vendor err 129"
    ),
    (
        "node-a:41011:41040 [0] NCCL INFO comm 0x55 rank 0 nranks 16 cudaDev 0 busId 18000 - Init"
        " COMPLETE"
    ),
    (
        "[g2f4:0:588 - comm.c:392] INFO [group#:0] group id:0 tree idx:0 quota: (osts:8"
        " user_data_per_ost:1024)"
    ),
    "mpirun: Forwarding signal 18 to job",
)


@dataclass(frozen=True)
class Dialect:
    """What decides the columns."""

    era: str
    collective: str
    nranks: int
    kind: str
    cputime: bool = False
    timestamps: bool = False
    per_iteration: bool = False
    unchecked: bool = False

    @property
    def redop(self) -> str | None:
        return "sum" if self.collective in ("all_reduce", "reduce_scatter", "reduce") else None

    @property
    def root(self) -> int | None:
        return 0 if self.collective in ("broadcast", "reduce") else None


@dataclass
class Written:
    """A text and what is in it."""

    lines: list[str] = field(default_factory=list)
    rows: list[BenchmarkRow] = field(default_factory=list)
    average: float = 0.0


def time_text(dialect: Dialect, value: float) -> str:
    if dialect.era in ("2.17.3", "2.19"):
        return fitted(value, 7)
    return (
        f"{value:7.0f}" if value >= 10000 else f"{value:7.1f}" if value >= 100 else f"{value:7.2f}"
    )


def fitted(value: float, width: int) -> str:
    for form in ("{:{w}.2f}", "{:{w}.1f}", "{:{w}.0f}"):
        if len(text := form.format(value, w=width)) <= width:
            return text
    return f"{value:{width}.1e}" if width >= 7 else f"{value:{width}.0e}"


def bandwidth_text(dialect: Dialect, value: float) -> str:
    return fitted(value, 6) if dialect.era in ("2.17.3", "2.19") else f"{value:6.2f}"


def head_text(dialect: Dialect, size: int, count: int) -> str:
    width = 6 if dialect.era == "2.0" else 8
    front = f"{size:12d}  {count:12d}  {dialect.kind:>{width}}"
    if dialect.era in ("2.0", "2.10"):
        front += (
            f"  {dialect.redop:>6}"
            if dialect.redop
            else f"  {'':>6}"
            if dialect.collective == "alltoall"
            else ""
        )
        return front + (f"  {dialect.root:6d}" if dialect.root is not None else "")
    return (
        front + f"  {dialect.redop or 'none':>6}  {-1 if dialect.root is None else dialect.root:6d}"
    )


def header_lines(dialect: Dialect) -> list[str]:
    old = dialect.era in ("2.0", "2.10")
    kind = 6 if dialect.era == "2.0" else 8
    front = f"# {'size':>10}  {'count':>12}  {'type':>{kind}}"
    if not old or dialect.redop or dialect.collective == "alltoall":
        front += f"  {'redop':>6}"
    if not old or dialect.root is not None:
        front += f"  {'root':>6}"
    check = (
        f"  {'error':>5}"
        if old
        else f"  {'#wrong':>6}"
        if dialect.era in ("2.17.3", "2.19")
        else f" {'#wrong':>6}"
    )
    block = f"  {'cputime' if dialect.cputime else 'time':>7}  {'algbw':>6}  {'busbw':>6}{check}"
    if dialect.per_iteration:
        block += "".join(f"  {name:>7}" for name in ("i_min", "i_max", "i_p99", "i_cv%"))
    stamp = (
        " " + f"{'timestamp':>19}" if dialect.timestamps else " " if dialect.era == "2.19" else ""
    )
    return [
        "#" + " " * 54 + "out-of-place                       in-place          ",
        front + block * 2 + stamp,
    ]


def body_text(dialect: Dialect, value: Measurement, wrong: str) -> str:
    width = 6 if dialect.era in ("2.17.3", "2.19") else 5
    text = (
        f"  {time_text(dialect, value.time_us)}  {bandwidth_text(dialect, value.algbw_gb_s)} "
        f" {bandwidth_text(dialect, value.busbw_gb_s)}"
    )
    text += f"  {wrong:>{width}}"
    if dialect.per_iteration:
        text += "".join(
            f"  {fitted(number, 7)}"
            for number in (value.time_us * 0.9, value.time_us * 1.1, value.time_us * 1.1, 1.21)
        )
    return text


def write(
    dialect: Dialect, plan: list[int], times: list[float], wrongs: list[int], cycles: int
) -> Written:
    """The whole output of one run; each row as a list of pieces joined by \\0, where other text can
    get in between."""
    out = Written()
    out.lines = (
        [f"# Collective test starting: {dialect.collective}_perf"]
        if dialect.era in ("2.17.3", "2.19")
        else []
    )
    out.lines.append(
        f"# nThread 1 nGpus 1 minBytes {plan[0]} maxBytes {plan[-1]} step: 2(factor) warmup iters:"
        f" 5 iters: 20 agg iters: 1 validation: {0 if dialect.unchecked else 1} graph: 0"
    )
    out.lines += ["#", "# Using devices"]
    for rank in range(dialect.nranks):
        out.lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {41011 + rank:6d} on {'node-a':>10} device {rank:2d}"
            f" [0000:{rank:02x}:00] NVIDIA H200"
        )
    out.lines += ["#", *header_lines(dialect)]
    element, total = ELEMENTS[dialect.kind], []
    supply, counts = itertools.cycle(times), itertools.cycle(wrongs)
    for size in plan * cycles:
        count = size // element // (dialect.nranks if dialect.collective in SCALED else 1)
        moved = count * element * (dialect.nranks if dialect.collective in SCALED else 1)
        pieces, values = [head_text(dialect, moved, count)], []
        for in_place in (False, True):
            time = next(supply)
            algbw = moved / time / 1e3
            busbw = algbw * busbw_factor(dialect.collective, dialect.nranks)
            old = dialect.era in ("2.0", "2.10")
            skipped = dialect.unchecked or (
                in_place and dialect.collective == "alltoall" and not old
            )
            wrong = "N/A" if skipped else "2e-07" if old else f"{next(counts):g}"
            pieces.append(body_text(dialect, Measurement(time, algbw, busbw, None), wrong))
            values.append(printed(pieces[-1], dialect))
            total.append(busbw)
        stamp = "  2026-07-10 09:00:01" if dialect.timestamps else ""
        out.lines.append("\0".join(pieces) + stamp)
        front = (moved, count, dialect.kind, dialect.redop, dialect.root, *values)
        out.rows.append(BenchmarkRow(*front, timestamp=stamp.strip() or None))
    out.average = float(f"{sum(total) / len(total):g}")
    out.lines += [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {sum(total) / len(total):g} ",
        "#",
    ]
    return out


def printed(piece: str, dialect: Dialect) -> Measurement:
    """The figures of a block as its text has them."""
    time, algbw, busbw, wrong, *spread = piece.split()
    old = dialect.era in ("2.0", "2.10")
    numbers = [float(text) for text in spread] or [None] * 4
    return Measurement(
        float(time),
        float(algbw),
        float(busbw),
        None if wrong == "N/A" or old else round(float(wrong)),
        None if wrong == "N/A" or not old else float(wrong),
        *numbers,
        cputime=dialect.cputime,
    )


@st.composite
def dialects(draw: st.DrawFn) -> Dialect:
    era = draw(st.sampled_from(("2.0", "2.10", "2.13", "2.17.3", "2.19")))
    kinds = ("float", "half", "double", "int8") if era in ("2.0", "2.10") else tuple(ELEMENTS)
    new = era == "2.19"
    collectives = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "alltoall")
    return Dialect(
        era,
        draw(st.sampled_from(collectives)),
        draw(st.integers(2, 16)),
        draw(st.sampled_from(kinds)),
        cputime=era in ("2.13", "2.17.3", "2.19") and draw(st.booleans()),
        timestamps=new and draw(st.booleans()),
        per_iteration=new and draw(st.booleans()),
        unchecked=draw(st.booleans()),
    )


@st.composite
def tables(
    draw: st.DrawFn, wrongs: tuple[int, ...] = (0,), most_cycles: int = 2
) -> tuple[Dialect, Written]:
    dialect = draw(dialects())
    first = draw(st.sampled_from((8, 1000, 1 << 16, 1 << 20, 1 << 30)))
    plan = [first << shift for shift in range(draw(st.integers(1, 5)))]
    times = draw(st.lists(st.floats(0.6, 3e6), min_size=2, max_size=8))
    return dialect, write(
        dialect,
        plan,
        times,
        draw(st.lists(st.sampled_from(wrongs), min_size=1, max_size=4)),
        draw(st.integers(1, most_cycles)),
    )


@st.composite
def texts(draw: st.DrawFn, torn: bool, most_cycles: int = 2) -> tuple[str, Written]:
    """A table as it may arrive: prefixed, with other lines between its lines (and inside its rows),
    with foreign line ends."""
    _, written = draw(tables(most_cycles=most_cycles))
    prefix = draw(st.sampled_from(PREFIXES))
    end = draw(st.sampled_from(("\n", "\n", "\r\n")))
    other = draw(st.sampled_from((prefix, ""))) if "node-a" not in prefix else ""
    lines: list[str] = []
    for line in written.lines:
        if draw(st.integers(0, 3)) == 0:
            lines.append(other + draw(st.sampled_from(LOG)).lstrip("\n"))
        pieces = line.split("\0")
        text = pieces[0]
        for piece in pieces[1:]:
            if torn and draw(st.integers(0, 2)) == 0:
                lines += [prefix + (text + draw(st.sampled_from(LOG[:5]))).split("\n")[0]]
                lines += (
                    [draw(st.sampled_from(LOG[:5])).lstrip("\n")] if draw(st.booleans()) else []
                )
                text = ""
            text += piece
        lines.append(prefix + text)
    return end.join(lines) + end, written


def check(text: str, written: Written) -> None:
    """Exactly what was written, or declared incomplete."""
    try:
        results = table.parse(text)
    except UnknownLayout:
        # By these the column names are known; a text that begins inside their line and ends there
        # holds nothing of a table.
        assert not re.search(r"\bsize .*algbw +busbw", text)
        return
    if all(result.complete for result in results):
        rows = [
            BenchmarkRow(
                *[getattr(row, name) for name in BenchmarkRow.__slots__[:-2]],
                timestamp=row.timestamp,
            )
            for row in results[0].rows
        ]
        assert (len(results), rows, results[0].avg_busbw_gb_s) == (1, written.rows, written.average)
        assert results[0].out_of_bounds == 0 or any(
            "no 'Out of bounds values' line" in problem for problem in results[0].problems
        )


@QUICK
@given(texts(torn=False))
def test_a_whole_table_among_other_lines_is_read_exactly(case: tuple[str, Written]) -> None:
    text, written = case
    check(text, written)
    (result,) = table.parse(text)
    assert (result.complete, result.faults) == (True, ())


@QUICK
@given(texts(torn=True))
def test_a_table_torn_by_log_text_is_put_together_exactly(case: tuple[str, Written]) -> None:
    text, written = case
    check(text, written)
    (result,) = table.parse(text)
    assert (result.complete, result.faults) == (True, ())


@QUICK
@given(texts(torn=True), st.data())
def test_a_table_cut_anywhere_is_exact_or_declared_incomplete(
    case: tuple[str, Written], data: st.DataObject
) -> None:
    text, written = case
    begin = data.draw(st.one_of(st.just(0), st.integers(0, len(text))))
    end = data.draw(st.one_of(st.just(len(text)), st.integers(begin, len(text))))
    check(text[begin:end], written)


# One cycle: how often -N repeats the sizes is printed nowhere, so a whole cycle that is gone cannot
# be missed.
@QUICK
@given(texts(torn=True, most_cycles=1), st.data())
def test_a_table_that_lost_any_of_its_lines_is_exact_or_declared_incomplete(
    case: tuple[str, Written], data: st.DataObject
) -> None:
    text, written = case
    lines = text.splitlines(keepends=True)
    begin = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(begin + 1, min(len(lines), begin + 6)))
    check("".join(lines[:begin] + lines[end:]), written)


@QUICK
@given(tables(wrongs=(0, 0, 7, 1500000)))
def test_wrong_elements_are_never_lost(case: tuple[Dialect, Written]) -> None:
    _, written = case
    (result,) = table.parse("\n".join(written.lines).replace("\0", "") + "\n")
    counted = [
        value.wrong
        for row in written.rows
        for value in (row.out_of_place, row.in_place)
        if value and value.wrong
    ]
    assert [
        value.wrong
        for row in result.rows
        for value in (row.out_of_place, row.in_place)
        if value and value.wrong
    ] == counted
    assert any(fault.startswith("wrong data") for fault in result.faults) == bool(counted)


@QUICK
@given(tables())
def test_a_table_squeezed_to_single_blanks_or_tabs_is_read_exactly(
    case: tuple[Dialect, Written],
) -> None:
    _, written = case
    for blank in (" ", "\t"):
        check(
            "\n".join(blank.join(line.replace("\0", "").split()) for line in written.lines) + "\n",
            written,
        )


SPLICES = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.integers(0, 80),
        st.text(alphabet='0123456789.e+-# \n|"N/Ainf', max_size=12),
    ),
    max_size=8,
)


@QUICK
@given(texts(torn=True), SPLICES)
def test_a_mangled_table_raises_nothing_and_gives_only_finite_numbers(
    case: tuple[str, Written], splices: list[tuple[int, int, str]]
) -> None:
    text, _ = case
    for at, length, instead in splices:
        text = text[:at] + instead + text[at + length :]
    with contextlib.suppress(UnknownLayout):
        assert not re.search(r"=-?(?:nan|inf)\b", repr(table.parse(text)))


@pytest.mark.parametrize(
    "parse", [table.parse, results_json.parse, rccl.parse], ids=["table", "json", "rccl"]
)
@QUICK
@given(
    data=st.one_of(
        st.binary(max_size=2000),
        st.text(alphabet=' #-.0123456789abefiglnortuswz\n\r\t[]{}":,N/A', max_size=2000).map(
            str.encode
        ),
    )
)
def test_random_bytes_raise_nothing_but_unknown_layout(parse, data: bytes) -> None:  # type: ignore[no-untyped-def]  # one of three parsers
    with contextlib.suppress(UnknownLayout):
        assert parse([data])


@QUICK
@given(st.binary(max_size=500))
def test_choosing_formats_for_random_bytes_never_raises(head: bytes) -> None:
    assert formats.formats_for(head, binary=False)
