"""NCCL_DEBUG logs, process by process: versions, interfaces, transports, communicators, warnings.
NCCL 2.4 to 2.32, and RCCL.

The log may be of one process or of a thousand, with launcher tags, tables and other programs' lines
in it, of gigabytes: it is searched, not read line by line (`scan`).

>>> document = read([b"gpu1:41:42 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\\n"])
>>> document.summary[1:3]
(('processes', '1 on 1 host'), ('bootstrap', 'eth0 (1)'))
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Container

from busbw.errors import UnknownLayout
from busbw.model import Connection, NcclLog, NcclWarning, ProcessFacts, WarningRole
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.nccl_communicators import listed
from busbw.parsers.logs.nccl_facts import PATTERNS
from busbw.parsers.logs.nccl_processes import log_of
from busbw.parsers.logs.scan import LineFormat, Scan
from busbw.units import counted

_LOOKS = re.compile(
    rb"NCCL (?:INFO|WARN|CALL|TRACE|ABORT) |^NCCL version \d|\bRCCL version", re.MULTILINE
)


def document_of(scan: Scan) -> Document:
    """The log that was searched.

    Raises:
        UnknownLayout: no line of it is NCCL's.
    """
    if not scan.hits:
        raise UnknownLayout(
            "no line of NCCL's debug log in it",
            seen=scan.first_line,
            next_step=(
                "run with NCCL_DEBUG=INFO (and NCCL_DEBUG_FILE=nccl.%h.%p.log) and read what it"
                " writes"
            ),
        )
    log = log_of(scan)
    with_hca = {process.process for process in log.processes if process.hcas}
    warnings = tuple(each for each in log.warnings if not _is_harmless(each, with_hca))
    faults = (*map(_quote, _first_of_each(warnings)), *log.stuck, *_missing(log))
    return Document(
        "nccl-debug",
        (log,),
        _summary(log),
        not scan.problems,
        (*faults, *scan.problems),
        faults,
    )


LINES = LineFormat("nccl-debug", PATTERNS, document_of)
read = LINES.read


def _missing(log: NcclLog) -> tuple[str, ...]:
    if not log.missing_ranks:
        return ()
    ranks = counted(len(log.missing_ranks), "rank")
    return (f"{ranks} never logged the start of the communicator: {listed(log.missing_ranks)}",)


def _first_of_each(warnings: tuple[NcclWarning, ...]) -> tuple[NcclWarning, ...]:
    """The first warning of each kind."""
    firsts: dict[str, NcclWarning] = {}
    for each in warnings:
        firsts.setdefault(each.kind if each.kind != "other" else each.message, each)
    return tuple(firsts.values())


def _is_harmless(each: NcclWarning, with_hca: Container[str | None]) -> bool:
    """A remark, or a device of another container: a process that goes on to use an HCA of its own
    has what it was given."""
    is_foreign = each.kind == "ib-open" or "Call to ibv_open_device" in each.message
    return each.role is WarningRole.NOTE or (is_foreign and each.process in with_hca)


def _quote(each: NcclWarning) -> str:
    where = f" ({each.process})" if each.process else ""
    return f"line {each.line_no}{where}: {each.message}"


def _summary(log: NcclLog) -> tuple[tuple[str, str], ...]:
    """For people: what all processes agree on, once; what differs, with how many processes."""
    hosts = {process.host for process in log.processes if process.host}
    # Banners have no prefix: they are of no process of their own.
    named = sum(process.process is not None for process in log.processes)
    rows = [
        ("lines", f"{log.lines}"),
        (
            "processes",
            f"{named or len(log.processes)}"
            + (f" on {len(hosts)} host{'s' * (len(hosts) != 1)}" if hosts else ""),
        ),
    ]
    for label, show in _SHOWN:
        values = Counter(filter(None, map(show, log.processes)))
        rows += [(label, f"{value} ({count})") for value, count in values.most_common(4)]
    transports: Counter[str] = Counter()
    for process in log.processes:
        transports.update(tuple(dict.fromkeys(map(_transport, process.connections))))
    for transport, count in transports.most_common(8):
        rows.append(("connections", f"{transport} ({count} processes)"))
    environment = {pair for process in log.processes for pair in process.environment}
    rows += [("environment", f"{name}={value}") for name, value in sorted(environment)[:64]]
    rows += [("warning", _quote(each)) for each in _first_of_each(log.warnings)]
    return tuple(rows)


def _hca_names(process: ProcessFacts) -> str:
    return " ".join(f"{hca.device}:{hca.port}/{hca.link}" for hca in process.hcas)


def _gpu_memory(process: ProcessFacts) -> str:
    """The ways that RCCL says it has; "" = it says nothing, as NCCL does."""
    if process.peer_memory is None:
        return ""
    ways = {"peer memory": process.peer_memory, "dma-buf": process.dmabuf}
    return ", ".join(way for way, there in ways.items() if there) or "no way: through host memory"


_SHOWN: tuple[tuple[str, Callable[[ProcessFacts], str]], ...] = (
    ("version", lambda process: " ".join(process.versions)),
    ("stack", lambda process: ", ".join(f"{part} {value}" for part, value in process.stack)),
    ("network", lambda process: " ".join(process.networks)),
    ("HCAs", _hca_names),
    ("bootstrap", lambda process: " ".join(each.name for each in process.bootstrap)),
    ("channels", lambda process: str(process.channels or "")),
    ("GPU memory for adapters", _gpu_memory),
)


def _transport(connection: Connection) -> str:
    if connection.network is None:
        return connection.path
    memory = "GPUDirect" if connection.gdr else "through host memory"
    return f"{connection.transport}/{connection.network} {memory}"


_SURE_LINES = 3


def _looks_like(head: bytes) -> float:
    lines = len(tuple(itertools.islice(_LOOKS.finditer(head), _SURE_LINES)))
    if lines == 0:
        return 0.0
    return 0.9 if lines == _SURE_LINES else 0.6


FORMAT = Format("nccl-debug", "NCCL debug log", _looks_like, read, embedded=True)
