"""Asking for the fabric's view: every node for its GUIDs and LLDP neighbours, one host for what the
fabric's tools see; or files as given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import busbw
from busbw import intake
from busbw.assess import fabric
from busbw.checks import fabric_side
from busbw.codec import dump_json
from busbw.errors import ReachError, ReadError, RunDirError, UsageError
from busbw.model import CheckResult, CommandResult, Node, Status, Unreachable
from busbw.model.topology import Topology
from busbw.parsers.verdict import EXIT_STATUS
from busbw.run.checking import require_session, verdict_of
from busbw.run.context import Progress
from busbw.run.reach import reach
from busbw.store import artefacts
from busbw.store.artefacts import FabricArtefact, FabricText
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport import Session, Transport
from busbw.transport.fanout import Fleet
from busbw.transport.local import LocalTransport
from busbw.transport.per_node import PerNodeTransport
from busbw.transport.recorder import recording
from busbw.units import counted

SCHEMA = "busbw.fabric/1"
MOST_BYTES = 256 << 20
"""Of one file; ibdiagnet's tables of 10,000 ports have about 20 MB."""


@dataclass(frozen=True, slots=True)
class FabricReport:
    """fabric.json: what the fabric's side comes to. Like everything derived it can be rebuilt from
    `raw/`."""

    schema: str
    run_id: str
    tool_version: str
    started: str
    verdict: Status
    exit_status: int
    checks: tuple[CheckResult, ...]
    topology: Topology


def conclude(run: RunDir, started: str) -> FabricReport:
    """The report of what was asked or read, written as fabric.json."""
    view = fabric.load(run)
    if view is None:
        raise RunDirError(f"run {run.run_id} has no view of the fabric", seen="no raw/fabric.json")
    verdict = verdict_of(view.checks) if view.topology.links else Status.UNKNOWN
    report = FabricReport(
        schema=SCHEMA,
        run_id=run.run_id,
        tool_version=busbw.__version__,
        started=started,
        verdict=verdict,
        exit_status=EXIT_STATUS[verdict],
        checks=view.checks,
        topology=view.topology,
    )
    run.write_derived("fabric.json", dump_json(report))
    return report


def reach_and_ask(
    run: RunDir,
    plan: RunPlan,
    transport: Transport,
    host_name: str | None,
    *,
    sudo: bool,
    progress: Progress,
) -> None:
    """Ask the nodes, and `host_name` for the fabric: None = the head, `local` = this machine.

    Raises:
        ReachError: no node could be reached, or not that host.
    """
    artefacts.keep(run, "plan.json", plan)
    with reach(run, plan, transport, progress) as fleet:
        require_session(fleet)
        own = None if host_name is None else _session(run, plan, transport, host_name)
        host = own or fleet.sessions.get(plan.cluster.head)
        place = host.node if host else "no host"
        progress("fabric", f"reading {place} and {counted(len(fleet.sessions), 'node')}")
        try:
            ask(run, plan.cluster.nodes, fleet, host, sudo=sudo)
        finally:
            if own is not None:
                own.close()


def _session(run: RunDir, plan: RunPlan, transport: Transport, name: str) -> Session:
    """The session to a host of its own, recorded as those of the nodes are."""
    listed = {node.name: node for node in plan.cluster.nodes}
    inner: Transport = LocalTransport() if name == "local" else transport
    session = recording(PerNodeTransport(inner), run).connect(
        listed.get(name, Node(name)), plan.connect_timeout_s
    )
    if isinstance(session, Unreachable):
        raise ReachError(
            f"--fabric-host {name} could not be reached",
            seen=session.reason,
            next_step=session.next_step,
        )
    return session


def ask(
    run: RunDir, nodes: tuple[Node, ...], fleet: Fleet, host: Session | None, *, sudo: bool
) -> FabricArtefact:
    """Ask the nodes at once, then the host. What does not answer is an entry with its reason."""
    boundary = run.run_id
    commands = {
        name: fabric_side.local(boundary, f"fabric/nodes/{name}.txt") for name in fleet.sessions
    }
    longest_s = max((command.timeout_s for command in commands.values()), default=0.0)
    answers = fleet.run(commands, deadline_s=longest_s + 10)
    texts = [
        _kept(answer, "node", f"fabric/nodes/{answer.node}.txt")
        for answer in answers
        if isinstance(answer, CommandResult)
    ]
    if host is not None:
        store = f"fabric/host/{host.node}.txt"
        texts.append(_kept(host.run(fabric_side.host(boundary, store, sudo=sudo)), "host", store))
    artefact = FabricArtefact(nodes, boundary, tuple(texts))
    artefacts.keep(run, "fabric.json", artefact)
    return artefact


def _kept(result: CommandResult, kind: str, store: str) -> FabricText:
    path = f"raw/{store}" if result.stdout or result.ok else None
    err = f"{path}.err" if path and result.stderr else None
    return FabricText(kind, result.node, path, err, result.exit_status, result.problem or "")


def take_files(run: RunDir, nodes: tuple[Node, ...], names: Sequence[str]) -> FabricArtefact:
    """Copy the files into the run, as they are but for their compression: what is concluded can be
    concluded again.

    Raises:
        UsageError: a name is no file.
        ReadError: one is too large, or compressed in a way that cannot be read here.
    """
    texts = []
    for number, source in enumerate(intake.expand(names), 1):
        content = _content(source)
        path = run.write_raw(f"fabric/files/{number}.txt", content)
        texts.append(FabricText("file", source.name, path, None, 0, ""))
    if not texts:
        raise UsageError(
            "no file of the fabric's tools was given",
            seen=" ".join(names),
            next_step="busbw check --help",
        )
    artefact = FabricArtefact(nodes, run.run_id, tuple(texts))
    artefacts.keep(run, "fabric.json", artefact)
    return artefact


def _content(source: intake.Source) -> bytes:
    content = bytearray()
    for chunk in source.open():
        content += chunk
        if len(content) > MOST_BYTES:
            raise ReadError(
                f"{source.name} is larger than {MOST_BYTES >> 20} MiB",
                next_step="give the tool's output alone",
            )
    return bytes(content)
