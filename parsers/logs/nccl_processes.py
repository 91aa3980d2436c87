"""What NCCL's log says process by process: versions, interfaces, transports, communicators, warnings.

>>> from busbw.parsers.logs.nccl_facts import PATTERNS
>>> from busbw.parsers.logs.scan import Scanner
>>> text = b"gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\\n"
>>> log_of(Scanner(PATTERNS).scan([text])).processes[0].hcas
(HcaPort(index=0, device='mlx5_0', port=1, link='IB', rail=None, plane=None),)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from busbw.model import Communicator, LogLine, NcclLog, NcclWarning, ProcessFacts
from busbw.parsers.logs.nccl_communicators import communicator_of, last_states, missing_ranks, stuck
from busbw.parsers.logs.nccl_facts import (
    BACKTRACE_ID,
    COMMUNICATOR_ID,
    FACT_PREFIX,
    WARN_ID,
    facts_with,
    taken,
)
from busbw.parsers.logs.nccl_line import BACKTRACE, message_of, parse_line, result_name
from busbw.parsers.logs.nccl_warnings import warning
from busbw.parsers.logs.scan import Line, Scan
from busbw.text import whole_number

_GLUED = re.compile(r"^-?\d+(?=\D)")
_RANKS = re.compile(r"^rank (\d+)$")


class _Logged:
    """What the lines of one process say."""

    __slots__ = ("communicators", "fields")

    def __init__(self) -> None:
        self.fields: dict[str, list[object]] = {}
        """Fields of `ProcessFacts`, with what each line says."""
        self.communicators: list[Communicator] = []


def log_of(scan: Scan) -> NcclLog:
    """The records of a scan for `PATTERNS` (hits of other patterns are ignored)."""
    names = {hit.process for hit in scan.hits if hit.process is not None}
    logged: dict[str | None, _Logged] = {}
    writers: dict[str | None, _Logged] = {}
    """What is logged by each process, as its hits name it."""
    warnings: list[NcclWarning] = []
    results: Counter[str] = Counter()
    for pattern, process, _, lines in scan.hits:
        if not pattern.startswith(FACT_PREFIX):
            continue
        own = writers.get(process)
        if own is None:
            name = _unglued(process, names)
            own = writers[process] = logged.setdefault(name, _Logged())
        if pattern == COMMUNICATOR_ID:
            own.communicators += _communicators(lines)
        elif pattern == WARN_ID:
            warnings += map(_warning, lines)
        elif pattern == BACKTRACE_ID:
            results.update(_results(lines))
        else:
            fields = own.fields
            for given in taken(pattern, lines):
                for field, value in given:
                    if field in fields:
                        fields[field].append(value)
                    else:
                        fields[field] = [value]
    processes = [_process(name, own) for name, own in logged.items()]
    processes.sort(key=_by_rank)
    warnings.sort(key=lambda each: each.line_no)
    return NcclLog(
        lines=scan.lines,
        processes=tuple(processes),
        warnings=tuple(warnings),
        results=tuple(sorted(results.items())),
        missing_ranks=missing_ranks(processes),
        stuck=stuck(processes),
    )


def _warning(example: Line) -> NcclWarning:
    line = parse_line(example.text, example.line_no)
    return warning(line or LogLine(example.line_no, "INFO", example.text.strip()))


def _results(lines: Iterable[Line]) -> Iterator[str]:
    """The results of calls that failed, by name, as NCCL's backtraces have them."""
    for line in lines:
        _, message = message_of(line.text) or ("", line.text.strip())
        if match := BACKTRACE.match(message):
            yield result_name(int(match["result"]))


def _communicators(lines: Iterable[Line]) -> Iterator[Communicator]:
    for line_no, text, _ in lines:
        communicator = communicator_of(text, line_no)
        if communicator is not None:
            yield communicator


def _unglued(process: str | None, names: set[str]) -> str | None:
    """The process without the last number of a half-written row that its log line is glued to:
    `-1gpu3`."""
    number = _GLUED.match(process or "")
    if process is None or number is None:
        return process
    name = process[number.end() :]
    return name if name in names else process


def _process(name: str | None, logged: _Logged) -> ProcessFacts:
    """Everything one process logged, each thing once."""
    communicators = last_states(logged.communicators)
    largest = max(communicators, key=lambda each: (each.nranks, -each.line_no), default=None)
    tag = _RANKS.match(name or "")
    host, _, pid = (name or "").rpartition(":")
    rank = int(tag[1]) if tag else None
    fields = {field: _merged(values) for field, values in logged.fields.items()}
    environment = fields.get("environment")
    if isinstance(environment, tuple):
        fields["environment"] = tuple(sorted(environment))
    fields |= {
        "process": name,
        "host": host or None,
        "pid": whole_number(pid),
        "rank": largest.rank if largest else rank,
        "nranks": largest.nranks if largest else None,
        "communicators": communicators,
    }
    return facts_with(**fields)


def _merged(values: Sequence[object]) -> object:
    """Of tuples what is in all of them, once; of other values the first."""
    first = values[0]
    if not isinstance(first, tuple) or (len(values) == 1 and len(first) == 1):
        return first
    # What several lines say alike is one object, as `taken` remembers it: most are known by that.
    groups = {id(value): value for value in values if isinstance(value, tuple)}.values()
    return first if len(groups) == len(first) == 1 else tuple(dict.fromkeys(chain(*groups)))


def _by_rank(process: ProcessFacts) -> tuple[bool, int, str]:
    return (process.rank is None, process.rank or 0, process.process or "")
