"""How the lines of a text make up runs of nccl-tests: where one begins, what belongs to it, where it ends.

A run is printed in a fixed order (configuration, devices, column names, rows, out of bounds, average); a line of an earlier phase begins a
new run. Processes that MPI did not join each print a run of their own into the same text: their heads stand together above mixed rows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from busbw.parsers.formats import nccl_tests_lines as lines_of
from busbw.parsers.formats.nccl_tests_facts import CONFIG, Quoted
from busbw.parsers.formats.nccl_tests_layout import FRAGMENT, HEAD, Layout, header, with_groups, with_units
from busbw.parsers.formats.nccl_tests_rows import Found, RowJoiner
from busbw.parsers.formats.nccl_tests_run import MOST_QUOTED, Phase, Run
from busbw.parsers.formats.nccl_tests_scan import Line

_LONGEST_HEADER = 1000
"""Characters of column names that may still go on in the next line; a whole header has about 250."""


@dataclass(slots=True)
class RunReader:
    """Turns the lines of one writer into runs."""

    runs: list[Run] = field(default_factory=list)
    current: Run | None = None
    waiting: list[Run] = field(default_factory=list)
    """Runs that have a head and no column names yet, since the last run that ended: of other processes, or of a run that died."""
    rows: RowJoiner = field(default_factory=RowJoiner)
    program: str | None = None
    nccl_versions: tuple[str, ...] = ()
    logged_ranks: Counter[int] = field(default_factory=Counter)
    failures: tuple[Quoted, ...] = ()
    groups: str = ""
    half_header: Line | None = None
    """Column names that may go on in the next line."""

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        text = line.text
        if HEAD.search(text):
            self._rows(line)
        elif "algbw" in text or "busbw" in text or lines_of.HEADER_PART.search(text) or self.half_header is not None:
            if not self._header(line):
                self._other(line)
        else:
            self._other(line)

    def goes_on(self, line: Line) -> bool:
        """Whether a line without a tag is the rest of this writer's last one, which a terminal wrapped."""
        return self.half_header is not None or self.rows.goes_on(line)

    def finish(self) -> list[Run]:
        """All runs, in the order they began."""
        self._give_up()
        self._close()
        self.runs += self.waiting
        self.waiting = []
        return sorted((run for run in self.runs if run.is_table), key=lambda run: run.first_line)

    # --- runs ---

    def _run(self, line: Line, phase: Phase, again: bool = False) -> Run:
        """The run a line of this phase belongs to; `again` = the run has had a line of this very kind already."""
        run = self.current
        if run is not None and (phase < run.phase or again):
            if run.phase < Phase.HEADER:
                self.waiting.append(run)
            else:
                self._give_up()
                self._close()
            run = None
        if run is None:
            run = self._begin(line)
        if phase > run.phase:
            run.phase = phase
        return run

    def _begin(self, line: Line) -> Run:
        run = Run(line.number)
        run.set(program=self.program, nccl_versions=self.nccl_versions, failures=self.failures)
        run.logged_ranks = self.logged_ranks
        self.program, self.nccl_versions, self.failures, self.logged_ranks = None, (), (), Counter()
        self.current = run
        return run

    def _close(self) -> None:
        if self.current is not None:
            self.runs.append(self.current)
            self.current = None

    def _header(self, line: Line) -> bool:
        """Column names, whole or wrapped over several lines."""
        text, run = line.text, self.current
        layout = header(text)
        if self.half_header is not None and len(self.half_header.text) > _LONGEST_HEADER:
            self.half_header = None
        wrapped = self.half_header is not None and line.number == self.half_header.number + 1 and layout is None and "(" not in text
        if wrapped and self.half_header is not None and not FRAGMENT.match(text):
            joined = (self.half_header.text + text, f"{self.half_header.text} {text.lstrip()}")
            layouts = [found for candidate in joined if (found := header(candidate)) is not None]
            layout = max(layouts, key=lambda found: sum(column.name != "other" for column in found.columns), default=None)
            if layout is not None and run is not None and run.phase is Phase.HEADER and run.layout is not None:
                run.layout, self.half_header = layout, line._replace(text=joined[0])
                return True
        if layout is None and not lines_of.HEADER_PART.search(text):
            return False
        if layout is not None:
            self._set_header(line, with_groups(layout, self.groups))
        self.half_header = line if layout is None or layout.blocks == 1 else None
        return True

    def _set_header(self, line: Line, layout: Layout) -> None:
        run = self.current
        if (
            run is not None
            and run.phase in (Phase.HEADER, Phase.ROWS)
            and (not run.rows or self.waiting or run.writers() > run.facts.copies)
        ):
            if self.waiting:
                other = self.waiting.pop(0)
                run.ranks += other.ranks
                run.first_line = min(run.first_line, other.first_line)
            run.set(copies=run.facts.copies + 1)
            return
        run = self._run(line, Phase.HEADER, again=run is not None and run.phase >= Phase.HEADER)
        run.layout, run.is_table = layout, True

    def _rows(self, line: Line) -> None:
        run = self._run_of_rows(line)
        piece = self.rows.take(line, run.layout, run.one_placement())
        run.add(piece.found)
        if piece.rest.strip():
            self._facts(line, piece.rest)

    def _run_of_rows(self, line: Line) -> Run:
        run = self.current
        mixed = run is not None and run.phase >= Phase.OUT_OF_BOUNDS and run.footers < run.facts.copies
        run = run if run is not None and mixed else self._run(line, Phase.ROWS)
        run.is_table = True
        return run

    def _give_up(self) -> None:
        if self.current is not None:
            self.current.add(self.rows.give_up(self.current.one_placement()))

    # --- everything else ---

    def _other(self, line: Line) -> None:
        text = line.text
        run = self.current
        piece = self.rows.resume(line, run.layout) if run is not None else None
        if run is not None and piece is not None:
            run.add(piece.found)
            self._facts(line, piece.rest)
            return
        if "-of-place" in text or "in-place" in text:
            self.groups = text
        elif "(GB/s)" in text or "(MB/s)" in text:
            if run is not None and run.layout is not None and run.phase is Phase.HEADER:
                run.layout = with_units(run.layout, text)
        elif not self._preface(line) and not self._footer(line):
            self._facts(line, text)
            if run is not None and run.phase in (Phase.HEADER, Phase.ROWS) and not self.rows.begin(line):
                self._orphan(line, run)

    def _orphan(self, line: Line, run: Run) -> None:
        """Cells without a row: at least three of them, between column names and footer, beginning the line."""
        words = line.text.split() if FRAGMENT.match(line.text) else []
        cells = next((at for at, word in enumerate(words) if not FRAGMENT.fullmatch(word)), len(words))
        if cells >= 3:
            run.add((Found(line, None),))

    def _preface(self, line: Line) -> bool:
        """Versions, configuration, devices."""
        text = line.text
        if "ersion" in text and (match := lines_of.TESTS_VERSION.search(text)):
            modern = match[1] is not None
            run = self._run(line, Phase.PREFACE, again=modern and self.current is not None and self.current.facts.tests_version is not None)
            run.set(tests_version=match[1] or match[4], headers_code=_int(match[2]), library_code=_int(match[3]))
        elif "nThread" in text and len(pairs := CONFIG.findall(text)) >= 3:
            run = self._run(line, Phase.PREFACE, again=bool(self.current is not None and self.current.facts.config))
            run.set(config=tuple((name, value + unit) for name, value, unit in pairs))
            run.is_table = True
        elif "Collective test starting" in text:
            run = self._run(line, Phase.PREFACE)
            run.set(program=lines_of.program_of(text) or run.facts.program)
            run.is_table = True
        elif "Using devices" in text:
            self._devices(line)
        elif "Rank" in text and (entry := lines_of.rank_line(text)):
            self.rows.hosts.add(entry.host)
            run = self._devices(line)
            run.ranks.append(entry)
        elif "maxBytes" in text and (match := lines_of.REDUCED.search(text)):
            self._devices(line).set(reduced_to_bytes=int(match[1]))
        else:
            return False
        return True

    def _devices(self, line: Line) -> Run:
        run = self.current
        mixed = run is not None and run.phase in (Phase.HEADER, Phase.ROWS) and self.waiting
        run = run if run is not None and mixed else self._run(line, Phase.DEVICES)
        run.is_table = True
        return run

    def _footer(self, line: Line) -> bool:
        """Out of bounds, average, the program's last words."""
        text = line.text
        if "bounds" in text and (match := lines_of.OUT_OF_BOUNDS.search(text)):
            run = self._run_of_footer(line, Phase.OUT_OF_BOUNDS)
            run.set(
                out_of_bounds=max(int(match[1]), run.facts.out_of_bounds or 0),
                out_of_bounds_failed=run.facts.out_of_bounds_failed or match[2] == "FAILED",
            )
        elif "bandwidth" in text and (match := lines_of.AVERAGE.search(text)):
            run = self._run_of_footer(line, Phase.AVERAGE)
            run.footers += 1
            number = float(match[1]) if math.isfinite(float(match[1])) else None
            digits = len(match[1].lstrip("-0.").replace(".", ""))
            run.set(
                average_gb_s=number if run.facts.average_gb_s is None else run.facts.average_gb_s,
                average_failed=run.facts.average_failed or match[3] == "FAILED",
                average_may_be_cut=not line.ended and not match[2] and digits < 6,
                ended=run.footers >= run.facts.copies,
            )
            if run.footers >= run.facts.copies:
                self.runs += self.waiting if run.facts.copies == 1 else []
                self.waiting = []
        elif "Collective test concluded" in text:
            run = self.current or self._begin(line)
            run.set(program=lines_of.program_of(text) or run.facts.program)
        else:
            return False
        return True

    def _run_of_footer(self, line: Line, phase: Phase) -> Run:
        self._give_up()
        run = self.current
        if run is not None and run.phase >= Phase.OUT_OF_BOUNDS and run.footers < run.facts.copies:
            run.phase = max(phase, run.phase)
        else:
            run = self._run(line, phase, again=run is not None and run.phase >= phase)
        run.is_table = True
        return run

    def _facts(self, line: Line, text: str) -> None:
        """What any line may tell beside the table: program, versions, ranks, failures."""
        run = self.current
        if match := lines_of.LOG_HOST.match(text):
            self.rows.hosts.add(match[1])
        if (program := lines_of.program_of(text)) is not None:
            if run is not None and run.phase < Phase.HEADER and run.facts.program is None:
                run.set(program=program)
            elif run is None or run.phase is Phase.AVERAGE:
                self.program = program
        if match := lines_of.NCCL_VERSION.search(text):
            if run is not None and run.phase is not Phase.AVERAGE:
                run.set(nccl_versions=extended(run.facts.nccl_versions, match[1]))
            else:
                self.nccl_versions = extended(self.nccl_versions, match[1])
        if match := lines_of.NRANKS.search(text):
            (run.logged_ranks if run is not None else self.logged_ranks)[int(match[1])] += 1
        if "# error:" in text and run is not None:
            run.set(last_error=text.partition("# error:")[2].strip() or None)
        if run is not None and lines_of.NOTE.search(text):
            run.set(notes=(*run.facts.notes, Quoted(line.number, text))[:MOST_QUOTED])
        if lines_of.FAILURE.search(text):
            quoted = Quoted(line.number, text)
            if run is None:
                self.failures = (*self.failures, quoted)[:MOST_QUOTED]
            elif len(run.facts.failures) < MOST_QUOTED:
                run.set(failures=(*run.facts.failures, quoted))


def extended(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The values with a new one behind them, once."""
    return known if new in known else (*known, new)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None
