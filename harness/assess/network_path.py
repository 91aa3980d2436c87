"""What the path between the nodes came to, as checks, from what `raw/probe/` holds."""

from __future__ import annotations

from busbw.checks import network_path
from busbw.model import CheckResult, Evidence, Status
from busbw.store import artefacts
from busbw.store.artefacts import ProbeArtefact, ProbeText
from busbw.store.run_directory import RunDir
from busbw.text import decoded

LOGIN, HELLO, PORTS, INTERFACE = (
    "ssh.node_to_node",
    "sw.mpi_hello",
    "cross.tcp_ports",
    "eth.interfaces",
)


def load(run: RunDir) -> tuple[CheckResult, ...]:
    """The checks, by id, then node; () = nobody tried.

    Raises:
        RunDirError: an artefact is not readable.
    """
    tried = artefacts.load(run, "probe.json", ProbeArtefact)
    if tried is None:
        return ()
    contents = {
        (text.kind, text.node): decoded(run.read_raw(text.path.removeprefix("raw/")))
        for text in tried.texts
        if text.path
    }
    found = [
        *_login(tried, contents),
        *_hello(tried, contents),
        *_ports(tried, contents),
        *_interfaces(tried, contents),
        *_rails(tried, contents),
    ]
    place = {node: position for position, node in enumerate(tried.nodes)}
    return tuple(sorted(found, key=lambda check: (check.check_id, place[check.node])))


_Contents = dict[tuple[str, str], str]


def _text(tried: ProbeArtefact, kind: str, node: str) -> ProbeText | None:
    return next((text for text in tried.texts if (text.kind, text.node) == (kind, node)), None)


def _evidence(text: ProbeText | None, summary: str) -> Evidence | None:
    return (
        Evidence(text.path, None, summary) if text is not None and text.path is not None else None
    )


def _login(tried: ProbeArtefact, contents: _Contents) -> list[CheckResult]:
    if not tried.by_ssh:
        return []
    expected = f"{tried.head} logs in without a question"
    command = f"ssh -o BatchMode=yes NODE true   # on {tried.head}"
    text = _text(tried, "login", tried.head)
    summary = network_path.parse_login(contents.get(("login", tried.head), ""))
    found = []
    for node in tried.nodes:
        if node == tried.head:
            continue
        if node not in summary:
            why = (text.problem if text else "") or "the head did not try it within its limit"
            found.append(
                CheckResult(
                    LOGIN,
                    node,
                    Status.UNKNOWN,
                    "not known",
                    expected,
                    command,
                    why,
                    _evidence(text, why),
                )
            )
            continue
        why = summary[node]
        status = Status.FAIL if why else Status.PASS
        found.append(
            CheckResult(
                LOGIN,
                node,
                status,
                why or "logs in",
                expected,
                command,
                evidence=_evidence(text, why or "ok"),
            )
        )
    return found


def _hello(tried: ProbeArtefact, contents: _Contents) -> list[CheckResult]:
    if not tried.by_ssh:
        return []
    expected = "mpirun hello-world: one rank on every node"
    command = f"mpirun … uname -n   # on {tried.head}"
    text = _text(tried, "hello", tried.head)
    if text is None or (text.path is None and text.exit_status is None):
        why = (text.problem if text else "") or "not tried"
        return [CheckResult(HELLO, tried.head, Status.UNKNOWN, "not known", expected, command, why)]
    hosts = network_path.parse_hello(contents.get(("hello", tried.head), ""))
    started = f"{len(hosts)} of {len(tried.nodes)} ranks started"
    if text.exit_status == 0 and len(hosts) == len(tried.nodes):
        return [
            CheckResult(
                HELLO,
                tried.head,
                Status.PASS,
                started,
                expected,
                command,
                evidence=_evidence(text, started),
            )
        ]
    last = next(reversed(text.problem.strip().splitlines()), "")
    summary = f"{started}: {last}" if last else started
    return [
        CheckResult(
            HELLO,
            tried.head,
            Status.FAIL,
            summary,
            expected,
            command,
            evidence=_evidence(text, text.problem),
        )
    ]


def _ports(tried: ProbeArtefact, contents: _Contents) -> list[CheckResult]:
    """Per node: who could not connect to it, and to whom it could not. A node that could not listen
    is not known."""
    expected = "two ports of the system's choice reachable from the other nodes"
    command = "a listener on each node, connections between them"
    attempts = [
        each
        for node in tried.nodes
        for each in network_path.parse_connect(node, contents.get(("connect", node), ""))
    ]
    found = []
    for node in tried.nodes:
        inward = [each for each in attempts if each.target == node]
        failed = [each for each in inward if each.reason]
        text = _text(tried, "listen", node)
        if network_path.parse_listen(node, contents.get(("listen", node), "")) is None:
            why = (text.problem if text else "") or "it did not listen"
            found.append(
                CheckResult(PORTS, node, Status.UNKNOWN, "not known", expected, command, why)
            )
        elif not inward:
            why = "no other node tried it" if len(tried.nodes) > 1 else "one node alone"
            status = Status.UNKNOWN if len(tried.nodes) > 1 else Status.SKIPPED
            found.append(CheckResult(PORTS, node, status, "not tried", expected, command, why))
        elif failed:
            sources = sorted({each.source for each in failed}, key=tried.nodes.index)
            reasons = ", ".join(sorted({each.reason for each in failed}))
            summary = (
                f"{len(failed)} of {len(inward)} connections from {len(sources)} nodes"
                f" ({', '.join(sources[:4])}) failed: {reasons}"
            )
            evidence = _evidence(_text(tried, "connect", sources[0]), summary)
            found.append(
                CheckResult(PORTS, node, Status.FAIL, summary, expected, command, evidence=evidence)
            )
        else:
            found.append(
                CheckResult(
                    PORTS,
                    node,
                    Status.PASS,
                    "reachable",
                    expected,
                    command,
                    evidence=_evidence(text, "reachable"),
                )
            )
    return found


def _rails(tried: ProbeArtefact, contents: _Contents) -> tuple[CheckResult, ...]:
    """The rails towards the neighbours, where more than one node listened."""
    own = {
        text.node: text.path
        for text in tried.texts
        if text.kind == "rails" and text.path is not None
    }
    if not own:
        return ()
    attempts = {node: network_path.parse(node, contents[("rails", node)]) for node in own}
    return network_path.judged(tried.nodes, attempts, own)


def _interfaces(tried: ProbeArtefact, contents: _Contents) -> list[CheckResult]:
    """What NCCL_SOCKET_IFNAME comes to: by NCCL itself where it is there, else by the node's
    interfaces and NCCL's rule."""
    value = tried.interface
    expected = (
        f"NCCL_SOCKET_IFNAME={value} fits an interface with an address"
        if value
        else "NCCL finds an interface by itself"
    )
    found = []
    for node in tried.nodes:
        text = _text(tried, "nccl", node)
        choice = network_path.parse_nccl(contents.get(("nccl", node), ""))
        command = "ncclGetUniqueId through libnccl.so.2, NCCL_DEBUG=INFO"
        if choice.status is not None:
            names = ", ".join(
                sorted({interface.partition(":")[0] for interface in choice.interfaces})
            )
            good = choice.status == 0 and bool(choice.interfaces)
            summary = (
                f"{names} (NCCL {choice.version})"
                if good
                else choice.warning or f"ncclGetUniqueId gave {choice.status}"
            )
            status = Status.PASS if good else Status.FAIL
            found.append(
                CheckResult(
                    INTERFACE,
                    node,
                    status,
                    summary,
                    expected,
                    command,
                    evidence=_evidence(text, summary),
                )
            )
            continue
        listener = network_path.parse_listen(node, contents.get(("listen", node), ""))
        why = (text.problem if text else "") or "no libnccl.so.2 that loads"
        if value is not None and listener is not None:
            fitting = [name for name, _ in listener.addresses if network_path.matches(value, name)]
            summary = (
                ", ".join(fitting)
                if fitting
                else (
                    f"none of {', '.join(name for name, _ in listener.addresses) or 'no interface'}"
                )
            )
            status = Status.PASS if fitting else Status.FAIL
            found.append(
                CheckResult(
                    INTERFACE,
                    node,
                    status,
                    summary,
                    expected,
                    "ip -o -4 address",
                    evidence=_evidence(_text(tried, "listen", node), summary),
                )
            )
        else:
            # Without NCCL and without a value of the profile there is nothing to try: a gap,
            # listed.
            found.append(
                CheckResult(
                    INTERFACE,
                    node,
                    Status.UNKNOWN,
                    "not known",
                    expected,
                    command,
                    why,
                    required=False,
                )
            )
    return found
