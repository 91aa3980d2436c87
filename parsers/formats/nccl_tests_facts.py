"""What was read of one run of nccl-tests before anything is concluded from it, and the plan that its configuration line states."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.formats.nccl_tests_layout import ReadRow
from busbw.records.benchmark import ProcessTimes, RankLine

_MOST_PLANNED = 100_000
CONFIG = re.compile(r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|iters|agg iters|validation|graph|unalign):? +(\d{1,18})(\(\w+\))?")
"""The configuration line's pairs; the order, the colons and the last names differ by version."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line worth quoting."""

    line_no: int
    """From 1; 0 = the text has no lines worth counting (JSON)."""
    text: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: its rows and everything printed around them."""

    rows: tuple[ReadRow, ...] = ()
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
    """How many processes printed their own table into this text, their rows mixed beyond telling apart."""
    writers: int = 1
    """Ranks of one job that each printed a table, told apart by the launcher's tags."""
    out_of_bounds: int | None = None
    out_of_bounds_failed: bool = False
    average_gb_s: float | None = None
    average_failed: bool = False
    average_may_be_cut: bool = False
    """The text ends right behind the average's digits, and more could have followed."""
    ended: bool = False
    """The end is there: the average's line, or a JSON document's `end_time`."""
    end_missing: str = ""
    """Why it did not end, where the format tells more than that the end is missing."""
    ranks_per_line: int = 1
    """Ranks that one entry of `ranks` stands for: JSON lists processes."""
    footer_is_elsewhere: bool = False
    """The format has no footer: average and out-of-bounds stand in another file."""
    stated_nodes: int | None = None
    """Nodes, where the format says how many."""
    reduction_is_silent: bool = False
    """True = a sweep shortened for lack of memory shows only in that its last sizes are missing (JSON)."""
    reduced_to_bytes: int | None = None
    """`Reducing maxBytes to`."""
    torn: tuple[Quoted, ...] = ()
    """Rows of which cells are missing, and cells of which the row is missing."""
    not_finite: tuple[Quoted, ...] = ()
    """Rows with nan or inf among their measurements."""
    failures: tuple[Quoted, ...] = ()
    """`Test NCCL failure`, `Test CUDA failure`, `Test timeout`."""
    notes: tuple[Quoted, ...] = ()
    """What was asked for and not done: `invalid type …, defaulting to`."""
    logged_ranks: tuple[int, ...] = ()
    """`nranks` of NCCL's own lines, most frequent first."""
    last_error: str | None = None
    """`# error:` after the footer; sticky, it can stand in a run that ended well."""
    process_times: tuple[ProcessTimes, ...] = ()

    def number(self, *names: str) -> int | None:
        """A number of the configuration, under the first of these names that is there; None = none is."""
        values = dict(self.config)
        text = next((values[name] for name in names if name in values), "").partition("(")[0]
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def planned_sizes(facts: RunFacts) -> tuple[int, ...] | None:
    """The sizes the run set out to measure, in order; None = its configuration is not there, or there are too many to compare.

    As nccl-tests counts: from minBytes, times the factor (or plus the step), while not above maxBytes.
    """
    size, last = facts.number("minBytes", "minimum_bytes"), facts.number("maxBytes", "maximum_bytes")
    last = facts.reduced_to_bytes if facts.reduced_to_bytes is not None else last
    amount = facts.number("step", "step_factor", "step_bytes")
    factor = any(name == "step_factor" or (name == "step" and "factor" in value) for name, value in facts.config)
    if size is None or last is None or amount is None:
        return None
    if amount <= 0 or (factor and (amount == 1 or size == 0)):
        return None
    sizes: list[int] = []
    while size <= last:
        sizes.append(size)
        if len(sizes) > _MOST_PLANNED:
            return None
        size = size * amount if factor else size + amount
    return tuple(sizes)


def library_version(code: int) -> str:
    """NCCL's version code as people write it.

    >>> library_version(23007), library_version(2804)
    ('2.30.7', '2.8.4')
    """
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
