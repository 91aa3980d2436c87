"""What an NCCL_DEBUG log says, process by process: versions, interfaces, transports, communicators,
warnings. NCCL 2.4 to 2.32, and RCCL.

The log may be of one process or of a thousand, with launcher tags, tables and other programs' lines
in it, of gigabytes: it is searched, not read line by line (`scan`). A caller that looks for
patterns of its own does it in the same pass and has `log_of` make the records:

>>> scanner = Scanner(PATTERNS)
>>> log = log_of(scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\\n"
...     b"gpu1:41:42 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\\n"]))
>>> log.processes[0].hcas, log.processes[0].connections[0].gdr
((HcaPort(index=0, device='mlx5_0', port=1, link='IB', rail=None, plane=None),), True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

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
from busbw.parsers.logs.scan import COMMON_LINES, Pattern, Scan, Scanner
from busbw.parsers.logs.scan_sieve import LONGEST_LINE

# The grammar of one line that NCCL's logger writes (`src/debug.cc`), in every version from 2.3 to
# 2.32.
#
# Every part but `NCCL LEVEL` may be missing (people quote lines without their prefix) and
# anything may stand in front of it: launcher tags,
# an actor's name, a half-written row of a table. Written against the formats of NCCL 2.4.8, 2.8,
# 2.12, 2.18, 2.22, 2.26, 2.29, 2.30.7 and 2.32.3.
#
# >>> parse_line("[2026-07-10 09:00:00] gpu1:4711:4720 [3] misc/socket.cc:397 (ncclSocketConnect)
# NCCL WARN Net : Connect failed", 7)
# LogLine(line_no=7, level='WARN', message='Net : Connect failed', host='gpu1', pid=4711,
# tid=4720, device=3, timestamp='2026-07-10 09:00:00', source='misc/socket.cc:397',
# function='ncclSocketConnect')
# >>> parse_line("gpu1:4711:4720 [0] NCCL INFO Using network IB").message
# 'Using network IB'
# >>> parse_line("nothing of the kind") is None
# True

_CORE = re.compile(r"(?:^|[ \"#])NCCL (?P<level>INFO|WARN|CALL|TRACE|ABORT) (?P<message>.*)$")
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
    """The line taken apart, as far as the scanner reads a line; None = there is no `NCCL LEVEL` in
    it."""
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
    found = _SOURCE.match(text) if text else None
    return _Where(found["src"], found["func"]) if found else _Where(None, None)


def _without_process(head: str, level: str, message: str, line_no: int) -> LogLine:
    bare = _BARE.search(head)
    where = _source(bare["rest"]) if bare else _Where(None, None)
    found = None if bare else _FILE.search(head)
    if found is not None:
        where = _Where(found["src"], found["func"])
    device = int(bare["dev"]) if bare else None
    return LogLine(
        line_no=line_no,
        level=level,
        message=message,
        device=device,
        source=where.source,
        function=where.function,
    )


# Which INFO lines of an NCCL log carry facts, and what each says, in every version's wording (2.4
# to 2.32, RCCL, aws-ofi-nccl).
#
# `PATTERNS` are for `scan.Scanner`: they can be searched together with others in one pass.
# `take(id, line)` turns a line that one of them matched
# into what it says.

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
_COLLNET = re.compile(r"^COLLNET/(?P<network>.+?)/(?P<device>\d+)(?P<gdr>/GDRDMA)?")


def _version(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(versions=(found["version"],))


def _environment(found: re.Match[str], line: LogLine) -> ProcessFacts:
    """Integers are printed with a full stop behind them, strings without."""
    value = found["value"].strip()
    return ProcessFacts(
        environment=((found["name"], value[:-1] if re.fullmatch(r"-?\d+\.", value) else value),)
    )


def _bootstrap(found: re.Match[str], line: LogLine) -> ProcessFacts:
    named = _interfaces(found["rest"])
    return ProcessFacts(bootstrap=named or (Interface(found["rest"].strip(), ""),))


def _sockets(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(sockets=_interfaces(found["rest"]))


def _interfaces(text: str) -> tuple[Interface, ...]:
    return tuple(Interface(each["name"], each["address"]) for each in _INTERFACE.finditer(text))


def _hcas(found: re.Match[str], line: LogLine) -> ProcessFacts:
    ports = tuple(
        HcaPort(
            int(index),
            device,
            int(port),
            link,
            int(rail) if rail else None,
            int(plane) if plane else None,
        )
        for index, device, port, rail, plane, link in _HCA.findall(found["rest"].partition(";")[0])
    )
    return ProcessFacts(hcas=ports, relaxed_ordering="[RO]" in found["rest"])


def _network(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(networks=(found["name"].strip(),))


def _plugin(found: re.Match[str], line: LogLine) -> ProcessFacts:
    text = found["text"].strip()
    if missing := re.search(
        r"Could not find:?\s*(\S+?)[.,]?(?:\s|$)|No plugin found(?: \((\S+?)\))?|(\S+?): cannot"
        r" open shared",
        text,
    ):
        return ProcessFacts(
            plugins=(Plugin(found["kind"], next(filter(None, missing.groups()), ""), False, text),)
        )
    loaded = re.search(
        r"(?:Loaded (?:net|coll|collnet|tuner|gin|\w+) plugin|Using) (?!internal)(\S+)", text
    )
    kind = "COLLNET" if "Loaded coll" in text else found["kind"]
    return ProcessFacts(
        plugins=(Plugin(kind, loaded[1].rstrip("."), True, text),) if loaded else ()
    )


def _external(found: re.Match[str], line: LogLine) -> ProcessFacts:
    loaded = found["how"].lower() == "loaded"
    return ProcessFacts(plugins=(Plugin("NET", found["name"], loaded, line.message.strip()),))


def _ofi(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(plugins=(Plugin("NET", "aws-ofi-nccl", True, line.message.strip()),))


def _no_device(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(no_ib_device=True)


def _gdr_hca(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(
        gdr=(Gdr(found["state"].lower() == "enabled", found["name"] or found["hca"]),)
    )


def _gdr_gpu(found: re.Match[str], line: LogLine) -> ProcessFacts:
    state = found["state"].lower() == "enabled"
    return ProcessFacts(
        gdr=(Gdr(state, found["hca"], found["gpu"], int(found["distance"]), int(found["limit"])),)
    )


def _dmabuf(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(dmabuf=True)


def _connection(found: re.Match[str], line: LogLine) -> ProcessFacts:
    path = _COMM_BEHIND.sub("", found["path"]).strip()
    kind = "SHM" if path.startswith("direct shared") else path.partition("/")[0].upper()
    net = _NET.match(path) or _COLLNET.match(path)
    if net is None:
        return ProcessFacts(connections=(Connection(kind, path),))
    proxy = net.groupdict().get("proxy")
    gdr = net["gdr"] is not None
    return ProcessFacts(
        connections=(
            Connection(
                kind, path, net["network"], int(net["device"]), int(proxy) if proxy else None, gdr
            ),
        )
    )


def _channels(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(channels=int(found["count"]))


def _nvls(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(nvls=found["no"] is None)


def _collnet(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(collnet=(line.message.strip(),))


def _p2p_refused(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(p2p_refused=(line.message.strip(),))


def _topology(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(topology=(line.message.strip(),))


def _driver(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(cuda_driver=int(found["number"]))


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
    """The communicator that a line of its life is about. Not through `take`: a large job has a
    hundred thousand of these lines."""
    found = _COMMUNICATOR.search(text)
    if found is None:
        return None
    function, pointer, rank, nranks, cuda_dev, nvml_dev, bus_id, comm_id, parent, state = (
        found.groups()
    )
    return Communicator(
        pointer=pointer,
        rank=int(rank),
        nranks=int(nranks),
        state=_STATES[state.lower()],
        line_no=line_no,
        comm_id=comm_id,
        cuda_dev=int(cuda_dev) if cuda_dev else None,
        nvml_dev=int(nvml_dev) if nvml_dev else None,
        bus_id=bus_id,
        parent=parent,
        function=function,
    )


def _timings(found: re.Match[str], line: LogLine) -> ProcessFacts:
    parts = tuple(
        (name, float(value)) for name, value in re.findall(r"(\w+) (\d+\.\d+)", found["parts"])
    )
    return ProcessFacts(
        timings=(
            InitTimings(int(found["rank"]), int(found["nranks"]), float(found["total"]), parts),
        )
    )


def _tuning(found: re.Match[str], line: LogLine) -> ProcessFacts:
    algorithm, protocol = _name(found["algo"], _ALGORITHMS), _name(found["proto"], _PROTOCOLS)
    return ProcessFacts(
        tuning=(TuningChoice(found["collective"], int(found["size"]), algorithm, protocol),)
    )


def _name(text: str, names: tuple[str, ...]) -> str:
    """Before 2.24 algorithm and protocol are numbers."""
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text


_Take = Callable[[re.Match[str], LogLine], ProcessFacts]
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
    ("dmabuf", r"DMA-BUF is available on GPU device \d+", 2, _dmabuf),
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
        r"CollNet \d|CollNet node|Connected CollNet|COLLNET/|initialize CollNet|SHARP coll",
        8,
        _collnet,
    ),
    ("p2p", r"Could not enable P2P between dev", 16, _p2p_refused),
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
)
_FACT_PREFIX = "nccl-debug."
_TAKERS = {
    _FACT_PREFIX + name: (re.compile(pattern, re.IGNORECASE), take_fact)
    for name, pattern, _, take_fact in _FACTS
}
_SEVERAL = ("environment", "timings", "gdr-hca", "gdr-gpu", "p2p", "plugin", "tuning", "rccl-path")
"""Facts of which one process has several whose lines may end alike."""
_ALL_LINES = 10_000_000


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
    # Every process has these lines for every communicator: the short expression is found four times
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
    """What a line says that the pattern matched; every other field is empty.

    >>> from busbw.parsers.logs.nccl_debug import parse_line
    >>> take("nccl-debug.environment", parse_line("n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.")).environment
    (('NCCL_IB_TIMEOUT', '22'),)
    """
    expression, take_fact = _TAKERS[pattern_id]
    found = expression.search(f"NCCL {line.level} {line.message}")
    return take_fact(found, line) if found is not None else ProcessFacts()


# The wordings of NCCL's WARN lines by version, what kind of trouble each is, and the figures and
# names in them.
#
# Catalogue: NCCL 2.4 to 2.30.7, files `transport/net_ib*`, `misc/socket.cc`, `misc/ibvwrap.cc`,
# `bootstrap.cc`, `proxy.cc`, `init.cc`,
# `transport/nvls.cc`, `misc/shmutils.cc`; the plugin of AWS by its prefix `NET/OFI`.

_CAUSE, _ECHO, _NOTE = WarningRole.CAUSE, WarningRole.ECHO, WarningRole.NOTE

_KINDS: tuple[tuple[str, WarningRole, re.Pattern[str]], ...] = tuple(
    (kind, role, re.compile(pattern, re.IGNORECASE))
    for kind, role, pattern in (
        ("ib-flush", _ECHO, r"Got completion.*(?:status=(?:IBV_WC_WR_FLUSH_ERR\()?5|error 5)\b"),
        ("ib-completion", _CAUSE, r"Got completion|Got CQE with error"),
        ("ib-modify-qp", _CAUSE, r"Call to ibv_modify_qp failed"),
        ("ib-verbs", _CAUSE, r"Call to (?:ibv|mlx5dv)_\w+(?:\(\))? (?:failed|returned)"),
        ("ib-open", _CAUSE, r"NET/IB ?: Unable to (?:open|query)|could not open \w+ \(.*errno"),
        ("ib-async-fatal", _CAUSE, r"async fatal event"),
        ("ib-async-event", _CAUSE, r"Got async event"),
        (
            "ib-port-event",
            _NOTE,
            r"Got non-fatal async event|GID table changed|unknown event type|speed change",
        ),
        ("ib-fatal-detected", _ECHO, r"communicator encountered a fatal error"),
        (
            "ib-failover",
            _CAUSE,
            (
                r"NET/IB ?: (?:Device \d+ marked as failed|The error is fatal|Fatal error|Maximum"
                r" number of probing)"
            ),
        ),
        ("link-type-mix", _CAUSE, r"incompatible devices|Remote \w+ device is incompatible"),
        ("ib-receive-mismatch", _CAUSE, r"posted incorrect receive info|collective mismatch error"),
        (
            "no-interface",
            _CAUSE,
            (
                r"no (?:socket )?interface found|No IP interface found|No usable listening"
                r" interface|No interface found in"
            ),
        ),
        (
            "address-family",
            _CAUSE,
            r"is neither AF_INET|unsupported IP family|Address family not supported",
        ),
        (
            "connect-failed",
            _CAUSE,
            (
                r"(?:Connect|connect) to .*(?:failed|returned)|connect returned|exceeded (?:error"
                r" retry|retries|timeouts)"
            ),
        ),
        ("connection-closed", _ECHO, r"Connection closed by remote peer"),
        (
            "connection-lost",
            _ECHO,
            r"Call to (?:recv|send|recv from|send to)\b.*failed|ncclSocket\w* failed",
        ),
        ("accept-failed", _CAUSE, r"Accept failed|Too many open files"),
        (
            "foreign-connection",
            _CAUSE,
            r"wrong (?:magic|type)|socket magic mismatch|wrong socket type",
        ),
        ("message-mismatch", _CAUSE, r"[Mm]essage truncated"),
        (
            "rank-mismatch",
            _CAUSE,
            r"Bootstrap Root : (?:mismatch|rank \d+ of)|has already checked in",
        ),
        ("version-mismatch", _CAUSE, r"Mismatched NCCL version|NCCL version mismatch"),
        (
            "duplicate-gpu",
            _CAUSE,
            r"Duplicate GPU detected|ranks (?:detected|are) using the same GPU|using the same GPU",
        ),
        ("nvls-bind", _CAUSE, r"NVLink SHARP \(NVLS\)|NVLS"),
        ("cuda-failure", _CAUSE, r"Cuda failure|CUDA error"),
        ("cuda-memory", _CAUSE, r"Failed to CUDA (?:malloc|calloc|host alloc)"),
        (
            "cuda-driver",
            _CAUSE,
            r"CUDA Driver version found|Failed to open libnvidia-ml|nvml\w*\(\) failed",
        ),
        (
            "p2p-disabled",
            _CAUSE,
            r"P2P is disabled between NVLINK|failed to peer with device|cudaIpcGetMemHandle failed",
        ),
        ("no-transport", _CAUSE, r"No transport found for rank"),
        ("topology-file", _CAUSE, r"XML|Attribute \S+ of node|Could not find real path"),
        ("shared-memory", _CAUSE, r"/dev/shm|shared memory|posix_fallocate"),
        (
            "proxy",
            _ECHO,
            (
                r"\[(?:Service thread|Proxy (?:Service|Progress)[^\]]*)\]|Socket recv failed while"
                r" polling|ncclProxyCallBlockingUDS|UDS:"
            ),
        ),
        ("mnnvl", _CAUSE, r"MNNVL"),
        ("collnet-off", _NOTE, r"Cannot initialize CollNet|CollNet.*not"),
        ("no-algorithm", _CAUSE, r"no algorithm/protocol available"),
        (
            "net-plugin",
            _CAUSE,
            r"network \S.* not found|Failed to initialize any NET plugin|External network plugin",
        ),
        ("nic-count", _CAUSE, r"Detected mixed local|has \d+ local (?:Net|CollNet) devices"),
        ("ofi", _CAUSE, r"NET/OFI"),
        (
            "invalid-argument",
            _CAUSE,
            r"is not a valid pointer|mismatchs with NCCL device|Invalid|invalid",
        ),
        ("numa-balancing", _NOTE, r"NUMA auto balancing|iommu=pt"),
        ("hang-hint", _NOTE, r"Your program may be hanging"),
    )
)
_PEER = re.compile(r"(?:peer|to|from|address)\s+(?P<peer>[\w.:%-]+)<\d+>")
_STATUS = re.compile(r"(?:status=(?:[A-Z0-9_]+\()?|with error )(\d+)")
_OPCODE = re.compile(r"opcode(?:=(?:[A-Z0-9_]+\()?| )(\d+)")
_LENGTH = re.compile(r"\b(?:len|reqSize)[= ](\d+)")
_VENDOR = re.compile(r"vendor[_ ]err[= ](\d+)")
_REQUEST = re.compile(r"\((Send|Recv|Flush)\)|req_type=(Send|Recv|Flush)")
_WARNED_HCA = re.compile(
    r"\bhca (\S+)|\bon dev (\S+?)(?::\d+)?[,\s]|could not open (\w+)|NET/IB ?:"
    r" (?:\[\d+\])?(?:Unable to open device )?(\w+_\d+|\w*mlx5\w*)(?::\d+)?\b"
)
_ERRNO = re.compile(
    r"\berrno (\d+)|failed with (?:error )?(\d+)\b|error: [A-Z][^(]* \((\d+)\)$|(?:Cuda"
    r" failure|CUDA error) (\d+)"
)
_ERROR_TEXT = re.compile(
    r"failed (?:: |with (?:error )?(?:\d+ )?)([A-Z][^,\[(\"]*?)\s*(?:\[|,|\(|\"|errno|$)|returned"
    r" ([A-Z][\w ]+?)(?:,|$)|error: ([A-Z][^(]*?) \(\d+\)"
    r"|(?:Cuda failure|CUDA error)(?: \d+)? '([^']*)'|could not open \w+ \(([^,]*), errno"
)
_LOCAL_GID = re.compile(r"local ?GID:? ([0-9a-f:.]+)|localGid ([0-9a-f:.]+)", re.IGNORECASE)
_REMOTE_GID = re.compile(r"remote ?GIDs? ?([0-9a-f:.]+)", re.IGNORECASE)


def warning(line: LogLine) -> NcclWarning:
    """What a WARN line tells.

    >>> from busbw.parsers.logs.nccl_debug import parse_line
    >>> found = warning(parse_line("n:1:2 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<47001> "
    ...     "with error 12, opcode 0, len 0, vendor err 129"))
    >>> found.kind, found.role.value, found.status, found.vendor_err, found.peer
    ('ib-completion', 'cause', 12, 129, '10.0.0.2')
    """
    text = line.message
    kind, role = _kind(text)
    completion = kind in ("ib-completion", "ib-flush")
    return NcclWarning(
        line_no=line.line_no,
        process=line.process,
        device=line.device,
        timestamp=line.timestamp,
        source=line.source,
        function=line.function,
        message=text,
        kind=kind,
        role=role,
        peer=_text(_PEER, text),
        hca=_text(_WARNED_HCA, text),
        status=_number(_STATUS, text) if completion else None,
        opcode=_number(_OPCODE, text) if completion else None,
        length=_number(_LENGTH, text) if completion else None,
        vendor_err=_number(_VENDOR, text),
        request=_text(_REQUEST, text),
        errno=None if completion else _number(_ERRNO, text),
        errno_text=None if completion else _text(_ERROR_TEXT, text),
        local_gid=_text(_LOCAL_GID, text),
        remote_gid=_text(_REMOTE_GID, text),
    )


def _kind(text: str) -> tuple[str, WarningRole]:
    for kind, role, pattern in _KINDS:
        if pattern.search(text):
            return kind, role
    return "other", WarningRole.UNKNOWN


def _text(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return next((group.strip() for group in found.groups() if group), None) if found else None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = _text(pattern, text)
    return int(found) if found is not None else None


# Several ranks' NCCL logs of one node in one text, as busbw fetches them: each behind a line with
# its name and its whole size.

HEAD = "# busbw rank log "
_HEAD = re.compile(rf"\n{HEAD}(\S+) (\d+)$".encode(), re.M)


@dataclass(frozen=True, slots=True)
class RankLog:
    """The log of one rank."""

    name: str
    """Of the file on the node: `nccl.HOST.PID.log`."""
    content: bytes
    whole: bool
    """False = the file was longer than what was fetched of it."""


def split(content: bytes) -> tuple[RankLog, ...]:
    """The logs, in the order of their names; () = no rank wrote one.

    >>> split(b"\\n# busbw rank log nccl.gpu-001.41.log 6\\nabc\\n12\\n# busbw rank log nccl.gpu-001.42.log 9\\nabc")[1]
    RankLog(name='nccl.gpu-001.42.log', content=b'abc', whole=False)
    """
    heads = list(_HEAD.finditer(content))
    ends = [*(head.start() for head in heads[1:]), len(content)]
    found = []
    for head, end in zip(heads, ends, strict=False):
        text = content[head.end() + 1 : end]
        found.append(RankLog(head[1].decode("utf-8", "replace"), text, len(text) == int(head[2])))
    return tuple(sorted(found, key=lambda log: log.name))


T = TypeVar("T")


_LOOKS = re.compile(
    rb"NCCL (?:INFO|WARN|CALL|TRACE|ABORT) |^NCCL version \d|\bRCCL version", re.MULTILINE
)
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
            next_step=(
                "run with NCCL_DEBUG=INFO (and NCCL_DEBUG_FILE=nccl.%h.%p.log) and read what it"
                " writes"
            ),
        )
    log = log_of(scan)
    faults = tuple(
        _told(each) for each in _first_of_each(log.warnings) if each.role is not WarningRole.NOTE
    )
    problems = (*faults, *log.stuck, *_missing(log), *scan.problems)
    return Document(
        "nccl-debug",
        (log,),
        _summary(log),
        not scan.problems,
        problems,
        (*faults, *log.stuck, *_missing(log)),
    )


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
            parts.append(
                ProcessFacts(communicators=tuple(each for each in named if each is not None))
            )
            continue
        for example in hit.examples:
            line = parse_line(example.text, example.line_no) or LogLine(
                example.line_no, "INFO", example.text.strip()
            )
            if hit.pattern == WARN_ID:
                warnings.append(warning(line))
            elif hit.pattern == BACKTRACE_ID:
                found = BACKTRACE.match(line.message)
                if found is not None:
                    name = result_name(int(found["result"]))
                    results[name] = results.get(name, 0) + 1
            else:
                parts.append(take(hit.pattern, line))
    processes = tuple(
        sorted((_process(name, parts) for name, parts in facts.items()), key=_by_rank)
    )
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
    """A log line glued to a half-written row of a table takes the row's last number into its host
    name: `-1gpu3`."""
    if (
        process is not None
        and (number := _GLUED.match(process))
        and process[number.end() :] in known
    ):
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
    """Each communicator once, with the furthest state it was logged in. A pointer is used again
    once its communicator is gone."""
    current: dict[tuple[str, str | None], Communicator] = {}
    for each in sorted(logged, key=lambda communicator: communicator.line_no):
        key = (each.pointer, each.comm_id)
        before = current.get(key) or (
            current.get((each.pointer, None)) if each.comm_id is None else None
        )
        if each.comm_id is None and before is None:
            key, before = next(
                ((known, current[known]) for known in current if known[0] == each.pointer),
                (key, None),
            )
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


def _missing_ranks(processes: tuple[ProcessFacts, ...]) -> tuple[int, ...]:
    """Ranks of the largest communicator that did not log its start, where at least half of them
    did."""
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
        waiting = sorted(
            communicator.rank
            for _, communicator in members
            if communicator.state is CommState.STARTED
        )
        if waiting:
            names = ", ".join(map(str, waiting[:16])) + (" …" if len(waiting) > 16 else "")
            told.append(
                f"communicator {comm_id}: {len(waiting)} of {members[0][1].nranks} ranks began"
                f" their start and did not complete it ({names})"
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
    names = ", ".join(map(str, log.missing_ranks[:16])) + (
        " …" if len(log.missing_ranks) > 16 else ""
    )
    return (f"{len(log.missing_ranks)} ranks never logged the start of the communicator: {names}",)


def _summary(log: NcclLog) -> tuple[tuple[str, str], ...]:
    """For people: what all processes agree on, once; what differs, with how many say so."""
    rows = [
        ("lines", f"{log.lines}"),
        (
            "processes",
            (
                f"{len(log.processes)} on {len({each.host for each in log.processes if each.host})}"
                " hosts"
            ),
        ),
    ]
    for label, said in (
        ("version", [" ".join(each.versions) for each in log.processes]),
        ("network", [" ".join(each.networks) for each in log.processes]),
        (
            "HCAs",
            [
                " ".join(f"{hca.device}:{hca.port}/{hca.link}" for hca in each.hcas)
                for each in log.processes
            ],
        ),
        (
            "bootstrap",
            [" ".join(each.name for each in process.bootstrap) for process in log.processes],
        ),
        ("channels", [str(each.channels or "") for each in log.processes]),
    ):
        counts = Counter(text for text in said if text)
        rows += [(label, f"{text} ({count})") for text, count in counts.most_common(4)]
    transports = Counter(
        text
        for process in log.processes
        for text in {_transport(each) for each in process.connections}
    )
    rows += [
        ("connections", f"{text} ({count} processes)") for text, count in transports.most_common(8)
    ]
    rows += [("environment", f"{name}={value}") for name, value in _common_environment(log)]
    rows += [("warning", _told(each)) for each in _first_of_each(log.warnings)]
    return tuple(rows)


def _transport(connection: Connection) -> str:
    if connection.network is None:
        return connection.path
    return f"{connection.transport}/{connection.network}" + (
        " GPUDirect" if connection.gdr else " through host memory"
    )


def _common_environment(log: NcclLog) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({pair for process in log.processes for pair in process.environment}))[:64]


def _looks_like(head: bytes) -> float:
    found = len(_LOOKS.findall(head))
    return 0.0 if not found else 0.9 if found > 2 else 0.6


FORMAT = Format("nccl-debug", "NCCL debug log", _looks_like, read, embedded=True)
