"""The path NCCL will use, tried without a GPU: the launcher's ssh, an mpirun hello, TCP between the
nodes, and NCCL's own choice of interface. `rails` has the rails between the nodes.

Commands and readers of their answers; `busbw.run.network_path` runs them. On a node these need
`python3` (any version 3); without it the answer is unknown, never good. Nothing stays: the listener
ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw import shell
from busbw.checks import Check
from busbw.model import Command
from busbw.text import whole_number

LISTEN_S = 40
"""How long the listeners wait; they end earlier once they were told to."""
CONNECT_S = 3
LOGIN_S = 90
HELLO_S = 60
PAIRS_UP_TO = 64
"""Nodes up to which everybody tries everybody."""
AT_ONCE = 64
"""Connections that a node tries at once: where all are blocked, 64 nodes take two rounds."""
LOGIN = Check(
    "ssh.node_to_node",
    "ssh -o BatchMode=yes NODE true, on the head",
    "the head cannot log in to a node as the launcher does: FAIL",
)
HELLO = Check(
    "sw.mpi_hello",
    "mpirun … uname -n, on the head",
    "mpirun does not start one rank on every node: FAIL",
)
PORTS = Check(
    "cross.tcp_ports",
    "a listener on two ports of each node, connections between the nodes",
    "a connection fails: FAIL, with both ends and the ports",
)


@dataclass(frozen=True, slots=True)
class Listener:
    """Where one node listens."""

    node: str
    ports: tuple[int, ...]
    addresses: tuple[tuple[str, str], ...]
    """(interface, IPv4 address) of every interface that is up, loopback left out."""
    macs: tuple[tuple[str, str], ...] = ()
    """(interface, hardware address) of each."""
    free: tuple[int, ...] = ()
    """Ports on which nobody listens."""


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

    >>> parse_listen("a", "ports 40001 40002\\naddress eth0 10.0.0.3\\n").addresses
    (('eth0', '10.0.0.3'),)
    """
    ports = re.search(r"^ports (\d{1,5}(?: \d{1,5})*)$", text, re.M)
    if ports is None:
        return None
    free = re.search(r"^free (\d{1,5}) (\d{1,5})$", text, re.M)
    return Listener(
        node,
        tuple(int(port) for port in ports[1].split()),
        tuple(re.findall(r"^address (\S+) (\S+)$", text, re.M)),
        tuple(re.findall(r"^mac (\S+) (\S+)$", text, re.M)),
        () if free is None else (int(free[1]), int(free[2])),
    )


def connect(node: str, targets: Sequence[tuple[str, str, int]], token: str) -> Command:
    """Connect to (node, address, port) each, some at once."""
    lines = "".join(f"{target} {address} {port}\n" for target, address, port in targets)
    limit_s = 20 + CONNECT_S * (1 + len(targets) // AT_ONCE)
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
        status=whole_number(status),
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
    """{who connects: to whom}. Up to `PAIRS_UP_TO` nodes: all to all. More: each to those 1, 2, 4,
    8… places further in a ring, and head and everybody to each other.

    >>> pairs(("a", "b"), "a")
    {'a': ('b',), 'b': ('a',)}
    """
    partners: dict[str, tuple[str, ...]] = {}
    count = len(names)
    for place, name in enumerate(names):
        others = list(names)
        if count > PAIRS_UP_TO and name != head:
            steps = (1 << power for power in range((count - 1).bit_length()))
            others = [*(names[(place + step) % count] for step in steps), head]
        partners[name] = tuple(dict.fromkeys(other for other in others if other != name))
    return partners


def blamed(attempts: Sequence[Attempt]) -> dict[str, tuple[Attempt, ...]]:
    """{node: the failed connections that are put down to it}: to its target, unless more of what its
    source tried failed than of what others tried on that target.

    >>> tried = parse_connect("a", "no c 10.0.0.5 40002 timed out\\nok b 10.0.0.4 40001\\n")
    >>> list(blamed(tried + parse_connect("b", "no c 10.0.0.5 40002 timed out\\n")))
    ['c']
    """
    outward = _failing(attempts, lambda each: (each.source, each.target))
    inward = _failing(attempts, lambda each: (each.target, each.source))
    failed: dict[str, list[Attempt]] = {}
    for each in attempts:
        if each.reason:
            at_source = outward[each.source] > inward[each.target]
            failed.setdefault(each.source if at_source else each.target, []).append(each)
    return {node: tuple(those) for node, those in failed.items()}


def _failing(
    attempts: Sequence[Attempt], ends: Callable[[Attempt], tuple[str, str]]
) -> dict[str, float]:
    """{node: the share of the nodes at the other end with a connection that failed}."""
    others: dict[str, set[str]] = {}
    failing: dict[str, set[str]] = {}
    for each in attempts:
        node, other = ends(each)
        others.setdefault(node, set()).add(other)
        if each.reason:
            failing.setdefault(node, set()).add(other)
    return {node: len(failing.get(node, ())) / len(tried) for node, tried in others.items()}


_NAMED = 4
"""Ends of failed connections that a line names; of more, their number."""


def blocked(node: str, failed: Sequence[Attempt], tried: int) -> str:
    """The failed connections in one line, with both ends and the ports; `tried` = how many others
    made to the node.

    >>> blocked("c", parse_connect("a", "no c 10.0.0.5 40002 timed out\\n"), 4)
    'no connection from a to c (10.0.0.5) port 40002: timed out (1 of 4)'
    """
    inward = [each for each in failed if each.target == node]
    outward = [each for each in failed if each.target != node]
    texts = []
    if inward:
        texts.append(f"{_between(inward)} ({len(inward)} of {tried})")
    if outward:
        texts.append(_between(outward))
    return "; ".join(texts)


def _between(failed: Sequence[Attempt]) -> str:
    sources = _named([each.source for each in failed])
    targets = _named([f"{each.target} ({each.address})" for each in failed])
    ports = list(dict.fromkeys(str(each.port) for each in failed))
    word = "port" if len(ports) == 1 else "ports"
    reasons = ", ".join(sorted({each.reason for each in failed}))
    return f"no connection from {sources} to {targets} {word} {_named(ports)}: {reasons}"


def _named(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NAMED
    return ", ".join(distinct[:_NAMED]) + (f" and {more} more" if more > 0 else "")
