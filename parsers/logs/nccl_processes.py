"""What NCCL's log says process by process: versions, interfaces, transports, communicators, warnings.

>>> from busbw.parsers.logs.nccl_facts import PATTERNS
>>> from busbw.parsers.logs.scan import Scanner
>>> text = b"gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\\n"
>>> log_of(Scanner(PATTERNS).scan([text])).processes[0].hcas
(HcaPort(index=0, device='mlx5_0', port=1, link='IB', rail=None, plane=None),)
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from busbw.model import Communicator, LogLine, NcclLog, NcclWarning, ProcessFacts
from busbw.parsers.logs.nccl_communicators import (
    communicator_of,
    last_states,
    missing_ranks,
    stuck,
)
from busbw.parsers.logs.nccl_facts import (
    BACKTRACE_ID,
    COMMUNICATOR_ID,
    FACT_PREFIX,
    WARN_ID,
    taken,
)
from busbw.parsers.logs.nccl_line import BACKTRACE, message_of, parse_line, result_name
from busbw.parsers.logs.nccl_warnings import warning
from busbw.parsers.logs.scan import Hit, Line, Scan
from busbw.text import whole

T = TypeVar("T")
_GLUED = re.compile(r"^-?\d+(?=\D)")
_RANKS = re.compile(r"^rank (\d+)$")
_COMMUNICATORS = "communicators"
_Parts = defaultdict[str, list[ProcessFacts]]
"""What the lines of one process say, by field."""


def log_of(scan: Scan) -> NcclLog:
    """The records of a scan for `PATTERNS` (hits of other patterns are ignored)."""
    names = {hit.process for hit in scan.hits if hit.process is not None}
    facts: defaultdict[str | None, _Parts] = defaultdict(lambda: defaultdict(list))
    warnings: list[NcclWarning] = []
    results: Counter[str] = Counter()
    for hit in scan.hits:
        if not hit.pattern.startswith(FACT_PREFIX):
            continue
        parts = facts[_unglued(hit.process, names)]
        if hit.pattern == COMMUNICATOR_ID:
            communicators = ProcessFacts(communicators=_communicators(hit))
            parts[_COMMUNICATORS].append(communicators)
        elif hit.pattern == WARN_ID:
            warnings += map(_warning, hit.examples)
        elif hit.pattern == BACKTRACE_ID:
            for example in hit.examples:
                _, message = message_of(example.text) or ("", example.text.strip())
                if match := BACKTRACE.match(message):
                    results[result_name(int(match["result"]))] += 1
        else:
            for example in hit.examples:
                fact = taken(hit.pattern, example.text)
                for name in fact.fields:
                    parts[name].append(fact.facts)
    processes = [_process(name, parts) for name, parts in facts.items()]
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


def _communicators(hit: Hit) -> tuple[Communicator, ...]:
    communicators = (communicator_of(line.text, line.line_no) for line in hit.examples)
    return tuple(each for each in communicators if each is not None)


def _unglued(process: str | None, names: set[str]) -> str | None:
    """The process without the last number of a half-written row that its log line is glued to:
    `-1gpu3`."""
    number = _GLUED.match(process or "")
    if process is None or number is None:
        return process
    name = process[number.end() :]
    return name if name in names else process


def _process(name: str | None, parts: _Parts) -> ProcessFacts:
    """Everything one process logged, each thing once."""
    logged = (each for group in parts.get(_COMMUNICATORS, ()) for each in group.communicators)
    communicators = last_states(logged)
    largest = max(communicators, key=lambda each: (each.nranks, -each.line_no), default=None)
    tag = _RANKS.match(name or "")
    host, _, pid = (name or "").rpartition(":")
    rank = int(tag[1]) if tag else None
    given = parts.get
    return ProcessFacts(
        process=name,
        host=host or None,
        pid=whole(pid),
        rank=largest.rank if largest else rank,
        nranks=largest.nranks if largest else None,
        relaxed_ordering=_first(given("relaxed_ordering"), lambda each: each.relaxed_ordering),
        cuda_driver=_first(given("cuda_driver"), lambda each: each.cuda_driver),
        no_ib_device=any(each.no_ib_device for each in given("no_ib_device", ())),
        dmabuf=_first(given("dmabuf"), lambda each: each.dmabuf),
        peer_memory=_first(given("peer_memory"), lambda each: each.peer_memory),
        stack=_each_once(given("stack"), lambda each: each.stack),
        channels=_first(given("channels"), lambda each: each.channels),
        nvls=_first(given("nvls"), lambda each: each.nvls),
        environment=tuple(sorted(_each_once(given("environment"), lambda each: each.environment))),
        communicators=communicators,
        versions=_each_once(given("versions"), lambda each: each.versions),
        bootstrap=_each_once(given("bootstrap"), lambda each: each.bootstrap),
        networks=_each_once(given("networks"), lambda each: each.networks),
        plugins=_each_once(given("plugins"), lambda each: each.plugins),
        hcas=_each_once(given("hcas"), lambda each: each.hcas),
        sockets=_each_once(given("sockets"), lambda each: each.sockets),
        gdr=_each_once(given("gdr"), lambda each: each.gdr),
        connections=_each_once(given("connections"), lambda each: each.connections),
        collnet=_each_once(given("collnet"), lambda each: each.collnet),
        p2p_refused=_each_once(given("p2p_refused"), lambda each: each.p2p_refused),
        timings=_each_once(given("timings"), lambda each: each.timings),
        tuning=_each_once(given("tuning"), lambda each: each.tuning),
        topology=_each_once(given("topology"), lambda each: each.topology),
    )


def _each_once(
    facts: Sequence[ProcessFacts] | None, field: Callable[[ProcessFacts], tuple[T, ...]]
) -> tuple[T, ...]:
    """The values of a field in all lines. Quick where there are none: a thousand processes in one
    text have two dozen fields each."""
    if facts is None:
        return ()
    groups = list(map(field, facts))
    if len(groups) == 1 and len(groups[0]) < 2:
        return groups[0]
    return tuple(dict.fromkeys([each for group in groups for each in group]))


def _first(
    facts: Sequence[ProcessFacts] | None, field: Callable[[ProcessFacts], T | None]
) -> T | None:
    if facts is None:
        return None
    return next((value for value in map(field, facts) if value is not None), None)


def _by_rank(process: ProcessFacts) -> tuple[bool, int, str]:
    return (process.rank is None, process.rank or 0, process.process or "")
