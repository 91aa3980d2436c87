"""`busbw check`: is every node what it should be, and are they all the same? Reads only, on every
node once."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.assess.result import check_headline, sensitivity
from busbw.cli import console
from busbw.errors import Interrupted, ReachError, UsageError
from busbw.inventory import fold
from busbw.model import CheckResult, Status
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.reports.terminal import Line, printed
from busbw.run.checking import CheckReport

# How `busbw check` reaches the nodes, and `--inside`: checks in the job's own context instead of
# the login shell's.

if TYPE_CHECKING:
    from busbw.store.plan import RunPlan
    from busbw.transport import Transport


def add_inside_option(parser: argparse.ArgumentParser) -> None:
    """The option."""
    group = parser.add_argument_group("context")
    group.add_argument(
        "--inside",
        metavar="PREFIX",
        help=(
            "run every check behind this on the node, such as 'docker exec -i train': the job's"
            " limits, devices, libraries"
        ),
    )


def transport_of(args: argparse.Namespace, plan: RunPlan) -> Transport:
    """The transport of the plan, with the prefix of --inside where there is one.

    Raises:
        UsageError: the prefix cannot be read, or passes no standard input on.
    """
    from busbw.transport.choose import make
    from busbw.transport.inside import InsideTransport, prefix_of
    from busbw.transport.local import LocalTransport

    prefix = prefix_of(args.inside) if args.inside is not None else ()
    if plan.transport == LocalTransport.name:
        # By itself: looking for the others loads an SSH library, a third of what a prolog takes.
        way: Transport = LocalTransport()
    else:
        way = make(
            plan.transport,
            ssh_config=plan.cluster.ssh_config,
            accept_new_host_keys=args.accept_new_host_keys,
        )
    return InsideTransport(way, prefix) if prefix else way


# The outcome of `busbw check` as plain lines: verdict, matrix with equal nodes folded, what is
# wrong, what was not checked.

_TEXT = 200
_REASONS = 12
"""Reasons shown for what was not checked; more than these are counted."""
_ANSWERS = 4
"""Different answers shown for one check; more than these are counted."""
_LIST = 48
"""Characters of a host list in the matrix; a longer one is counted there and stands whole below."""


@dataclass(frozen=True, slots=True)
class Same:
    """Nodes that gave the same answer to one check."""

    example: CheckResult
    nodes: tuple[str, ...]


def check_lines(report: CheckReport, run_dir: str) -> tuple[Line, ...]:
    """The lines to print; `run_dir` as the user would type it."""
    headline = check_headline(report.checks, report.nodes, report.profile)
    lines = [Line(f"{report.verdict.value}  {headline}")]
    if report.emulated:
        lines.append(Line(f"      {report.emulated}"))
    lines += [Line(row) for row in _matrix(report)]
    for check_ids, answers in _problems(report):
        lines += _problem(check_ids, answers)
    if report.verdict in (Status.PASS, Status.WARN):
        for number, limit in enumerate(sensitivity(report.checks)):
            lines.append(Line(f"{'    ' if number else 'SEES'}  {limit}"))
    lines += [Line(gap) for gap in _not_checked(report)]
    lines.append(Line(_last(report, run_dir), whole=True))
    return tuple(Line(one_line(line.text), line.indent, line.whole) for line in lines)


def drain_reason(report: CheckReport) -> str:
    """One line for a scheduler's drain reason or a health check: what required is not well, worst
    first, or that all is."""
    bad = [
        c
        for status in (Status.FAIL, Status.UNKNOWN)
        for c in report.checks
        if c.required and c.status is status
    ]
    if not bad:
        warned = sum(
            c.status is Status.WARN or (c.status is Status.FAIL and not c.required)
            for c in report.checks
        )
        passed = sum(c.status is Status.PASS for c in report.checks)
        return one_line(
            f"busbw: {report.verdict.value} {phrases.count(passed, 'check')} passed,"
            f" {phrases.count(warned, 'warning')}"
        )
    # What one missing tool hides is one thing, not one per check.
    said: dict[str, list[str]] = {}
    for check in bad:
        why = f" ({check.reason})" if check.status is Status.UNKNOWN and check.reason else ""
        said.setdefault(f"{check.found}{why}", []).append(check.check_id)
    told = [f"{', '.join(dict.fromkeys(ids))} {text}" for text, ids in said.items()]
    more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
    return one_line(
        phrases.cut(f"busbw: {report.verdict.value} {'; '.join(told[:3])}{more}", 2 * _TEXT)
    )


def _matrix(report: CheckReport) -> list[str]:
    """One line per group of checks: how many nodes are well, and who is not. What advisory checks
    could not tell stands below."""
    groups: dict[str, list[CheckResult]] = {}
    for check in report.checks:
        if check.status is not Status.SKIPPED:
            groups.setdefault(check.check_id.partition(".")[0], []).append(check)
    counts = [len(report.nodes)] * 2
    width = len(f"{counts[0]:,}/{counts[1]:,}")
    found = []
    for group, members in groups.items():
        told = [c for c in members if _is_told(c)]
        made = [*told, *(c for c in members if c.status is Status.PASS)]
        well = {c.node for c in made} - {c.node for c in told}
        marks = []
        for status in (Status.FAIL, Status.UNKNOWN, Status.WARN):
            bad = [c for c in told if c.status is status]
            if bad:
                ids = list(dict.fromkeys(c.check_id for c in bad))
                shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
                marks.append(f"{phrases.SIGNS[status]} {_few({c.node for c in bad})} {shown}")
        checks = len({c.check_id for c in made})
        said = "   ".join(marks) or (
            f"well ({phrases.count(checks, 'check')})" if made else "not checked"
        )
        count = f"{len(well):,}/{len(report.nodes):,}" if made else "–"
        found.append(f"  {group:<6} {count:>{width}}  {said}")
    return found


def _few(nodes: Iterable[str]) -> str:
    names = set(nodes)
    text = fold(names)
    return text if len(text) <= _LIST else f"{len(names):,} nodes"


def _is_told(check: CheckResult) -> bool:
    # An advisory check that could not be made is a gap, not a problem: it is listed under NOT
    # CHECKED.
    return check.status in (Status.FAIL, Status.WARN) or (
        check.status is Status.UNKNOWN and check.required
    )


def _problems(report: CheckReport) -> list[tuple[tuple[str, ...], tuple[Same, ...]]]:
    """Each check that is not well with its different answers, the most frequent first; what decides
    the verdict stands before the rest.

    Checks that could not be made for one and the same reason on the same nodes are one problem."""
    groups: dict[tuple[bool, Status, str], list[CheckResult]] = {}
    for check in report.checks:
        if _is_told(check):
            groups.setdefault((check.required, check.status, check.check_id), []).append(check)
    rank = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.WARN: 2}
    ordered = sorted(groups, key=lambda key: (not key[0], rank[key[1]], key[2]))
    found: dict[tuple[object, ...], tuple[list[str], tuple[Same, ...]]] = {}
    for key in ordered:
        answers = tuple(sorted(_folded(groups[key]), key=lambda same: -len(same.nodes)))
        first = answers[0]
        cause = (
            (*key[:2], first.example.reason, first.nodes)
            if key[1] is Status.UNKNOWN and len(answers) == 1
            else key
        )
        found.setdefault(cause, ([], answers))[0].append(key[2])
    return [(tuple(ids), answers) for ids, answers in found.values()]


def _folded(checks: Iterable[CheckResult]) -> tuple[Same, ...]:
    """Equal answers together, in the order of the first of each."""
    groups: dict[tuple[str, str, str, str, bool], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault(
            (check.check_id, check.found, check.expected, check.reason, check.required), []
        ).append(check)
    return tuple(Same(members[0], tuple(c.node for c in members)) for members in groups.values())


def _problem(check_ids: tuple[str, ...], answers: tuple[Same, ...]) -> list[Line]:
    check = answers[0].example
    nodes = fold(node for same in answers for node in same.nodes)
    advisory = "" if check.required else "   (advisory)"
    head = f"{phrases.state(check.status)}  {', '.join(check_ids)}  {nodes}{advisory}"
    lines = [Line(head)]
    for number, same in enumerate(answers[:_ANSWERS]):
        which = f"   on {_few(same.nodes)}" if len(answers) > 1 else ""
        why = f"  ({phrases.cut(same.example.reason, _TEXT)})" if same.example.reason else ""
        answer = f"{phrases.cut(same.example.found, _TEXT)}{why}{which}"
        lines.append(_detail("" if number else "found", answer))
    if len(answers) > _ANSWERS:
        lines.append(_detail("", f"{len(answers) - _ANSWERS} more answers in check.json"))
    if check.expected:
        lines.append(_detail("expected", phrases.cut(check.expected, _TEXT)))
    if check.command:
        lines.append(_detail("command", check.command))
    if check.evidence is not None:
        first, *_ = *check.evidence.text.strip().splitlines(), ""
        text = f"  {phrases.cut(first, _TEXT)}" if first else ""
        lines.append(_detail("seen", f"{phrases.location(check.evidence)}{text}"))
    return lines


def _detail(label: str, text: str) -> Line:
    """Text in a column of its own behind a label."""
    return Line(f"      {label:<9} {text}", indent=16)


def _not_checked(report: CheckReport) -> list[str]:
    """Advisory checks without an answer, by reason; and how many do not apply."""
    reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for same in _folded(c for c in report.checks if c.status is Status.UNKNOWN and not c.required):
        reasons.setdefault((same.example.reason or same.example.found, same.nodes), []).append(
            same.example.check_id
        )
    found = [
        f"NOT CHECKED  {phrases.cut(reason, _TEXT)}: {', '.join(ids)} "
        f" {'all nodes' if len(nodes) == len(report.nodes) else fold(nodes)}"
        for (reason, nodes), ids in list(reasons.items())[:_REASONS]
    ]
    found += (
        [f"NOT CHECKED  {len(reasons) - _REASONS} more reasons in check.json"]
        if len(reasons) > _REASONS
        else []
    )
    asked = {c.check_id for c in report.checks if c.status is not Status.SKIPPED}
    skipped = sorted({c.check_id for c in report.checks if c.status is Status.SKIPPED} - asked)
    if skipped:
        found.append(
            f"NOT APPLICABLE  {phrases.count(len(skipped), 'check')} to these nodes with profile"
            f" {report.profile} (reasons in check.json)"
        )
    return found


def _last(report: CheckReport, run_dir: str) -> str:
    counts = Counter(c.status for c in report.checks)
    return (
        f"busbw: CHECK {report.verdict.value} {counts[Status.FAIL]:,} failed,"
        f" {phrases.count(counts[Status.WARN], 'warning')}, {counts[Status.PASS]:,} passed,"
        f" {counts[Status.UNKNOWN]:,} not checked  {run_dir}"
    )


# What the checks beside the nodes' own have in common: a run directory, nodes that were asked
# once, and a report told as `busbw check` tells its.

if TYPE_CHECKING:
    from busbw.checks import NodeAnswer
    from busbw.model import CheckResult
    from busbw.run.context import Context
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir


@dataclass(frozen=True, slots=True)
class Asked:
    """Reached nodes with their answers to the script of all checks."""

    run: RunDir
    context: Context
    answers: tuple[NodeAnswer, ...]


@contextlib.contextmanager
def asked(args: argparse.Namespace, plan: RunPlan, kind: str) -> Iterator[Asked]:
    """Make the run directory, reach the nodes and ask each once; the sessions are open while the
    caller works.

    Raises:
        ReachError: no node could be reached.
    """
    from busbw import assess
    from busbw.cli.console import Console, now
    from busbw.run import reach as preflight
    from busbw.run.context import Context
    from busbw.run.reach import reach
    from busbw.store import artefacts, run_directory

    console = Console(quiet=args.quiet or args.json)
    directory = run_directory.create(args.out or Path("runs"), plan.started, kind)
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    with reach(directory, plan, transport_of(args, plan), console.say) as fleet:
        if not fleet.sessions:
            raise ReachError(
                "no node could be reached",
                seen=fleet.unreachable[0].reason if fleet.unreachable else "",
            )
        context = Context(run=directory, plan=plan, fleet=fleet, now=now, say=console.say)
        console.say("check", f"asking {len(fleet.sessions)} of {len(plan.cluster.nodes)} nodes")
        preflight.ask(context)
        # Where no profile was given the answers decide on it.
        settled = assess.load_plan(directory)
        yield Asked(
            directory,
            dataclasses.replace(context, plan=settled),
            assess.answers(directory, settled),
        )


def tell(
    args: argparse.Namespace, run: RunDir, schema: str, checks: tuple[CheckResult, ...]
) -> int:
    """Write the report as `NAME.json`, NAME out of `busbw.NAME/1`, print it, and give the exit
    status of the verdict."""
    from busbw.codec import dump_json
    from busbw.model import Status, worst
    from busbw.parsers.verdict import EXIT_STATUS
    from busbw.run import checking

    nodes = checking.conclude(run)
    told = (*(check for check in nodes.checks if check.check_id == "ssh.connect"), *checks)
    verdict = worst(
        tuple(
            check.status for check in told if check.required and check.status is not Status.SKIPPED
        )
    )
    report = dataclasses.replace(
        nodes, schema=schema, checks=told, verdict=verdict, exit_status=EXIT_STATUS[verdict]
    )
    text = dump_json(report)
    run.write_derived(f"{schema.partition('.')[2].partition('/')[0]}.json", text)
    if args.json:
        sys.stdout.write(text)
    else:
        shown = check_lines(report, os.path.relpath(run.path))
        sys.stdout.write(printed(shown[-1:] if args.quiet else shown, None))
    return report.exit_status


# `busbw check --gpus`: each GPU by itself, with nvbandwidth and DCGM where they are there. Loads
# the GPUs; refused where somebody works.

if TYPE_CHECKING:
    from busbw.run.context import Context
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir

GPUS_SCHEMA = "busbw.gpus/1"


def register_gpus(parser: argparse.ArgumentParser) -> None:
    """The options."""
    group = parser.add_argument_group("gpus")
    group.add_argument(
        "--gpus",
        action="store_true",
        help="each GPU by itself instead: nvbandwidth's copies, compared over all GPUs; loads them",
    )
    group.add_argument(
        "--dcgm",
        type=int,
        choices=(1, 2, 3),
        metavar="LEVEL",
        help="with --gpus: dcgmi diag -r LEVEL too (3 takes half an hour)",
    )
    group.add_argument(
        "--force", action="store_true", help="with --gpus: beside somebody else's work too"
    )


def run_gpus(args: argparse.Namespace, plan: RunPlan) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        ReachError: no node could be reached.
        BusyError: somebody works on the nodes.
    """
    from busbw.assess import fabric
    from busbw.run import participants

    with asked(args, dataclasses.replace(plan, force=args.force), "gpus") as nodes:
        context = nodes.context
        participants.refuse(
            context,
            participants.look(context, nodes.answers, context.plan.head),
            tuple(context.fleet.sessions),
        )
        context.say("gpus", f"each GPU of {len(context.fleet.sessions)} nodes by itself")
        _ask_gpus(context, nodes.run, args.dcgm)
    return tell(args, nodes.run, GPUS_SCHEMA, fabric.gpus(nodes.run))


def _ask_gpus(context: Context, directory: RunDir, level: int | None) -> None:
    from busbw.checks import gpu_bench
    from busbw.model import CommandResult
    from busbw.store import artefacts
    from busbw.store.artefacts import GpusArtefact, GpusText

    family = gpu_bench.family(level)
    commands = {
        node: gpu_bench.command(family, directory.run_id, f"gpus/{node}.txt")
        for node in context.fleet.sessions
    }
    limit_s = max(command.timeout_s for command in commands.values())
    texts = []
    for answer in context.fleet.run(commands, deadline_s=limit_s + 10):
        if isinstance(answer, CommandResult):
            path = f"raw/gpus/{answer.node}.txt" if answer.stdout or answer.ok else None
            stderr = f"{path}.err" if path and answer.stderr else None
            texts.append(
                GpusText(answer.node, path, stderr, answer.exit_status, answer.problem or "")
            )
        else:
            texts.append(GpusText(answer.node, None, None, None, answer.reason))
    artefacts.keep(directory, "gpus.json", GpusArtefact(directory.run_id, level, tuple(texts)))


# `busbw check --path`: the path NCCL will use between the nodes, tried without a GPU.

if TYPE_CHECKING:
    from busbw.store.plan import RunPlan

PATH_SCHEMA = "busbw.path/1"


def register_path(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument_group("path").add_argument(
        "--path",
        action="store_true",
        help=(
            "the path between the nodes instead: the launcher's ssh, an mpirun hello, TCP ports,"
            " the interface that NCCL chooses"
        ),
    )


def run_path(args: argparse.Namespace, plan: RunPlan) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        ReachError: no node could be reached.
    """
    from busbw.assess import network_path as derived
    from busbw.checks.software import facts
    from busbw.run import network_path

    with asked(args, plan, "path") as nodes:
        network_path.attempt(
            nodes.context, {answer.node.name: facts(answer) for answer in nodes.answers}
        )
    return tell(args, nodes.run, PATH_SCHEMA, derived.load(nodes.run))


# `busbw check --fabric`: the fabric's side of the cluster — links with both ends, rates, errors,
# cabling — from its tools or from their files.

if TYPE_CHECKING:
    from busbw.assess.fabric import FabricView
    from busbw.model import CheckResult, Node, Status
    from busbw.model.topology import Topology
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir
    from busbw.transport import Session, Transport

FABRIC_SCHEMA = "busbw.fabric/1"
_LEAVES = 24
"""Leaves shown; the rest is counted and stands in fabric.json."""
_PROBLEMS = 12


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


def register_fabric(parser: argparse.ArgumentParser) -> None:
    """Options of the fabric's side, of the path between the nodes, and of each GPU by itself."""
    register_path(parser)
    register_gpus(parser)
    group = parser.add_argument_group("fabric")
    group.add_argument(
        "--fabric",
        action="store_true",
        help=(
            "the fabric's side instead of the nodes': links, rates, errors and cabling, from"
            " iblinkinfo, ibnetdiscover, ibqueryerrors and LLDP"
        ),
    )
    group.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help=(
            "the same from files, no node is contacted: their output, ibdiagnet's, UFM exports"
            " (JSON, CSV), lldpctl's (NODE.txt)"
        ),
    )
    group.add_argument(
        "--fabric-host",
        metavar="HOST",
        help="where the fabric's tools run (default: the head node; `local` = this machine)",
    )


def wanted(args: argparse.Namespace) -> bool:
    """Whether this command is about the fabric, the path or each GPU, and not about what the nodes
    say."""
    return bool(args.fabric or args.fabric_file or args.fabric_host or args.path or args.gpus)


def run_fabric(args: argparse.Namespace, make_plan: Callable[[argparse.Namespace], RunPlan]) -> int:
    """Do it; the exit status is the verdict's. `make_plan` gives the nodes to ask, or those that
    files are about.

    Raises:
        UsageError: a file is not there, nothing names what to read, or two checks at once.
        ReachError: no node could be reached.
    """
    from busbw.assess import fabric as derived
    from busbw.cli.console import Console, now
    from busbw.codec import dump_json
    from busbw.run import fabric_side
    from busbw.store import run_directory

    if args.path or args.gpus:
        if args.fabric or args.fabric_file or args.fabric_host or (args.path and args.gpus):
            seen = "more than one of them was given"
            raise UsageError(
                "--fabric, --path and --gpus are three checks",
                seen=seen,
                next_step="give one after the other",
            )
        plan = make_plan(args)
        return run_path(args, plan) if args.path else run_gpus(args, plan)
    console = Console(quiet=args.quiet or args.json)
    started = now()
    directory = run_directory.create(args.out or Path("runs"), started, "fabric")
    if args.fabric_file:
        fabric_side.take_files(directory, _listed(args), args.fabric_file)
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
    args: argparse.Namespace,
    make_plan: Callable[[argparse.Namespace], RunPlan],
    directory: RunDir,
    nodes: tuple[str, ...],
    started: str,
) -> None:
    """So that `busbw report` knows the run: the nodes of the inventory, else those that the files
    tell of. Without any there is none."""
    from busbw.store import artefacts

    if args.inventory is None and args.nodes is None:
        args.nodes = ",".join(nodes)
    if args.inventory is not None or args.nodes:
        plan = dataclasses.replace(make_plan(args), run_id=directory.run_id, started=started)
        artefacts.keep(directory, "plan.json", plan)


def _ask(
    args: argparse.Namespace, plan: RunPlan, directory: RunDir, say: Callable[[str, str], None]
) -> None:
    from busbw.run import fabric_side
    from busbw.run.reach import reach
    from busbw.store import artefacts
    from busbw.transport.choose import make

    artefacts.keep(directory, "plan.json", plan)
    transport = make(
        plan.transport,
        ssh_config=plan.cluster.ssh_config,
        accept_new_host_keys=args.accept_new_host_keys,
    )
    with reach(directory, plan, transport, say) as fleet:
        if not fleet.sessions:
            raise ReachError(
                "no node could be reached",
                seen=fleet.unreachable[0].reason if fleet.unreachable else "",
            )
        own = None if args.fabric_host is None else _host(args, plan, directory, transport)
        host = own or fleet.sessions.get(plan.cluster.head)
        say(
            "fabric",
            f"asking {len(fleet.sessions)} nodes, and {host.node if host else 'no host'} for the"
            " fabric",
        )
        try:
            fabric_side.ask(
                directory, plan.cluster.nodes, fleet, host, sudo=bool(getattr(args, "sudo", False))
            )
        finally:
            if own is not None:
                own.close()


def _host(
    args: argparse.Namespace, plan: RunPlan, directory: RunDir, transport: Transport
) -> Session:
    """The session to --fabric-host, recorded as those of the nodes are.

    Raises:
        ReachError: it could not be reached.
    """
    from busbw.model import Node, Unreachable
    from busbw.transport.local import LocalTransport
    from busbw.transport.recorder import RecordingTransport

    listed = {node.name: node for node in plan.cluster.nodes}
    way: Transport = LocalTransport() if args.fabric_host == "local" else transport
    session = RecordingTransport(way, directory).connect(
        listed.get(args.fabric_host, Node(args.fabric_host)), plan.connect_timeout_s
    )
    if isinstance(session, Unreachable):
        raise ReachError(
            f"--fabric-host {args.fabric_host} could not be reached",
            seen=session.reason,
            next_step=session.next_step,
        )
    return session


def _report(directory: RunDir, started: str, found: FabricView) -> FabricReport:
    import busbw
    from busbw.model import Status, worst
    from busbw.parsers.verdict import EXIT_STATUS

    if not found.topology.links:
        verdict = Status.UNKNOWN
    else:
        verdict = worst(
            tuple(
                check.status
                for check in found.checks
                if check.required and check.status is not Status.SKIPPED
            )
        )
    return FabricReport(
        FABRIC_SCHEMA,
        directory.run_id,
        busbw.__version__,
        started,
        verdict,
        EXIT_STATUS[verdict],
        found.checks,
        found.topology,
    )


def lines(report: FabricReport, run_dir: str) -> tuple[str, ...]:
    """The lines to print: verdict, what is wrong with both ends, the cabling, what was not read."""
    from busbw.inventory import fold
    from busbw.model import Status
    from busbw.reports import phrases
    from busbw.reports.safe import one_line

    topology = report.topology
    bad = [
        check
        for status in (Status.FAIL, Status.UNKNOWN, Status.WARN)
        for check in report.checks
        if check.status is status
    ]
    cables = sum(link.b is not None for link in topology.links)
    about = f"{phrases.count(cables, 'link')}, {phrases.count(len(topology.nodes), 'node')}"
    found = [f"{report.verdict.value}  {about}: {_cabled(topology)}"]
    for check in (check for check in bad if check.required or check.status is not Status.UNKNOWN):
        found.append(
            f"{phrases.SIGNS[check.status]} {phrases.WORDS[check.status]}  {check.check_id} "
            f" {check.node}"
        )
        found += [
            f"      {'found ' if n == 0 else '      '}    {part}"
            for n, part in enumerate(check.found.split("; "))
        ]
        found += [f"      reason    {check.reason}"] if check.reason else []
        if check.evidence is not None:
            at = check.evidence.artefact + (
                f":{check.evidence.line_no}" if check.evidence.line_no is not None else ""
            )
            found.append(f"      seen      {at}")
    for leaf in topology.leaves[:_LEAVES]:
        found.append(
            f"  {leaf.name:<12} {fold(leaf.nodes)}  {_rails(topology, leaf.name)}".rstrip()
        )
    if len(topology.leaves) > _LEAVES:
        found.append(f"  {len(topology.leaves) - _LEAVES} more leaves in fabric.json")
    unknown: dict[tuple[str, str], list[str]] = {}
    for check in bad:
        if check.status is Status.UNKNOWN and not check.required:
            unknown.setdefault((check.check_id, check.reason), []).append(check.node)
    found += [
        f"NOT CHECKED  {check_id}  {fold(nodes)}: {reason}"
        for (check_id, reason), nodes in unknown.items()
    ]
    found += [f"NOT READ  {problem}" for problem in topology.problems[:_PROBLEMS]]
    if len(topology.problems) > _PROBLEMS:
        found.append(f"NOT READ  {len(topology.problems) - _PROBLEMS} more in fabric.json")
    counts = {status: sum(check.status is status for check in report.checks) for status in Status}
    found.append(
        f"busbw: FABRIC {report.verdict.value} {counts[Status.FAIL]} failed,"
        f" {phrases.count(counts[Status.WARN], 'warning')}, {counts[Status.PASS]} passed,"
        f" {counts[Status.UNKNOWN]} not checked  {run_dir}"
    )
    return tuple(one_line(line) for line in found)


def _cabled(topology: Topology) -> str:
    from busbw.parsers.fabric import cabling
    from busbw.parsers.fabric import checks as fabric_checks

    if not topology.links:
        return "nothing was read that tells of a link"
    return fabric_checks.describe(cabling.examine(topology))


def _rails(topology: Topology, leaf: str) -> str:
    """Which rails end on a leaf: `rail 3`; "" = adapters that are no rails."""
    rails = sorted({nic.rail for nic in topology.nics if nic.leaf == leaf and nic.rail is not None})
    return f"rail {', '.join(map(str, rails))}" if rails else ""


if TYPE_CHECKING:
    from busbw.store.plan import RunPlan

_PLAYBOOK = "day-one"
"""Its checks are the ones required, beside the fabric profile's."""
_LOCAL_S = 4.8
"""Of the whole process with --local: a prolog has to answer in 5 s."""
_LOCAL_AFTER_S = 1.7
"""Of it, to end what hangs (1.2 s where nothing heeds a signal), judge, and write."""
_LOCAL_SECTION_S = 2
_LOCAL_LEAST_S = 2.2
"""For the script, even where the machine is so busy that the start took all there was: one section
may hang and be told as hanging."""
_FRAMEWORKS = {
    "busbw": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 3},
    "nhc": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 1},
    "nagios": {"PASS": 0, "WARN": 1, "FAIL": 2, "UNKNOWN": 3},
    "npd": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 2},
}
"""Exit status by verdict: LBNL Node Health Check and Slurm's Prolog (anything but 0 takes the node
out), the Nagios plugin interface (also Meta's GCM), the custom plugins of Kubernetes'
node-problem-detector."""
_EPILOG = """\
exit status of a check, and with --local of a prolog or node-health script (--framework):

              all well   warnings   required failed   required not checked
  (default)       0          0             1                  3
  nhc             0          0             1                  1     also Slurm's Prolog and HealthCheckProgram
  nagios          0          1             2                  3
  npd             0          0             1                  2     node-problem-detector
  usage: 2, interrupted: 130

  Slurm's Prolog:   busbw check --local --framework nhc -p infiniband || exit 1
  drain by hand:    scontrol update nodename=$(hostname -s) state=drain reason="$(busbw check --local -p infiniband)"
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw check`."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument(
        "-i",
        "--inventory",
        metavar="FILE",
        help="YAML, Ansible or Open MPI hostfile; `lab` or `lab:NAME` for the embedded lab",
    )
    nodes.add_argument(
        "-w", "--nodes", metavar="HOSTLIST", help="such as gpu-[001-016]; with -i: only these of it"
    )
    nodes.add_argument("-x", "--exclude", metavar="HOSTLIST", help="leave these out")
    nodes.add_argument(
        "--local",
        action="store_true",
        help=(
            "this machine alone, in 5 s, one line for a drain reason; with -i: what the inventory"
            " expects of it"
        ),
    )
    nodes.add_argument(
        "--framework",
        choices=tuple(_FRAMEWORKS),
        default="busbw",
        help="with --local: whose exit status (table below; default busbw)",
    )
    nodes.add_argument(
        "--sudo",
        action="store_true",
        help="`sudo -n` before what only root may see: dmesg, lspci, mlnx_qos, mstconfig",
    )
    nodes.add_argument(
        "--transport",
        choices=("ssh", "openssh", "local"),
        default="ssh",
        help="how nodes are reached (default ssh)",
    )
    nodes.add_argument(
        "--accept-new-host-keys",
        action="store_true",
        help="take the key of a node never seen before; it is recorded",
    )
    nodes.add_argument(
        "-f", "--forks", type=int, default=64, metavar="N", help="nodes asked at once (default 64)"
    )
    nodes.add_argument(
        "--connect-timeout",
        type=float,
        default=10.0,
        metavar="S",
        help="limit of one connection, in seconds (default 10)",
    )
    parser.add_argument(
        "-p",
        "--profile",
        metavar="NAME",
        help="fabric profile, such as infiniband or rocev2 (default: the inventory's)",
    )
    register_fabric(parser)
    add_inside_option(parser)
    result = parser.add_argument_group("result")
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="where run directories go (default runs; with --local none is kept)",
    )
    result.add_argument(
        "--json", action="store_true", help="print check.json instead of the verdict"
    )
    console.register(result)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's."""
    from busbw.lab.enter import become_inside

    if args.local:
        return _local(args)
    if args.framework != "busbw":
        raise UsageError(
            "--framework is of node-health scripts",
            seen=f"--framework {args.framework} without --local",
            next_step="add --local",
        )
    become_inside(args.inventory)
    if wanted(args):
        return run_fabric(args, _plan)
    return _check(args, _plan(args), args.out or Path("runs"))


def _local(args: argparse.Namespace) -> int:
    if args.nodes or args.exclude:
        raise UsageError(
            "--local means this machine", seen="-w or -x beside --local", next_step="leave them out"
        )
    args.nodes = os.uname().nodename.partition(".")[0]
    args.transport = "local"
    args.quiet = True
    plan = _plan(args)
    if args.out is not None:
        return _check(args, plan, args.out)
    with tempfile.TemporaryDirectory(prefix="busbw-check-") as folder:
        return _check(args, plan, Path(folder))


def _plan(args: argparse.Namespace) -> RunPlan:
    """The plan of a run without cases."""
    from busbw.cli.console import now
    from busbw.fabrics import fabric
    from busbw.run import planning

    wanted: dict[str, object] = {
        "playbook": _PLAYBOOK,
        "env": [],
        "ranks_per_node": None,
        "temporary_keys": False,
    }
    plan = planning.new_plan(argparse.Namespace(**{**vars(args), **wanted}), started=now())
    if args.profile is None and plan.cluster.fabric is not None:
        # The playbook's fabric is what its benchmark runs over, and none runs here: what the nodes
        # have counts.
        plan = dataclasses.replace(plan, profile=fabric.load(plan.cluster.fabric))
    survey = dataclasses.replace(plan.playbook.survey, when="never")
    return dataclasses.replace(
        plan,
        playbook=dataclasses.replace(
            plan.playbook, name="check", cases=(), gates=(), survey=survey
        ),
    )


def _check(args: argparse.Namespace, plan: RunPlan, out: Path) -> int:
    from busbw.cli.console import Console, now
    from busbw.run import checking
    from busbw.store import artefacts, run_directory

    screen = Console(quiet=args.quiet, verbose=args.verbose)
    directory = run_directory.create(out, plan.started, "check")
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    for note in plan.cluster.notes:
        screen.say("note", note)
    transport = transport_of(args, plan)
    within_s, section_s = (_local_within_s(), _LOCAL_SECTION_S) if args.local else (None, None)
    limits = checking.Limits(within_s, section_s, sudo=args.sudo)
    signal.signal(signal.SIGTERM, _as_interrupt)
    shown = os.path.relpath(directory.path)
    try:
        with screen:
            report = checking.check(directory, plan, transport, limits, say=screen.say, now=now)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted before the checks ended",
            seen=f"{shown}/raw",
            next_step="busbw check again",
        ) from stop
    if args.json:
        sys.stdout.write((directory.path / "check.json").read_text(encoding="utf-8"))
    elif args.local:
        sys.stdout.write(f"{drain_reason(report)}\n")
    else:
        lines = check_lines(report, shown)
        sys.stdout.write(printed(lines[-1:] if args.quiet else lines, console.width()))
    return _FRAMEWORKS[args.framework][report.verdict.value] if args.local else report.exit_status


def _local_within_s() -> float:
    """How long the script of --local may take: what the start of this process has left."""
    return max(_LOCAL_LEAST_S, _LOCAL_S - _LOCAL_AFTER_S - (_age_s() or 0.5))


def _age_s() -> float | None:
    """Seconds since this process was started; None = the system does not tell."""
    try:
        fields = (
            Path("/proc/self/stat")
            .read_text(encoding="ascii", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _as_interrupt(number: int, frame: object) -> None:
    """SIGTERM ends a check as Ctrl-C does: connections are closed, what was answered is kept."""
    raise KeyboardInterrupt(f"signal {number}")
