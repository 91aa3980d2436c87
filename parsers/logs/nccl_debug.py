"""NCCL_DEBUG logs, process by process: versions, interfaces, transports, communicators, warnings.
NCCL 2.4 to 2.32, and RCCL.

The log may be of one process or of a thousand, with launcher tags, tables and other programs' lines
in it, of gigabytes: it is searched, not read line by line (`scan`). A caller that looks for
patterns of its own does it in the same pass and has `log_of` make the records:

>>> from busbw.parsers.logs.scan import Scanner
>>> scanner = Scanner(PATTERNS)
>>> log = log_of(scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\\n"
...     b"gpu1:41:42 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\\n"]))
>>> log.processes[0].hcas, log.processes[0].connections[0].gdr
((HcaPort(index=0, device='mlx5_0', port=1, link='IB', rail=None, plane=None),), True)
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from busbw.errors import UnknownLayout
from busbw.model import (
    CommState,
    Communicator,
    Connection,
    Gdr,
    HcaPort,
    InitTimings,
    Interface,
    LogLine,
    NcclLog,
    NcclWarning,
    Plugin,
    ProcessFacts,
    TuningChoice,
    WarningRole,
)
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.nccl_warnings import warning
from busbw.parsers.logs.scan import COMMON_LINES, Hit, Line, LineFormat, Pattern, Scan
from busbw.parsers.logs.scan_sieve import LONGEST_LINE
from busbw.text import whole

# One line.

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


def _message(text: str) -> tuple[str, str] | None:
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


# Facts in INFO lines, in every version's wording (2.4 to 2.32, RCCL, aws-ofi-nccl). A fact is a
# pattern for the scanner and a function that makes a record of the line it matched.

_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_ADDRESS = r"(?P<name>[^\s:<>\[\]]+):(?P<address>[^\s<>]+)<\d+>"
_INTERFACE = re.compile(r"(?:\[\d+\])?" + _ADDRESS)
_HCA = re.compile(r"\[(\d+)\](\S+?):(\d+)(?::(-?\d+):(-?\d+))?/([^\s;]+)")
_NET = re.compile(
    r"^NET/(?P<network>.+?)/(?P<device>\d+)(?:\((?P<proxy>\d+)\))?(?P<gdr>/GDRDMA)?(?:\(PCI\))?(?:/Shared)?$"
)
_COMM_BEHIND = re.compile(r" comm 0x[0-9a-f]+ nRanks \d+\s*$")
"""RCCL's end of the line."""
_PLUGIN_MISSING = re.compile(
    r"Could not find:?\s*(\S+?)[.,]?(?:\s|$)|No plugin found(?: \((\S+?)\))?|(\S+?): cannot open shared"
)
_PLUGIN_LOADED = re.compile(
    r"(?:Loaded (?:net|coll|collnet|tuner|gin|\w+) plugin|Using) (?!internal)(\S+)"
)
_COLLNET = re.compile(r"^COLLNET/(?P<network>.+?)/(?P<device>\d+)(?P<gdr>/GDRDMA)?")


def _version(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(versions=(match["version"],))


def _environment(match: re.Match[str], message: str) -> ProcessFacts:
    """Integers are printed with a full stop behind them, strings without."""
    value = match["value"].strip()
    if re.fullmatch(r"-?\d+\.", value):
        value = value[:-1]
    return ProcessFacts(environment=((match["name"], value),))


def _bootstrap(match: re.Match[str], message: str) -> ProcessFacts:
    named = _interfaces(match["rest"])
    return ProcessFacts(bootstrap=named or (Interface(match["rest"].strip(), ""),))


def _sockets(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(sockets=_interfaces(match["rest"]))


def _interfaces(text: str) -> tuple[Interface, ...]:
    return tuple(Interface(each["name"], each["address"]) for each in _INTERFACE.finditer(text))


def _hcas(match: re.Match[str], message: str) -> ProcessFacts:
    ports = []
    for cells in _HCA.findall(match["rest"].partition(";")[0]):
        index, device, port, rail, plane, link = cells
        ports.append(HcaPort(int(index), device, int(port), link, _int(rail), _int(plane)))
    return ProcessFacts(hcas=tuple(ports), relaxed_ordering="[RO]" in match["rest"])


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _network(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(networks=(match["name"].strip(),))


def _plugin(match: re.Match[str], message: str) -> ProcessFacts:
    text = match["text"].strip()
    if missing := _PLUGIN_MISSING.search(text):
        name = next(filter(None, missing.groups()), "")
        return ProcessFacts(plugins=(Plugin(match["kind"], name, False, text),))
    if loaded := _PLUGIN_LOADED.search(text):
        kind = "COLLNET" if "Loaded coll" in text else match["kind"]
        return ProcessFacts(plugins=(Plugin(kind, loaded[1].rstrip("."), True, text),))
    return ProcessFacts()


def _external(match: re.Match[str], message: str) -> ProcessFacts:
    loaded = match["how"].lower() == "loaded"
    return ProcessFacts(plugins=(Plugin("NET", match["name"], loaded, message.strip()),))


def _ofi(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(plugins=(Plugin("NET", "aws-ofi-nccl", True, message.strip()),))


def _no_device(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(no_ib_device=True)


def _gdr_hca(match: re.Match[str], message: str) -> ProcessFacts:
    enabled = match["state"].lower() == "enabled"
    return ProcessFacts(gdr=(Gdr(enabled, match["name"] or match["hca"]),))


def _gdr_gpu(match: re.Match[str], message: str) -> ProcessFacts:
    enabled = match["state"].lower() == "enabled"
    distance, limit = int(match["distance"]), int(match["limit"])
    return ProcessFacts(gdr=(Gdr(enabled, match["hca"], match["gpu"], distance, limit),))


def _dmabuf(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(dmabuf=match["no"] is None)


def _peer_memory(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(peer_memory=match["no"] is None)


def _stack(match: re.Match[str], message: str) -> ProcessFacts:
    if match["library"]:
        return ProcessFacts(stack=(("library", match["path"]),))
    return ProcessFacts(stack=((match["part"], match["value"]),))


def _connection(match: re.Match[str], message: str) -> ProcessFacts:
    path = _COMM_BEHIND.sub("", match["path"]).strip()
    kind = path.partition("/")[0].upper()
    if path.startswith("direct shared"):
        kind = "SHM"
    net = _NET.match(path) or _COLLNET.match(path)
    if net is None:
        return ProcessFacts(connections=(Connection(kind, path),))
    proxy = _int(net.groupdict().get("proxy"))
    gdr = net["gdr"] is not None
    connection = Connection(kind, path, net["network"], int(net["device"]), proxy, gdr)
    return ProcessFacts(connections=(connection,))


def _channels(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(channels=int(match["count"]))


def _nvls(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(nvls=match["no"] is None)


def _collnet(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(collnet=(message.strip(),))


def _p2p_refused(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(p2p_refused=(message.strip(),))


def _topology(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(topology=(message.strip(),))


def _driver(match: re.Match[str], message: str) -> ProcessFacts:
    return ProcessFacts(cuda_driver=int(match["number"]))


_STATES = {
    "init start": CommState.STARTED,
    "init complete": CommState.COMPLETE,
    "abort start": CommState.ABORTED,
    "abort complete": CommState.ABORTED,
    "destroy complete": CommState.DESTROYED,
}
_COMMUNICATOR = re.compile(
    r"(?:(nccl\w+) )?comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)(?: cudaDev (\d+))?(?: nvmlDev"
    r" (\d+))?(?: busId ([0-9a-f]+))?"
    r"(?: commId 0x([0-9a-f]+))?(?: parent (0x[0-9a-f]+))?[^-]*- ?(Init START|Init COMPLETE|Abort"
    r" START|Abort COMPLETE|Destroy COMPLETE)",
    re.IGNORECASE,
)


def communicator_of(text: str, line_no: int) -> Communicator | None:
    """The communicator that a line starts, completes, aborts or destroys. Not through `take`: a large
    job has a hundred thousand of these lines."""
    match = _COMMUNICATOR.search(text)
    if match is None:
        return None
    function, pointer, rank, nranks, cuda_dev, nvml_dev, bus_id, comm_id, parent, state = (
        match.groups()
    )
    return Communicator(
        pointer=pointer,
        rank=int(rank),
        nranks=int(nranks),
        state=_STATES[state.lower()],
        line_no=line_no,
        comm_id=comm_id,
        cuda_dev=_int(cuda_dev),
        nvml_dev=_int(nvml_dev),
        bus_id=bus_id,
        parent=parent,
        function=function,
    )


def _timings(match: re.Match[str], message: str) -> ProcessFacts:
    pairs = re.findall(r"(\w+) (\d+\.\d+)", match["parts"])
    parts = tuple((name, float(seconds)) for name, seconds in pairs)
    rank, nranks, total_s = int(match["rank"]), int(match["nranks"]), float(match["total"])
    return ProcessFacts(timings=(InitTimings(rank, nranks, total_s, parts),))


def _tuning(match: re.Match[str], message: str) -> ProcessFacts:
    algorithm, protocol = _name(match["algo"], _ALGORITHMS), _name(match["proto"], _PROTOCOLS)
    choice = TuningChoice(match["collective"], int(match["size"]), algorithm, protocol)
    return ProcessFacts(tuning=(choice,))


def _name(text: str, names: tuple[str, ...]) -> str:
    """Before 2.24 algorithm and protocol are numbers."""
    number = whole(text)
    return names[number] if number is not None and number < len(names) else text


_Take = Callable[[re.Match[str], str], ProcessFacts]
_FACTS: tuple[tuple[str, str, int, _Take], ...] = (
    (
        "version",
        r"(?:NCCL version (?=\S+\+(?:cuda|hip))|RCCL version ?: ?)(?P<version>\d+\.\d+\.\d+\S*)",
        4,
        _version,
    ),
    ("driver", r"cudaDriverVersion (?P<number>\d+)", 2, _driver),
    (
        "environment",
        r"\b(?P<name>(?:NCCL|RCCL|HSA|OFI_NCCL)_\w+) set (?:by environment )?to (?P<value>.*)$",
        200,
        _environment,
    ),
    ("bootstrap", r"Bootstrap ?: Using\s+(?P<rest>.+)$", 4, _bootstrap),
    ("network", r"Using network (?P<name>.+)$", 4, _network),
    ("plugin", r"\b(?P<kind>NET|TUNER|PROFILER|ENV|GIN|RMA)/Plugin ?: (?P<text>.*)$", 16, _plugin),
    (
        "external",
        r"(?:Successfully )?(?P<how>loaded) external network plugin (?P<name>\S+)",
        4,
        _external,
    ),
    ("refused", r"External network plugin (?P<name>\S+) is (?P<how>unsupported)", 4, _external),
    (
        "ofi",
        r"NET/OFI (?:Initializing aws-ofi-nccl |Selected [Pp]rovider is )(?P<text>.*)$",
        8,
        _ofi,
    ),
    (
        "hcas",
        r"NET/\S+(?: v\d+)? ?: Using (?P<rest>\[\d+\]\S+?:\d+(?::-?\d+:-?\d+)?/.*)$",
        4,
        _hcas,
    ),
    ("sockets", r"NET/Socket ?: Using (?P<rest>\[\d+\].*)$", 4, _sockets),
    ("no-device", r"NET/IB ?: No device found", 2, _no_device),
    (
        "gdr-hca",
        (
            r"GPU Direct RDMA (?:\(\w+\) )?(?P<state>Enabled|Disabled)(?: \(\w+\))? for HCA"
            r" (?P<hca>\d+) '(?P<name>[^']*)'"
        ),
        32,
        _gdr_hca,
    ),
    (
        "gdr-gpu",
        r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU[ /](?P<gpu>\S+).*?(?:HCA"
        r" |NET/)(?P<hca>\S+)"
        r" \(distance (?P<distance>\d+) [<>]=? (?P<limit>\d+)\)",
        32,
        _gdr_gpu,
    ),
    (
        "dmabuf",
        r"DMA-BUF is available on GPU device \d+|(?P<no>Dmabuf feature disabled|does not support dmabuf feature"
        r"|DMA_BUF_SUPPORT Failed)",
        2,
        _dmabuf,
    ),
    (
        "peer-memory",
        r"(?P<no>GDRDMA not enabled\. Could not find memory_peers)|Found /sys/\S*memory_peers/amdkfd"
        r"|Found ib_register_peer_memory_client in",
        2,
        _peer_memory,
    ),
    (
        "stack",
        r"(?P<part>HIP|ROCm|ROCr) version *:? (?P<value>\d\S*)|(?P<library>Librccl path) *: (?P<path>\S+)",
        8,
        _stack,
    ),
    ("network-gdr", r" via (?P<path>NET/.+/GDRDMA.*)$", 64, _connection),
    ("network-host", r" via (?P<path>NET/.+/\d+(?:\(\d+\))?(?:/Shared)?)\s*$", 64, _connection),
    ("peer", r" via (?P<path>P2P/.+)$", 64, _connection),
    ("shared-memory", r" via (?P<path>SHM/.+)$", 64, _connection),
    ("shared-memory-old", r" via (?P<path>direct shared memory.*)$", 64, _connection),
    (
        "rccl-path",
        r" via (?P<path>(?:NET|P2P|SHM|COLLNET)/.+?) comm 0x[0-9a-f]+ nRanks \d+\s*$",
        200,
        _connection,
    ),
    ("collnet-path", r" via (?P<path>COLLNET/.+)$", 64, _connection),
    ("channels", r"\b(?P<count>\d+) coll channels", 2, _channels),
    ("nvls", r"NVLS multicast support is (?P<no>not )?available", 2, _nvls),
    (
        "collnet",
        r"CollNet \d|CollNet node|CollNet device|Connected CollNet|COLLNET/|initialize CollNet"
        r"|SHARP coll|SHARP: |SHARP group|SHARP rank|Sharp rank",
        8,
        _collnet,
    ),
    (
        "p2p",
        r"Could not enable P2P between dev|P2P is disabled between connected GPUs",
        16,
        _p2p_refused,
    ),
    (
        "timings",
        (
            r"Init timings(?: - \w+)?: rank (?P<rank>\d+) nranks (?P<nranks>\d+) total"
            r" (?P<total>\d+\.\d+) \((?P<parts>[^)]*)\)"
        ),
        8,
        _timings,
    ),
    (
        "tuning",
        r"(?:(?P<collective>\w+): )?(?P<size>\d+) Bytes -> Algo (?P<algo>\w+) proto (?P<proto>\w+)",
        COMMON_LINES,
        _tuning,
    ),
    (
        "layout",
        r"comm 0x\w+ rank \d+ nRanks \d+ nNodes \d+ localRanks \d+ localRank \d+",
        4,
        _topology,
    ),
    ("rings", r"NCCL INFO Channel \d+/\d+ :(?: |  |   |    )0 ", 1, _topology),
    ("trees", r"NCCL INFO Trees \[0\]", 1, _topology),
    ("search", r"Pattern \d+, crossNic \d+, nChannels \d+", 4, _topology),
    (
        "connected",
        r"Connected all (?:rings|trees)|Connected (?:binomial trees|NVLS tree)",
        4,
        _topology,
    ),
    ("mnnvl", r"MNNVL busId 0x\w+ fabric UUID", 2, _topology),
    ("msccl", r"NCCL INFO (?:MSCCL(?:\+\+)?: |Using MSCCL files from)", 4, _topology),
)
_FACT_PREFIX = "nccl-debug."
_TAKERS = {
    _FACT_PREFIX + name: (re.compile(pattern, re.IGNORECASE), take_fact)
    for name, pattern, _, take_fact in _FACTS
}
_SEVERAL = (
    "environment",
    "timings",
    "gdr-hca",
    "gdr-gpu",
    "p2p",
    "plugin",
    "tuning",
    "rccl-path",
    "stack",
)
"""Facts of which one process has several whose lines may end alike."""
_ALL_LINES = 10_000_000
_REMEMBERED = 4096


def _pattern(name: str, expression: str, keep: int) -> Pattern:
    most = _ALL_LINES if name == "environment" else COMMON_LINES
    return Pattern(
        _FACT_PREFIX + name, expression, keep, distinct=name not in _SEVERAL, common_after=most
    )


WARN_ID = _FACT_PREFIX + "warn"
BACKTRACE_ID = _FACT_PREFIX + "backtrace"
COMMUNICATOR_ID = _FACT_PREFIX + "communicator"
PATTERNS: tuple[Pattern, ...] = (
    Pattern(WARN_ID, r"NCCL WARN ", keep=64, common_after=_ALL_LINES),
    # Every process has these lines for every communicator: the short expression is match four times
    # faster than the whole one.
    Pattern(
        COMMUNICATOR_ID,
        r"- ?(?:Init START|(?:Init|Abort|Destroy) COMPLETE|Abort START)",
        keep=400,
        common_after=_ALL_LINES,
    ),
    Pattern(
        BACKTRACE_ID, r"NCCL INFO \S+\.(?:cc|cu|cpp|cxx|c|h|hpp|hh):\d+(?: \(.*\))? -> \d", keep=16
    ),
    *(_pattern(name, expression, keep) for name, expression, keep, _ in _FACTS),
)
"""What `nccl_debug` looks for; ids begin with `nccl-debug.`."""


def take(pattern_id: str, line: LogLine) -> ProcessFacts:
    """The facts of a line that the pattern matched; every other field is empty.

    >>> take("nccl-debug.environment", parse_line("n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.")).environment
    (('NCCL_IB_TIMEOUT', '22'),)
    """
    return _taken(pattern_id, line.level, line.message).facts


_Parts = dict[str, list[ProcessFacts]]
"""What the lines of one process say, by field."""


class _Taken(NamedTuple):
    """What one line says."""

    facts: ProcessFacts
    fields: tuple[str, ...]
    """Those of `_FOLDED` that are not empty."""


@functools.lru_cache(maxsize=_REMEMBERED)
def _taken(pattern_id: str, level: str, message: str) -> _Taken:
    """Remembered: the ranks of a job log the same."""
    expression, take_fact = _TAKERS[pattern_id]
    match = expression.search(f"NCCL {level} {message}")
    facts = take_fact(match, message) if match is not None else ProcessFacts()
    given = zip(_FOLDED, _folded(facts), strict=True)
    return _Taken(facts, tuple(name for name, value in given if value is not None and value != ()))


T = TypeVar("T")


_LISTED = 16
_LOOKS = re.compile(
    rb"NCCL (?:INFO|WARN|CALL|TRACE|ABORT) |^NCCL version \d|\bRCCL version", re.MULTILINE
)
_GLUED = re.compile(r"^-?\d+(?=\D)")
_RANKS = re.compile(r"^rank (\d+)$")
_ORDER = (CommState.STARTED, CommState.COMPLETE, CommState.ABORTED, CommState.DESTROYED)


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


def log_of(scan: Scan) -> NcclLog:
    """The records of a scan for `PATTERNS` (hits of other patterns are ignored)."""
    names = {hit.process for hit in scan.hits if hit.process is not None}
    facts: dict[str | None, _Parts] = {}
    warnings: list[NcclWarning] = []
    results: Counter[str] = Counter()
    for hit in scan.hits:
        if not hit.pattern.startswith(_FACT_PREFIX):
            continue
        parts = facts.setdefault(_unglued(hit.process, names), {})
        if hit.pattern == COMMUNICATOR_ID:
            communicators = ProcessFacts(communicators=_communicators(hit))
            parts.setdefault("communicators", []).append(communicators)
        elif hit.pattern == WARN_ID:
            warnings += map(_warning, hit.examples)
        elif hit.pattern == BACKTRACE_ID:
            for example in hit.examples:
                _, message = _message(example.text) or ("", example.text.strip())
                if match := BACKTRACE.match(message):
                    results[result_name(int(match["result"]))] += 1
        else:
            for example in hit.examples:
                level, message = _message(example.text) or ("INFO", example.text.strip())
                fact = _taken(hit.pattern, level, message)
                for name in fact.fields:
                    parts.setdefault(name, []).append(fact.facts)
    processes = [_process(name, parts) for name, parts in facts.items()]
    processes.sort(key=_by_rank)
    warnings.sort(key=lambda each: each.line_no)
    return NcclLog(
        lines=scan.lines,
        processes=tuple(processes),
        warnings=tuple(warnings),
        results=tuple(sorted(results.items())),
        missing_ranks=_missing_ranks(processes),
        stuck=_stuck(processes),
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
    communicators = _last_states(
        each
        for group in [each.communicators for each in parts.get("communicators", ())]
        for each in group
    )
    largest = max(communicators, key=lambda each: (each.nranks, -each.line_no), default=None)
    tag = _RANKS.match(name or "")
    host, _, pid = (name or "").rpartition(":")
    rank = int(tag[1]) if tag else None
    return ProcessFacts(
        process=name,
        host=host or None,
        pid=whole(pid),
        rank=largest.rank if largest else rank,
        nranks=largest.nranks if largest else None,
        relaxed_ordering=_first(
            [each.relaxed_ordering for each in parts.get("relaxed_ordering", ())]
        ),
        cuda_driver=_first([each.cuda_driver for each in parts.get("cuda_driver", ())]),
        no_ib_device=any(each.no_ib_device for each in parts.get("no_ib_device", ())),
        dmabuf=_first([each.dmabuf for each in parts.get("dmabuf", ())]),
        peer_memory=_first([each.peer_memory for each in parts.get("peer_memory", ())]),
        stack=_each_once([each.stack for each in parts.get("stack", ())]),
        channels=_first([each.channels for each in parts.get("channels", ())]),
        nvls=_first([each.nvls for each in parts.get("nvls", ())]),
        environment=tuple(
            sorted(_each_once([each.environment for each in parts.get("environment", ())]))
        ),
        communicators=communicators,
        versions=_each_once([each.versions for each in parts.get("versions", ())]),
        bootstrap=_each_once([each.bootstrap for each in parts.get("bootstrap", ())]),
        networks=_each_once([each.networks for each in parts.get("networks", ())]),
        plugins=_each_once([each.plugins for each in parts.get("plugins", ())]),
        hcas=_each_once([each.hcas for each in parts.get("hcas", ())]),
        sockets=_each_once([each.sockets for each in parts.get("sockets", ())]),
        gdr=_each_once([each.gdr for each in parts.get("gdr", ())]),
        connections=_each_once([each.connections for each in parts.get("connections", ())]),
        collnet=_each_once([each.collnet for each in parts.get("collnet", ())]),
        p2p_refused=_each_once([each.p2p_refused for each in parts.get("p2p_refused", ())]),
        timings=_each_once([each.timings for each in parts.get("timings", ())]),
        tuning=_each_once([each.tuning for each in parts.get("tuning", ())]),
        topology=_each_once([each.topology for each in parts.get("topology", ())]),
    )


_FOLDED = (
    "versions", "bootstrap", "networks", "plugins", "hcas", "sockets", "gdr", "connections", "collnet", "p2p_refused", "timings",
    "tuning", "topology", "environment", "communicators", "cuda_driver", "relaxed_ordering", "no_ib_device", "dmabuf", "channels",
    "nvls", "peer_memory", "stack",
)  # fmt: skip
_folded = operator.attrgetter(*_FOLDED)
"""Field by field: a thousand processes in one text each have two dozen of them."""


def _each_once(groups: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    given = list(filter(None, groups))
    if len(given) < 2 and (not given or len(given[0]) < 2):
        return given[0] if given else ()
    return tuple(dict.fromkeys(each for group in given for each in group))


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _last_states(logged: Iterable[Communicator]) -> tuple[Communicator, ...]:
    """Each communicator once, with the furthest state it was logged in. A pointer is used again
    once its communicator is gone."""
    current: dict[tuple[str, str | None], Communicator] = {}
    for each in sorted(logged, key=lambda communicator: communicator.line_no):
        key = (each.pointer, each.comm_id)
        if each.comm_id is None and key not in current:
            key = next((known for known in current if known[0] == each.pointer), key)
        before = current.get(key)
        current[key] = each if before is None else _fold(before, each)
    return tuple(current.values())


def _fold(before: Communicator, after: Communicator) -> Communicator:
    """The later line with what only the earlier one has."""
    return replace(
        after,
        state=max(before.state, after.state, key=_ORDER.index),
        comm_id=after.comm_id or before.comm_id,
        cuda_dev=_first((after.cuda_dev, before.cuda_dev)),
        nvml_dev=_first((after.nvml_dev, before.nvml_dev)),
        bus_id=after.bus_id or before.bus_id,
        parent=after.parent or before.parent,
        function=before.function or after.function,
    )


def _by_rank(process: ProcessFacts) -> tuple[bool, int, str]:
    return (process.rank is None, process.rank or 0, process.process or "")


def _groups(
    processes: Iterable[ProcessFacts],
) -> dict[str, list[tuple[ProcessFacts, Communicator]]]:
    """Members by commId: the only name that is the same in all processes."""
    groups: dict[str, list[tuple[ProcessFacts, Communicator]]] = {}
    for process in processes:
        for communicator in process.communicators:
            if communicator.comm_id is not None:
                groups.setdefault(communicator.comm_id, []).append((process, communicator))
    return groups


def _missing_ranks(processes: Sequence[ProcessFacts]) -> tuple[int, ...]:
    """Ranks of the largest communicator that did not log its start, where at least half of them
    did."""
    groups = _groups(processes)
    members = max(groups.values(), key=lambda group: (group[0][1].nranks, len(group)), default=[])
    if not members:
        return ()
    nranks = members[0][1].nranks
    present = {communicator.rank for _, communicator in members}
    return tuple(sorted(set(range(nranks)) - present)) if nranks <= 2 * len(present) else ()


def _stuck(processes: Sequence[ProcessFacts]) -> tuple[str, ...]:
    """Communicators that some ranks began to start and did not complete."""
    sentences = []
    for comm_id, members in sorted(_groups(processes).items()):
        communicators = [communicator for _, communicator in members]
        ranks = sorted(each.rank for each in communicators if each.state is CommState.STARTED)
        if ranks:
            sentences.append(
                f"communicator {comm_id}: {len(ranks)} of {communicators[0].nranks} ranks began"
                f" their start and did not complete it ({_listed(ranks)})"
            )
    return tuple(sentences)


def _missing(log: NcclLog) -> tuple[str, ...]:
    if not log.missing_ranks:
        return ()
    count = len(log.missing_ranks)
    ranks = "1 rank" if count == 1 else f"{count} ranks"
    return (f"{ranks} never logged the start of the communicator: {_listed(log.missing_ranks)}",)


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:_LISTED])) + (" …" if len(ranks) > _LISTED else "")


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
        ("processes", f"{named or len(log.processes)} on {len(hosts)} hosts"),
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


RANK_LOG_HEAD = "# busbw rank log "
_RANK_LOG = re.compile(rf"\n{RANK_LOG_HEAD}(\S+) (\d+)$".encode(), re.M)


@dataclass(frozen=True, slots=True)
class RankLog:
    """The log of one rank."""

    name: str
    """Of the file on the node: `nccl.HOST.PID.log`."""
    content: bytes
    whole: bool
    """False = the file was longer than what was fetched of it."""


def split_rank_logs(content: bytes) -> tuple[RankLog, ...]:
    """The logs of one node's ranks, as busbw fetches them in one text: each behind a line with its
    name and its whole size. In the order of their names; () = no rank wrote one.

    >>> split_rank_logs(b"\\n# busbw rank log nccl.gpu-001.41.log 6\\nabc\\n12\\n# busbw rank log nccl.gpu-001.42.log 9\\nabc")[1]
    RankLog(name='nccl.gpu-001.42.log', content=b'abc', whole=False)
    """
    heads = list(_RANK_LOG.finditer(content))
    ends = [*(head.start() for head in heads[1:]), len(content)]
    logs = []
    for head, end in zip(heads, ends, strict=False):
        text = content[head.end() + 1 : end]
        logs.append(RankLog(head[1].decode("utf-8", "replace"), text, len(text) == int(head[2])))
    return tuple(sorted(logs, key=lambda log: log.name))


FORMAT = Format("nccl-debug", "NCCL debug log", _looks_like, read, embedded=True)
