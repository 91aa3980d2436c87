"""What a sentence says is wrong with which thing, whoever wrote it.

Every writer has words of its own for itself, but a host name, a port, a shared library or a queue
pair is called by the same few words everywhere, and so is what can be wrong with it. Of several
things in a line the one nearest to the words of the failure counts. What a line only passes on
(frames, «aborting») names nothing.

>>> read("snowd: cannot find an address for host n7: unknown host").entries
('name-resolution-failed',)
>>> read("optional plugin libx.so not found, skipping") is None
True
>>> guess("snowd: connection to the raylet on host-7 was refused").entries
('rendezvous-failed', 'dead-process')
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.things import wrongs
from busbw.parsers.findings.things.table import Reading, Thing, numbers, table, without_hosts

_STEP = 16
"""Characters: things whose distances differ by less are equally near."""
_FARTHEST = 160
_HARMLESS = re.compile(
    r"\b(?:trying (?:the )?next|try(?:ing)? again|retrying|fall(?:ing)?[ -]?back|ignor(?:e|ed|ing)|skip(?:ped|ping)?|optional"
    r"|(?:starting|start|training) from (?:scratch|random)"
    r"|not needed|not requested|is used instead|is disabled|using default|defaults?\b.{0,10}$|instead|slower path|not in use"
    r"|blacklisted|continuing|attempt \d+ of)"
    r"|\b(?:0|no|none|nothing|without) (?:\w+ ){0,3}(?:failed|errors?|failures?|is missing|exceeded)\b"
    r"|[^\w]DEBUG\b|\bdebug:|\bINFO\b|^info\b|<(?:info|debug)>|\[(?:info|debug|trace|notice)\]|NCCL (?:INFO|TRACE)|^\s*[+$#>] "
    r"|: (?:ok|yes|active|none|passed|0)\b|\bWARNING: .*not needed|strace|no version information|System call \(socket|\bsucceeded\b"
    r"|pip's dependency resolver does not currently|Unable to initialize backend|environment variable is not supported|requested in hierarchy",
    re.IGNORECASE,
)
"""Words of a line that tells of a try, a choice or a success."""
_PASSED_ON = re.compile(
    r"^\s*(?:Traceback \(|File \"|at \S+\(|raise \w|\^+$)|\.py\", line \d+", re.IGNORECASE
)
"""Frames: what they name is where, not what."""
_LONGEST = 2000
"""Characters of a line that are read: each thing is held against each word of failure."""
_NO_FAILURE = re.compile(
    r"\((?:e\.g\.|such as|for example|i\.e\.)[^()]*\)|\[\s*(?:ERROR|FATAL|CRITICAL)\s*\]"
    r"|\b\w*(?:err|errors?|timeouts?|retry|retries|drops?|discards?|failed|failures?)\w*[ :=]+0\b",
    re.IGNORECASE,
)
"""What could have failed, in a message that does not know what did («System call (e.g. socket,
malloc) or external library call failed»), the level of a line, and counters at 0."""
_TELLS = re.compile(
    r"required key|key was rejected|unsigned|could not insert|unknown symbol|about version of symbol|skew|rewound|no module named"
    r"|cannot import|\w+Error\b|NotFound|has no attribute|TX timeout|transmit queue|WATCHDOG|down\b|lost carrier|needs?|requires?"
    r"|reset is required|bad_alloc|out of memory|OOM|too many|[EM]N?FILE\b|no SM\b|SM not found|is 0\b|_ERR\b|retry|error"
    r"|invalid request|in use|InUse|TERM_|expired|Pressure|untolerated|exceeded|unschedulable|FailedScheduling|stopped posting|Unknown"
    r"|NotReady|ErrImage|ImagePull|unsupported|update your|mismatch|driver on your|kernel module has the version|oom_kill",
    re.IGNORECASE,
)
"""Words that name a thing and its failure in one."""


@functools.lru_cache(maxsize=4096)
def read(line: str) -> Reading | None:
    """What is wrong with which thing, by a sentence; None = the line names none, or its pair is
    a guess only."""
    if _HARMLESS.search(line) or _PASSED_ON.search(line):
        return None
    return _nearest(_NO_FAILURE.sub(" ", line[:_LONGEST]), guesses=False)


def guess(line: str) -> Reading | None:
    """As `read`, of a line that is known to report a failure; guesses count."""
    return _nearest(line[:_LONGEST], guesses=True)


WORTH = (7, 3.5)
"""What the first and the second guess add to the score of the text search (`similar`)."""


def _nearest(line: str, *, guesses: bool) -> Reading | None:
    """The reading whose thing is nearest to words of a failure."""
    line = wrongs.with_names(without_hosts(line))
    things = numbers(line)
    if not things:
        return None
    places = {
        name: [m.span() for m in told.finditer(line)] for name, told in wrongs.expressions().items()
    }
    present = []
    for name, spans in places.items():
        if spans:
            present += [name, *wrongs.KINDS_OF.get(name, ())]
    failures = [span for spans in places.values() for span in spans]
    best: tuple[tuple[bool, int, int], Reading] | None = None
    for number in things:
        thing = table().things[number]
        for reading in _readings(line, thing, _wrong(thing, present, guesses=guesses), failures):
            key = (thing.is_general, reading.distance // _STEP, number)
            if best is None or key < best[0]:
                best = key, reading
    return best[1] if best else None


def _readings(
    line: str, thing: Thing, wrong: str | None, failures: list[tuple[int, int]]
) -> Iterator[Reading]:
    """A reading for each place of the line that names the thing."""
    if wrong is None:
        wrong = "said"
    if wrong not in thing.causes:
        return
    for match in catalogue.compiled(thing.words).finditer(line):
        distance = min((_gap(match.span(), span) for span in failures), default=_FARTHEST + 1)
        if wrong == "said" or distance > _FARTHEST:
            if "said" not in thing.causes or _TELLS.search(match[0]) is None:
                continue
            distance = 0
        yield Reading(thing.name, wrong, distance, thing.causes[wrong].entries, thing.is_general)


def _wrong(thing: Thing, present: Sequence[str], *, guesses: bool) -> str | None:
    """The most telling wrong of the line that the thing has a cause for; None = it has none."""
    for wrong in (*present, *(["any"] if present else [])):
        if wrong in thing.causes and (guesses or not thing.causes[wrong].is_guess):
            return wrong
    return None


def _gap(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Characters between two places of a line; 0 = they touch or overlap."""
    return max(0, one[0] - other[1], other[0] - one[1])
