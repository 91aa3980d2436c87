"""One run of nccl-tests while it is being read: how far it has come and what has been seen of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from busbw.parsers.formats.nccl_tests_facts import Quoted, RunFacts
from busbw.parsers.formats.nccl_tests_layout import Layout, ReadRow
from busbw.parsers.formats.nccl_tests_rows import Found
from busbw.records.benchmark import RankLine

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
    phase: Phase = Phase.PREFACE
    facts: RunFacts = field(default_factory=RunFacts)
    rows: list[ReadRow] = field(default_factory=list)
    torn: list[Quoted] = field(default_factory=list)
    ranks: list[RankLine] = field(default_factory=list)
    logged_ranks: Counter[int] = field(default_factory=Counter)
    layout: Layout | None = None
    footers: int = 0
    is_table: bool = False
    """Something of a table was seen, not only a version or a program's name."""

    def set(self, **changes: object) -> None:
        """Replaces fields of `facts`."""
        self.facts = replace(self.facts, **changes)  # type: ignore[arg-type]  # dataclasses.replace cannot type a field by its name

    def writers(self) -> int:
        """How many processes say that they are the first one: device lists that name the same rank."""
        return max(Counter(entry.rank for entry in self.ranks).values(), default=1)

    def parts(self) -> frozenset[str]:
        """Which parts of a run it has."""
        facts = self.facts
        there = {
            "configuration": bool(facts.config),
            "devices": bool(self.ranks),
            "names": self.layout is not None,
            "rows": bool(self.rows),
            "footer": self.footers > 0 or facts.out_of_bounds is not None,
        }
        return frozenset(name for name, present in there.items() if present)

    def one_placement(self) -> bool:
        """Whether its rows can be of one placement: none of them has two."""
        return not any(len(read.measured()) == 2 for read in self.rows)

    def add(self, found: Iterable[Found]) -> None:
        """Takes rows, whole and torn."""
        for line, read, not_finite in found:
            quoted = Quoted(line.number, line.text)
            if read is None:
                self.torn += [quoted] if len(self.torn) < MOST_QUOTED else []
                continue
            self.rows.append(replace(read, row=replace(read.row, line_no=line.number)))
            if not_finite:
                self.set(not_finite=(*self.facts.not_finite, quoted)[:MOST_QUOTED])

    def sealed(self) -> RunFacts:
        """The facts with rows and what was counted along the way."""
        return replace(
            self.facts,
            rows=tuple(self.rows),
            ranks=tuple(self.ranks),
            torn=tuple(sorted(self.torn, key=lambda line: line.line_no)),
            logged_ranks=tuple(number for number, _ in self.logged_ranks.most_common()),
            has_header=self.layout is not None,
        )
