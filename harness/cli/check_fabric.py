"""`busbw check --fabric`: the fabric's side of the cluster — links with both ends, rates, errors, cabling — from its tools or from their files."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import check_gpus, check_path
from busbw.errors import ReachError, UsageError

if TYPE_CHECKING:
    from busbw.derive.fabric import Fabric
    from busbw.plan import RunPlan
    from busbw.records import CheckResult, Node, Status
    from busbw.records.topology import Topology
    from busbw.rundir import RunDir
    from busbw.transport import Session, Transport

SCHEMA = "busbw.fabric/1"
_LEAVES = 24
"""Leaves shown; the rest is counted and stands in fabric.json."""
_PROBLEMS = 12


@dataclass(frozen=True, slots=True)
class FabricReport:
    """fabric.json: what the fabric's side comes to. Like everything derived it can be rebuilt from `raw/`."""

    schema: str
    run_id: str
    tool_version: str
    started: str
    verdict: Status
    exit_status: int
    checks: tuple[CheckResult, ...]
    topology: Topology


def register(parser: argparse.ArgumentParser) -> None:
    """Options of the fabric's side, of the path between the nodes, and of each GPU by itself."""
    check_path.register(parser)
    check_gpus.register(parser)
    group = parser.add_argument_group("fabric")
    group.add_argument(
        "--fabric",
        action="store_true",
        help="the fabric's side instead of the nodes': links, rates, errors and cabling, from iblinkinfo, ibnetdiscover, ibqueryerrors and LLDP",
    )
    group.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help="the same from files, no node is contacted: their output, ibdiagnet's, UFM exports (JSON, CSV), lldpctl's (NODE.txt)",
    )
    group.add_argument(
        "--fabric-host", metavar="HOST", help="where the fabric's tools run (default: the head node; `local` = this machine)"
    )


def wanted(args: argparse.Namespace) -> bool:
    """Whether this command is about the fabric, the path or each GPU, and not about what the nodes say."""
    return bool(args.fabric or args.fabric_file or args.fabric_host or args.path or args.gpus)


def run(args: argparse.Namespace, make_plan: Callable[[argparse.Namespace], RunPlan]) -> int:
    """Do it; the exit status is the verdict's. `make_plan` gives the nodes to ask, or those that files are about.

    Raises:
        UsageError: a file is not there, nothing names what to read, or two checks at once.
        ReachError: no node could be reached.
    """
    from busbw import rundir
    from busbw.cli.console import Console, now
    from busbw.codec import dump_json
    from busbw.derive import fabric as derived
    from busbw.stages import fabric

    if args.path or args.gpus:
        if args.fabric or args.fabric_file or args.fabric_host or (args.path and args.gpus):
            seen = "more than one of them was given"
            raise UsageError("--fabric, --path and --gpus are three checks", seen=seen, next_step="give one after the other")
        plan = make_plan(args)
        return check_path.run(args, plan) if args.path else check_gpus.run(args, plan)
    console = Console(quiet=args.quiet or args.json)
    started = now()
    directory = rundir.create(args.out or Path("runs"), started, "fabric")
    if args.fabric_file:
        fabric.take_files(directory, _listed(args), args.fabric_file)
    else:
        _ask(args, make_plan(args), directory, console.say)
    found = derived.load(directory)
    assert found is not None  # it was just kept
    if args.fabric_file:
        _keep_plan(args, make_plan, directory, found.topology.nodes, started)
    report = _report(directory, started, found)
    directory.write_derived("fabric.json", dump_json(report))
    if args.json:
        sys.stdout.write((directory.path / "fabric.json").read_text(encoding="utf-8"))
    else:
        shown = lines(report, os.path.relpath(directory.path))
        sys.stdout.write("".join(f"{line}\n" for line in (shown[-1:] if args.quiet else shown)))
    return report.exit_status


def _listed(args: argparse.Namespace) -> tuple[Node, ...]:
    """The nodes of the inventory; () = none is given, then every host in the files is a node."""
    from busbw import inventory

    if args.inventory is None and args.nodes is None:
        return ()
    return inventory.resolve(args.inventory, args.nodes, args.exclude, {}).nodes


def _keep_plan(
    args: argparse.Namespace, make_plan: Callable[[argparse.Namespace], RunPlan], directory: RunDir, nodes: tuple[str, ...], started: str
) -> None:
    """So that `busbw report` knows the run: the nodes of the inventory, else those that the files tell of. Without any there is none."""
    from busbw import artefacts

    if args.inventory is None and args.nodes is None:
        args.nodes = ",".join(nodes)
    if args.inventory is not None or args.nodes:
        plan = dataclasses.replace(make_plan(args), run_id=directory.run_id, started=started)
        artefacts.keep(directory, "plan.json", plan)


def _ask(args: argparse.Namespace, plan: RunPlan, directory: RunDir, say: Callable[[str, str], None]) -> None:
    from busbw import artefacts
    from busbw.stages import fabric
    from busbw.stages.reach import reach
    from busbw.transport.choose import make

    artefacts.keep(directory, "plan.json", plan)
    transport = make(plan.transport, ssh_config=plan.cluster.ssh_config, accept_new_host_keys=args.accept_new_host_keys)
    with reach(directory, plan, transport, say) as fleet:
        if not fleet.sessions:
            raise ReachError("no node could be reached", seen=fleet.unreachable[0].reason if fleet.unreachable else "")
        own = None if args.fabric_host is None else _host(args, plan, directory, transport)
        host = own or fleet.sessions.get(plan.cluster.head)
        say("fabric", f"asking {len(fleet.sessions)} nodes, and {host.node if host else 'no host'} for the fabric")
        try:
            fabric.ask(directory, plan.cluster.nodes, fleet, host, sudo=bool(getattr(args, "sudo", False)))
        finally:
            if own is not None:
                own.close()


def _host(args: argparse.Namespace, plan: RunPlan, directory: RunDir, transport: Transport) -> Session:
    """The session to --fabric-host, recorded as those of the nodes are.

    Raises:
        ReachError: it could not be reached.
    """
    from busbw.records import Node, Unreachable
    from busbw.transport.local import LocalTransport
    from busbw.transport.recorder import RecordingTransport

    listed = {node.name: node for node in plan.cluster.nodes}
    way: Transport = LocalTransport() if args.fabric_host == "local" else transport
    session = RecordingTransport(way, directory).connect(listed.get(args.fabric_host, Node(args.fabric_host)), plan.connect_timeout_s)
    if isinstance(session, Unreachable):
        raise ReachError(f"--fabric-host {args.fabric_host} could not be reached", seen=session.reason, next_step=session.next_step)
    return session


def _report(directory: RunDir, started: str, found: Fabric) -> FabricReport:
    import busbw
    from busbw.parsers.judge.verdict import EXIT_STATUS
    from busbw.records import Status, worst

    if not found.topology.links:
        verdict = Status.UNKNOWN
    else:
        verdict = worst(tuple(check.status for check in found.checks if check.required and check.status is not Status.SKIPPED))
    return FabricReport(SCHEMA, directory.run_id, busbw.__version__, started, verdict, EXIT_STATUS[verdict], found.checks, found.topology)


def lines(report: FabricReport, run_dir: str) -> tuple[str, ...]:
    """The lines to print: verdict, what is wrong with both ends, the cabling, what was not read."""
    from busbw.inventory import fold
    from busbw.records import Status
    from busbw.reports import phrases
    from busbw.reports.safe import one_line

    topology = report.topology
    bad = [check for status in (Status.FAIL, Status.UNKNOWN, Status.WARN) for check in report.checks if check.status is status]
    cables = sum(link.b is not None for link in topology.links)
    about = f"{phrases.count(cables, 'link')}, {phrases.count(len(topology.nodes), 'node')}"
    found = [f"{report.verdict.value}  {about}: {_cabled(topology)}"]
    for check in (check for check in bad if check.required or check.status is not Status.UNKNOWN):
        found.append(f"{phrases.SIGNS[check.status]} {phrases.WORDS[check.status]}  {check.check_id}  {check.node}")
        found += [f"      {'found ' if n == 0 else '      '}    {part}" for n, part in enumerate(check.found.split("; "))]
        found += [f"      reason    {check.reason}"] if check.reason else []
        if check.evidence is not None:
            at = check.evidence.artefact + (f":{check.evidence.line_no}" if check.evidence.line_no is not None else "")
            found.append(f"      seen      {at}")
    for leaf in topology.leaves[:_LEAVES]:
        found.append(f"  {leaf.name:<12} {fold(leaf.nodes)}  {_rails(topology, leaf.name)}".rstrip())
    if len(topology.leaves) > _LEAVES:
        found.append(f"  {len(topology.leaves) - _LEAVES} more leaves in fabric.json")
    unknown: dict[tuple[str, str], list[str]] = {}
    for check in bad:
        if check.status is Status.UNKNOWN and not check.required:
            unknown.setdefault((check.check_id, check.reason), []).append(check.node)
    found += [f"NOT CHECKED  {check_id}  {fold(nodes)}: {reason}" for (check_id, reason), nodes in unknown.items()]
    found += [f"NOT READ  {problem}" for problem in topology.problems[:_PROBLEMS]]
    if len(topology.problems) > _PROBLEMS:
        found.append(f"NOT READ  {len(topology.problems) - _PROBLEMS} more in fabric.json")
    counts = {status: sum(check.status is status for check in report.checks) for status in Status}
    found.append(
        f"busbw: FABRIC {report.verdict.value} {counts[Status.FAIL]} failed, {phrases.count(counts[Status.WARN], 'warning')}, "
        f"{counts[Status.PASS]} passed, {counts[Status.UNKNOWN]} not checked  {run_dir}"
    )
    return tuple(one_line(line) for line in found)


def _cabled(topology: Topology) -> str:
    from busbw.parsers.judge import cabling, fabric_checks

    if not topology.links:
        return "nothing was read that tells of a link"
    return fabric_checks.describe(cabling.examine(topology))


def _rails(topology: Topology, leaf: str) -> str:
    """Which rails end on a leaf: `rail 3`; "" = adapters that are no rails."""
    rails = sorted({nic.rail for nic in topology.nics if nic.leaf == leaf and nic.rail is not None})
    return f"rail {', '.join(map(str, rails))}" if rails else ""
