"""Settings of NCCL whose wrong value it takes without a word: what each may be, from which release it
is read, and which other setting it does not go with.

Read in NCCL's sources from 2.18.3 to 2.30.7 (`src/init.cc`, `src/graph/topo.cc`, `src/graph/search.cc`,
`src/mnnvl.cc`, `src/transport/net_ib`, `src/misc/param.cc`), 25 November 2026. The release of a setting is
the first tag whose sources read it. Numbers are read by `strtoll`: a word such as `true` is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from busbw.versions import Version, dotted, release

_SWITCH = "0|1"
_ZERO_CTA: Version = (2, 28)
_NAMED_CTA: Version = (2, 29, 2)
_BOTH_PATHS: Version = (2, 27, 6)


class Trouble(StrEnum):
    """What is wrong with a setting."""

    VALUE = "value"
    """NCCL does not know the value and takes another."""
    RELEASE = "release"
    """This NCCL does not read the setting, or not with this value."""
    CONFLICT = "conflict"
    """Another setting takes its effect away."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One setting that does not do what it says."""

    trouble: Trouble
    name: str
    text: str
    """A sentence with the value and what NCCL does instead."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable of NCCL."""

    name: str
    since: Version
    """First release whose sources read it."""
    pattern: str
    """The values that it knows, without regard to case."""
    accepts: str
    """The same for people."""
    otherwise: str
    """What NCCL does with another value."""
    does: str
    """What it is for, in docs/options.md."""
    note: str
    """What else a person should know of it."""


SETTINGS = (
    Setting(
        "NCCL_CTA_POLICY",
        (2, 27, 3),
        r"[0-2]|(?:default|efficiency|zero)(?:\|(?:default|efficiency|zero))*",
        "0 (DEFAULT), 1 (EFFICIENCY) or 2 (ZERO)",
        "it takes 0",
        "0 default, 1 efficiency: fewer SMs; 2 zero CTA (2.28): copy engines where they can; names since 2.29.2",
        "leaves SMs to the model; a benchmark alone may lose bandwidth. Efficiency does nothing while `NCCL_ALGO` or `NCCL_PROTO` is set, or over"
        " multi-node NVLink. `cta_policy` (`-x`) sets it for the communicator instead",
    ),
    Setting(
        "NCCL_NETDEVS_POLICY",
        (2, 28, 3),
        r"auto|all|max:0*[1-9]\d*",
        "AUTO, ALL or MAX:n with n from 1",
        "it takes AUTO",
        "`AUTO`, `ALL`, or `MAX:n` network devices for each GPU",
        "a value that it does not know is taken for `AUTO`, with no more than a line of INFO",
    ),
    Setting(
        "NCCL_IB_DATA_DIRECT",
        (2, 27, 3),
        "[0-2]",
        "0, 1 or 2",
        "a word is 0, never; a number above 2 is 1",
        "1 (default): the NIC's direct path to the GPU (ConnectX-8, GB300) where it is there; 0: never; 2 (2.27.6): both paths as devices",
        "only on such NICs; elsewhere it changes nothing",
    ),
    Setting(
        "NCCL_IB_RESILIENCY_PORT_FAILOVER",
        (2, 29, 7),
        _SWITCH,
        "0 or 1",
        "a word is 0, off; another number switches it on without the receive queue that bears disorder",
        "1: when a port fails, its traffic moves to the other port; 0 (default): the job ends",
        "a dead rail then halves the bandwidth instead of stopping the job: finding `ib-port-failed-over`. Needs a NIC of"
        " two ports or more that NCCL merges; bears one failed port",
    ),
    Setting(
        "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
        (2, 29, 7),
        r"\d+",
        "a number",
        "a word is 0",
        "how many probes of a request that was under way may fail before the job ends; 1",
        "needs failover",
    ),
    Setting(
        "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
        (2, 29, 7),
        r"\d+",
        "a number of milliseconds",
        "a word is 0",
        "milliseconds before it asks; 10",
        "needs failover",
    ),
    Setting(
        "NCCL_IB_RESILIENCY_PORT_RECOVERY",
        (2, 30, 3),
        _SWITCH,
        "0 or 1",
        "a word is 0, off",
        "1: a port that failed is tried again; 0 (default): it stays out",
        "needs failover",
    ),
    Setting(
        "NCCL_MNNVL_ENABLE",
        (2, 21, 5),
        "[0-2]",
        "0, 1 or 2",
        "a word is 0, never; a number above 2 is 2",
        "0: no NVLink between nodes; 1: an error where it does not work, by the user guide; 2 (default): used where it is found",
        "with 1 the sources up to 2.30.7 end the start only where IMEX does not answer: without a fabric they go on in silence. May differ from host"
        " to host only by mistake: it decides the path of each pair; surveys set it"
        " ([survey](survey.md#nodes-that-nvlink-joins))",
    ),
    Setting(
        "NCCL_MNNVL_RAIL_PER_HOST",
        (2, 28, 7),
        _SWITCH,
        "0 or 1",
        "a word is 0, off",
        "1: hosts of one NVLink domain count as one rail by the PCI address of the NIC; 0 (default): by the NIC itself",
        "read only where a ring or tree keeps to one rail",
    ),
    Setting(
        "NCCL_NET_GDR_C2C",
        (2, 26, 2),
        _SWITCH,
        "0 or 1",
        "a word is 0, off",
        "1 (default since 2.27): GPUDirect over the CPU's C2C link on Grace",
        "0 sends the data through host memory there",
    ),
    Setting(
        "NCCL_PXN_C2C",
        (2, 27, 3),
        _SWITCH,
        "0 or 1",
        "a word is 0, off",
        "1 (default since 2.28): a NIC behind the C2C link of another GPU's CPU may be used through that GPU",
        "0 keeps each GPU to the NICs of its own path",
    ),
    Setting(
        "NCCL_IB_OOO_RQ",
        (2, 30, 3),
        _SWITCH,
        "0 or 1",
        "a word is 0, off",
        "1: receives may be used out of order, so that data needs no message of its own under adaptive routing; 0 (default)",
        "needs adapters and rdma-core that can; both ends",
    ),
    Setting(
        "NCCL_SOCKET_NTHREADS",
        (2, 4, 8),
        "0*(?:[1-9]|1[0-6])",
        "1 to 16",
        "more than 16 are 16; 0 or a word is no helper thread",
        "helper threads of each connection over TCP; none by itself, 2 on AWS, 4 on Google Cloud",
        "times `NCCL_NSOCKS_PERTHREAD` at most 64",
    ),
    Setting(
        "NCCL_NSOCKS_PERTHREAD",
        (2, 4, 8),
        "0*(?:[1-9]|[1-5][0-9]|6[0-4])",
        "1 to 64",
        "0 or a word leaves no socket to the helper threads",
        "sockets of each helper thread; 1, on AWS 8",
        "nothing without `NCCL_SOCKET_NTHREADS` outside AWS and Google Cloud: there are no helper threads",
    ),
    Setting(
        "NCCL_IB_TIMEOUT",
        (2, 3),
        "0*(?:[1-9]|[12][0-9]|3[01])",
        "1 to 31",
        "five bits of the queue pair: 0 waits for ever, 32 and more become another value or an error",
        "wait for an answer of 4.096 µs × 2^value; 20 since 2.23 (4.3 s), 18 since 2.14",
        "with 7 retries a dead path ends the job after 34 s; higher values hide flaps, they repair none",
    ),
    Setting(
        "NCCL_IB_RETRY_CNT",
        (2, 3),
        "0*[0-7]",
        "0 to 7",
        "three bits of the queue pair: 8 and more become another value or an error",
        "retries before a connection is given up; 7",
        "the default is the most there is",
    ),
)
"""By subject, as docs/options.md shows them."""

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_DEVICES = ("_IFNAME", "_HCA", "_CTRL_DEV", "_DEVICES", "_BINDINGS")
"""Ends of the names of variables that name devices: they may differ between nodes."""
_PRIVATE = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY", re.IGNORECASE)


def names_devices(name: str) -> bool:
    """Whether the variable names what a node has, so that it may differ between nodes."""
    return name.endswith(_DEVICES)


def known(name: str) -> bool:
    """Whether the table has the variable."""
    return name in _BY_NAME


def written(text: str) -> dict[str, str]:
    """The NCCL variables of a configuration file or of `env`, the last of each name.

    >>> written("== /etc/nccl.conf\\nNCCL_CTA_POLICY = 1\\n# NCCL_X=2\\n")
    {'NCCL_CTA_POLICY': '1'}
    """
    found = re.findall(r"^[ \t]*(NCCL_[A-Z0-9_]+)[ \t]*=[ \t]*(\S*)[ \t\r]*$", text, re.M)
    return {name: value for name, value in found if not _PRIVATE.search(name)}


def of_all_ranks(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that every rank should have alike: no names of devices, nothing about the log."""
    return {
        name: value
        for name, value in sorted(settings.items())
        if not names_devices(name) and not name.startswith("NCCL_DEBUG")
    }


def remarks(
    settings: Mapping[str, str], releases: Iterable[str] = (), cuda: bool = True
) -> tuple[Remark, ...]:
    """What does not do what it says, by name.

    `releases`: of the NCCL libraries that may be used, () = not known; a setting is too new only
    where it is for each of them. `cuda`: False = RCCL, which has releases of its own.
    """
    newest = max((release(each) for each in releases), default=()) if cuda else ()
    found = list(_conflicts(settings))
    for name, value in settings.items():
        if name in _BY_NAME:
            found += _of_one(_BY_NAME[name], value, newest)
    return tuple(sorted(found, key=lambda remark: (remark.name, remark.trouble, remark.text)))


def _of_one(setting: Setting, value: str, newest: Version) -> Iterator[Remark]:
    shown = f"{setting.name}={value}"
    if not value:
        return
    if re.fullmatch(setting.pattern, value, re.IGNORECASE) is None:
        text = f"{shown} is not {setting.accepts}: {setting.otherwise}"
        yield Remark(Trouble.VALUE, setting.name, text)
        return
    since, why = _needed(setting, value)
    if newest and newest < since:
        text = f"{shown} is of NCCL {dotted(since)}, and {dotted(newest)} is installed: {why}"
        yield Remark(Trouble.RELEASE, setting.name, text)


def _needed(setting: Setting, value: str) -> tuple[Version, str]:
    """The release that reads this value, and what an older one does."""
    if setting.name == "NCCL_CTA_POLICY" and not value.isdigit():
        return _NAMED_CTA, "an older one reads the word as 0 or not at all"
    if setting.name == "NCCL_CTA_POLICY" and value == "2":
        return _ZERO_CTA, "an older one takes 0"
    if setting.name == "NCCL_IB_DATA_DIRECT" and value == "2":
        return _BOTH_PATHS, "an older one takes 1"
    return setting.since, "it is not read"


FAILOVER = "NCCL_IB_RESILIENCY_PORT_FAILOVER"
_OF_FAILOVER = (
    f"{FAILOVER}_MAX_ATTEMPTS",
    f"{FAILOVER}_PROBE_DELAY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
)
_MOST_THREADS, _MOST_SOCKETS = 16, 64
"""MAX_THREADS and MAX_SOCKETS of `src/transport/net_socket.cc`."""
_OF_VERBS = (FAILOVER, "NCCL_IB_DATA_DIRECT")
_NEAR = ("0", "1", "2", "LOC", "PIX", "PXB")
"""Levels of NCCL_NET_GDR_LEVEL that end before the C2C link (`src/graph/topo.h`)."""


def _conflicts(settings: Mapping[str, str]) -> Iterator[Remark]:
    """Every pair of settings of which one takes the other's effect away."""
    for name, text in (
        *_policies(settings),
        *_failovers(settings),
        *_disorder(settings),
        *_sockets(settings),
        *_paths(settings),
    ):
        yield Remark(Trouble.CONFLICT, name, f"{name}={settings[name]} {text}")


def _policies(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    name = "NCCL_CTA_POLICY"
    words = settings.get(name, "").lower().split("|")
    if "zero" in words and "efficiency" in words:
        yield name, "asks for both: NCCL drops EFFICIENCY"
    elif "1" in words or "efficiency" in words:
        for other in ("NCCL_ALGO", "NCCL_PROTO"):
            if settings.get(other):
                yield name, f"does nothing while {other} is set"


def _failovers(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in _OF_FAILOVER:
        if settings.get(name, "0") != "0" and not is_on(settings, FAILOVER):
            yield name, f"does nothing without {FAILOVER}=1"
    if is_on(settings, FAILOVER) and settings.get("NCCL_IB_MERGE_NICS") == "0":
        yield FAILOVER, "has no port to go to: NCCL_IB_MERGE_NICS=0 gives each device one port"
    network = settings.get("NCCL_NET", "IB")
    for name in _OF_VERBS:
        if is_on(settings, name) and network.upper() not in ("IB", ""):
            yield name, f"is read by NCCL's own InfiniBand transport alone: NCCL_NET={network}"


def _disorder(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    threshold = "NCCL_IB_AR_THRESHOLD"
    if is_on(settings, "NCCL_IB_OOO_RQ") and settings.get(threshold):
        yield threshold, "is not read with NCCL_IB_OOO_RQ=1"


def _sockets(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    threads, sockets = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"
    if is_on(settings, threads) and is_on(settings, sockets):
        each, many = int(settings[sockets]), min(int(settings[threads]), _MOST_THREADS)
        if each * many > _MOST_SOCKETS:
            yield (
                sockets,
                f"times {threads}={settings[threads]} is more than {_MOST_SOCKETS}: NCCL takes"
                f" {_MOST_SOCKETS // many}",
            )


def _paths(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    nvlink, per_host = "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_RAIL_PER_HOST"
    if settings.get(nvlink) == "1" and settings.get("NCCL_CUMEM_ENABLE") == "0":
        yield nvlink, "needs cuMem: with NCCL_CUMEM_ENABLE=0 no NVLink is used between nodes"
    if settings.get(nvlink) == "2" and settings.get("NCCL_P2P_DISABLE") == "1":
        yield nvlink, "finds nothing: NCCL_P2P_DISABLE=1 ends the search"
    if is_on(settings, per_host) and settings.get(nvlink) == "0":
        yield per_host, f"does nothing with {nvlink}=0"
    if is_on(settings, per_host) and settings.get("NCCL_CROSS_NIC") == "1":
        yield per_host, "is not read with NCCL_CROSS_NIC=1, which keeps to no rail"
    level = settings.get("NCCL_NET_GDR_LEVEL", "")
    if is_on(settings, "NCCL_NET_GDR_C2C") and level.upper() in _NEAR:
        yield "NCCL_NET_GDR_C2C", f"does nothing: NCCL_NET_GDR_LEVEL={level} ends before that link"


def is_on(settings: Mapping[str, str], name: str) -> bool:
    """Whether the switch is set to a number above 0."""
    value = settings.get(name, "")
    return value.isdigit() and int(value) > 0
