"""One run while it is being read, and which of several are pieces of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from busbw.model.benchmark import RankLine
from busbw.parsers.nccl_tests.layout import Layout
from busbw.parsers.nccl_tests.printed import PrintedRow
from busbw.parsers.nccl_tests.rows import PlainRows
from busbw.parsers.nccl_tests.run_facts import Quoted, RunFacts
from busbw.parsers.nccl_tests.torn_rows import RowAt

MOST_QUOTED = 1000
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
        # As `dataclasses.replace`, in half its time: this runs for ten lines of each table.
        facts = object.__new__(RunFacts)
        for name in RunFacts.__slots__:
            value = changes[name] if name in changes else getattr(self.facts, name)
            object.__setattr__(facts, name, value)
        self.facts = facts

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
            versions = with_new(versions, version)
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
            not_finite=(*mine.not_finite, *its.not_finite)[:MOST_QUOTED],
            doubtful=(*mine.doubtful, *its.doubtful)[:MOST_QUOTED],
            failures=(*mine.failures, *its.failures)[:MOST_QUOTED],
            notes=(*mine.notes, *its.notes)[:MOST_QUOTED],
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
                    self.set(not_finite=(*self.facts.not_finite, quoted)[:MOST_QUOTED])
            elif len(self.torn) < MOST_QUOTED:
                self.torn.append(quoted)

    def finish(self) -> RunFacts:
        """The facts with rows and what was counted along the way."""
        layout, average_gb_s = self.layout, self.facts.average_gb_s
        if layout is not None and average_gb_s is not None:
            average_gb_s *= layout.bandwidth_gb_s
        return replace(
            self.facts,
            average_gb_s=average_gb_s,
            bandwidth_unit="GB/s" if layout is None else layout.bandwidth_unit,
            unknown_unit="" if layout is None else layout.unknown_unit,
            rows=tuple(self.rows),
            ranks=tuple(self.ranks),
            torn=tuple(sorted(self.torn, key=lambda line: line.line_no)),
            logged_ranks=tuple(number for number, _ in self.logged_ranks.most_common()),
            has_header=self.layout is not None,
        )


def with_new(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The values with a new one behind them, once."""
    return known if new in known else (*known, new)


# The tables of several processes in one stream. Which process a row is of is printed nowhere, so
# that all rows become those of one run. Lines that begin a run late, or end one that has none, leave
# it in pieces; these are one mixture where together they have each line of a process equally often.

_MOST_PIECES = 200


def fused_runs(runs: list[Run]) -> list[Run]:
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
