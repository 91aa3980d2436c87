"""Trying the path between the nodes: logins, an mpirun hello, TCP both ways, NCCL's interface.
Bounded in time and pairs; nothing is left behind."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.checks import network_path, pingpong, rails
from busbw.checks.software import NodeFacts
from busbw.errors import UsageError
from busbw.launch import LaunchRequest
from busbw.launch.choose import choose
from busbw.launch.env import mpi_options, resolve
from busbw.launch.mpirun import ssh_agent
from busbw.model import BenchmarkCase, Collective, Command, CommandResult, Sizes, Unreachable
from busbw.run import launching
from busbw.run.context import Context
from busbw.run.planning import origins_of
from busbw.store import artefacts
from busbw.store.artefacts import ProbeArtefact, ProbeText
from busbw.text import decoded
from busbw.units import counted

SCHEMA = "busbw.path/1"
_CASE = BenchmarkCase("hello", Collective.ALL_REDUCE, Sizes(8, 8), ranks_per_node=1)
"""Stands for any case: what the profile sets for all of them."""
_PROGRAM = "/bin/true"
"""Never run: the place in the command line where a program's name stands."""


def attempt(context: Context, known: Mapping[str, NodeFacts]) -> ProbeArtefact:
    """Try everything that the profile's launcher and NCCL will need, from the nodes that were
    reached."""
    nodes = tuple(
        node.name for node in context.plan.cluster.nodes if node.name in context.fleet.sessions
    )
    head = context.plan.head if context.plan.head in nodes else nodes[0]
    facts = launching.fabric_facts(context.plan, nodes, known)
    settled = resolve(origins_of(context.plan), _CASE, facts)
    resolved = {each.name: each.value for each in settled.variables}
    interface = resolved.get("NCCL_SOCKET_IFNAME")
    texts: list[ProbeText] = []
    others = tuple(node for node in nodes if node != head)
    launcher = choose(context.plan.cluster.launcher)
    by_ssh = launcher.over_ssh
    if others and by_ssh:
        context.progress("path", f"{head} logs in to {counted(len(others), 'node')}")
        texts.append(
            _kept(
                "login",
                context.fleet.sessions[head].run(network_path.login(others, ssh_agent(None))),
            )
        )
    launch, why = (
        _launch(context, nodes, head, known) if by_ssh else ((), f"the launcher is {launcher.name}")
    )
    if launch:
        context.progress("path", f"mpirun hello-world on {counted(len(nodes), 'node')}")
        texts.append(_kept("hello", context.fleet.sessions[head].run(network_path.hello(launch))))
    else:
        texts.append(ProbeText("hello", head, None, None, why))
    texts += _ports(context, nodes, head, interface, known)
    context.progress("path", "NCCL chooses its interface")
    texts += _all(context, "nccl", {node: network_path.nccl(node, interface) for node in nodes})
    artefact = ProbeArtefact(nodes, head, interface, tuple(texts), by_ssh)
    artefacts.keep(context.run, "probe.json", artefact)
    return artefact


def _launch(
    context: Context, nodes: tuple[str, ...], head: str, known: Mapping[str, NodeFacts]
) -> tuple[tuple[str, ...], str]:
    """(mpirun with its options, as for a case on these nodes; why there is none)."""
    facts = known.get(head)
    launcher = choose(context.plan.cluster.launcher)
    mpi = launching.mpi_of(facts, launcher.mpi) if facts else None
    if facts is None or mpi is None:
        return (), f"no {launcher.mpi} on {head}"
    own = launching.fabric_facts(context.plan, nodes, known)
    request = LaunchRequest(
        case=_CASE,
        nodes=context.plan.cluster.chosen(nodes),
        head=head,
        binary=_PROGRAM,
        env=(),
        mpi=mpi,
        options=mpi_options(context.plan.profile, own),
        ssh_agent=ssh_agent(None),
        odd_shells=launching.odd_shells((head, *nodes), known),
        ranks_per_node=1,
    )
    try:
        argv = launcher.build(request).argv
    except UsageError as error:
        return (), error.what
    return argv[: argv.index(_PROGRAM)], ""


def _ports(
    context: Context,
    nodes: tuple[str, ...],
    head: str,
    interface: str | None,
    known: Mapping[str, NodeFacts],
) -> list[ProbeText]:
    """Everybody listens, then everybody connects, then the listeners are told to end (or end by
    themselves)."""
    token = f"busbw-{context.run.run_id}"
    context.progress("path", f"TCP between {counted(len(nodes), 'node')}")
    listening = _all(context, "listen", {node: network_path.listen(node, token) for node in nodes})
    places = {
        text.node: found
        for text in listening
        if (found := network_path.parse_listen(text.node, decoded(context.run.kept(text.path))))
    }
    chosen = {node: _address(found, interface, known.get(node)) for node, found in places.items()}
    targets = {
        node: [
            (to, address, port)
            for to in others
            if (address := chosen.get(to)) is not None
            for port in places[to].ports
        ]
        for node, others in network_path.pairs(nodes, head).items()
    }
    connecting = _all(
        context,
        "connect",
        {
            node: network_path.connect(node, routes, token)
            for node, routes in targets.items()
            if routes
        },
    )
    quits = {
        node: Command(
            network_path.connect(node, [], token).argv,
            f"quit 127.0.0.1 {found.ports[0]}\n".encode(),
            15.0,
            label="quit",
        )
        for node, found in places.items()
    }
    context.fleet.run(quits, deadline_s=20)
    context.progress("path", "routes and packet sizes, rail by rail")
    tried = _all(
        context,
        "rails",
        {
            node: rails.attempt(node, routes)
            for node, routes in rails.targets(places, nodes).items()
        },
    )
    return [*listening, *connecting, *tried, *_pingpong(context, places, chosen)]


def _pingpong(
    context: Context,
    places: Mapping[str, network_path.Listener],
    chosen: Mapping[str, str | None],
) -> list[ProbeText]:
    """The provider of the fabric's plugin, each node within itself and to the next."""
    provider = context.plan.profile.libfabric
    if not provider:
        return []
    context.progress("path", f"fi_pingpong over {provider}")
    names = [node for node, found in places.items() if found.free]
    commands = {}
    for place, node in enumerate(names):
        other = names[(place + 1) % len(names)]
        address = chosen[other]
        peer = None
        if other != node and address is not None:
            peer = (other, address, places[other].free[1])
        within, between = places[node].free
        commands[node] = pingpong.attempt(node, provider, (within, between), peer)
    return _all(context, "pingpong", commands)


def _address(
    listener: network_path.Listener, interface: str | None, facts: NodeFacts | None
) -> str | None:
    """The address NCCL would give to its peers: of the interface the profile names, else of the one
    that ssh came in on, else the first."""
    named = [
        address
        for name, address in listener.addresses
        if interface is not None and network_path.matches(interface, name)
    ]
    reached = [
        address
        for name, address in listener.addresses
        if facts is not None and name == facts.ssh_interface
    ]
    return next(
        iter(
            named
            if interface is not None
            else [*reached, *(address for _, address in listener.addresses)]
        ),
        None,
    )


def _all(context: Context, kind: str, commands: dict[str, Command]) -> list[ProbeText]:
    deadline_s = max((command.timeout_s for command in commands.values()), default=0.0) + 10
    return [_kept(kind, answer) for answer in context.fleet.run(commands, deadline_s=deadline_s)]


def _kept(kind: str, answer: CommandResult | Unreachable) -> ProbeText:
    if isinstance(answer, Unreachable):
        return ProbeText(kind, answer.node, None, None, answer.reason)
    store = (
        f"raw/probe/{kind}.txt"
        if kind in ("login", "hello")
        else f"raw/probe/{kind}/{answer.node}.txt"
    )
    path = store if answer.stdout or answer.ok else None
    problem = answer.problem or (
        "" if answer.ok else answer.err().strip()[-300:] or f"exit status {answer.exit_status}"
    )
    return ProbeText(kind, answer.node, path, answer.exit_status, problem)
