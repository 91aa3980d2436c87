"""What is read of one run before anything is concluded from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.model.benchmark import ProcessTimes, RankLine
from busbw.parsers.nccl_tests.printed import PrintedRow


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
    ended_as: str = ""
    """The same of the line that ends a run whose start is there; empty = it names none."""
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
    bandwidth_unit: str = "GB/s"
    """Of the columns, as printed; the rows are in GB/s."""
    unknown_unit: str = ""
    """Printed where the unit of the bandwidths should stand; empty = there is none."""
    average_failed: bool = False
    average_may_be_cut: bool = False
    """The text ends right behind the average's digits, and more could have followed."""
    ended: bool = False
    """The end is there: the average's line, or a JSON document's `end_time`."""
    end_missing: str = ""
    """Why it did not end, where the format shows more than that the end is missing."""
    ranks_per_line: int = 1
    """Ranks that one entry of `ranks` stands for: JSON lists processes."""
    has_no_average: bool = False
    """The program prints none: the out-of-bounds count ends its table (mscclpp-test)."""
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
    doubtful: tuple[Quoted, ...] = ()
    """What the program does not write: no number where a count should stand, a key twice."""
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
