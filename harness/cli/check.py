"""`busbw check`: check every node against its expected configuration, and against the other nodes.
Reads only, in one round trip; `--fabric`, `--path`, `--gpus` and `--links` are checks of their own."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import check_options, console, on_fail, stop_signals
from busbw.cli.check_text import check_lines, drain_reason, fabric_lines
from busbw.codec import dump_json
from busbw.errors import Interrupted, UsageError
from busbw.run import checking
from busbw.run.checking import Access, CheckReport, Limits

if TYPE_CHECKING:
    from busbw.model import CheckResult, Node
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir

_PLAYBOOK = "day-one"
"""Its checks are the ones required, besides the fabric profile's."""
_LINK_BUDGET_S = 300.0
_LOCAL_S = 4.8
"""Of the whole process with --local: a prolog has to answer in 5 s."""
_LOCAL_AFTER_S = 1.7
"""Of it, to end what hangs (1.2 s where nothing heeds a signal), judge, and write."""
_LOCAL_SECTION_S = 2
_LOCAL_LEAST_S = 2.2
"""For the script, even where the machine is so busy that the start took all there was: one section
may hang and be reported as hanging."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw check`."""
    check_options.add(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        Interrupted: a signal came.
    """
    stop_signals.interrupt()
    try:
        return _run(args)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted before the check ended", next_step="start the same command again"
        ) from stop


def _run(args: argparse.Namespace) -> int:
    from busbw.lab.enter import become_inside

    on_fail.check(args)
    if args.local or args.path or args.fabric or args.fabric_file or args.replay is not None:
        _refuse_acting(args)
    if args.local:
        return _local(args)
    if args.framework != "busbw":
        raise UsageError(
            "--framework is of node-health scripts",
            seen=f"--framework {args.framework} without --local",
            next_step="add --local",
        )
    become_inside(args.inventory)
    kinds = (
        (bool(args.fabric or args.fabric_file or args.fabric_host), _fabric),
        (args.path, _path),
        (args.gpus, _gpus),
        (args.links, _links),
    )
    given = [check for is_given, check in kinds if is_given]
    if len(given) > 1:
        raise UsageError(
            "--fabric, --path, --gpus and --links are four checks",
            seen="more than one of them was given",
            next_step="give one after the other",
        )
    if given:
        return given[0](args)
    if args.budget is not None or args.memory != "host" or args.replay is not None:
        raise UsageError(
            "--budget, --memory and --replay are of --links",
            seen="one of them without it",
            next_step="add --links",
        )
    return _nodes(args, _plan(args), args.out or Path("runs"))


def _refuse_acting(args: argparse.Namespace) -> None:
    if args.on_fail is not None:
        raise UsageError(
            "--on-fail acts on nodes that failed their own checks",
            seen="it was given with --local, --path, --fabric or --replay",
            next_step="leave it out; on a node by itself: --local --framework nhc",
        )


def _local(args: argparse.Namespace) -> int:
    if args.nodes or args.exclude:
        raise UsageError(
            "--local means this machine", seen="-w or -x with --local", next_step="leave them out"
        )
    args.nodes = os.uname().nodename.partition(".")[0]
    args.transport = "local"
    args.quiet = True
    plan = _plan(args)
    if args.out is not None:
        return _nodes(args, plan, args.out)
    with tempfile.TemporaryDirectory(prefix="busbw-check-") as folder:
        return _nodes(args, plan, Path(folder))


def _plan(args: argparse.Namespace) -> RunPlan:
    """The plan of a run without cases."""
    from busbw.cli.console import now
    from busbw.fabrics import profiles
    from busbw.run import planning

    options = planning.RunOptions(
        playbook=_PLAYBOOK,
        inventory=args.inventory,
        nodes=args.nodes,
        exclude=args.exclude,
        # A prolog runs as root in the folder of the job: what lies there decides nothing.
        here=not args.local,
        transport=args.transport,
        profile=args.profile,
        forks=args.forks,
        connect_timeout_s=args.connect_timeout,
    )
    plan = planning.new_plan(options, started=now())
    if args.profile is None and plan.cluster.fabric is not None:
        # The playbook's fabric is what its benchmark runs over, and none runs here: what the nodes
        # have counts.
        plan = dataclasses.replace(plan, profile=profiles.load(plan.cluster.fabric))
    return checking.without_cases(plan, plan.started)


def _access(args: argparse.Namespace) -> Access:
    return Access(accept_new_host_keys=args.accept_new_host_keys, inside=args.inside)


def new_directory(plan: RunPlan, out: Path, kind: str) -> tuple[RunDir, RunPlan]:
    """A run directory with its plan in it."""
    from busbw.store import artefacts, own_plans, run_directory

    directory = run_directory.create(out, plan.started, kind)
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    own_plans.note(directory.read_raw("plan.json") or b"")
    return directory, plan


def _nodes(args: argparse.Namespace, plan: RunPlan, out: Path) -> int:
    """The checks of the nodes themselves."""
    screen = console.Console(quiet=args.quiet, verbose=args.verbose)
    directory, plan = new_directory(plan, out, "check")
    for note in plan.cluster.notes:
        screen.progress("note", note)
    transport = _access(args).transport(plan)
    limits = Limits(sudo=args.sudo)
    if args.local:
        limits = Limits(_local_within_s(), _LOCAL_SECTION_S, sudo=args.sudo)
    relative_path = directory.shown
    try:
        with screen:
            report = checking.check(
                directory, plan, transport, limits, progress=screen.progress, now=console.now
            )
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted before the checks ended",
            seen=f"{relative_path}/raw",
            next_step="start the same command again",
        ) from stop
    _act(args, directory, plan, report)
    if args.json:
        sys.stdout.write(directory.read_derived("check.json").decode())
    elif args.local:
        sys.stdout.write(f"{drain_reason(report)}\n")
    else:
        lines = check_lines(report, relative_path, plan)
        sys.stdout.write(console.shown(lines[-1:] if args.quiet else lines))
    return (
        check_options.FRAMEWORKS[args.framework][report.verdict.value]
        if args.local
        else report.exit_status
    )


def _act(args: argparse.Namespace, directory: RunDir, plan: RunPlan, report: CheckReport) -> None:
    if args.on_fail is not None:
        from busbw.act import suspects

        on_fail.act(args, directory, plan, suspects.of_checks(report.checks))


def _path(args: argparse.Namespace) -> int:
    """The path that NCCL will use between the nodes, tried without a GPU."""
    from busbw.assess import network_path as path_results
    from busbw.checks.software import facts
    from busbw.run import network_path

    screen = console.Console(quiet=args.quiet or args.json)
    directory, plan = new_directory(_plan(args), args.out or Path("runs"), "path")
    transport = _access(args).transport(plan)
    with checking.probed(
        directory, plan, transport, progress=screen.progress, now=console.now
    ) as nodes:
        facts_by_node = {answer.node.name: facts(answer) for answer in nodes.answers}
        network_path.attempt(nodes.context, facts_by_node)
    return _shown(args, directory, plan, network_path.SCHEMA, path_results.load(directory))


def _gpus(args: argparse.Namespace) -> int:
    """Each GPU by itself; refused while other jobs run."""
    from busbw.assess import requested_checks
    from busbw.run import gpus
    from busbw.store import run_directory

    screen = console.Console(quiet=args.quiet or args.json)
    plan = dataclasses.replace(_plan(args), force=args.force)
    directory, plan = new_directory(plan, args.out or Path("runs"), "gpus")
    transport = _access(args).transport(plan)
    with (
        run_directory.withdrawn_if_refused(directory),
        checking.probed(
            directory, plan, transport, progress=screen.progress, now=console.now
        ) as nodes,
    ):
        gpus.measure(nodes, args.dcgm)
    return _shown(args, directory, plan, gpus.SCHEMA, requested_checks.gpus(directory))


def _links(args: argparse.Namespace) -> int:
    """Every rail of every node; refused while other jobs run."""
    from busbw.assess import links as link_results
    from busbw.run import links, planning
    from busbw.store import run_directory
    from busbw.units import parse_duration

    try:
        budget_s = parse_duration(args.budget) if args.budget is not None else _LINK_BUDGET_S
    except ValueError as error:
        raise UsageError(f"--budget: {error}") from error
    screen = console.Console(quiet=args.quiet or args.json)
    out = args.out or Path("runs")
    memories: tuple[str, ...] = ("host", "gpu") if args.memory == "both" else (args.memory,)
    sudo = args.sudo
    if args.replay is not None:
        recording, directory, plan, transport = planning.replayed(args.replay, out, console.now())
        budget_s, memories, sudo = links.recorded(recording)
        screen.progress("note", f"replay of {recording.run_id}: no node is contacted")
    else:
        plan = dataclasses.replace(_plan(args), force=args.force)
        directory, plan = new_directory(plan, out, "links")
        transport = _access(args).transport(plan)
    with (
        run_directory.withdrawn_if_refused(directory),
        checking.probed(
            directory, plan, transport, progress=screen.progress, now=console.now
        ) as nodes,
    ):
        links.measure(nodes, budget_s, memories=memories, sudo=sudo)
    plan = nodes.context.plan
    return _shown(args, directory, plan, links.SCHEMA, link_results.checks(directory, plan))


def _shown(
    args: argparse.Namespace,
    directory: RunDir,
    plan: RunPlan,
    schema: str,
    checks: tuple[CheckResult, ...],
) -> int:
    report: CheckReport = checking.report_of(directory, schema, checks)
    _act(args, directory, plan, report)
    if args.json:
        sys.stdout.write(dump_json(report))
    else:
        lines = check_lines(report, directory.shown, plan)
        sys.stdout.write(console.shown(lines[-1:] if args.quiet else lines))
    return report.exit_status


def _fabric(args: argparse.Namespace) -> int:
    """The fabric's side of the cluster, from its tools or from their files."""
    from busbw.run import fabric_side
    from busbw.store import run_directory

    screen = console.Console(quiet=args.quiet or args.json)
    started = console.now()
    if args.fabric_file:
        directory = run_directory.create(args.out or Path("runs"), started, "fabric")
        fabric_side.take_files(directory, _listed_nodes(args), args.fabric_file)
        report = fabric_side.conclude(directory, started)
        _keep_plan(args, directory, report.topology.nodes, started)
    else:
        directory, plan = new_directory(_plan(args), args.out or Path("runs"), "fabric")
        transport = dataclasses.replace(_access(args), inside=None).transport(plan)
        fabric_side.reach_and_ask(
            directory, plan, transport, args.fabric_host, sudo=args.sudo, progress=screen.progress
        )
        report = fabric_side.conclude(directory, started)
    if args.json:
        sys.stdout.write(dump_json(report))
    else:
        lines = fabric_lines(report, directory.shown)
        sys.stdout.write(console.shown(lines[-1:] if args.quiet else lines))
    return report.exit_status


def _listed_nodes(args: argparse.Namespace) -> tuple[Node, ...]:
    """The nodes of the inventory; () = none is given, then every host in the files is a node."""
    from busbw import inventory

    if args.inventory is None and args.nodes is None:
        return ()
    return inventory.resolve(args.inventory, args.nodes, args.exclude, {}).nodes


def _keep_plan(
    args: argparse.Namespace, directory: RunDir, nodes: tuple[str, ...], started: str
) -> None:
    """So that `busbw report` knows the run: with the nodes of the inventory, else with those in
    the files. Without any there is no plan."""
    from busbw.store import artefacts

    if args.inventory is None and args.nodes is None:
        args.nodes = ",".join(nodes)
    if args.inventory is not None or args.nodes:
        plan = dataclasses.replace(_plan(args), run_id=directory.run_id, started=started)
        artefacts.keep(directory, "plan.json", plan)


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
