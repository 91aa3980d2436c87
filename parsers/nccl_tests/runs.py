"""The runs of nccl-tests in a text: where one begins, what belongs to it, where it ends.

A run is printed in a fixed order (configuration, devices, column names, rows, out of bounds,
average); a line of an earlier phase begins a new run. Processes that MPI did not join each print a
run of their own into the same text: their heads stand together above mixed rows.

>>> rank_line("#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA H200").bus_id
'0000:18:00'
>>> program_of("mpirun -np 16 ./build/all_reduce_perf -b 8 -e 8G")
'all_reduce'
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from busbw.model.benchmark import ProcessTimes, RankLine
from busbw.parsers.nccl_tests.lines import Line
from busbw.parsers.nccl_tests.rows import (
    HEAD,
    REST_OF_ROW,
    ROW_START,
    Cells,
    Layout,
    PlainRows,
    PrintedRow,
    algbw_fits,
    factor_interval,
    find_row,
    has_header_part,
    parse_header,
    share_interval,
    with_placements,
    with_units,
)

# The lines that are not rows.

_END = r"[\s\"'`,;\\|]*$"
"""Quotes may follow, but no words: with those it is a sentence about such a line."""
_OUT_OF_BOUNDS = re.compile(rf"Out of bounds values\s*:\s*(\d{{1,18}})\s*(OK|FAILED)?{_END}")
_AVERAGE = re.compile(
    r"Avg bus"
    rf" bandwidth\s*:\s*(-?(?:\d+(?:\.\d*)?(?:e[+-]?\d{{1,4}})?|nan|inf))(\s*)(?:GB/s)?(OK|FAILED)?{_END}"
)
_TESTS_VERSION = re.compile(
    r"nccl-tests version"
    r" (\S+)(?:\s+nccl-headers=(\d{1,9}))?(?:\s+nccl-library=(\d{1,9}))?|rccl-tests: Version (\S+)"
)
_NCCL_VERSION = re.compile(r"\b[NR]CCL version ?:? ?(\d\S*)")
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
_FAILURE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure \S+:\d+|Test timeout|Invalid number of GPUs:"
    r" \d|Incompatible NCCL versions"
    r"|invalid sizes? (?:for|specified)"
)
_NOTE = re.compile(
    r"invalid (?:type|op) \S+, defaulting to|[Oo]ption -\w .*(?:not supported|requires)|\(-\w\)"
    r" .*Disabling\.|skipping json output"
)
"""What was requested and not done."""
_NRANKS = re.compile(r"\bnranks ([1-9]\d{0,8})")
_LOG_HOST = re.compile(r"^([A-Za-z0-9][\w.-]*):\d+:\d+ ")
_RANK = re.compile(
    r"Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+(?P<group>\d{1,9})\s+)?Pid\s+(?P<pid>\d{1,9})\s+on\s+(?P<host>\S.{0,255}?)\s+device\s+(?P<device>\d{1,9})\s+"
    r"\[(?P<bus>[0-9a-fA-Fx:.]+)\]\s*(?P<name>.{0,255})"
)
_PROGRAM = re.compile(
    r"(?<![a-z_])(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|scatter|gather|hypercube)(?:_perf|\.cu:\d)"
)
_CONFIG = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|iters|agg"
    r" iters|validation|graph|unalign):? +(\d{1,18})(\(\w+\))?"
)
"""The configuration line's pairs; the order, the colons and the last names differ by version."""


def rank_line(text: str) -> RankLine | None:
    """One entry of the device table; None = the line is none."""
    match = _RANK.search(text)
    if match is None:
        return None
    return RankLine(
        rank=int(match["rank"]),
        host=match["host"],
        device=int(match["device"]),
        device_name=match["name"].strip(" `\"',\t"),
        pid=int(match["pid"]),
        group=int(match["group"]) if match["group"] is not None else None,
        bus_id=match["bus"],
    )


def program_of(text: str) -> str | None:
    """The collective whose program (or source file) a line names; None = none."""
    if "_perf" not in text and ".cu:" not in text:
        return None
    match = _PROGRAM.search(text)
    return match[1] if match else None


_COMMAND = re.compile(
    r"\b(?:mpirun|mpiexec(?:\.\w+)?|orterun|prterun|srun)\s(?P<launcher>.{0,2000}?)_perf\b(?P<options>.{0,1000})"
)
_PROCESSES = re.compile(r"(?:^|\s)(?:-np|-n|--np|--n|--ntasks)[= ]+(\d{1,6})(?=\s)")
_GPUS = re.compile(r"(?:^|\s)(?:-g|--ngpus)[= ]+(\d{1,3})(?=\s|$)")
_THREADS = re.compile(r"(?:^|\s)(?:-t|--nthreads)[= ]+(\d{1,3})(?=\s|$)")


def ranks_of_command(text: str) -> int | None:
    """The ranks that a quoted command line starts: its processes, each with -t threads of -g GPUs;
    None = it is none, or does not say how many processes.

    >>> ranks_of_command("$ mpirun -np 4 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 8")
    32
    """
    match = _COMMAND.search(text)
    processes = _PROCESSES.search(match["launcher"]) if match is not None else None
    if match is None or processes is None:
        return None
    gpus, threads = _GPUS.search(match["options"]), _THREADS.search(match["options"])
    return int(processes[1]) * int(gpus[1] if gpus else 1) * int(threads[1] if threads else 1)


# What is read of one run before anything is concluded from it.


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line worth quoting."""

    line_no: int
    """From 1; 0 = the text has no lines worth counting (JSON)."""
    text: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: its rows and everything printed around them."""

    rows: tuple[PrintedRow, ...] = ()
    ranks: tuple[RankLine, ...] = ()
    config: tuple[tuple[str, str], ...] = ()
    program: str | None = None
    """Collective of the program's name, `all_reduce`."""
    tests_version: str | None = None
    headers_code: int | None = None
    library_code: int | None = None
    nccl_versions: tuple[str, ...] = ()
    """As NCCL printed them itself, without repeats."""
    has_header: bool = False
    """The column names are there (JSON always names its values)."""
    copies: int = 1
    """How many processes printed their own table into this text, with rows mixed beyond
    separation."""
    writers: int = 1
    """Ranks of one job that each printed a table, separated by the launcher's tags."""
    out_of_bounds: int | None = None
    out_of_bounds_failed: bool = False
    average_gb_s: float | None = None
    average_failed: bool = False
    average_may_be_cut: bool = False
    """The text ends right behind the average's digits, and more could have followed."""
    ended: bool = False
    """The end is there: the average's line, or a JSON document's `end_time`."""
    end_missing: str = ""
    """Why it did not end, where the format shows more than that the end is missing."""
    ranks_per_line: int = 1
    """Ranks that one entry of `ranks` stands for: JSON lists processes."""
    footer_is_elsewhere: bool = False
    """The format has no footer: average and out-of-bounds stand in another file."""
    stated_nodes: int | None = None
    """Nodes, where the format says how many."""
    reduction_is_silent: bool = False
    """True = a sweep shortened for lack of memory shows only in that its last sizes are missing
    (JSON)."""
    reduced_to_bytes: int | None = None
    """`Reducing maxBytes to`."""
    torn: tuple[Quoted, ...] = ()
    """Rows of which cells are missing, and cells of which the row is missing."""
    not_finite: tuple[Quoted, ...] = ()
    """Rows with nan or inf among their measurements."""
    failures: tuple[Quoted, ...] = ()
    """`Test NCCL failure`, `Test CUDA failure`, `Test timeout`."""
    notes: tuple[Quoted, ...] = ()
    """What was requested and not done: `invalid type …, defaulting to`."""
    logged_ranks: tuple[int, ...] = ()
    """`nranks` of NCCL's own lines, most frequent first."""
    quoted_ranks: int | None = None
    """Ranks that the command line above the run would start; None = none is quoted, or it does not
    say."""
    last_error: str | None = None
    """`# error:` after the footer; sticky, it can stand in a run that ended well."""
    process_times: tuple[ProcessTimes, ...] = ()

    def number(self, *names: str) -> int | None:
        """A number of the configuration, under the first of these names that is there; None = none
        is."""
        values = dict(self.config)
        text = next((values[name] for name in names if name in values), "").partition("(")[0]
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


# Rows that other text tore apart.
#
# nccl-tests writes a row in steps (the head, each placement, the line end) while NCCL logs to the
# same stream, launchers end unfinished lines, and terminals wrap long ones. The pieces are joined
# where the result is a row whose bandwidths are its size over its times.

_CUT_CELL = re.compile(r"\s*(?:-?\d*\.?\d*(?:e[+-]?\d*)?|N/?|[a-z]{1,7})")
_CELL_END = re.compile(r"(?:\.\d*|/?A|e?[+-]?\d+)(?=\s|$)")
_LONGEST_CELL = 80
"""Characters with the blanks before it; a column is at most 20 wide."""
_LONGEST_ROW = 4096
"""Characters; a whole row has about 300. What is longer is no row that was torn, and to read it
again with every line would never end."""


class RowAt(NamedTuple):
    """A row, or the line on which one began that was never finished."""

    line: Line
    """Where it began."""
    printed: PrintedRow | None
    """None = torn."""
    not_finite: bool = False
    """True = a measurement is nan or inf and was left out."""


class Piece(NamedTuple):
    """What a line gave."""

    rows: tuple[RowAt, ...]
    """Rows that are finished with it, and rows given up because of it; () = it only continued a
    row."""
    rest: str
    """What stands behind the last cell: foreign text, or nothing."""


class _Pending(NamedTuple):
    """The part of a row that was read so far."""

    line: Line
    text: str
    """Up to its last whole cell."""
    cut_cell: str
    """Behind that, the beginning of a cell that the line's end cut; mostly nothing."""
    last: int
    """Number of the last line it was read from."""
    single: PrintedRow | None = None
    """The row it is if nothing follows: without column names, half a row looks like a row of one
    placement."""


@dataclass(slots=True)
class RowJoiner:
    """Takes rows out of the lines of one writer.

    >>> row = "     8388608       2097152     float     sum      -1"
    >>> rest = "    96.41   87.01  163.14       0    95.88   87.49  164.05       0"
    >>> joiner = RowJoiner(hosts={"node-a"})
    >>> joiner.take(Line(1, "", row + "node-a:41011:41040 [0] NCCL INFO", True), None).rest
    'node-a:41011:41040 [0] NCCL INFO'
    >>> (joined,) = joiner.resume(Line(2, "", rest, True), None).rows
    >>> joined.line.number, joined.printed.row.in_place.time_us
    (1, 95.88)
    """

    hosts: set[str] = field(default_factory=set)
    """Names that may stand glued to a cell."""
    pending: _Pending | None = None
    """The row that was begun and is not finished."""

    def take(self, line: Line, layout: Layout | None, one_placement: bool = False) -> Piece:
        """The rows that begin in a line. `one_placement` = rows of this table measure only one
        placement."""
        text = line.text
        rows: list[RowAt] = []
        while (head := HEAD.search(text)) is not None:
            resumed = self.resume(line._replace(text=text[: head.start()]), layout)
            rows += resumed.rows if resumed else ()
            rows += self.give_up(one_placement)
            cells = find_row(text, layout, self._hosts())
            if cells is None:
                break
            before, behind = text[: cells.begin], text[cells.end :]
            part = text[cells.begin : cells.end] if before.strip() else text[: cells.end]
            half = (
                layout is None
                and cells.printed is not None
                and len(cells.printed.measured()) == 1
                and not cells.not_finite
            )
            if cells.printed is None or half:
                cut_cell = _beginning_of_cell(behind)
                self.pending = _Pending(line, part, cut_cell, line.number, cells.printed)
            else:
                rows.append(_row_at(line, cells))
            text = behind
        return Piece(tuple(rows), text)

    def continues(self, line: Line) -> bool:
        """Whether a line begins as the rest of the row that was begun: with a cell, or, in the very
        next line, with the end of one."""
        if self.pending is None:
            return False
        if REST_OF_ROW.match(line.text):
            return True
        next_line = line.number == self.pending.last + 1
        return next_line and _CELL_END.match(line.text) is not None

    def resume(self, line: Line, layout: Layout | None) -> Piece | None:
        """What a line adds to the row that was begun; None = it is no part of it."""
        pending = self.pending
        if pending is None or len(pending.text) > _LONGEST_ROW or not self.continues(line):
            return None
        longer: _Pending | None = None
        rest = ""
        for text in (pending.text + pending.cut_cell + line.text, f"{pending.text} {line.text}"):
            cells = find_row(text, layout, self._hosts())
            if cells is None:
                start = ROW_START.match(text)
                if start and start.end() > len(pending.text):
                    longer, rest = _longer(pending, text, start.end(), line), text[start.end() :]
            elif cells.printed is None:
                if cells.end > len((longer or pending).text):
                    longer, rest = _longer(pending, text, cells.end, line), text[cells.end :]
            elif _is_plausible(cells.printed) and (
                pending.single is None or len(cells.printed.measured()) == 2
            ):
                self.pending = None
                return Piece((_row_at(pending.line, cells),), text[cells.end :])
        if longer is None:
            return None
        self.pending = longer
        return Piece((), rest)

    def begin(self, line: Line) -> bool:
        """Takes a line as the start of a row that was torn before its type; False = it is none."""
        start = ROW_START.match(line.text)
        if start is None or self.pending is not None:
            return False
        self.pending = _Pending(line, start[0], "", line.number)
        return True

    def give_up(self, one_placement: bool) -> tuple[RowAt, ...]:
        """Ends the row that was begun: torn, unless rows of one placement are what this table
        has."""
        pending, self.pending = self.pending, None
        if pending is None or not HEAD.search(pending.text):
            return ()  # numbers that were no row
        return (RowAt(pending.line, pending.single if one_placement else None),)

    def _hosts(self) -> tuple[str, ...]:
        return tuple(sorted(self.hosts, key=len, reverse=True))


def _longer(pending: _Pending, text: str, end: int, line: Line) -> _Pending:
    """The pending row with what a further line added: `text` up to `end`."""
    return _Pending(pending.line, text[:end], _beginning_of_cell(text[end:]), line.number)


def _beginning_of_cell(rest: str) -> str:
    """What stands behind the last whole cell, where it can be the beginning of one."""
    return rest if len(rest) <= _LONGEST_CELL and _CUT_CELL.fullmatch(rest) else ""


def _row_at(line: Line, cells: Cells) -> RowAt:
    """A whole row. A row with more elements than bytes is torn after all: its size has lost
    digits."""
    printed = cells.printed
    if printed is not None and printed.row.size_bytes < printed.row.count:
        return RowAt(line, None)
    return RowAt(line, printed, cells.not_finite)


def _is_plausible(printed: PrintedRow) -> bool:
    """Whether a joined row can be one: bandwidth is size / time, or the same share of it in both
    placements (alltoallv and hypercube count less than the size), and busbw / algbw is one factor
    in both."""
    size_bytes, measured = printed.row.size_bytes, printed.measured()
    if not all(algbw_fits(size_bytes, value, slack) for value, slack in measured):
        shares = [share_interval(size_bytes, value, slack) for value, slack in measured]
        lows = [share[0] for share in shares if share is not None]
        highs = [share[1] for share in shares if share is not None]
        if len(lows) != 2 or max(lows) > min(highs) or lows[0] > 1:
            return False
    return factor_interval((printed,)) is not None or all(
        value.algbw_gb_s < 1 for value, _ in measured
    )


# One run while it is being read.

_MOST_QUOTED = 1000
"""Lines of one kind that are kept to be quoted."""


class Phase(IntEnum):
    """How far a run has come."""

    PREFACE = 0
    DEVICES = 1
    HEADER = 2
    ROWS = 3
    OUT_OF_BOUNDS = 4
    AVERAGE = 5


@dataclass(slots=True)
class Run:
    """A run while it is being read."""

    first_line: int
    last_line: int = 0
    """Of its last average; 0 = none was printed."""
    phase: Phase = Phase.PREFACE
    facts: RunFacts = field(default_factory=RunFacts)
    rows: list[PrintedRow] = field(default_factory=list)
    torn: list[Quoted] = field(default_factory=list)
    ranks: list[RankLine] = field(default_factory=list)
    logged_ranks: Counter[int] = field(default_factory=Counter)
    layout: Layout | None = None
    plain: PlainRows | None = None
    """Of the layout, once a row was read by it."""
    parts: Counter[str] = field(default_factory=Counter)
    """How many lines of each kind were read that a process prints once."""
    is_table: bool = False
    """Something of a table was seen, not only a version or a program's name."""

    def set(self, **changes: object) -> None:
        """Replaces fields of `facts`."""
        self.facts = replace(self.facts, **changes)  # type: ignore[arg-type]  # dataclasses.replace cannot type a field by its name

    def device_lists(self) -> int:
        """How many processes say that they are the first one: device lists that name the same
        rank."""
        return max(Counter(entry.rank for entry in self.ranks).values(), default=0)

    def footers(self) -> int:
        """How many processes printed their average."""
        return self.parts["average"]

    def has(self) -> frozenset[str]:
        """Which parts of a run it has."""
        facts = self.facts
        present = {
            "configuration": bool(facts.config),
            "devices": bool(self.ranks),
            "names": self.layout is not None,
            "rows": bool(self.rows),
            "footer": self.footers() > 0 or facts.out_of_bounds is not None,
        }
        return frozenset(name for name, is_present in present.items() if is_present)

    def processes(self) -> int:
        """How many whole tables it has: every line that a process prints once is there as often, or
        in none of them; 0 = their numbers differ, or no row is there."""
        counts = {count for count in self.parts.values() if count}
        copies = self.parts["names"]
        if counts != {copies} or not self.footers() or not self.rows:
            return 0
        return copies if self.device_lists() in (0, copies) else 0

    def absorb(self, other: Run) -> None:
        """Takes all that another part of the same text has."""
        self.parts.update(other.parts)
        self.rows += other.rows
        self.torn += other.torn
        self.ranks += other.ranks
        self.logged_ranks = self.logged_ranks + other.logged_ranks
        self.layout = self.layout or other.layout
        self.phase = max(self.phase, other.phase)
        self.is_table |= other.is_table
        mine, its = self.facts, other.facts
        out_of_bounds = [n for n in (mine.out_of_bounds, its.out_of_bounds) if n is not None]
        versions = mine.nccl_versions
        for version in its.nccl_versions:
            versions = _with(versions, version)
        average_gb_s = its.average_gb_s if mine.average_gb_s is None else mine.average_gb_s
        self.set(
            config=mine.config or its.config,
            program=mine.program or its.program,
            tests_version=mine.tests_version or its.tests_version,
            headers_code=mine.headers_code or its.headers_code,
            library_code=mine.library_code or its.library_code,
            nccl_versions=versions,
            out_of_bounds=max(out_of_bounds, default=None),
            out_of_bounds_failed=mine.out_of_bounds_failed or its.out_of_bounds_failed,
            average_gb_s=average_gb_s,
            average_failed=mine.average_failed or its.average_failed,
            average_may_be_cut=its.average_may_be_cut,
            reduced_to_bytes=mine.reduced_to_bytes or its.reduced_to_bytes,
            not_finite=(*mine.not_finite, *its.not_finite)[:_MOST_QUOTED],
            failures=(*mine.failures, *its.failures)[:_MOST_QUOTED],
            notes=(*mine.notes, *its.notes)[:_MOST_QUOTED],
            last_error=its.last_error or mine.last_error,
            ended=True,
        )

    def one_placement(self) -> bool:
        """Whether its rows can be of one placement: none of them has two."""
        return not any(len(printed.measured()) == 2 for printed in self.rows)

    def add(self, rows: Iterable[RowAt]) -> None:
        """Takes rows, whole and torn."""
        for line, printed, not_finite in rows:
            quoted = Quoted(line.number, line.text)
            if printed is not None:
                self.rows.append(replace(printed, row=replace(printed.row, line_no=line.number)))
                if not_finite:
                    self.set(not_finite=(*self.facts.not_finite, quoted)[:_MOST_QUOTED])
            elif len(self.torn) < _MOST_QUOTED:
                self.torn.append(quoted)

    def finish(self) -> RunFacts:
        """The facts with rows and what was counted along the way."""
        return replace(
            self.facts,
            rows=tuple(self.rows),
            ranks=tuple(self.ranks),
            torn=tuple(sorted(self.torn, key=lambda line: line.line_no)),
            logged_ranks=tuple(number for number, _ in self.logged_ranks.most_common()),
            has_header=self.layout is not None,
        )


_LONGEST_HEADER = 1000
"""Characters of column names that may still go on in the next line; a whole header has about
250."""


@dataclass(slots=True)
class RunReader:
    """Turns the lines of one writer into runs."""

    runs: list[Run] = field(default_factory=list)
    current: Run | None = None
    heads: list[Run] = field(default_factory=list)
    """Runs that have a head and no column names yet, since the last run that ended: of other
    processes, or of a run that died."""
    rows: RowJoiner = field(default_factory=RowJoiner)
    program: str | None = None
    quoted_ranks: int | None = None
    nccl_versions: tuple[str, ...] = ()
    logged_ranks: Counter[int] = field(default_factory=Counter)
    failures: tuple[Quoted, ...] = ()
    placements: str = ""
    """The line above the column names: `out-of-place … in-place`."""
    half_header: Line | None = None
    """Column names that may go on in the next line."""

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        if self._plain_row(line):
            return
        if HEAD.search(line.text):
            self._rows(line)
        elif not (self._may_be_header(line.text) and self._header(line)):
            self._other(line)

    def _may_be_header(self, text: str) -> bool:
        return (
            self.half_header is not None
            or "algbw" in text
            or "busbw" in text
            or has_header_part(text)
        )

    def continues(self, line: Line) -> bool:
        """Whether a line without a tag is the rest of this writer's last one, which a terminal
        wrapped."""
        return self.half_header is not None or self.rows.continues(line)

    def finish(self) -> list[Run]:
        """All runs, in the order they began."""
        self._give_up()
        self._close()
        self.runs += self.heads
        self.heads = []
        runs = _fused(sorted(self.runs, key=lambda run: run.first_line))
        return [run for run in runs if run.is_table]

    # --- runs ---

    def _run(self, line: Line, phase: Phase, repeated: bool = False) -> Run:
        """The run a line of this phase belongs to; `repeated` = the run has had a line of this very
        kind already."""
        run = self.current
        if run is not None and (phase < run.phase or repeated):
            if run.phase < Phase.HEADER:
                self.heads.append(run)
            else:
                self._give_up()
                self._close()
            run = None
        if run is None:
            run = self._begin(line)
        run.phase = max(phase, run.phase)
        return run

    def _begin(self, line: Line) -> Run:
        run = Run(line.number)
        run.set(program=self.program, nccl_versions=self.nccl_versions, failures=self.failures)
        run.set(quoted_ranks=self.quoted_ranks)
        run.logged_ranks = self.logged_ranks
        self.program, self.nccl_versions, self.failures, self.logged_ranks = None, (), (), Counter()
        self.quoted_ranks = None
        self.current = run
        return run

    def _close(self) -> None:
        if self.current is not None:
            self.runs.append(self.current)
            self.current = None

    def _give_up(self) -> None:
        if self.current is not None:
            self.current.add(self.rows.give_up(self.current.one_placement()))

    # --- column names ---

    def _header(self, line: Line) -> bool:
        """Takes column names, whole or wrapped over several lines; False = the line has none."""
        text = line.text
        layout = parse_header(text)
        half = self.half_header
        if half is not None and len(half.text) > _LONGEST_HEADER:
            half = self.half_header = None
        if half is not None and layout is None and line.number == half.number + 1:
            layout = _wrapped_header(half.text, text)
            run = self.current
            if layout and run is not None and run.phase is Phase.HEADER and run.layout is not None:
                run.layout, self.half_header = layout, line._replace(text=half.text + text)
                return True
        if layout is None and not has_header_part(text):
            return False
        if layout is not None:
            self._set_header(line, with_placements(layout, self.placements))
        self.half_header = line if layout is None or layout.blocks == 1 else None
        return True

    def _set_header(self, line: Line, layout: Layout) -> None:
        run = self.current
        if (
            run is not None
            and run.phase in (Phase.HEADER, Phase.ROWS)
            and (not run.rows or self.heads or run.device_lists() > run.facts.copies)
        ):
            if self.heads:
                other = self.heads.pop(0)
                run.ranks += other.ranks
                run.parts.update(other.parts)
                run.first_line = min(run.first_line, other.first_line)
            run.parts["names"] += 1
            run.set(copies=run.facts.copies + 1)
            return
        has_header = run is not None and run.phase >= Phase.HEADER
        run = self._run(line, Phase.HEADER, repeated=has_header)
        run.layout, run.is_table = layout, True
        run.parts["names"] += 1

    # --- rows ---

    def _plain_row(self, line: Line) -> bool:
        """Takes a line that is a row like the one before and nothing else, as `_rows` would."""
        run = self.current
        if run is None or run.layout is None or self.rows.pending is not None:
            return False
        if run.phase not in (Phase.HEADER, Phase.ROWS):
            return False
        if run.layout.blocks < 2 and not run.layout.is_bare:
            return False
        if run.plain is None or run.plain.layout is not run.layout:
            run.plain = PlainRows(run.layout)
        printed = run.plain.row(line.text, line.number)
        if printed is None:
            return False
        run.phase, run.is_table = Phase.ROWS, True
        run.rows.append(printed)
        return True

    def _rows(self, line: Line) -> None:
        run = self._run_of_rows(line)
        piece = self.rows.take(line, run.layout, run.one_placement())
        run.add(piece.rows)
        if piece.rest.strip():
            self._facts(line, piece.rest)

    def _run_of_rows(self, line: Line) -> Run:
        run = self.current
        if run is None or run.phase < Phase.OUT_OF_BOUNDS or run.footers() >= run.facts.copies:
            run = self._run(line, Phase.ROWS)
        run.is_table = True
        return run

    # --- everything else ---

    def _other(self, line: Line) -> None:
        text = line.text
        run = self.current
        piece = self.rows.resume(line, run.layout) if run is not None else None
        if run is not None and piece is not None:
            run.add(piece.rows)
            self._facts(line, piece.rest)
            return
        if "-of-place" in text or "in-place" in text:
            self.placements = text
        elif "(GB/s)" in text or "(MB/s)" in text:
            if run is not None and run.layout is not None and run.phase is Phase.HEADER:
                run.layout = with_units(run.layout, text)
        elif not self._preface(line) and not self._footer(line):
            self._facts(line, text)
            between = run is not None and run.phase in (Phase.HEADER, Phase.ROWS)
            if run is not None and between and not self.rows.begin(line) and _is_orphan(text):
                run.add((RowAt(line, None),))

    def _preface(self, line: Line) -> bool:
        """Takes versions, configuration, devices; False = the line has none."""
        text, current = line.text, self.current
        if "ersion" in text and (match := _TESTS_VERSION.search(text)):
            repeated = (
                match[1] is not None
                and current is not None
                and current.facts.tests_version is not None
            )
            run = self._run(line, Phase.PREFACE, repeated)
            run.parts["version"] += 1
            run.set(
                tests_version=match[1] or match[4],
                headers_code=_int(match[2]),
                library_code=_int(match[3]),
            )
        elif "nThread" in text and len(pairs := _CONFIG.findall(text)) >= 3:
            repeated = current is not None and bool(current.facts.config)
            run = self._run(line, Phase.PREFACE, repeated)
            run.parts["configuration"] += 1
            run.set(config=tuple((name, value + unit) for name, value, unit in pairs))
            run.is_table = True
        elif "Collective test starting" in text:
            run = self._run(line, Phase.PREFACE)
            run.parts["start"] += 1
            run.set(program=program_of(text) or run.facts.program)
            run.is_table = True
        elif "Using devices" in text:
            self._devices(line)
        elif "Rank" in text and (entry := rank_line(text)):
            self.rows.hosts.add(entry.host)
            self._devices(line).ranks.append(entry)
        elif "maxBytes" in text and (match := _REDUCED.search(text)):
            self._devices(line).set(reduced_to_bytes=int(match[1]))
        else:
            return False
        return True

    def _devices(self, line: Line) -> Run:
        run = self.current
        if run is None or run.phase not in (Phase.HEADER, Phase.ROWS) or not self.heads:
            run = self._run(line, Phase.DEVICES)
        run.is_table = True
        return run

    def _footer(self, line: Line) -> bool:
        """Takes out of bounds, average, the program's last words; False = the line has none."""
        text = line.text
        if "bounds" in text and (match := _OUT_OF_BOUNDS.search(text)):
            run = self._run_of_footer(line, Phase.OUT_OF_BOUNDS)
            run.parts["out of bounds"] += 1
            run.set(
                out_of_bounds=max(int(match[1]), run.facts.out_of_bounds or 0),
                out_of_bounds_failed=run.facts.out_of_bounds_failed or match[2] == "FAILED",
            )
        elif "bandwidth" in text and (match := _AVERAGE.search(text)):
            self._average(line, match)
        elif "Collective test concluded" in text:
            run = self.current or self._begin(line)
            run.set(program=program_of(text) or run.facts.program)
        else:
            return False
        return True

    def _average(self, line: Line, match: re.Match[str]) -> None:
        run = self._run_of_footer(line, Phase.AVERAGE)
        run.parts["average"] += 1
        run.last_line = line.number
        average_gb_s = run.facts.average_gb_s
        if average_gb_s is None and math.isfinite(float(match[1])):
            average_gb_s = float(match[1])
        digits = len(match[1].lstrip("-0.").replace(".", ""))
        run.set(
            average_gb_s=average_gb_s,
            average_failed=run.facts.average_failed or match[3] == "FAILED",
            average_may_be_cut=not line.ended and not match[2] and digits < 6,
            ended=run.footers() >= run.facts.copies,
        )
        if run.footers() >= run.facts.copies:
            self.runs += self.heads
            self.heads = []

    def _run_of_footer(self, line: Line, phase: Phase) -> Run:
        self._give_up()
        run = self.current
        if (
            run is not None
            and run.phase >= Phase.OUT_OF_BOUNDS
            and run.footers() < run.facts.copies
        ):
            run.phase = max(phase, run.phase)
        else:
            run = self._run(line, phase, repeated=run is not None and run.phase >= phase)
        run.is_table = True
        return run

    def _facts(self, line: Line, text: str) -> None:
        """What any line may say beside the table: program, versions, ranks, failures."""
        run = self.current
        if match := _LOG_HOST.match(text):
            self.rows.hosts.add(match[1])
        if (program := program_of(text)) is not None:
            ranks = ranks_of_command(text)
            if run is not None and run.phase < Phase.HEADER and run.facts.program is None:
                run.set(program=program, quoted_ranks=ranks or run.facts.quoted_ranks)
            elif run is None or run.phase is Phase.AVERAGE:
                self.program, self.quoted_ranks = program, ranks or self.quoted_ranks
        if "CCL version" in text and (match := _NCCL_VERSION.search(text)):
            if run is not None and run.phase is not Phase.AVERAGE:
                run.set(nccl_versions=_with(run.facts.nccl_versions, match[1]))
            else:
                self.nccl_versions = _with(self.nccl_versions, match[1])
        if "nranks " in text and (match := _NRANKS.search(text)):
            logged_ranks = self.logged_ranks if run is None else run.logged_ranks
            logged_ranks[int(match[1])] += line.times
        if "# error:" in text and run is not None:
            run.set(last_error=text.partition("# error:")[2].strip() or None)
        quoted = Quoted(line.number, text)
        if run is not None and _NOTE.search(text):
            run.set(notes=(*run.facts.notes, quoted)[:_MOST_QUOTED])
        if _FAILURE.search(text):
            if run is None:
                self.failures = (*self.failures, quoted)[:_MOST_QUOTED]
            else:
                run.set(failures=(*run.facts.failures, quoted)[:_MOST_QUOTED])


def _wrapped_header(half: str, text: str) -> Layout | None:
    """The layout of column names that go on in a second line; None = they do not."""
    if "(" in text or REST_OF_ROW.match(text):
        return None
    layouts = (parse_header(half + text), parse_header(f"{half} {text.lstrip()}"))
    return max(
        (layout for layout in layouts if layout is not None), key=_known_columns, default=None
    )


def _known_columns(layout: Layout) -> int:
    return sum(column.name != "other" for column in layout.columns)


def _is_orphan(text: str) -> bool:
    """Whether a line begins with at least three cells that no row belongs to."""
    if not REST_OF_ROW.match(text):
        return False
    words = text.split()
    return len(words) >= 3 and all(REST_OF_ROW.fullmatch(word) for word in words[:3])


def _with(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The values with a new one behind them, once."""
    return known if new in known else (*known, new)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None


# The tables of several processes in one stream. Which process a row is of is printed nowhere, so
# that all rows become those of one run. Lines that begin a run late, or end one that has none, leave
# it in pieces; these are one mixture where together they have each line of a process equally often.

_MOST_PIECES = 200


def _fused(runs: list[Run]) -> list[Run]:
    """The runs, with one in the place of the pieces of a mixture."""
    fused: list[Run] = []
    at = 0
    while at < len(runs):
        pieces = _pieces_of_mixture(runs[at : at + _MOST_PIECES])
        run = runs[at]
        for piece in runs[at + 1 : at + pieces]:
            run.absorb(piece)
        if pieces > 1:
            run.set(copies=run.footers())
        fused.append(run)
        at += pieces
    return fused


def _pieces_of_mixture(runs: Sequence[Run]) -> int:
    """How many runs, from the first one on, are pieces of one mixture; 1 = it is a run by itself."""
    total = Run(0)
    for number, run in enumerate(runs, 1):
        total.parts.update(run.parts)
        total.ranks += run.ranks
        total.rows += run.rows
        total.last_line = max(total.last_line, run.last_line)
        if number < len(runs) and runs[number].first_line < total.last_line:
            continue  # the next one began inside
        copies = total.processes()
        if copies > 1 or (copies == 1 and number == 1):
            return number
        if total.footers() > total.parts["names"]:
            return 1
    return 1


# The lines of one process. Launchers say it in front of each line. Where they do not, or where
# what looks like a process is something else (a line number), the lines are read as one stream.

_RANK_TAG = re.compile(r"(?:^|[,/@]|rank|default)\d+$")
"""A launcher's tag that says which rank of one job wrote the line, not merely which host."""


def runs_of(lines: Iterable[Line]) -> tuple[RunFacts, ...]:
    """The runs in a text, in the order they began.

    Lines are separated by who wrote them. Where that tears tables (column names of one writer, rows
    of another), the tags are no writers after all, and the lines are read as one stream.
    """
    all_lines = tuple(lines)
    readers = _readers_by_tag(all_lines)
    runs_by_tag = [reader.finish() for reader in readers.values()]
    _count_writers(readers, runs_by_tag)
    if _has_torn_tables(runs_by_tag):
        reader = RunReader()
        for line in all_lines:
            reader.feed(line)
        runs_by_tag = min(runs_by_tag, [reader.finish()], key=_pieces)
    if len(runs_by_tag) == len(readers):
        _share(list(readers.values()), runs_by_tag)
    runs = [run for runs in runs_by_tag for run in runs]
    return tuple(run.finish() for run in sorted(runs, key=lambda run: run.first_line))


def _readers_by_tag(lines: Sequence[Line]) -> dict[str, RunReader]:
    """One reader for each writer, fed with its lines."""
    readers: dict[str, RunReader] = {}
    before, number = "", -1
    for line in lines:
        tag = line.tag
        if not tag and line.number == number + 1 and before and readers[before].continues(line):
            tag = before
        before, number = tag, line.number
        reader = readers.get(tag)
        if reader is None:
            reader = readers[tag] = RunReader()
        reader.feed(line)
    return readers


def _count_writers(tags: Iterable[str], runs_by_tag: list[list[Run]]) -> None:
    """Sets in runs of several ranks of one job how many ranks printed a table."""
    runs_by_shape: dict[str, list[Run]] = {}
    ranks: Counter[str] = Counter()
    for tag, runs in zip(tags, runs_by_tag, strict=True):
        if _RANK_TAG.search(tag) and any(run.rows for run in runs):
            shape = tag.rstrip("0123456789")
            runs_by_shape.setdefault(shape, []).extend(runs)
            ranks[shape] += 1
    for shape, runs in runs_by_shape.items():
        for run in runs:
            run.set(writers=ranks[shape])


def _share(readers: list[RunReader], runs_by_tag: list[list[Run]]) -> None:
    """Gives what writers without a table reported (versions, number of ranks, failures) to the one
    run there is."""
    runs = [run for runs in runs_by_tag for run in runs]
    if len(runs) != 1:
        return
    run = runs[0]
    for reader, own_runs in zip(readers, runs_by_tag, strict=True):
        if own_runs:
            continue
        run.logged_ranks.update(reader.logged_ranks)
        versions = run.facts.nccl_versions
        for version in reader.nccl_versions:
            versions = _with(versions, version)
        failures = sorted(run.facts.failures + reader.failures, key=lambda line: line.line_no)
        run.set(nccl_versions=versions, failures=tuple(failures)[:_MOST_QUOTED])


def _pieces(runs_by_tag: list[list[Run]]) -> tuple[int, int]:
    """How badly tables are in pieces: fewer whole ones is worse, then more runs."""
    runs = [run for runs in runs_by_tag for run in runs]
    return -sum({"names", "rows", "footer"} <= run.has() for run in runs), len(runs)


def _has_torn_tables(runs_by_tag: list[list[Run]]) -> bool:
    """Whether runs of two writers have no part in common, so that they are pieces of one."""
    parts = [(number, run.has()) for number, runs in enumerate(runs_by_tag) for run in runs]
    for number, mine in parts:
        if "rows" not in mine:
            continue
        if any(number != other and not mine & theirs for other, theirs in parts):
            return True
    return False
