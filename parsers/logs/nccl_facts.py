"""Facts in NCCL's INFO lines, in every version's wording (2.4 to 2.32, RCCL, aws-ofi-nccl). A fact is
a pattern for the scanner and a function that makes a record of the line it matched.

>>> take("nccl-debug.network", "n:1:2 [0] NCCL INFO Using network IB").networks
('IB',)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from busbw.model import (
    Connection,
    Gdr,
    HcaPort,
    InitTimings,
    Interface,
    Plugin,
    ProcessFacts,
    TuningChoice,
)
from busbw.parsers.logs.blocks import LONGEST_LINE
from busbw.parsers.logs.nccl_line import message_of
from busbw.parsers.logs.scan import COMMON_LINES, Line, Pattern
from busbw.text import whole_number

_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_ADDRESS = r"(?P<name>[^\s:<>\[\]]+):(?P<address>[^\s<>]+)<\d+>"
_INTERFACE = re.compile(r"(?:\[\d+\])?" + _ADDRESS)
_HCA = re.compile(r"\[(\d+)\](\S+?):(\d+)(?::(-?\d+):(-?\d+))?/([^\s;]+)")
_NET = re.compile(
    r"^NET/(?P<network>.+?)/(?P<device>\d+)(?:\((?P<proxy>\d+)\))?(?P<gdr>/GDRDMA)?(?:\(PCI\))?(?:/Shared)?$"
)
_INFO = " NCCL INFO "
_VIA = " via "
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
    rest = match.string[match.start("first") :]
    for cells in _HCA.findall(rest.partition(";")[0]):
        index, device, port, rail, plane, link = cells
        ports.append(HcaPort(int(index), device, int(port), link, _int(rail), _int(plane)))
    return ProcessFacts(hcas=tuple(ports), relaxed_ordering="[RO]" in rest)


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
    path = _COMM_BEHIND.sub("", match[0].removeprefix(_VIA)).strip()
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
    number = whole_number(text)
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
    ("bootstrap", r"Bootstrap ?: Using +(?P<rest>.+)$", 4, _bootstrap),
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
        r"NET/\S+(?: v\d+)? ?: Using (?P<first>\[\d+\]\S+?:\d+(?::-?\d+:-?\d+)?/)",
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
    ("network-gdr", r" via NET/.+/GDRDMA.*$", 64, _connection),
    ("network-host", r" via NET/.+/\d+(?:\(\d+\))?(?:/Shared)?\s*$", 64, _connection),
    ("peer", r" via P2P/.+$", 64, _connection),
    ("shared-memory", r" via SHM/.+$", 64, _connection),
    ("shared-memory-old", r" via direct shared memory.*$", 64, _connection),
    (
        "rccl-path",
        r" via (?P<path>(?:NET|P2P|SHM|COLLNET)/.+?) comm 0x[0-9a-f]+ nRanks \d+\s*$",
        200,
        _connection,
    ),
    ("collnet-path", r" via COLLNET/.+$", 64, _connection),
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
FACT_PREFIX = "nccl-debug."
_TAKERS = {
    FACT_PREFIX + name: (re.compile(pattern, re.IGNORECASE), take_fact)
    for name, pattern, _, take_fact in _FACTS
}
_PATHS = frozenset(FACT_PREFIX + name for name, pattern, _, _ in _FACTS if pattern.startswith(_VIA))
"""Facts that say nothing of what stands before the path."""
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
        FACT_PREFIX + name,
        expression,
        keep,
        distinct=name not in _SEVERAL,
        common_after=most,
        frequent=True,
    )


WARN_ID = FACT_PREFIX + "warn"
BACKTRACE_ID = FACT_PREFIX + "backtrace"
COMMUNICATOR_ID = FACT_PREFIX + "communicator"
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
"""What the log is searched for; ids begin with `nccl-debug.`."""


def take(pattern_id: str, text: str) -> ProcessFacts:
    """The facts of a line that the pattern matched; every other field is empty.

    >>> take("nccl-debug.environment", "n:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.").environment
    (('NCCL_IB_TIMEOUT', '22'),)
    """
    (given,) = taken(pattern_id, (Line(1, text),))
    return facts_with(**dict(given))


facts_with: Callable[..., ProcessFacts] = ProcessFacts
"""The facts with these fields, whose names are known only when they are read."""

_EMPTY = {name: getattr(ProcessFacts(), name) for name in ProcessFacts.__slots__}

Given = tuple[tuple[str, object], ...]
"""What one line says: fields of `ProcessFacts` that are not empty, with their values."""


def taken(pattern_id: str, lines: Iterable[Line]) -> Iterator[Given]:
    """What each of the lines says that the pattern matched. It is remembered without the line's prefix,
    and of connections without who is connected: the ranks of a job log the same."""
    is_path = pattern_id in _PATHS
    for _, text, _ in lines:
        at = text.find("NCCL ") - 1
        if at >= 0 and text.startswith(_INFO, at) and len(text) < LONGEST_LINE:
            path = text.find(_VIA, at) if is_path else -1
            text = f"{_INFO}{text[path + 1 :]}" if path > 0 else text[at:]
        yield _remembered(pattern_id, text)


@functools.lru_cache(maxsize=_REMEMBERED)
def _remembered(pattern_id: str, text: str) -> Given:
    expression, take_fact = _TAKERS[pattern_id]
    level, message = message_of(text) or ("INFO", text.strip())
    match = expression.search(f"NCCL {level} {message}")
    if match is None:
        return ()
    facts = take_fact(match, message)
    given = ((name, getattr(facts, name)) for name in _EMPTY)
    return tuple((name, value) for name, value in given if value != _EMPTY[name])
