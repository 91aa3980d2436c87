"""`busbw run`: check the nodes, build, measure, judge, report."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from busbw.cli import console, on_fail, outputs, run_options, stop_signals
from busbw.cli.run_kubernetes import Pods, workers
from busbw.cli.run_slurm import become_allocated
from busbw.errors import Interrupted, RunDirError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbw.model import RunResult
    from busbw.reports.terminal import Line
    from busbw.run.planning import Prepared


_INSISTS = 3
"""Signals after which a run stops without cleaning up."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw run`."""
    run_options.add_all(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's."""
    from busbw.lab.enter import become_inside

    if args.resume and args.replay:
        raise UsageError(
            "--resume and --replay exclude each other",
            seen="both were given",
            next_step="give one of them",
        )
    outputs.check(args)
    on_fail.check(args)
    if args.act and args.replay:
        raise UsageError(
            "a replay acts on no node",
            seen="--act with --replay",
            next_step="leave --act out: what would be done is printed",
        )
    if args.fabric_file:
        # A name that is no file is refused before a node is asked, and in a dry run too.
        from busbw import intake

        intake.expand(args.fabric_file)
    if not (args.dry_run or args.resume or args.replay):
        # Before anything heavy is imported: the command starts over inside the lab.
        become_inside(args.inventory)
    if args.resume:
        from busbw.store import own_plans, run_directory

        own_plans.require_plan(run_directory.open_existing(args.resume).path, trust=args.trust)
    become_allocated(args)
    from busbw.run import binaries, planning

    with workers(args) as pods, ExitStack() as stack:
        if args.dry_run:
            from busbw.run.dry_run import dry_run

            options = run_options.options_of(args)
            plan = planning.new_plan(options)
            benchmark = binaries.benchmark(options.nccl_tests, plan, fetch=False)
            sys.stdout.write(dry_run(plan, benchmark, verbose=args.verbose > 0))
            return 0
        return _execute(args, pods, stack)


def _take_open_ones(prepared: Prepared, screen: console.Console) -> None:
    """The surveys beside it that left open who is slow count as well, and a line says so."""
    from busbw.survey import earlier

    if prepared.plan.playbook.survey.when == "never":
        return
    others = earlier.left_open(prepared.run, prepared.plan)
    if not others:
        return
    earlier.take(prepared.run, prepared.plan, [other.path for other in others], unasked=True)
    names = ", ".join(other.run_id for other in others)
    screen.progress(
        "note",
        f"surveys that left open who is slow count too, unless this run finds the part good: {names}"
        " (--fresh: they do not)",
    )


def _execute(args: argparse.Namespace, pods: Pods, stack: ExitStack) -> int:
    from busbw.cli.console import Console, steady
    from busbw.reports import terminal
    from busbw.store import run_directory

    screen, now = Console(quiet=args.quiet, verbose=args.verbose), steady()
    stop_signals.interrupt()
    try:
        prepared = _prepare(args, now, pods, stack)
        _take_earlier_surveys(args, prepared, screen)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "interrupted before a node was contacted; nothing was measured",
            next_step="start the same command again",
        ) from stop
    for note in prepared.notes:
        screen.progress("note", note)
    shown = prepared.run.shown
    # A resumed run has measured before: it stays.
    refused = nullcontext() if args.resume else run_directory.withdrawn_if_refused(prepared.run)
    with refused:
        result = _measure(prepared, screen, now, shown)
    lines = terminal.verdict_lines(result, shown)
    if args.on_fail is not None:
        from busbw.act import suspects

        on_fail.act(args, prepared.run, prepared.plan, suspects.of_run(result))
    if args.json:
        sys.stdout.write(prepared.run.read_derived("run.json").decode())
    else:
        _print(result, lines, quiet=args.quiet)
    return outputs.deliver(args, prepared.run.path, result, lines[-1].text)


def _prepare(
    args: argparse.Namespace, now: Callable[[], str], pods: Pods, stack: ExitStack
) -> Prepared:
    from busbw.run import fabric_side, planning

    prepared = planning.prepare(run_options.options_of(args), now(), stack)
    pods.serve(prepared.run)
    if args.fabric_file:
        fabric_side.take_files(prepared.run, prepared.plan.cluster.nodes, args.fabric_file)
    return prepared


def _take_earlier_surveys(
    args: argparse.Namespace, prepared: Prepared, screen: console.Console
) -> None:
    """Let the surveys count that the user named, those of the run that is replayed, or those that
    left open who is slow."""
    from busbw.survey import earlier

    if args.replay is not None:
        earlier.carry(args.replay, prepared.run)
    elif args.with_:
        earlier.take(prepared.run, prepared.plan, args.with_)
    elif not (args.resume or args.fresh):
        _take_open_ones(prepared, screen)


def _measure(
    prepared: Prepared, screen: console.Console, now: Callable[[], str], shown: str
) -> RunResult:
    """Run every step. `shown`: the run's folder as the user types it.

    Raises:
        Interrupted: a signal came.
        RunDirError: an artefact could not be written or read.
    """
    from busbw.run import pipeline

    stopping = _Stopping()
    stop_signals.handle(stopping)
    try:
        with screen:
            return pipeline.execute(
                prepared.run,
                prepared.plan,
                prepared.transport,
                prepared.benchmark,
                progress=screen.progress,
                now=now,
            )
    except KeyboardInterrupt as stop:
        steps = (
            f"busbw run --resume {shown}"
            if stopping.signals < _INSISTS
            else f"busbw cleanup {shown}, for the nodes were not cleaned up"
        )
        raise Interrupted(
            "interrupted; what was measured is kept", seen=f"{shown}/report.html", next_step=steps
        ) from stop
    except RunDirError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            error.next_step = (
                f"make room, then busbw run --resume {shown}: finished steps are not repeated"
            )
        raise


def _print(result: RunResult, lines: tuple[Line, ...], *, quiet: bool) -> None:
    from busbw.reports import terminal
    from busbw.reports.sections import interleaved

    if quiet:
        sys.stdout.write(console.shown(lines[-1:]))
        return
    compared = tuple(terminal.Line(text) for text in interleaved.lines(result))
    sys.stdout.write(console.shown(compared))
    sys.stdout.write(console.shown(lines))


class _Stopping:
    """Ctrl-C, SIGTERM and a lost terminal end a run alike: cleaned up, reported, resumable. The second
    signal is answered with a request to wait for that."""

    def __init__(self) -> None:
        self.signals = 0

    def __call__(self, number: int, frame: object) -> None:
        self.signals += 1
        if 1 < self.signals < _INSISTS:
            # Not through the console: a signal may come while it writes.
            os.write(
                2,
                b"\nbusbw: the nodes are being cleaned up; a third signal leaves them as they"
                b" are\n",
            )
            return
        raise KeyboardInterrupt(f"signal {number}")
