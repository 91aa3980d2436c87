"""How programs say that they stop: the last line of an exception, and the frames around it.

The frames of a traceback quote the program's source: what stands there may read like a failure
(`raise RuntimeError("Engine core initialization failed")`) and says nothing of its own.

Written against Python 3.13 (also as vLLM, Ray and Lightning pass its tracebacks on, line by line
behind a tag), libstdc++, Java, Julia, Go and Rust.

>>> is_exception("(EngineCore pid=8) ERROR 07-31 15:52:26 [core.py:708] RuntimeError: no kernel image")
True
>>> is_frame("(EngineCore pid=8) ERROR 07-31 15:52:26 [core.py:708]     raise RuntimeError(")
True
>>> is_frame("[rank3]:   File \\"/a/train.py\\", line 12, in main")
True
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.courses import MOST_RUNS, Course
from busbw.parsers.findings.evidence import Clue, EvidenceSet, Place, Sighting, lines_of
from busbw.parsers.findings.line_roles import LineRole, role_of
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Pattern

TAGS = (
    r"^ {0,8}(?:\d{1,8}\.\d{1,3}s {1,6}\d{1,8} )?(?:[\w.-]{1,64}:\s{1,8})?"
    r"(?:\[?(?:rank|default)?\d{1,6}\]?:\s{0,8}|\([^)]{1,60}\)\s{0,8}){0,2}"
    r"(?:(?:ERROR|E)\b[^\]\n]{0,60}\[[\w./]{1,80}:\d{1,6}\] ?|\[[^\]\n]{1,80}\] ?(?:ERROR:? )?)?"
)
"""What launchers and logs put before a line: the seconds of a notebook, a host's name, a rank or a
process, a level with the place in the code."""
_NAME = (
    r"(?-i:(?:[\w.]{1,120}\.)?(?!On[A-Z])[A-Z]\w{0,60}(?:Error|Exception|Failure|Interrupt|Iteration|Expired)(?:_\w{1,60})?"
    r"|[\w.]{0,100}\b(?:exc|exceptions?|errors?)\.[A-Z]\w{1,60})"
)
EXCEPTION = (
    TAGS + _NAME + r"(?:: |:?\s*$)"
    r"|^(?:Exception in thread \S+ |Caused by: )\w+\.[\w.$]+"
    r"|^(?:\[\d+\] )?ERROR: (?:LoadError: )?\w+(?:Error|Exception)\b"
    r"|\bthread '[^']{0,60}' panicked at|^panic: "
    r"|\bterminate called after throwing an instance of '|^\s{1,4}what\(\): {1,4}\S"
    r"|Fortran runtime error: |forrtl: severe \(|^ ?ERROR STOP\b|^STOP [1-9]"
    r"|^Error in .{1,200} : ?|^(?:\{\?)?Error using \S"
    r"|\braised an exception: |\b(?:Unhandled|Uncaught) exception\b"
    r"|Accelerator Fatal Error: |^(?:Rank \d+: )?FATAL ERROR: |\bFOAM FATAL (?:IO )?ERROR\b|FATAL CALLED FROM FILE"
    r"|^ERROR(?: on proc \d+)?: .{1,200}\(\S+\.(?:cpp|h):\d+\)|^ +Error in routine \S+ \(|^Fatal error:\s*$"
    r"|\\n(?-i:(?:[\w.]{1,120}\.)?[A-Z]\w{0,60}(?:Error|Exception)): "
    r"|^Could not override '|^Key '\S+' is not in struct|^fatal error: (?:all goroutines|concurrent map|runtime: )"
)
"""The last line of an uncaught exception, as far as a line alone shows it."""
_CODE = re.compile(
    r"(?:^|[\])|:>] ) *(?:File \"[^\"]+\", line \d+|frame #\d+: |\^+\s*$|[~^]{4,})"
    r"|(?:^|[\])|:>])(?: {4,}|\t+)(?:raise\b|return\b|assert\b|await\b|yield\b|self\.|super\(|with \S+.*:$|for \S+ in .*:$"
    r"|if .*:$|[\w.]+ = (?:await )?[\w.]+\(|(?!\w+\(\d+\))[\w.]+\((?:[^():]*$|[^:]*\)$))"
    r"|^\s+at [\w.$/<>]+\([^)]*\)$"
)
"""A frame, or the line of source that it quotes."""


_NO_CAUSE = re.compile(
    r"KeyboardInterrupt|SignalException|BrokenPipe|signal\b|NCCL|Dist(?:Backend|Network|Store)|gloo|c10::"
    r"|(?<![a-z])timed? ?-?out|Connection (?:reset|refused|closed)|unhandled (?:cuda|system)|EngineDead|Actor(?:Died|Unavailable)"
    r"|RayTaskError|(?-i:DEADLINE_EXCEEDED|UNAVAILABLE)|\bMPI\b|CalledProcessError|CUDA error|ProcessRaised|\bCaught \w+ in |root cause"
    r"|SubprocException",
    re.IGNORECASE,
)
"""What an exception says that came from outside the program (a peer, the user, a device), or that another
exception said before: it only passes that on."""
_EPISODE = 150
"""Lines at most between two reports of one failure: a traceback of a framework is 100 lines long."""
_NAMES = ("Error:", "Exception:", "Failure:")
_MESSAGE = 3
"""Lines behind the name of an exception in which its message stands, where it begins with a new line."""
_BEHIND_A_DEVICE = 100
"""Lines at most between what a device reports and what a program says of it."""


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    return (Pattern(EXCEPTION, EXCEPTION, keep=MOST_RUNS),)


def of_last_failure(evidence: EvidenceSet, course_of: Mapping[int, Course]) -> Sighting | None:
    """The exception with which the last failure of a job began: of the first text that has one.
    Right behind what a device reports it is none: it follows from that."""
    devices = [line.place for each in _device_patterns() for line in lines_of(evidence, each.id)]
    for number, lines in itertools.groupby(lines_of(evidence, EXCEPTION), _text_of):
        course = course_of[number]
        first = first_of_last(tuple(lines), course.failures) if not course.finished else None
        if first is not None and not any(_is_behind(first.place, each) for each in devices):
            return first
    return None


def where_it_says(crash: Sighting | None, signs: Iterable[Clue]) -> Sighting | None:
    """The exception, or where its message begins on a line of its own, the first known line of that."""
    if crash is None or not _is_name_alone(crash.text):
        return crash
    message = [
        sign
        for sign in signs
        if sign.weight is not Weight.EXCLUDES and _is_message_of(sign.place, crash.place)
    ]
    if not message:
        return crash
    first = min(message, key=lambda sign: sign.place)
    return crash._replace(place=first.place, text=first.evidence.text)


def is_read_further_down(exception: Sighting, read: Iterable[Place]) -> bool:
    """Its message begins on a line of its own, and something reads that."""
    if not _is_name_alone(exception.text):
        return False
    return any(_is_message_of(place, exception.place) for place in read)


def _is_name_alone(line: str) -> bool:
    return line.rstrip().endswith(_NAMES)


def _is_message_of(place: Place, exception: Place) -> bool:
    return place.text == exception.text and 0 <= place.line_no - exception.line_no <= _MESSAGE


def _text_of(line: Sighting) -> int:
    return line.place.text


def _is_behind(crash: Place, device: Place) -> bool:
    return crash.text == device.text and 0 < crash.line_no - device.line_no <= _BEHIND_A_DEVICE


@functools.cache
def _device_patterns() -> tuple[Pattern, ...]:
    """What a device reports."""
    writers = (each for each in failure_lines.load().writers if each.name in _DEVICES)
    return tuple(pattern for each in writers for pattern in failure_lines.patterns_of(each))


_DEVICES = ("pytorch", "gpu", "kernel")
"""Writers that report what a device says."""


def first_of_last(exceptions: Sequence[Sighting], failures: Sequence[int]) -> Sighting | None:
    """The exception that the last failure of a text began with; None = it has none that says why.

    Args:
        exceptions: the lines of the text that end an exception, in order.
        failures: numbers of its other lines that report a failure.
    """
    numbers = sorted({*failures, *(line.place.line_no for line in exceptions)})
    start = numbers[-1] if numbers else 0
    for number in reversed(numbers):
        if start - number > _EPISODE:
            break
        start = number
    for line in exceptions:
        if line.place.line_no >= start and _says_why(line.text):
            return line
    return None


def is_own_error(line: str) -> bool:
    """It is the last line of an exception that came from the program itself."""
    return is_exception(line) and _says_why(line)


def _says_why(line: str) -> bool:
    return role_of(line) <= LineRole.FAILURE and not _NO_CAUSE.search(line)


@functools.cache
def _exception() -> re.Pattern[str]:
    return re.compile(EXCEPTION, re.IGNORECASE)


@functools.lru_cache(maxsize=4096)
def is_exception(line: str) -> bool:
    """It is the last line of an exception."""
    return _exception().search(line) is not None


@functools.lru_cache(maxsize=20_000)
def is_frame(line: str) -> bool:
    """It is a frame of a traceback, or the source that a frame quotes: where, not what."""
    return _CODE.search(line) is not None
