"""Turns the lines of one writer into runs.

A run is printed in a fixed order (configuration, devices, column names, rows, out of bounds,
average); a line of an earlier phase begins a new run. Processes that MPI did not join each print a
run of their own into the same text: their heads stand together above mixed rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from busbw.parsers.nccl_tests.around_tables import (
    AVERAGE,
    BOUNDS_UNREADABLE,
    CONFIG,
    FAILURE,
    FAILURE_WORDS,
    LOG_HOST,
    NCCL_VERSION,
    NOTE,
    NOTE_WORDS,
    NRANKS,
    OUT_OF_BOUNDS,
    REDUCED,
    TESTS_VERSION,
    program_of,
    rank_line,
    ranks_of_command,
)
from busbw.parsers.nccl_tests.layout import (
    Layout,
    has_header_part,
    is_unit_line,
    parse_header,
    with_placements,
    with_units,
)
from busbw.parsers.nccl_tests.lines import Line
from busbw.parsers.nccl_tests.open_run import MOST_QUOTED, Phase, Run, fused_runs, with_new
from busbw.parsers.nccl_tests.rows import HEAD, REST_OF_ROW, PlainRows
from busbw.parsers.nccl_tests.run_facts import Quoted
from busbw.parsers.nccl_tests.torn_rows import RowAt, RowJoiner

_LONGEST_HEADER = 1000
"""Characters of column names that may still go on in the next line; a whole header has about
250."""


_SURPLUS = re.compile(r"(?:\s+(?:-?\d[\d.]*(?:e[+-]?\d+)?|nan|inf|N/A))+\s*")
"""Cells behind the last column."""


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
        runs = fused_runs(sorted(self.runs, key=lambda run: run.first_line))
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
        if run.plain is None or run.plain.layout is not run.layout:
            run.plain = PlainRows(run.layout)
        printed = run.plain.row(line.text, line.number) if run.plain.reads_any else None
        if printed is None:
            return False
        run.phase, run.is_table = Phase.ROWS, True
        run.rows.append(printed)
        return True

    def _rows(self, line: Line) -> None:
        run = self._run_of_rows(line)
        piece = self.rows.take(line, run.layout, run.one_placement())
        run.add(piece.rows)
        is_finished = run.layout is not None and self.rows.pending is None
        if is_finished and _SURPLUS.fullmatch(piece.rest):
            quoted = Quoted(line.number, line.text)
            run.set(doubtful=(*run.facts.doubtful, quoted)[:MOST_QUOTED])
        elif piece.rest.strip():
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
        elif "(GB/s)" in text or is_unit_line(text):
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
        if "ersion" in text and (match := TESTS_VERSION.search(text)):
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
        elif _is_configuration(text) and len(pairs := CONFIG.findall(text)) >= 3:
            repeated = current is not None and bool(current.facts.config)
            run = self._run(line, Phase.PREFACE, repeated)
            run.parts["configuration"] += 1
            config = tuple((name, value + unit) for name, value, unit in pairs)
            run.set(config=config)
            if "nThread" not in text:
                run.set(has_no_average=True, end_missing=NO_BOUNDS)
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
        elif "maxBytes" in text and (match := REDUCED.search(text)):
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
        if "bounds" in text and (match := OUT_OF_BOUNDS.search(text)):
            run = self._run_of_footer(line, Phase.OUT_OF_BOUNDS)
            run.parts["out of bounds"] += 1
            run.set(
                out_of_bounds=max(int(match[1]), run.facts.out_of_bounds or 0),
                out_of_bounds_failed=run.facts.out_of_bounds_failed or match[2] == "FAILED",
                ended=run.facts.ended or run.facts.has_no_average,
            )
        elif "bounds" in text and BOUNDS_UNREADABLE.search(text):
            run = self._run_of_footer(line, Phase.OUT_OF_BOUNDS)
            quoted = Quoted(line.number, line.text)
            run.set(doubtful=(*run.facts.doubtful, quoted)[:MOST_QUOTED])
        elif "bandwidth" in text and (match := AVERAGE.search(text)):
            self._average(line, match)
        elif "Collective test concluded" in text:
            run = self.current or self._begin(line)
            ended = program_of(text)
            if run.parts["start"]:
                # What started is what the rows are compared with.
                run.set(ended_as=ended or "")
            else:
                run.set(program=ended or run.facts.program)
        else:
            return False
        return True

    def _average(self, line: Line, match: re.Match[str]) -> None:
        run = self._run_of_footer(line, Phase.AVERAGE)
        run.parts["average"] += 1
        run.last_line = line.number
        average_gb_s = run.facts.average_gb_s
        if not math.isfinite(float(match[1])):
            quoted = Quoted(line.number, line.text)
            run.set(not_finite=(*run.facts.not_finite, quoted)[:MOST_QUOTED])
        elif average_gb_s is None:
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
        if match := LOG_HOST.match(text):
            self.rows.hosts.add(match[1])
        if (program := program_of(text)) is not None:
            ranks = ranks_of_command(text)
            if run is not None and run.phase < Phase.HEADER and run.facts.program is None:
                run.set(program=program, quoted_ranks=ranks or run.facts.quoted_ranks)
            elif run is None or run.phase is Phase.AVERAGE:
                self.program, self.quoted_ranks = program, ranks or self.quoted_ranks
        if "CCL version" in text and (match := NCCL_VERSION.search(text)):
            if run is not None and run.phase is not Phase.AVERAGE:
                run.set(nccl_versions=with_new(run.facts.nccl_versions, match[1]))
            else:
                self.nccl_versions = with_new(self.nccl_versions, match[1])
        if "nranks " in text and (match := NRANKS.search(text)):
            logged_ranks = self.logged_ranks if run is None else run.logged_ranks
            logged_ranks[int(match[1])] += line.times
        if "# error:" in text and run is not None:
            run.set(last_error=text.partition("# error:")[2].strip() or None)
        quoted = Quoted(line.number, text)
        if run is not None and any(map(text.__contains__, NOTE_WORDS)) and NOTE.search(text):
            run.set(notes=(*run.facts.notes, quoted)[:MOST_QUOTED])
        if any(map(text.__contains__, FAILURE_WORDS)) and FAILURE.search(text):
            if run is None:
                self.failures = (*self.failures, quoted)[:MOST_QUOTED]
            else:
                run.set(failures=(*run.facts.failures, quoted)[:MOST_QUOTED])


NO_BOUNDS = "no 'Out of bounds values' line: the run was interrupted, killed or did not end"
"""What the end of mscclpp-test's table lacks."""


def _is_configuration(text: str) -> bool:
    """Of nccl-tests and rccl-tests, or of mscclpp-test, whose processes have one GPU each."""
    return "nThread" in text or ("kernel num:" in text and "minBytes" in text)


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


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None
