"""The path NCCL will use, tried without a GPU: the launcher's ssh, an mpirun hello, TCP between the nodes, and NCCL's own choice of interface.

Commands and readers of their answers; `busbw.stages.probe` runs them. On a node these need `python3` (any version 3); without it the answer
is unknown, never good. Nothing stays: the listener ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.preflight.probe_programs import CONNECT, LISTEN, NCCL
from busbw.records import Command

LISTEN_S = 40
"""How long the listeners wait; they end earlier once they were told to."""
CONNECT_S = 3
LOGIN_S = 90
HELLO_S = 60
PAIRS_UP_TO = 8
"""Nodes up to which everybody tries everybody."""
_RING = 2
_LOGIN = """\
agent=$1; shift
printf '%s\\n' "$@" | xargs -P 32 -I{} sh -c '
  e=$('"$agent"' {} true 2>&1 </dev/null) && echo "ok {}" || echo "no {} $(echo "$e" | tail -n 1)"'
"""
_PYTHON = 'command -v python3 >/dev/null 2>&1 || { echo "no python3" >&2; exit 127; }; exec python3 -c "$1" "$2" "$3"'


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
    return Command(("sh", "-c", _LOGIN, "busbw-login", agent, *others), timeout_s=LOGIN_S, label="login", store="probe/login.txt")


def parse_login(text: str) -> dict[str, str]:
    """{node: why it failed; "" = it went well}.

    >>> parse_login("ok gpu-002\\nno gpu-003 Permission denied (publickey).\\n")
    {'gpu-002': '', 'gpu-003': 'Permission denied (publickey).'}
    """
    return {node: "" if word == "ok" else why or "no reason given" for word, node, why in re.findall(r"^(ok|no) (\S+) ?(.*)$", text, re.M)}


def hello(launch: tuple[str, ...]) -> Command:
    """The launcher's command line with a greeting for a program; `launch` = mpirun and its options."""
    greeting = ("sh", "-c", 'echo "hello ${OMPI_COMM_WORLD_RANK-} $(uname -n)"')
    return Command((*launch, *greeting), timeout_s=HELLO_S, label="hello", store="probe/hello.txt")


def parse_hello(text: str) -> tuple[str, ...]:
    """Hosts that greeted, by rank.

    >>> parse_hello("hello 1 gpu-002\\nnoise\\nhello 0 gpu-001\\n")
    ('gpu-001', 'gpu-002')
    """
    found = sorted((int(rank), host) for rank, host in re.findall(r"^hello (\d{1,9}) (\S+)$", text, re.M))
    return tuple(host for _, host in found)


def listen(node: str, token: str) -> Command:
    """Listen on two ports of the system's choice, as NCCL and MPI do, in the background."""
    argv = ("sh", "-c", _PYTHON, "busbw-listen", LISTEN, str(LISTEN_S), token)
    return Command(argv, timeout_s=20, label="listen", store=f"probe/listen/{node}.txt")


def parse_listen(node: str, text: str) -> Listener | None:
    """Where it listens; None = it does not.

    >>> parse_listen("a", "ports 40001 40002\\naddress eth0 10.0.0.3\\n")
    Listener(node='a', ports=(40001, 40002), addresses=(('eth0', '10.0.0.3'),))
    """
    ports = re.search(r"^ports (\d{1,5}(?: \d{1,5})*)$", text, re.M)
    if ports is None:
        return None
    return Listener(node, tuple(int(port) for port in ports[1].split()), tuple(re.findall(r"^address (\S+) (\S+)$", text, re.M)))


def connect(node: str, targets: Sequence[tuple[str, str, int]], token: str) -> Command:
    """Connect to (node, address, port) each, some at once."""
    lines = "".join(f"{target} {address} {port}\n" for target, address, port in targets)
    argv = ("sh", "-c", _PYTHON, "busbw-connect", CONNECT, str(CONNECT_S), token)
    limit_s = 20 + CONNECT_S * (1 + len(targets) // 16)
    return Command(argv, stdin=lines.encode(), timeout_s=limit_s, label="connect", store=f"probe/connect/{node}.txt")


def parse_connect(node: str, text: str) -> tuple[Attempt, ...]:
    """The attempts of one node.

    >>> parse_connect("a", "ok b 10.0.0.4 40001\\nno c 10.0.0.5 40002 timed out\\n")[1]
    Attempt(source='a', target='c', address='10.0.0.5', port=40002, reason='timed out')
    """
    lines = re.findall(r"^(ok|no) (\S+) (\S+) (\d+) ?(.*)$", text, re.M)
    return tuple(Attempt(node, t, a, int(p), "" if w == "ok" else why or "no reason given") for w, t, a, p, why in lines)


def nccl(node: str, interface: str | None) -> Command:
    """Let libnccl choose its bootstrap interface; `interface` = NCCL_SOCKET_IFNAME as the profile sets it, None = it does not."""
    argv = ("sh", "-c", _PYTHON, "busbw-nccl", NCCL, interface or "", "")
    return Command(argv, timeout_s=40, label="nccl", store=f"probe/nccl/{node}.txt")


def parse_nccl(text: str) -> NcclChoice:
    """What the library said.

    >>> parse_nccl('''n1:7:7 [0] NCCL INFO Bootstrap: Using eth0:10.77.0.3<0>
    ... nccl path /opt/lib/libnccl.so.2
    ... nccl version 2.27.3
    ... nccl unique_id 0
    ... ''').interfaces
    ('eth0:10.77.0.3',)
    """

    def told(name: str) -> str | None:
        match = re.search(rf"^nccl {name} (.+)$", text, re.M)
        return match[1] if match else None

    status = told("unique_id")
    chosen = re.findall(r"NCCL INFO Bootstrap ?: Using (?:\[\d+\])?([^\s<]+)<", text)
    warning = re.search(r"NCCL WARN (.*)$", text, re.M)
    return NcclChoice(
        path=told("path"),
        version=told("version"),
        interfaces=tuple(dict.fromkeys(chosen)),
        status=int(status) if status is not None and status.isdigit() else None,
        warning=warning[1].strip() if warning else "",
    )


def matches(value: str, interface: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME lets an interface through: prefixes, `=` for whole names, `^` to leave out (NCCL's documentation).

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
    """{who connects: to whom}. Few nodes: all to all. Many: each to the next two of a ring, and head and everybody to each other.

    >>> pairs(("a", "b"), "a")
    {'a': ('b',), 'b': ('a',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(names):
        others = [other for other in names if other != name]
        if len(names) > PAIRS_UP_TO and name != head:
            ring = [names[(place + step) % len(names)] for step in range(1, _RING + 1)]
            others = list(dict.fromkeys([*ring, head]))
        found[name] = tuple(other for other in others if other != name)
    return found
