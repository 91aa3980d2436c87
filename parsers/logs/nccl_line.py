"""One line of NCCL's logger (`src/debug.cc`), in every version from 2.3 to 2.32: who wrote it, and
its message.

>>> parse_line("gpu1:4711:4720 [0] NCCL WARN x.cc:7 Call to connect failed").host
'gpu1'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.model import LogLine
from busbw.parsers.logs.blocks import LONGEST_LINE

_CORE = re.compile(r"(?:^|[ \"#])NCCL (?P<level>INFO|WARN|CALL|TRACE|ABORT) (?P<message>.*)$")
_INFO = " NCCL INFO "
_PREFIX = re.compile(
    r"(?:\[(?P<ts>[^\]]*\d\d:\d\d:\d\d[^\]]*)\][ _]?)?"
    r"(?P<host>(?!\d\d?:)[^\s:\[\]<>()=,]+):(?P<pid>\d+):(?P<tid>\d+)"
    r"(?: \[(?P<dev>-?\d+)\])?(?: \d+\.\d+)?(?: (?P<rest>.*))?$"
)
_BARE = re.compile(r"(?:^|\s)\[(?P<dev>-?\d+)\](?: (?P<rest>.*))?$")
_SOURCE = re.compile(r"(?P<src>\S.*?:\d+)(?: \((?P<func>.*)\))?$")
_FILE = re.compile(r"(?:^|[\s\"])(?P<src>[\w./+-]+:\d+)(?: \((?P<func>.*)\))?$")
BACKTRACE = re.compile(
    r"^(?P<src>[\w./+-]+\.\w+:\d+)(?: \((?P<func>.*?)\))? -> (?P<result>\d+)(?:"
    r" \[(?P<thread>[^\]]+)\])?$"
)
"""The message of an INFO line that passes an error on: where, and which ncclResult_t."""

RESULTS = (
    "ncclSuccess",
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "ncclInternalError",
    "ncclInvalidArgument",
    "ncclInvalidUsage",
    "ncclRemoteError",
    "ncclInProgress",
    "ncclTimeout",
)
"""Names of ncclResult_t by number (`src/nccl.h.in`)."""


def parse_line(text: str, line_no: int = 1) -> LogLine | None:
    """One line that NCCL's logger writes (`src/debug.cc`), in every version from 2.3 to 2.32; None =
    there is no `NCCL LEVEL` in it.

    Every part but `NCCL LEVEL` may be missing (people quote lines without their prefix), and
    anything may stand in front of it: launcher tags, an actor's name, a half-written row of a
    table. Written against NCCL 2.4.8, 2.8, 2.12, 2.18, 2.22, 2.26, 2.29, 2.30.7 and 2.32.3.

    >>> parse_line("gpu1:4711:4720 [0] NCCL INFO Using network IB").message
    'Using network IB'
    >>> parse_line("nothing of the kind") is None
    True
    """
    core = _CORE.search(text, 0, LONGEST_LINE)
    if core is None:
        return None
    head = text[: core.start()].rstrip()
    prefix = _PREFIX.search(head)
    if prefix is None:
        return _without_process(head, core["level"], core["message"].rstrip(), line_no)
    where = _source(prefix["rest"])
    return LogLine(
        line_no=line_no,
        level=core["level"],
        message=core["message"].rstrip(),
        host=prefix["host"],
        pid=int(prefix["pid"]),
        tid=int(prefix["tid"]),
        device=int(prefix["dev"]) if prefix["dev"] is not None else None,
        timestamp=prefix["ts"],
        source=where.source,
        function=where.function,
    )


def message_of(text: str) -> tuple[str, str] | None:
    """Level and message of a line, as `parse_line` has them: nearly every line is ` NCCL INFO `."""
    at = text.find("NCCL ")
    if at > 0 and text.startswith(_INFO, at - 1):
        return "INFO", text[at + len(_INFO) - 1 : LONGEST_LINE].rstrip()
    line = parse_line(text)
    return (line.level, line.message) if line is not None else None


def result_name(number: int) -> str:
    """`ncclSystemError` for 2; the number itself where it has no name."""
    return RESULTS[number] if number < len(RESULTS) else str(number)


@dataclass(frozen=True, slots=True)
class _Where:
    source: str | None
    function: str | None


def _source(text: str | None) -> _Where:
    """A plugin may print a whole signature as its file: the text up to the last `:number` is
    taken."""
    match = _SOURCE.match(text) if text else None
    return _Where(match["src"], match["func"]) if match else _Where(None, None)


def _without_process(head: str, level: str, message: str, line_no: int) -> LogLine:
    device = None
    where = _Where(None, None)
    if bare := _BARE.search(head):
        device = int(bare["dev"])
        where = _source(bare["rest"])
    elif file := _FILE.search(head):
        where = _Where(file["src"], file["func"])
    return LogLine(
        line_no=line_no,
        level=level,
        message=message,
        device=device,
        source=where.source,
        function=where.function,
    )
