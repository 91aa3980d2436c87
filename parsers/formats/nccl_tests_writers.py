"""Which of a text's lines were written by one process, so that tables of several processes are not mixed.

Launchers say it in front of each line. Where they do not, or where what looks like a process is something else (a line number), the lines
are read as one stream; tables of several processes in it are told apart by nothing (`nccl_tests_runs`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from busbw.parsers.formats.nccl_tests_facts import RunFacts
from busbw.parsers.formats.nccl_tests_run import MOST_QUOTED, Run
from busbw.parsers.formats.nccl_tests_runs import RunReader, extended
from busbw.parsers.formats.nccl_tests_scan import Line

_RANK_TAG = re.compile(r"(?:^|[,/@]|rank|default)\d+$")
"""A launcher's tag that says which rank of one job wrote the line, not merely which host."""


def runs_of(lines: Iterable[Line]) -> tuple[RunFacts, ...]:
    """The runs in a text, in the order they began.

    Lines are kept apart by who wrote them. Where that tears tables (column names of one writer, rows of another), the tags are no
    writers after all, and the lines are read as one stream.
    """
    kept = tuple(lines)
    by_tag: dict[str, RunReader] = {}
    before = Line(-1, "", "", True)
    for line in kept:
        tag = before.tag if not line.tag and line.number == before.number + 1 and by_tag[before.tag].goes_on(line) else line.tag
        before = line._replace(tag=tag)
        by_tag.setdefault(tag, RunReader()).feed(line)
    apart = [reader.finish() for reader in by_tag.values()]
    _count_writers(by_tag, apart)
    if _torn_apart(apart):
        reader = RunReader()
        for line in kept:
            reader.feed(line)
        apart = min(apart, [reader.finish()], key=_pieces)
    if len(apart) == len(by_tag):
        _share(list(by_tag.values()), apart)
    return tuple(run.sealed() for run in sorted((run for runs in apart for run in runs), key=lambda run: run.first_line))


def _count_writers(tags: Iterable[str], apart: list[list[Run]]) -> None:
    """Tells runs of several ranks of one job that they are several."""
    by_shape: dict[str, list[Run]] = {}
    ranks: Counter[str] = Counter()
    for tag, runs in zip(tags, apart, strict=True):
        if _RANK_TAG.search(tag) and any(run.rows for run in runs):
            shape = tag.rstrip("0123456789")
            by_shape.setdefault(shape, []).extend(runs)
            ranks[shape] += 1
    for shape, runs in by_shape.items():
        for run in runs:
            run.set(writers=ranks[shape])


def _share(readers: list[RunReader], apart: list[list[Run]]) -> None:
    """Gives what writers without a table said (versions, number of ranks, failures) to the one run there is."""
    runs = [run for runs in apart for run in runs]
    if len(runs) != 1:
        return
    run = runs[0]
    for reader, own in zip(readers, apart, strict=True):
        if not own:
            run.logged_ranks.update(reader.logged_ranks)
            versions = run.facts.nccl_versions
            for version in reader.nccl_versions:
                versions = extended(versions, version)
            failures = sorted(run.facts.failures + reader.failures, key=lambda line: line.line_no)
            run.set(nccl_versions=versions, failures=tuple(failures)[:MOST_QUOTED])


def _pieces(apart: list[list[Run]]) -> tuple[int, int]:
    """How badly tables are in pieces: fewer whole ones is worse, then more runs."""
    runs = [run for runs in apart for run in runs]
    return -sum({"names", "rows", "footer"} <= run.parts() for run in runs), len(runs)


def _torn_apart(apart: list[list[Run]]) -> bool:
    """Whether runs of two writers have no part in common, so that they are pieces of one."""
    parts = [(number, run.parts()) for number, runs in enumerate(apart) for run in runs]
    with_rows = [(number, mine) for number, mine in parts if "rows" in mine]
    return any(number != other and not mine & theirs for number, mine in with_rows for other, theirs in parts)
