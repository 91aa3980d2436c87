"""What AMD's TransferBench prints (1.2x to 1.66): the bandwidth of copies between GPUs, and between
host and GPU, one test after another; the tables of its presets; the verdicts of its health check and
smoke test.

Since 1.60 a table has borders, or none (`SHOW_BORDERS=0`), or is CSV; of several ranks each executor
has its own (src/client/Utilities.hpp of 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.tools import Tool
from busbw.parsers.tools import transferbench_presets as presets
from busbw.parsers.tools.bandwidth_matrix import Matrix, matrices, shown
from busbw.parsers.tools.numbers import RowForm

_RUN = re.compile(r"^.*\bTransferBench v(\d[^\s)]{0,20})", re.M)
_TEST = re.compile(r"^[ \t]*Test (\d{1,9}):", re.M)
_BAR = r"[ \t]{0,40}(?:\\?[|│,]|[ \t])[ \t]{0,40}"
_CELLS = rf"{_BAR}(\d{{1,9}}\.\d+) GB/s{_BAR}(\d{{1,12}}\.\d+) ms{_BAR}(\d{{1,19}}) bytes{_BAR}"
_EXECUTOR = re.compile(
    rf"^[ \t]*Executor: ((?:Rank \d{{1,6}} +)?\w{{1,8}} \d{{1,4}}){_CELLS}", re.M
)
_TRANSFER = re.compile(rf"^[ \t]*Transfer (\d{{1,6}}){_CELLS}([^\n|│,]{{1,200}})", re.M)
_AGGREGATE = re.compile(rf"^[ \t]*Aggregate \(CPU\){_CELLS}", re.M)
_ROWS = tuple(
    RowForm(re.compile(rf"^.{{0,80}}?(?<![-(\w]){begin}.*$", re.M), whole)
    for begin, whole in (
        (r"Executor:", _EXECUTOR),
        (r"Transfer(?: +\d{1,20})?(?=[ \t]*[│|,\\]|[ \t]+[\d.]+ GB/s|$)", _TRANSFER),
        (r"Aggregate \(CPU\)", _AGGREGATE),
    )
)
_ERROR = re.compile(
    r"^[ \t]*(\[ERROR\].{1,300}|Transfer \d{1,6}: Unexpected .{1,200}|Parsing error: .{1,200})",
    re.M,
)
"""Presets print some errors of a copy without a tag."""
_VERDICT = re.compile(r"^(Testing [^\n]{1,80}?)[ .]*(PASS|FAIL)\b([^\n]{0,40})", re.M)
_LONG_VERDICT = re.compile(
    r"^(Testing [^\n.]{1,80}?)[ ]*\n(?:[ \t].{0,200}\n){1,4096}(PASS|FAIL)\b([^\n]{0,40})", re.M
)
"""With VERBOSE=1 each measurement stands between."""
_SMOKE = re.compile(r"^(?:(\[WARN\] \d+ Tests FAILED)|(All tests passed))", re.M)
_SMOKE_ROW = re.compile(r"^\|[^|\n]{20,40}\|[ ]+\d\d[ ]+\|[ *.F]{3,60}\|", re.M)
_NOT_RUN = re.compile(r"^\[WARN\] (healthcheck preset .{1,120})", re.M)
_PRESET = re.compile(
    r"^(?:(GPU-\w+ Scaling) benchmark:|(Bytes to (?:copy|write|read)): \d+ from GPU)", re.M
)
_BEST = re.compile(r"^ Best [ ,].{0,2000}", re.M)
_AVERAGES = re.compile(
    r"^[ \t]*Averages \(During [^)\n]{1,20}\):(?:[ \t]+(?:\d+\.\d+|N/A)){4}", re.M
)
_SUMMARY = re.compile(r"^(?:Aggregate bandwidth \((GPU|CPU) Timed\): +(\d+\.\d+) GB/s)", re.M)
_ROUNDED, _ROUNDED_US = 0.01, 1.0
"""By which share, and by how much of a time, a printed number may miss."""
_SWEEP_END = re.compile(
    r"^(?:Sweep complete|(?:Sweep )?Test limit reached|(?:Sweep )?Time limit exceeded)", re.M | re.I
)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy of a test, or all copies of one executor."""

    name: str
    """`F0 -> G000:008 -> F1`: from where, by what, to where; of an executor `GPU 00`."""
    bandwidth_gb_s: float
    time_us: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TransferTest:
    """Copies that ran at once."""

    number: int
    version: str | None
    executors: tuple[Transfer, ...]
    transfers: tuple[Transfer, ...]
    aggregate_gb_s: float | None
    """All bytes over the time that the CPU saw; None = the text is cut off before."""
    problem: str
    """Its own words where it failed; "" = none."""
    verdicts: tuple[str, ...] = ()
    """What the health check and the smoke test found, a line each; they print no copies."""
    tables: tuple[Matrix, ...] = ()
    """Of the presets that print one."""
    notes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    """What of a preset is missing."""


def parse(text: str) -> tuple[TransferTest, ...]:
    """Every test in a text.

    >>> (test,) = parse('''TransferBench v1.62.00
    ... Test 1:
    ...  Executor: GPU 00 |   56.299 GB/s |    4.768 ms |    268435456 bytes | 56.309  GB/s (sum)
    ...      Transfer 00  |   56.309 GB/s |    4.767 ms |    268435456 bytes | G0 -> G000:004 -> G1
    ...  Aggregate (CPU)  |   55.015 GB/s |    4.879 ms |    268435456 bytes | Overhead: 0.111 ms
    ... ''')
    >>> test.transfers[0].name, test.transfers[0].bandwidth_gb_s, test.aggregate_gb_s
    ('G0 -> G000:004 -> G1', 56.309, 55.015)
    """
    tests: list[TransferTest] = []
    starts = [0, *(run.start() for run in _RUN.finditer(text) if run.start())]
    for begin, end in pairwise([*starts, len(text)]):
        tests += _run(text[begin:end])
    return tuple(tests)


def _run(text: str) -> Iterator[TransferTest]:
    """The tests of one run: of CSV, in which none has a title, one."""
    run = _RUN.search(text)
    version = run[1] if run else None
    starts = [test.start() for test in _TEST.finditer(text)]
    for begin, end in pairwise([0, *starts, len(text)]):
        body = text[begin:end]
        title = _TEST.match(body)
        test = _test(int(title[1]) if title else 0, version, body)
        if title or test.executors or test.problem or test.verdicts:
            yield test
    preset = _preset(text, version)
    if preset.tables or preset.notes or preset.gaps:
        yield preset


def _test(number: int, version: str | None, body: str) -> TransferTest:
    executors = [_transfer(each[1], each) for each in _EXECUTOR.finditer(body)]
    transfers = [_transfer(each[5].strip(), each) for each in _TRANSFER.finditer(body)]
    aggregate, error = _AGGREGATE.search(body), _ERROR.search(body)
    verdicts = [f"{each[1].strip()} {each[2]}{each[3]}".strip() for each in _VERDICT.finditer(body)]
    verdicts += [f"{each[1].strip()} {each[2]}{each[3]}" for each in _LONG_VERDICT.finditer(body)]
    verdicts += [each[0] for each in _SMOKE.finditer(body)]
    return TransferTest(
        number,
        version,
        tuple(executors),
        tuple(transfers),
        float(aggregate[1]) if aggregate else None,
        error[1].strip() if error else "",
        tuple(verdicts),
    )


def _preset(text: str, version: str | None) -> TransferTest:
    """What a preset prints for all its tests together."""
    tables = matrices(text)
    timed = {each[1]: each[2] for each in _SUMMARY.finditer(text)}
    best = _BEST.search(text)
    notes = [f"together {float(rate):g} GB/s ({timer} timed)" for timer, rate in timed.items()]
    notes += [" ".join(best[0].split())] if best else []
    gaps = [f"{table.title or 'a table'}: {table.gap}" for table in tables if table.gap]
    if "All-To-All benchmark" in text and not timed and tables:
        gaps.append("the all-to-all test is truncated before its sum")
    if text.count("(GPU-Executor: ") > len(_AVERAGES.findall(text)) and not (
        "DST," in text or "Mem Device" in text
    ):
        gaps.append("the averages of a table are missing")
    if "Running Uni + Bi transfers" in text and len(tables) < 2:
        gaps.append("the table of both directions is missing")
    if _SMOKE_ROW.search(text) and not _SMOKE.search(text):
        gaps.append("the smoke test is truncated before its result")
    if "[Sweep Related]" in text and not _SWEEP_END.search(text):
        gaps.append("the sweep is truncated")
    gaps += [each[1] for each in _NOT_RUN.finditer(text)]
    for read in presets.read(text):
        notes += read.notes
        gaps += read.gaps
    for each in _PRESET.finditer(text):
        if each[1] is None:
            gaps.append(f"the table of this preset is not read ({each[2]})")
        elif best is None:
            gaps.append("the scaling test is truncated")
    return TransferTest(
        0, version, (), (), None, "", (), tables, tuple(notes), tuple(dict.fromkeys(gaps))
    )


def _transfer(name: str, match: re.Match[str]) -> Transfer:
    return Transfer(name, float(match[2]), float(match[3]) * 1e3, int(match[4]))


def _lines(test: TransferTest) -> Iterator[str]:
    yield from test.verdicts
    for table in test.tables:
        yield from shown(table)
    yield from test.notes
    rates = [each.bandwidth_gb_s for each in test.transfers or test.executors]
    if not rates and (test.verdicts or not test.number or test.tables):
        return
    span = f"{min(rates):g} to {max(rates):g} GB/s" if rates else "no copy"
    whole = "" if test.aggregate_gb_s is None else f", together {test.aggregate_gb_s:g} GB/s"
    title = f"test {test.number}" if test.number else "tests"
    yield f"{title}: {len(test.transfers)} copies, {span}{whole}"


def _errors(test: TransferTest) -> Iterator[str]:
    if test.problem:
        yield test.problem
    yield from (verdict for verdict in test.verdicts if "FAIL" in verdict)


def _gaps(test: TransferTest) -> Iterator[str]:
    yield from test.gaps
    for each in (*test.executors, *test.transfers):
        rate = each.size_bytes / each.time_us / 1e3 if each.time_us else each.bandwidth_gb_s
        slack = _ROUNDED + _ROUNDED_US / max(each.time_us, _ROUNDED_US)
        if abs(rate - each.bandwidth_gb_s) > slack * max(rate, each.bandwidth_gb_s):
            yield (
                f"TransferBench test {test.number}: the bytes of {each.name} over their time are"
                f" {rate:g} GB/s, not {each.bandwidth_gb_s:g}"
            )
    names = [each.name for each in test.executors]
    if len(set(names)) < len(names):
        yield f"TransferBench test {test.number}: an executor stands twice: two outputs in one?"
    is_preset = test.tables or test.notes or test.gaps
    if test.aggregate_gb_s is None and not test.problem and not test.verdicts and not is_preset:
        yield f"TransferBench test {test.number}: the text is truncated before its aggregate"


TOOL = Tool(
    name="TransferBench",
    marks=(
        "TransferBench v",
        "Aggregate (CPU)",
        "Executor: ",
        "directional copy peak bandwidth GB/s",
        "bandwidth (GPU Timed)",
        "All-To-All benchmark",
    ),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
    rows=_ROWS,
)
