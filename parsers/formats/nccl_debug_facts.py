"""Which INFO lines of an NCCL log carry facts, and what each says, in every version's wording (2.4 to 2.32, RCCL, aws-ofi-nccl).

`PATTERNS` are for `scan.Scanner`: they can be searched together with others in one pass. `take(id, line)` turns a line that one of them matched
into what it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from busbw.parsers.formats.scan import COMMON_LINES, Pattern
from busbw.records import (
    CommState,
    Communicator,
    Connection,
    Gdr,
    HcaPort,
    InitTimings,
    Interface,
    LogLine,
    Plugin,
    ProcessFacts,
    TuningChoice,
)

_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_ADDRESS = r"(?P<name>[^\s:<>\[\]]+):(?P<address>[^\s<>]+)<\d+>"
_INTERFACE = re.compile(r"(?:\[\d+\])?" + _ADDRESS)
_HCA = re.compile(r"\[(\d+)\](\S+?):(\d+)(?::(-?\d+):(-?\d+))?/([^\s;]+)")
_NET = re.compile(r"^NET/(?P<network>.+?)/(?P<device>\d+)(?:\((?P<proxy>\d+)\))?(?P<gdr>/GDRDMA)?(?:\(PCI\))?(?:/Shared)?$")
_COMM_BEHIND = re.compile(r" comm 0x[0-9a-f]+ nRanks \d+\s*$")
"""RCCL's end of the line."""
_COLLNET = re.compile(r"^COLLNET/(?P<network>.+?)/(?P<device>\d+)(?P<gdr>/GDRDMA)?")


def _version(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(versions=(found["version"],))


def _environment(found: re.Match[str], line: LogLine) -> ProcessFacts:
    """Integers are printed with a full stop behind them, strings without."""
    value = found["value"].strip()
    return ProcessFacts(environment=((found["name"], value[:-1] if re.fullmatch(r"-?\d+\.", value) else value),))


def _bootstrap(found: re.Match[str], line: LogLine) -> ProcessFacts:
    named = _interfaces(found["rest"])
    return ProcessFacts(bootstrap=named or (Interface(found["rest"].strip(), ""),))


def _sockets(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(sockets=_interfaces(found["rest"]))


def _interfaces(text: str) -> tuple[Interface, ...]:
    return tuple(Interface(each["name"], each["address"]) for each in _INTERFACE.finditer(text))


def _hcas(found: re.Match[str], line: LogLine) -> ProcessFacts:
    ports = tuple(
        HcaPort(int(index), device, int(port), link, int(rail) if rail else None, int(plane) if plane else None)
        for index, device, port, rail, plane, link in _HCA.findall(found["rest"].partition(";")[0])
    )
    return ProcessFacts(hcas=ports, relaxed_ordering="[RO]" in found["rest"])


def _network(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(networks=(found["name"].strip(),))


def _plugin(found: re.Match[str], line: LogLine) -> ProcessFacts:
    text = found["text"].strip()
    if missing := re.search(r"Could not find:?\s*(\S+?)[.,]?(?:\s|$)|No plugin found(?: \((\S+?)\))?|(\S+?): cannot open shared", text):
        return ProcessFacts(plugins=(Plugin(found["kind"], next(filter(None, missing.groups()), ""), False, text),))
    loaded = re.search(r"(?:Loaded (?:net|coll|collnet|tuner|gin|\w+) plugin|Using) (?!internal)(\S+)", text)
    kind = "COLLNET" if "Loaded coll" in text else found["kind"]
    return ProcessFacts(plugins=(Plugin(kind, loaded[1].rstrip("."), True, text),) if loaded else ())


def _external(found: re.Match[str], line: LogLine) -> ProcessFacts:
    loaded = found["how"].lower() == "loaded"
    return ProcessFacts(plugins=(Plugin("NET", found["name"], loaded, line.message.strip()),))


def _ofi(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(plugins=(Plugin("NET", "aws-ofi-nccl", True, line.message.strip()),))


def _no_device(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(no_ib_device=True)


def _gdr_hca(found: re.Match[str], line: LogLine) -> ProcessFacts:
    return ProcessFacts(gdr=(Gdr(found["state"].lower() == "enabled", found["name"] or found["hca"]),))


def _gdr_gpu(found: re.Match[str], line: LogLine) -> ProcessFacts:
    state = found["state"].lower() == "enabled"
    return ProcessFacts(gdr=(Gdr(state, found["hca"], found["gpu"], int(found["distance"]), int(found["limit"])),))


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
    return ProcessFacts(connections=(Connection(kind, path, net["network"], int(net["device"]), int(proxy) if proxy else None, gdr),))


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
    r"(?:(nccl\w+) )?comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)(?: cudaDev (\d+))?(?: nvmlDev (\d+))?(?: busId ([0-9a-f]+))?"
    r"(?: commId 0x([0-9a-f]+))?(?: parent (0x[0-9a-f]+))?[^-]*- ?(Init START|Init COMPLETE|Abort START|Abort COMPLETE|Destroy COMPLETE)",
    re.IGNORECASE,
)


def communicator_of(text: str, line_no: int) -> Communicator | None:
    """The communicator that a line of its life is about. Not through `take`: a large job has a hundred thousand of these lines."""
    found = _COMMUNICATOR.search(text)
    if found is None:
        return None
    function, pointer, rank, nranks, cuda_dev, nvml_dev, bus_id, comm_id, parent, state = found.groups()
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
    parts = tuple((name, float(value)) for name, value in re.findall(r"(\w+) (\d+\.\d+)", found["parts"]))
    return ProcessFacts(timings=(InitTimings(int(found["rank"]), int(found["nranks"]), float(found["total"]), parts),))


def _tuning(found: re.Match[str], line: LogLine) -> ProcessFacts:
    algorithm, protocol = _name(found["algo"], _ALGORITHMS), _name(found["proto"], _PROTOCOLS)
    return ProcessFacts(tuning=(TuningChoice(found["collective"], int(found["size"]), algorithm, protocol),))


def _name(text: str, names: tuple[str, ...]) -> str:
    """Before 2.24 algorithm and protocol are numbers."""
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text


_Take = Callable[[re.Match[str], LogLine], ProcessFacts]
_FACTS: tuple[tuple[str, str, int, _Take], ...] = (
    ("version", r"(?:NCCL version (?=\S+\+(?:cuda|hip))|RCCL version ?: ?)(?P<version>\d+\.\d+\.\d+\S*)", 4, _version),
    ("driver", r"cudaDriverVersion (?P<number>\d+)", 2, _driver),
    ("environment", r"\b(?P<name>(?:NCCL|RCCL|HSA|OFI_NCCL)_\w+) set (?:by environment )?to (?P<value>.*)$", 200, _environment),
    ("bootstrap", r"Bootstrap ?: Using\s+(?P<rest>.+)$", 4, _bootstrap),
    ("network", r"Using network (?P<name>.+)$", 4, _network),
    ("plugin", r"\b(?P<kind>NET|TUNER|PROFILER|ENV|GIN|RMA)/Plugin ?: (?P<text>.*)$", 16, _plugin),
    ("external", r"(?:Successfully )?(?P<how>loaded) external network plugin (?P<name>\S+)", 4, _external),
    ("refused", r"External network plugin (?P<name>\S+) is (?P<how>unsupported)", 4, _external),
    ("ofi", r"NET/OFI (?:Initializing aws-ofi-nccl |Selected [Pp]rovider is )(?P<text>.*)$", 8, _ofi),
    ("hcas", r"NET/\S+(?: v\d+)? ?: Using (?P<rest>\[\d+\]\S+?:\d+(?::-?\d+:-?\d+)?/.*)$", 4, _hcas),
    ("sockets", r"NET/Socket ?: Using (?P<rest>\[\d+\].*)$", 4, _sockets),
    ("no-device", r"NET/IB ?: No device found", 2, _no_device),
    (
        "gdr-hca",
        r"GPU Direct RDMA (?:\(\w+\) )?(?P<state>Enabled|Disabled)(?: \(\w+\))? for HCA (?P<hca>\d+) '(?P<name>[^']*)'",
        32,
        _gdr_hca,
    ),
    (
        "gdr-gpu",
        r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU[ /](?P<gpu>\S+).*?(?:HCA |NET/)(?P<hca>\S+)"
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
    ("rccl-path", r" via (?P<path>(?:NET|P2P|SHM|COLLNET)/.+?) comm 0x[0-9a-f]+ nRanks \d+\s*$", 200, _connection),
    ("collnet-path", r" via (?P<path>COLLNET/.+)$", 64, _connection),
    ("channels", r"\b(?P<count>\d+) coll channels", 2, _channels),
    ("nvls", r"NVLS multicast support is (?P<no>not )?available", 2, _nvls),
    ("collnet", r"CollNet \d|CollNet node|Connected CollNet|COLLNET/|initialize CollNet|SHARP coll", 8, _collnet),
    ("p2p", r"Could not enable P2P between dev", 16, _p2p_refused),
    (
        "timings",
        r"Init timings(?: - \w+)?: rank (?P<rank>\d+) nranks (?P<nranks>\d+) total (?P<total>\d+\.\d+) \((?P<parts>[^)]*)\)",
        8,
        _timings,
    ),
    (
        "tuning",
        r"(?:(?P<collective>\w+): )?(?P<size>\d+) Bytes -> Algo (?P<algo>\w+) proto (?P<proto>\w+)",
        COMMON_LINES,
        _tuning,
    ),
    ("layout", r"comm 0x\w+ rank \d+ nRanks \d+ nNodes \d+ localRanks \d+ localRank \d+", 4, _topology),
    ("rings", r"NCCL INFO Channel \d+/\d+ :(?: |  |   |    )0 ", 1, _topology),
    ("trees", r"NCCL INFO Trees \[0\]", 1, _topology),
    ("search", r"Pattern \d+, crossNic \d+, nChannels \d+", 4, _topology),
    ("connected", r"Connected all (?:rings|trees)|Connected (?:binomial trees|NVLS tree)", 4, _topology),
    ("mnnvl", r"MNNVL busId 0x\w+ fabric UUID", 2, _topology),
)
_PREFIX = "nccl-debug."
_TAKERS = {_PREFIX + name: (re.compile(pattern, re.IGNORECASE), take_fact) for name, pattern, _, take_fact in _FACTS}
_SEVERAL = ("environment", "timings", "gdr-hca", "gdr-gpu", "p2p", "plugin", "tuning", "rccl-path")
"""Facts of which one process has several whose lines may end alike."""
_ALL_LINES = 10_000_000


def _pattern(name: str, expression: str, keep: int) -> Pattern:
    most = _ALL_LINES if name == "environment" else COMMON_LINES
    return Pattern(_PREFIX + name, expression, keep, distinct=name not in _SEVERAL, common_after=most)


WARN_ID = _PREFIX + "warn"
BACKTRACE_ID = _PREFIX + "backtrace"
COMMUNICATOR_ID = _PREFIX + "communicator"
PATTERNS: tuple[Pattern, ...] = (
    Pattern(WARN_ID, r"NCCL WARN ", keep=64, common_after=_ALL_LINES),
    # Every process has these lines for every communicator: the short expression is found four times faster than the whole one.
    Pattern(COMMUNICATOR_ID, r"- ?(?:Init START|(?:Init|Abort|Destroy) COMPLETE|Abort START)", keep=400, common_after=_ALL_LINES),
    Pattern(BACKTRACE_ID, r"NCCL INFO \S+\.(?:cc|cu|cpp|cxx|c|h|hpp|hh):\d+(?: \(.*\))? -> \d", keep=16),
    *(_pattern(name, expression, keep) for name, expression, keep, _ in _FACTS),
)
"""What `nccl_debug` looks for; ids begin with `nccl-debug.`."""


def take(pattern_id: str, line: LogLine) -> ProcessFacts:
    """What a line says that the pattern matched; every other field is empty.

    >>> from busbw.parsers.formats.nccl_debug_line import parse_line
    >>> take("nccl-debug.environment", parse_line("n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.")).environment
    (('NCCL_IB_TIMEOUT', '22'),)
    """
    expression, take_fact = _TAKERS[pattern_id]
    found = expression.search(f"NCCL {line.level} {line.message}")
    return take_fact(found, line) if found is not None else ProcessFacts()
