"""nccl-tests' table on standard output: every version since 2.0 (and 1.x), every option that
changes its columns, rccl-tests.

Written against the printf calls of nccl-tests 2.0.0 to 2.19.6 and rccl-tests. Columns are found by
name and place, never by counting. Launcher prefixes, NCCL's log inside rows, wrapped and torn rows,
several runs in one text and missing heads are read; what is missing is named.

`parse` is the whole path: `lines` picks the lines of a table, `runs` collects them into runs, with
`rows` for each row, and `checks` turns a run into a result with its problems.

>>> (result,) = parse('''# Collective test starting: all_reduce_perf
... # nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
... #  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA H200
... #  Rank  1 Group  0 Pid  41011 on     node-a device  1 [0000:2a:00] NVIDIA H200
... #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
...      1048576        262144     float     sum      -1    61.20   17.13   17.13       0    60.95   17.20   17.20       0
... # Out of bounds values : 0 OK
... # Avg bus bandwidth    : 17.165
... ''')
>>> result.collective, result.nranks, result.rows[0].in_place.busbw_gb_s, result.complete, result.problems
('all_reduce', 2, 17.2, True, ())
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.scan_literals import Marks
from busbw.parsers.nccl_tests.checks import quoted_lines, result_of
from busbw.parsers.nccl_tests.lines import candidates
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.parsers.nccl_tests.runs import runs_of
from busbw.units import format_bandwidth, format_size

KIND = "nccl-tests"

_SURE = re.compile(
    rb"algbw\s+busbw|# nThread \d|Avg bus bandwidth\s*:|#\s+Rank\s+\d+\s.{0,400}\bPid\s+\d+"
)
_SURE_WORDS = (b"algbw", b"nThread", b"Avg bus", b"Pid")
"""Every match has one of them: finding that out takes a tenth of the time."""
_MAYBE = Marks(
    (
        r"(?:^|\D)\d{1,19}\s+\d{1,19}\s+(?:float|half|double|u?int(?:8|32|64)|bfloat16|f8e\dm\d)\s+(?:sum|prod|max|min|avg|none|-?\d)",
    )
)
_HEAD_BYTES = 4096


def parse(text: str | bytes | Iterable[bytes]) -> tuple[BenchmarkResult, ...]:
    """All runs in a text, in the order they begin; a text of no run at all is an error.

    Raises:
        UnknownLayout: no table, no part of one and no head of a run is in the text.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogateescape")
    return tuple(map(result_of, _runs([text] if isinstance(text, bytes) else text)))


def _runs(text: Iterable[bytes]) -> tuple[RunFacts, ...]:
    """What is printed of each run. Raises UnknownLayout as `parse` does."""
    chunks = _WithHead(text)
    runs = runs_of(candidates(chunks))
    if not runs:
        raise UnknownLayout(
            "no nccl-tests table in this text: no column names, no data row and no footer",
            seen=chunks.first_line() or "(empty)",
            next_step=(
                "check that the file is the standard output of a *_perf program; a usage text or a"
                " launcher's error has no table"
            ),
        )
    return runs


class _WithHead:
    """Chunks that keep the beginning of the text, for the message when there is no table."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = chunks
        self.head = b""

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            if len(self.head) < _HEAD_BYTES:
                self.head = (self.head + chunk[:_HEAD_BYTES]).lstrip()
            yield chunk

    def first_line(self) -> str:
        """The first line that is not blank, at most 200 characters of it."""
        return self.head.split(b"\n", 1)[0][:200].decode("utf-8", "replace").strip()


def document(
    results: tuple[BenchmarkResult, ...], quoted: frozenset[int] = frozenset()
) -> Document:
    """All runs of one text as one document; quoted: numbers of the lines that problems quote."""
    problems: list[str] = []
    faults: list[str] = []
    summary: list[tuple[str, str]] = []
    for number, result in enumerate(results, 1):
        label = f"run {number}: " if len(results) > 1 else ""
        problems += [label + text for text in result.problems]
        faults += [label + text for text in result.faults]
        summary += [(label + name, value) for name, value in _summary(result)]
    not_joined = runs_apart(results)
    return Document(
        KIND,
        results,
        tuple(summary),
        not not_joined and all(result.complete for result in results),
        (*filter(None, [not_joined]), *problems),
        tuple(faults),
        quoted,
    )


def runs_apart(results: Sequence[BenchmarkResult]) -> str:
    """That runs of one process each measured the same on different GPUs, as processes do that no
    MPI joined; "" = they did not."""
    places: dict[tuple[object, ...], set[frozenset[tuple[str, int, str | None]]]] = {}
    for result in results:
        processes = {(line.host, line.pid) for line in result.ranks}
        if len(processes) == 1:
            gpus = frozenset((line.host, line.device, line.bus_id) for line in result.ranks)
            places.setdefault((result.collective, result.config), set()).add(gpus)
    most = max(places.values(), key=len, default=set())
    if len(most) < 2:
        return ""
    hosts = sorted({host for gpus in most for host, _, _ in gpus})
    return (
        f"{len(most)} runs of one process each that never formed one job, on {', '.join(hosts)}: a"
        " job of all of them needs a binary built with MPI=1, and the launcher's MPI"
    )


def _summary(result: BenchmarkResult) -> tuple[tuple[str, str], ...]:
    best = best_row(result)
    best_busbw = "no row"
    if best is not None:
        best_busbw = f"{format_bandwidth(_busbw(best))} at {format_size(best.size_bytes)}"
    return (
        ("collective", result.collective or "not known"),
        ("ranks", _count(result.nranks)),
        ("nodes", _count(result.nodes)),
        ("NCCL", result.nccl_version or "not known"),
        ("rows", str(len(result.rows))),
        ("best busbw", best_busbw),
        ("average busbw", format_bandwidth(result.avg_busbw_gb_s)),
    )


def _count(number: int | None) -> str:
    return "not known" if number is None else str(number)


def best_row(result: BenchmarkResult) -> BenchmarkRow | None:
    """The row with the highest out-of-place busbw (in place where only that was measured); None =
    no row has one."""
    rows = [row for row in result.rows if row.out_of_place or row.in_place]
    return max(rows, key=_busbw, default=None)


def _busbw(row: BenchmarkRow) -> float:
    value = row.out_of_place or row.in_place
    return value.busbw_gb_s if value else -1.0


def looks_like(head: bytes) -> float:
    """1 = column names, configuration, footer or device list; 0.7 = data rows alone."""
    if any(word in head for word in _SURE_WORDS) and _SURE.search(head):
        return 1.0
    return 0.7 if _MAYBE.stand_in(head) else 0.0


def read(chunks: Iterable[bytes]) -> Document:
    """The text as a document. Raises UnknownLayout as `parse` does."""
    runs = _runs(chunks)
    quoted = frozenset[int]().union(*map(quoted_lines, runs))
    return document(tuple(map(result_of, runs)), quoted)


FORMAT = Format("nccl-tests", "nccl-tests table", looks_like, read, embedded=True)
