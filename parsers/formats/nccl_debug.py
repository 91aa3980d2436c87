"""What an NCCL_DEBUG log says, process by process: versions, interfaces, transports, communicators, warnings. NCCL 2.4 to 2.32, and RCCL.

The log may be of one process or of a thousand, with launcher tags, tables and other programs' lines in it, of gigabytes: it is searched, not
read line by line (`scan`). A caller that looks for patterns of its own does it in the same pass and has `log_of` make the records:

>>> scanner = Scanner(PATTERNS)
>>> log = log_of(scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\\n"
...     b"gpu1:41:42 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\\n"]))
>>> log.processes[0].hcas, log.processes[0].connections[0].gdr
((HcaPort(index=0, device='mlx5_0', port=1, link='IB', rail=None, plane=None),), True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from busbw.errors import UnknownLayout
from busbw.parsers.formats import Document, Format
from busbw.parsers.formats.nccl_debug_facts import BACKTRACE_ID, COMMUNICATOR_ID, PATTERNS, WARN_ID, communicator_of, take
from busbw.parsers.formats.nccl_debug_line import BACKTRACE, parse_line, result_name
from busbw.parsers.formats.nccl_debug_warnings import warning
from busbw.parsers.formats.scan import Scan, Scanner
from busbw.records import CommState, Communicator, Connection, LogLine, NcclLog, NcclWarning, ProcessFacts, WarningRole

T = TypeVar("T")

__all__ = ["FORMAT", "PATTERNS", "log_of", "read"]

_LOOKS = re.compile(rb"NCCL (?:INFO|WARN|CALL|TRACE|ABORT) |^NCCL version \d|\bRCCL version", re.MULTILINE)
_GLUED = re.compile(r"^-?\d+(?=\D)")
_RANKS = re.compile(r"^rank (\d+)$")
_ORDER = (CommState.STARTED, CommState.COMPLETE, CommState.ABORTED, CommState.DESTROYED)


def read(chunks: Iterable[bytes]) -> Document:
    """Read a log.

    Raises:
        UnknownLayout: no line of it is NCCL's.
    """
    scan = Scanner(PATTERNS).scan(chunks)
    if not scan.hits:
        raise UnknownLayout(
            "no line of NCCL's debug log in it",
            seen=scan.first_line,
            next_step="run with NCCL_DEBUG=INFO (and NCCL_DEBUG_FILE=nccl.%h.%p.log) and read what it writes",
        )
    log = log_of(scan)
    faults = tuple(_told(each) for each in _first_of_each(log.warnings) if each.role is not WarningRole.NOTE)
    problems = (*faults, *log.stuck, *_missing(log), *scan.problems)
    return Document("nccl-debug", (log,), _summary(log), not scan.problems, problems, (*faults, *log.stuck, *_missing(log)))


def log_of(scan: Scan) -> NcclLog:
    """The records of a scan for `PATTERNS` (hits of other patterns are left alone)."""
    known = {hit.process for hit in scan.hits if hit.process is not None}
    facts: dict[str | None, list[ProcessFacts]] = {}
    warnings: list[NcclWarning] = []
    results: dict[str, int] = {}
    for hit in scan.hits:
        if not hit.pattern.startswith("nccl-debug."):
            continue
        process = _unglued(hit.process, known)
        parts = facts.setdefault(process, [])
        if hit.pattern == COMMUNICATOR_ID:
            named = (communicator_of(example.text, example.line_no) for example in hit.examples)
            parts.append(ProcessFacts(communicators=tuple(each for each in named if each is not None)))
            continue
        for example in hit.examples:
            line = parse_line(example.text, example.line_no) or LogLine(example.line_no, "INFO", example.text.strip())
            if hit.pattern == WARN_ID:
                warnings.append(warning(line))
            elif hit.pattern == BACKTRACE_ID:
                found = BACKTRACE.match(line.message)
                if found is not None:
                    name = result_name(int(found["result"]))
                    results[name] = results.get(name, 0) + 1
            else:
                parts.append(take(hit.pattern, line))
    processes = tuple(sorted((_process(name, parts) for name, parts in facts.items()), key=_by_rank))
    warnings.sort(key=lambda each: each.line_no)
    return NcclLog(
        lines=scan.lines,
        processes=processes,
        warnings=tuple(warnings),
        results=tuple(sorted(results.items())),
        missing_ranks=_missing_ranks(processes),
        stuck=_stuck(processes),
    )


def _unglued(process: str | None, known: set[str]) -> str | None:
    """A log line glued to a half-written row of a table takes the row's last number into its host name: `-1gpu3`."""
    if process is not None and (number := _GLUED.match(process)) and process[number.end() :] in known:
        return process[number.end() :]
    return process


def _process(name: str | None, parts: list[ProcessFacts]) -> ProcessFacts:
    """Everything one process said, each thing once."""
    communicators = _last_states(each for part in parts for each in part.communicators)
    largest = max(communicators, key=lambda each: (each.nranks, -each.line_no), default=None)
    tag = _RANKS.match(name or "")
    host, _, pid = (name or "").rpartition(":")
    return ProcessFacts(
        process=name,
        host=host or None,
        pid=int(pid) if pid.isdigit() else None,
        rank=largest.rank if largest else int(tag[1]) if tag else None,
        nranks=largest.nranks if largest else None,
        versions=_each_once(part.versions for part in parts),
        cuda_driver=_first(part.cuda_driver for part in parts),
        bootstrap=_each_once(part.bootstrap for part in parts),
        environment=tuple(sorted(_each_once(part.environment for part in parts))),
        networks=_each_once(part.networks for part in parts),
        plugins=_each_once(part.plugins for part in parts),
        hcas=_each_once(part.hcas for part in parts),
        relaxed_ordering=_first(part.relaxed_ordering for part in parts),
        no_ib_device=any(part.no_ib_device for part in parts),
        sockets=_each_once(part.sockets for part in parts),
        gdr=_each_once(part.gdr for part in parts),
        dmabuf=_first(part.dmabuf for part in parts),
        connections=_each_once(part.connections for part in parts),
        channels=_first(part.channels for part in parts),
        nvls=_first(part.nvls for part in parts),
        collnet=_each_once(part.collnet for part in parts),
        p2p_refused=_each_once(part.p2p_refused for part in parts),
        communicators=communicators,
        timings=_each_once(part.timings for part in parts),
        tuning=_each_once(part.tuning for part in parts),
        topology=_each_once(part.topology for part in parts),
    )


def _each_once(groups: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _last_states(logged: Iterable[Communicator]) -> tuple[Communicator, ...]:
    """Each communicator once, with the furthest state it was logged in. A pointer is used again once its communicator is gone."""
    current: dict[tuple[str, str | None], Communicator] = {}
    for each in sorted(logged, key=lambda communicator: communicator.line_no):
        key = (each.pointer, each.comm_id)
        before = current.get(key) or (current.get((each.pointer, None)) if each.comm_id is None else None)
        if each.comm_id is None and before is None:
            key, before = next(((known, current[known]) for known in current if known[0] == each.pointer), (key, None))
        current[key] = each if before is None else _fold(before, each)
    return tuple(current.values())


def _fold(before: Communicator, after: Communicator) -> Communicator:
    """Later lines leave out what earlier ones said."""
    return Communicator(
        pointer=after.pointer,
        rank=after.rank,
        nranks=after.nranks,
        state=max(before.state, after.state, key=_ORDER.index),
        line_no=after.line_no,
        comm_id=after.comm_id or before.comm_id,
        cuda_dev=after.cuda_dev if after.cuda_dev is not None else before.cuda_dev,
        nvml_dev=after.nvml_dev if after.nvml_dev is not None else before.nvml_dev,
        bus_id=after.bus_id or before.bus_id,
        parent=after.parent or before.parent,
        function=before.function or after.function,
    )


def _by_rank(process: ProcessFacts) -> tuple[bool, int, str]:
    return (process.rank is None, process.rank or 0, process.process or "")


def _groups(processes: Iterable[ProcessFacts]) -> dict[str, list[tuple[ProcessFacts, Communicator]]]:
    """Members by commId: the only name that is the same in all processes."""
    groups: dict[str, list[tuple[ProcessFacts, Communicator]]] = {}
    for process in processes:
        for communicator in process.communicators:
            if communicator.comm_id is not None:
                groups.setdefault(communicator.comm_id, []).append((process, communicator))
    return groups


def _missing_ranks(processes: tuple[ProcessFacts, ...]) -> tuple[int, ...]:
    """Ranks of the largest communicator that did not log its start, where at least half of them did."""
    groups = _groups(processes)
    members = max(groups.values(), key=lambda group: (group[0][1].nranks, len(group)), default=[])
    if not members:
        return ()
    nranks = members[0][1].nranks
    present = {communicator.rank for _, communicator in members}
    return tuple(sorted(set(range(nranks)) - present)) if nranks <= 2 * len(present) else ()


def _stuck(processes: tuple[ProcessFacts, ...]) -> tuple[str, ...]:
    told = []
    for comm_id, members in sorted(_groups(processes).items()):
        waiting = sorted(communicator.rank for _, communicator in members if communicator.state is CommState.STARTED)
        if waiting:
            names = ", ".join(map(str, waiting[:16])) + (" …" if len(waiting) > 16 else "")
            told.append(
                f"communicator {comm_id}: {len(waiting)} of {members[0][1].nranks} ranks began their start and did not complete it ({names})"
            )
    return tuple(told)


def _first_of_each(warnings: tuple[NcclWarning, ...]) -> tuple[NcclWarning, ...]:
    firsts: dict[str, NcclWarning] = {}
    for each in warnings:
        firsts.setdefault(each.kind if each.kind != "other" else each.message, each)
    return tuple(firsts.values())


def _told(each: NcclWarning) -> str:
    where = f" ({each.process})" if each.process else ""
    return f"line {each.line_no}{where}: {each.message}"


def _missing(log: NcclLog) -> tuple[str, ...]:
    if not log.missing_ranks:
        return ()
    names = ", ".join(map(str, log.missing_ranks[:16])) + (" …" if len(log.missing_ranks) > 16 else "")
    return (f"{len(log.missing_ranks)} ranks never logged the start of the communicator: {names}",)


def _summary(log: NcclLog) -> tuple[tuple[str, str], ...]:
    """For people: what all processes agree on, once; what differs, with how many say so."""
    rows = [
        ("lines", f"{log.lines}"),
        ("processes", f"{len(log.processes)} on {len({each.host for each in log.processes if each.host})} hosts"),
    ]
    for label, said in (
        ("version", [" ".join(each.versions) for each in log.processes]),
        ("network", [" ".join(each.networks) for each in log.processes]),
        ("HCAs", [" ".join(f"{hca.device}:{hca.port}/{hca.link}" for hca in each.hcas) for each in log.processes]),
        ("bootstrap", [" ".join(each.name for each in process.bootstrap) for process in log.processes]),
        ("channels", [str(each.channels or "") for each in log.processes]),
    ):
        counts = Counter(text for text in said if text)
        rows += [(label, f"{text} ({count})") for text, count in counts.most_common(4)]
    transports = Counter(text for process in log.processes for text in {_transport(each) for each in process.connections})
    rows += [("connections", f"{text} ({count} processes)") for text, count in transports.most_common(8)]
    rows += [("environment", f"{name}={value}") for name, value in _common_environment(log)]
    rows += [("warning", _told(each)) for each in _first_of_each(log.warnings)]
    return tuple(rows)


def _transport(connection: Connection) -> str:
    if connection.network is None:
        return connection.path
    return f"{connection.transport}/{connection.network}" + (" GPUDirect" if connection.gdr else " through host memory")


def _common_environment(log: NcclLog) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({pair for process in log.processes for pair in process.environment}))[:64]


def _looks_like(head: bytes) -> float:
    found = len(_LOOKS.findall(head))
    return 0.0 if not found else 0.9 if found > 2 else 0.6


FORMAT = Format("nccl-debug", "NCCL debug log", _looks_like, read, embedded=True)
