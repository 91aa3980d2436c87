"""The path NCCL will use, tried without a GPU: the launcher's ssh, an mpirun hello, TCP between the
nodes, and NCCL's own choice of interface.

Commands and readers of their answers; `busbw.run.network_path` runs them. On a node these need
`python3` (any version 3); without it the answer is unknown, never good. Nothing stays: the listener
ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import shell
from busbw.model import CheckResult, Command, Evidence, Status
from busbw.text import whole

LISTEN_S = 40
"""How long the listeners wait; they end earlier once they were told to."""
CONNECT_S = 3
LOGIN_S = 90
HELLO_S = 60
PAIRS_UP_TO = 8
"""Nodes up to which everybody tries everybody."""
_RING = 2


@dataclass(frozen=True, slots=True)
class Listener:
    """Where one node listens."""

    node: str
    ports: tuple[int, ...]
    addresses: tuple[tuple[str, str], ...]
    """(interface, IPv4 address) of every interface that is up, loopback left out."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One connection that was tried."""

    source: str
    target: str
    address: str
    port: int
    reason: str
    """Why it failed; "" = it was accepted and answered."""


@dataclass(frozen=True, slots=True)
class NcclChoice:
    """What libnccl says on one node."""

    path: str | None
    """The library; None = the node has none that loads."""
    version: str | None
    interfaces: tuple[str, ...]
    """Those it chose for its bootstrap, as `eth0:10.0.0.3`."""
    status: int | None
    """Of ncclGetUniqueId: 0 = an interface was found; None = it was not called."""
    warning: str
    """NCCL's own words where it failed."""


def login(others: Sequence[str], agent: str) -> Command:
    """Log in from the head to every other node, as the launcher does."""
    return Command(
        ("sh", "-c", shell.load("busbw.checks", "login.sh"), "busbw-login", agent, *others),
        timeout_s=LOGIN_S,
        label="login",
        store="probe/login.txt",
    )


def parse_login(text: str) -> dict[str, str]:
    """{node: why it failed; "" = it went well}.

    >>> parse_login("ok gpu-002\\nno gpu-003 Permission denied (publickey).\\n")
    {'gpu-002': '', 'gpu-003': 'Permission denied (publickey).'}
    """
    return {
        node: "" if word == "ok" else why or "no reason given"
        for word, node, why in re.findall(r"^(ok|no) (\S+) ?(.*)$", text, re.M)
    }


def hello(launch: tuple[str, ...]) -> Command:
    """The launcher's command line with a hello-world for a program; `launch` = mpirun and its
    options."""
    greeting = ("sh", "-c", 'echo "hello ${OMPI_COMM_WORLD_RANK-$PMI_RANK} $(uname -n)"')
    return Command((*launch, *greeting), timeout_s=HELLO_S, label="hello", store="probe/hello.txt")


def parse_hello(text: str) -> tuple[str, ...]:
    """Hosts that answered, by rank.

    >>> parse_hello("hello 1 gpu-002\\nnoise\\nhello 0 gpu-001\\n")
    ('gpu-001', 'gpu-002')
    """
    ranked = sorted(
        (int(rank), host) for rank, host in re.findall(r"^hello (\d{1,9}) (\S+)$", text, re.M)
    )
    return tuple(host for _, host in ranked)


def _python(name: str, *arguments: str) -> tuple[str, ...]:
    """The program `py/NAME.py` with two arguments, where the node has Python."""
    start = shell.load("busbw.checks", "python.sh")
    program = shell.load("busbw.checks", f"{name}.py")
    return ("sh", "-c", start, f"busbw-{name}", program, *arguments)


def listen(node: str, token: str) -> Command:
    """Listen on two ports of the system's choice, as NCCL and MPI do, in the background."""
    return Command(
        _python("listen", str(LISTEN_S), token),
        timeout_s=20,
        label="listen",
        store=f"probe/listen/{node}.txt",
    )


def parse_listen(node: str, text: str) -> Listener | None:
    """Where it listens; None = it does not.

    >>> parse_listen("a", "ports 40001 40002\\naddress eth0 10.0.0.3\\n")
    Listener(node='a', ports=(40001, 40002), addresses=(('eth0', '10.0.0.3'),))
    """
    ports = re.search(r"^ports (\d{1,5}(?: \d{1,5})*)$", text, re.M)
    if ports is None:
        return None
    return Listener(
        node,
        tuple(int(port) for port in ports[1].split()),
        tuple(re.findall(r"^address (\S+) (\S+)$", text, re.M)),
    )


def connect(node: str, targets: Sequence[tuple[str, str, int]], token: str) -> Command:
    """Connect to (node, address, port) each, some at once."""
    lines = "".join(f"{target} {address} {port}\n" for target, address, port in targets)
    limit_s = 20 + CONNECT_S * (1 + len(targets) // 16)
    return Command(
        _python("connect", str(CONNECT_S), token),
        stdin=lines.encode(),
        timeout_s=limit_s,
        label="connect",
        store=f"probe/connect/{node}.txt",
    )


def parse_connect(node: str, text: str) -> tuple[Attempt, ...]:
    """The attempts of one node.

    >>> parse_connect("a", "ok b 10.0.0.4 40001\\nno c 10.0.0.5 40002 timed out\\n")[1]
    Attempt(source='a', target='c', address='10.0.0.5', port=40002, reason='timed out')
    """
    lines = re.findall(r"^(ok|no) (\S+) (\S+) (\d+) ?(.*)$", text, re.M)
    return tuple(
        Attempt(node, t, a, int(p), "" if w == "ok" else why or "no reason given")
        for w, t, a, p, why in lines
    )


def nccl(node: str, interface: str | None) -> Command:
    """Let libnccl choose its bootstrap interface; `interface` = NCCL_SOCKET_IFNAME as the profile
    sets it, None = it does not."""
    return Command(
        _python("nccl", interface or "", ""),
        timeout_s=40,
        label="nccl",
        store=f"probe/nccl/{node}.txt",
    )


def parse_nccl(text: str) -> NcclChoice:
    """What the library said.

    >>> parse_nccl('''n1:7:7 [0] NCCL INFO Bootstrap: Using eth0:10.77.0.3<0>
    ... nccl path /opt/lib/libnccl.so.2
    ... nccl version 2.27.3
    ... nccl unique_id 0
    ... ''').interfaces
    ('eth0:10.77.0.3',)
    """

    def value(name: str) -> str | None:
        match = re.search(rf"^nccl {name} (.+)$", text, re.M)
        return match[1] if match else None

    status = value("unique_id")
    chosen = re.findall(r"NCCL INFO Bootstrap ?: Using (?:\[\d+\])?([^\s<]+)<", text)
    warning = re.search(r"NCCL WARN (.*)$", text, re.M)
    return NcclChoice(
        path=value("path"),
        version=value("version"),
        interfaces=tuple(dict.fromkeys(chosen)),
        status=whole(status),
        warning=warning[1].strip() if warning else "",
    )


def matches(value: str, interface: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME lets an interface through: prefixes, `=` for whole names, `^` to
    leave out (NCCL's documentation).

    >>> matches("eth,ib", "eth0"), matches("=eth", "eth0"), matches("^docker,lo", "eth0"), matches("^=eth0", "eth0")
    (True, False, True, False)
    """
    without = value.startswith("^")
    rest = value[1:] if without else value
    exact = rest.startswith("=")
    names = [name for name in (rest[1:] if exact else rest).split(",") if name]
    hit = any(interface == name if exact else interface.startswith(name) for name in names)
    return hit != without


def pairs(names: Sequence[str], head: str) -> dict[str, tuple[str, ...]]:
    """{who connects: to whom}. Few nodes: all to all. Many: each to the next two of a ring, and
    head and everybody to each other.

    >>> pairs(("a", "b"), "a")
    {'a': ('b',), 'b': ('a',)}
    """
    partners: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(names):
        others = [other for other in names if other != name]
        if len(names) > PAIRS_UP_TO and name != head:
            ring = [names[(place + step) % len(names)] for step in range(1, _RING + 1)]
            others = list(dict.fromkeys([*ring, head]))
        partners[name] = tuple(other for other in others if other != name)
    return partners


# The rails between neighbours: by which interface the kernel would leave, and whether packets of
# the interface's own MTU arrive.
#
# Needs `ping` and `ip` on the nodes. Each node tries the next one of the ring, over every
# interface that both have under one name with different
# addresses. An interface over which nobody reaches anybody joins no nodes (a bridge for
# containers, a service port) and is left out.

ROUTES, JUMBO = "eth.routes", "eth.ping_jumbo"
MOST = 32
"""Interfaces of a node that are tried."""
_HEADERS_BYTES = 28
"""IPv4 and ICMP headers, which the size of ping does not count."""
_SCRIPT = f"""\
LC_ALL=C; export LC_ALL
one() {{ read -r mtu <"/sys/class/net/$1/mtu" || return; i=$1; own=$2; to=$3; peer=$4; dev='?'
if command -v ip >/dev/null 2>&1; then dev=-; set -- $(ip route get "$peer" from "$own" 2>/dev/null)
while [ $# -gt 1 ]; do [ "$1" = dev ] && dev=$2; shift; done; fi
ping -c 1 -W 1 -q -I "$i" "$peer" >/dev/null 2>&1 </dev/null; s=$?
ping -M do -c 2 -W 1 -q -s $((mtu - {_HEADERS_BYTES})) -I "$i" "$peer" >/dev/null 2>&1 </dev/null; l=$?
echo "rail $i $own $to $peer mtu $mtu dev $dev small $s large $l"; }}
while read -r i own to peer; do one "$i" "$own" "$to" "$peer" & done; wait
"""
_LINE = re.compile(
    r"^rail (\S+) (\S+) (\S+) (\S+) mtu (\d+) dev (\S+) small (\d+) large (\d+)$", re.M
)
_NO_ANSWER = 1
"""Exit status of ping when nothing came back; others mean that it could not try (iputils 20161105
and later, busybox)."""


@dataclass(frozen=True, slots=True)
class RailAttempt:
    """One interface of one node towards its neighbour."""

    node: str
    interface: str
    target: str
    address: str
    mtu_bytes: int
    leaves_by: str | None
    """Interface of the kernel's route; "" = there is no route; None = `ip` is missing."""
    small: bool | None
    """A small packet was answered; None = ping could not try."""
    large: bool | None
    """One of the whole MTU, unfragmented, was."""


def targets(
    listeners: Mapping[str, Listener], names: Sequence[str]
) -> dict[str, tuple[tuple[str, str, str, str], ...]]:
    """{node: (interface, own address, neighbour, its address) each}."""
    routes_by_name = {}
    present = [name for name in names if name in listeners]
    for place, name in enumerate(present):
        neighbour = present[(place + 1) % len(present)]
        addresses = dict(listeners[neighbour].addresses)
        routes = [
            (i, own, neighbour, addresses[i])
            for i, own in listeners[name].addresses
            if i in addresses and addresses[i] != own
        ]
        if neighbour != name and routes:
            routes_by_name[name] = tuple(routes[:MOST])
    return routes_by_name


def attempt(node: str, routes: Sequence[tuple[str, str, str, str]]) -> Command:
    """Try all of one node at once."""
    lines = "".join(f"{' '.join(route)}\n" for route in routes)
    return Command(
        ("sh", "-c", _SCRIPT, "busbw-rails"),
        stdin=lines.encode(),
        timeout_s=20,
        label="rails",
        store=f"probe/rails/{node}.txt",
    )


def parse(node: str, text: str) -> tuple[RailAttempt, ...]:
    """The attempts of one node.

    >>> parse("a", "rail eth1 10.1.0.1 b 10.1.0.2 mtu 9000 dev eth1 small 0 large 1\\n")[0].large
    False
    """
    answered = {"0": True, str(_NO_ANSWER): False}
    routes = {"?": None, "-": ""}
    return tuple(
        RailAttempt(
            node,
            m[1],
            m[3],
            m[4],
            int(m[5]),
            routes.get(m[6], m[6]),
            answered.get(m[7]),
            answered.get(m[8]),
        )
        for m in _LINE.finditer(text)
    )


def judged(
    nodes: Sequence[str],
    attempts: Mapping[str, tuple[RailAttempt, ...]],
    artefacts: Mapping[str, str],
) -> tuple[CheckResult, ...]:
    """Both checks for every node; `artefacts` = where each node's output is kept."""
    joining = {each.interface for own in attempts.values() for each in own if each.small}
    results = []
    for node in nodes:
        own = tuple(each for each in attempts.get(node, ()) if each.interface in joining)
        evidence = (
            Evidence(artefacts[node], None, ", ".join(sorted({each.interface for each in own})))
            if node in artefacts
            else None
        )
        results += [_routes(node, own, evidence), _jumbo(node, own, evidence)]
    return tuple(results)


def _unknown(check_id: str, node: str, expected: str, command: str) -> CheckResult:
    why = "no interface reached a neighbour by ping; ping and ip are needed on the nodes"
    return CheckResult(
        check_id, node, Status.UNKNOWN, "not known", expected, command, why, required=False
    )


def _routes(node: str, own: Sequence[RailAttempt], evidence: Evidence | None) -> CheckResult:
    expected, command = (
        "each rail's packets leave by that rail and are answered",
        "ip route get PEER from OWN; ping -I INTERFACE PEER",
    )
    known = [each for each in own if each.leaves_by is not None or each.small is not None]
    if not known:
        return _unknown(ROUTES, node, expected, command)
    bad = []
    for each in known:
        if each.leaves_by is not None and each.leaves_by != each.interface:
            how = f"leaves by {each.leaves_by}" if each.leaves_by else "has no route"
            bad.append(f"{each.interface} to {each.target} ({each.address}) {how}")
        elif each.small is False:
            bad.append(f"{each.interface} to {each.target} ({each.address}) is not answered")
    status = Status.FAIL if bad else Status.PASS
    values = (("missing", float(len(bad))),)
    text = "; ".join(bad) or ", ".join(sorted(each.interface for each in known))
    return CheckResult(
        ROUTES, node, status, text, expected, command, evidence=evidence, values=values
    )


def _jumbo(node: str, own: Sequence[RailAttempt], evidence: Evidence | None) -> CheckResult:
    expected, command = (
        "packets of the interface's MTU arrive unfragmented",
        "ping -M do -s $((MTU-28)) -I INTERFACE PEER",
    )
    known = [each for each in own if each.small and each.large is not None]
    if not known:
        return _unknown(JUMBO, node, expected, command)
    bad = [
        f"{each.interface} to {each.target} ({each.address}): {each.mtu_bytes} bytes do not arrive"
        for each in known
        if not each.large
    ]
    status = Status.FAIL if bad else Status.PASS
    text = "; ".join(bad) or ", ".join(
        f"{each.interface} {each.mtu_bytes}"
        for each in sorted(known, key=lambda each: each.interface)
    )
    return CheckResult(JUMBO, node, status, text, expected, command, evidence=evidence)
