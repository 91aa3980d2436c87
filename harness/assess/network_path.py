"""What the path between the nodes came to, as checks, from what `raw/probe/` holds."""

from __future__ import annotations

from busbw.checks import network_path, pingpong, rails
from busbw.model import CheckResult, Evidence, Status
from busbw.store import artefacts
from busbw.store.artefacts import ProbeArtefact, ProbeText
from busbw.store.run_directory import RunDir
from busbw.text import decoded

INTERFACE = "eth.interfaces"


def load(run: RunDir) -> tuple[CheckResult, ...]:
    """The checks, by id, then node; () = nobody tried.

    Raises:
        RunDirError: an artefact is not readable.
    """
    probe = artefacts.load(run, "probe.json", ProbeArtefact)
    if probe is None:
        return ()
    attempts = _Attempts(run, probe)
    results = (
        *_login(attempts),
        *_hello(attempts),
        *_ports(attempts),
        *_interfaces(attempts),
        *_rails(attempts),
        *_pingpong(attempts),
    )
    place = {node: position for position, node in enumerate(probe.nodes)}
    return tuple(sorted(results, key=lambda check: (check.check_id, place[check.node])))


class _Attempts:
    """What was tried between the nodes, each with its output."""

    def __init__(self, run: RunDir, probe: ProbeArtefact) -> None:
        self.run = run
        self.probe = probe

    def text(self, kind: str, node: str) -> ProbeText | None:
        """One attempt; None = it was not made."""
        for text in self.probe.texts:
            if (text.kind, text.node) == (kind, node):
                return text
        return None

    def output(self, kind: str, node: str) -> str:
        """What it printed; empty = nothing."""
        text = self.text(kind, node)
        return "" if text is None else decoded(self.run.kept(text.path))

    def problem(self, kind: str, node: str, otherwise: str) -> str:
        """Why it gave nothing."""
        text = self.text(kind, node)
        return (text.problem if text else "") or otherwise

    def evidence(self, kind: str, node: str, summary: str) -> Evidence | None:
        """Its output as evidence; None = there is none."""
        text = self.text(kind, node)
        return Evidence(text.path, None, summary) if text is not None and text.path else None


def _login(attempts: _Attempts) -> list[CheckResult]:
    probe = attempts.probe
    if not probe.by_ssh:
        return []
    expected = f"{probe.head} logs in without a question"
    command = f"ssh -o BatchMode=yes NODE true   # on {probe.head}"
    answers = network_path.parse_login(attempts.output("login", probe.head))
    results = []
    for node in probe.nodes:
        if node == probe.head:
            continue
        reason = ""
        if node not in answers:
            reason = attempts.problem(
                "login", probe.head, "the head did not try it within its limit"
            )
            status, seen = Status.UNKNOWN, "not known"
        elif answers[node]:
            status, seen = Status.FAIL, answers[node]
        else:
            status, seen = Status.PASS, "logs in"
        quoted = reason or answers.get(node) or "ok"
        evidence = attempts.evidence("login", probe.head, quoted)
        results.append(
            CheckResult(
                network_path.LOGIN.id, node, status, seen, expected, command, reason, evidence
            )
        )
    return results


def _hello(attempts: _Attempts) -> list[CheckResult]:
    probe = attempts.probe
    if not probe.by_ssh:
        return []
    expected = "mpirun hello-world: one rank on every node"
    command = f"mpirun … uname -n   # on {probe.head}"
    text = attempts.text("hello", probe.head)
    if text is None or (text.path is None and text.exit_status is None):
        why = attempts.problem("hello", probe.head, "not tried")
        return [
            CheckResult(
                network_path.HELLO.id,
                probe.head,
                Status.UNKNOWN,
                "not known",
                expected,
                command,
                why,
            )
        ]
    hosts = network_path.parse_hello(attempts.output("hello", probe.head))
    status = Status.PASS
    quoted = seen = f"{len(hosts)} of {len(probe.nodes)} ranks started"
    if text.exit_status != 0 or len(hosts) != len(probe.nodes):
        status, quoted = Status.FAIL, text.problem
        last = next(reversed(text.problem.strip().splitlines()), "")
        seen = f"{seen}: {last}" if last else seen
    evidence = attempts.evidence("hello", probe.head, quoted)
    return [
        CheckResult(
            network_path.HELLO.id, probe.head, status, seen, expected, command, evidence=evidence
        )
    ]


def _ports(attempts: _Attempts) -> list[CheckResult]:
    """Per node: the connections that failed and are put down to it. A node that could not listen is
    not known."""
    connections: list[network_path.Attempt] = []
    for node in attempts.probe.nodes:
        connections += network_path.parse_connect(node, attempts.output("connect", node))
    blamed = network_path.blamed(connections)
    return [
        _port(attempts, node, connections, blamed.get(node, ())) for node in attempts.probe.nodes
    ]


def _port(
    attempts: _Attempts,
    node: str,
    connections: list[network_path.Attempt],
    failed: tuple[network_path.Attempt, ...],
) -> CheckResult:
    nodes = attempts.probe.nodes
    inward = [each for each in connections if each.target == node]
    reason, evidence = "", None
    if network_path.parse_listen(node, attempts.output("listen", node)) is None:
        reason = attempts.problem("listen", node, "it did not listen")
        status, seen = Status.UNKNOWN, "not known"
    elif len(nodes) == 1:
        status, seen, reason = Status.SKIPPED, "not tried", "one node alone"
    elif failed:
        status, seen = Status.FAIL, network_path.blocked(node, failed, len(inward))
        evidence = attempts.evidence("connect", failed[0].source, seen)
    elif not inward:
        status, seen, reason = Status.UNKNOWN, "not tried", "no other node tried it"
    else:
        sources, others = len({each.source for each in inward}), len(nodes) - 1
        some = "" if sources == others else f" from the {sources} of {others} nodes that tried"
        status, seen = Status.PASS, f"reachable{some}"
        evidence = attempts.evidence("listen", node, seen)
    return CheckResult(
        network_path.PORTS.id,
        node,
        status,
        seen,
        "two ports of the system's choice reachable from the other nodes",
        network_path.PORTS.command,
        reason,
        evidence,
        values=(("blocked", float(len(failed))),),
    )


def _rails(attempts: _Attempts) -> tuple[CheckResult, ...]:
    """The rails between the nodes, where more than one node listened."""
    own = {}
    for text in attempts.probe.texts:
        if text.kind == "rails" and text.path is not None:
            own[text.node] = text.path
    if not own:
        return ()
    nodes = attempts.probe.nodes
    parsed = {node: rails.parse(node, attempts.output("rails", node)) for node in own}
    listening = {
        node: found
        for node in nodes
        if (found := network_path.parse_listen(node, attempts.output("listen", node))) is not None
    }
    return rails.judged(nodes, parsed, own, listening)


def _pingpong(attempts: _Attempts) -> tuple[CheckResult, ...]:
    """libfabric between pairs of nodes, where the fabric has it."""
    tried = [text for text in attempts.probe.texts if text.kind == "pingpong"]
    return tuple(
        pingpong.judged(
            text.node,
            attempts.output("pingpong", text.node),
            text.problem,
            attempts.evidence("pingpong", text.node, text.node),
        )
        for text in tried
    )


def _interfaces(attempts: _Attempts) -> list[CheckResult]:
    """What NCCL_SOCKET_IFNAME comes to: by NCCL itself where it is there, else by the node's
    interfaces and NCCL's rule."""
    value = attempts.probe.interface
    expected = "NCCL finds an interface by itself"
    if value:
        expected = f"NCCL_SOCKET_IFNAME={value} fits an interface with an address"
    return [_interface(attempts, node, value, expected) for node in attempts.probe.nodes]


def _interface(attempts: _Attempts, node: str, value: str | None, expected: str) -> CheckResult:
    command = "ncclGetUniqueId through libnccl.so.2, NCCL_DEBUG=INFO"
    choice = network_path.parse_nccl(attempts.output("nccl", node))
    if choice.status is not None:
        names = sorted({interface.partition(":")[0] for interface in choice.interfaces})
        status = Status.FAIL
        seen = choice.warning or f"ncclGetUniqueId gave {choice.status}"
        if choice.status == 0 and names:
            status, seen = Status.PASS, f"{', '.join(names)} (NCCL {choice.version})"
        evidence = attempts.evidence("nccl", node, seen)
        return CheckResult(INTERFACE, node, status, seen, expected, command, evidence=evidence)
    listener = network_path.parse_listen(node, attempts.output("listen", node))
    if value is None or listener is None:
        # Without NCCL and without a value of the profile there is nothing to try: a gap, listed.
        why = attempts.problem("nccl", node, "no libnccl.so.2 that loads")
        return CheckResult(
            INTERFACE, node, Status.UNKNOWN, "not known", expected, command, why, required=False
        )
    names = [name for name, _ in listener.addresses]
    fitting = [name for name in names if network_path.matches(value, name)]
    status, seen = Status.PASS, ", ".join(fitting)
    if not fitting:
        status, seen = Status.FAIL, f"none of {', '.join(names) or 'no interface'}"
    evidence = attempts.evidence("listen", node, seen)
    command = "ip -o -4 address"
    return CheckResult(INTERFACE, node, status, seen, expected, command, evidence=evidence)
