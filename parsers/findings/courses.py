"""How each text of a job went on: where a run completed or another one began, where failures stand,
and which lines the job outlived, so that they did not end it."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from busbw.parsers.findings.evidence import MOST_LINES_KNOWN, EvidenceSet, Place, lines_of
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Pattern

FINISHED = (
    r"\[after training is done\]|'train_runtime': |\*{5} (?:train|eval|predict|test)\w* metrics \*{5}"
    r"|`Trainer\.fit` stopped: `max_|\btraining (?:has |is |was )?(?:complete|completed|finished|done)\b"
    r"|\"key\": \"run_stop\".*\"status\": \"success\"|:::MLL \S+ run_stop: .*\"status\": \"success\"|State: COMPLETED \(exit code 0\)"
    r"|Finished mdrun on |^Total wall time: \d|JOB DONE\.|SUCCESS COMPLETE (?:WRF|REAL)|PROGRAM ENDED AT"
    r"|^End of Tests\.|Final Summary::HPCG result is VALID|Verification +=  ?SUCCESSFUL"
    r"|^Job '\S+' succeeded\s*$|\bTotal run time: [\d.]+ seconds \(|\] worker group successfully finished\."
    r"|^(?:(?:mpirun|mpiexec|srun|prun|prterun|torchrun) )?exit(?:ed with)?(?: status| code)?:? 0$"
    r"|^=+ (?:\d+ (?:passed|skipped|deselected|xfailed|warnings?),? ?)+ in [\d.]+s"
)
"""The last words of a job that did its work: of trainers (Megatron, Transformers, Lightning, MLPerf),
torchrun, shells, Ray Tune, GROMACS, LAMMPS, Quantum ESPRESSO, WRF, CP2K, HPL, HPCG, NPB, pytest, and what Slurm says of it."""
SUCCESS = (
    r"# Avg bus bandwidth +: *[\d.]|Destroy COMPLETE|RUNNING +OK\b|Process \d+ exits successfully"
    r"|Application shutdown complete"
)
"""Lines that only work without an error so far prints; others of the job may fail all the same."""
COMPLETE = r"- ?Init COMPLETE"
"""A communicator is complete: what only prevents one is over."""
BREAK = r"^# nThread \d|^# Collective test starting|: [1-9]\d* FAILED\b"
"""Lines that begin a run, or say that it went wrong: what stands before them is not outlived."""
MOST_RUNS = 256
"""Lines kept of each of these: so many runs, or exceptions, one text may hold."""
_WARNING = re.compile(
    r"NCCL WARN |UCX +(?:WARN|ERROR) |libfabric:.*<(?:warn|critical)>|\bW(?:ARN|ARNING)\b|\[W\d{3}"
)
"""Lines by which a library warns: it may go on after them."""
_EXCEPTION = re.compile(r"(?-i:\b[A-Z]\w*(?:Error|Exception)): ")
"""Lines by which a program stops, unless something starts it again."""
_STAYS = re.compile(r"NCCL |UCX |libfabric:|kernel:|^\[ *\d+\.\d+\] |NVRM:| \w+#\w+: ")
"""Lines of libraries of communication, which may hang behind them while others go on, and of the
kernel and of a switch, whose logs have no end."""
_SHELL = re.compile(
    r": line \d+: |^(?:\S*/)?(?:ba|z|k|da)?sh: |^(?:mkdir|cp|mv|rm|ln|ls|cat|cd|tee|tar|chmod|rsync|module|source): "
)
"""Lines of shells and of the small tools in their scripts, which go on after an error."""


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    kept_longer = (Pattern(regex, regex, keep=MOST_RUNS) for regex in (FINISHED, SUCCESS, BREAK))
    return (*kept_longer, Pattern(COMPLETE, COMPLETE))


class Course(NamedTuple):
    """How one text went on."""

    ends: tuple[tuple[int, bool], ...]
    """The lines, in order, at which a run completed (True), or another one began."""
    failures: tuple[int, ...]
    """The lines that report a failure, in order, without warnings."""
    finished: int
    """The last line at which its work was done, with no failure and no other run behind it; 0 = it
    does not say so."""
    goes_on: int
    """The line up to which what no other failure follows is outlived: the last one."""


def of(evidence: EvidenceSet) -> Mapping[int, Course]:
    """Text → how it went on."""
    ends: dict[int, set[tuple[int, bool]]] = {}
    for regex, is_end in ((FINISHED, True), (SUCCESS, True), (BREAK, False)):
        for line in lines_of(evidence, regex):
            ends.setdefault(line.place.text, set()).add((line.place.line_no, is_end))
    failures: dict[int, set[int]] = {}
    for pattern in failure_lines.patterns(words=False):
        for line in lines_of(evidence, pattern.id):
            if not _warns(line.text):
                failures.setdefault(line.place.text, set()).add(line.place.line_no)
    finished = {line.place.text: line.place.line_no for line in lines_of(evidence, FINISHED)}
    courses = {}
    for number, text in enumerate(evidence.texts):
        own = tuple(sorted(failures.get(number, ())))
        its_ends = tuple(sorted(ends.get(number, ())))
        done = finished.get(number, 0)
        if (own and own[-1] > done) or (its_ends and not its_ends[-1][1]):
            done = 0
        # What another text fails with may be told in this one.
        goes_on = text.lines if own or not failures else 0
        courses[number] = Course(its_ends, own, done, goes_on)
    return courses


def is_outlived(
    text: str, place: Place, course_of: Mapping[int, Course], is_starter: bool = False
) -> bool:
    """The job did its work behind the line, or went on for long before anything else failed: the
    longer, the more the line sounds like a failure. A library of communication may hang behind its
    warning while others go on."""
    course = course_of.get(place.text)
    if course is None:
        return False
    if place.line_no < course.finished:
        return True
    if _warns(text):
        end = next((is_end for line_no, is_end in course.ends if line_no > place.line_no), None)
        if end is not None:
            return end
    if _may_hang(text):
        return False
    sound = _Sound.WARNING if is_starter else _sound(text)
    after = bisect.bisect_right(course.failures, place.line_no)
    marks = [place.line_no, *course.failures[after:]]
    # What stopped with an error and was followed by no other may be what ended the job.
    if len(marks) > 1 or sound not in _LAST_WORDS:
        marks.append(course.goes_on if len(marks) == 1 else marks[-1])
    first, *later = (until - since for since, until in itertools.pairwise([*marks, marks[-1]]))
    return first > _LONG[sound] or any(each > max(_LONG[sound], RESTARTED) for each in later)


class _Sound(Enum):
    """How much a line sounds like the end of a job."""

    WARNING = "a warning, or no report of a failure"
    EXCEPTION = "a program stops, unless something starts it again"
    WORDS = "general words of failure"
    FAILURE = "a writer's own wording for a failure"


_LONG = {
    _Sound.WARNING: 100,
    _Sound.EXCEPTION: 100,
    _Sound.WORDS: 1_000,
    _Sound.FAILURE: 5_000,
}
"""Lines behind it without a failure, after which it did not stop the job."""
RESTARTED = 300
"""Lines at least between two failures of which the first was followed by others, if the job went on
in between: the tracebacks of many ranks are as long."""
_LAST_WORDS = (_Sound.EXCEPTION, _Sound.FAILURE)


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def _warns(text: str) -> bool:
    return _WARNING.search(text) is not None


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def _may_hang(text: str) -> bool:
    return _STAYS.search(text) is not None


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def _sound(text: str) -> _Sound:
    if _warns(text) or _SHELL.search(text) is not None:
        return _Sound.WARNING
    writer = failure_lines.writer_of(text)
    if writer is None:
        return _Sound.WARNING
    if _EXCEPTION.search(text) is not None:
        return _Sound.EXCEPTION
    return _Sound.WORDS if writer.words else _Sound.FAILURE
