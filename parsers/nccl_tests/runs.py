"""The runs of nccl-tests in a text, writer by writer.

Launchers say in front of each line which process wrote it. Where they do not, or where what looks
like a process is something else (a line number), the lines are read as one stream.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from busbw.parsers.nccl_tests.lines import Line
from busbw.parsers.nccl_tests.open_run import MOST_QUOTED, Run, with_new
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.parsers.nccl_tests.run_reader import RunReader

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
            versions = with_new(versions, version)
        failures = sorted(run.facts.failures + reader.failures, key=lambda line: line.line_no)
        run.set(nccl_versions=versions, failures=tuple(failures)[:MOST_QUOTED])


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
