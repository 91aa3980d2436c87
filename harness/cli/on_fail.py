"""`--on-fail`: what a command that ends in a verdict does with the nodes that failed, where asked."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

from busbw.cli import write_message
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.act.suspects import Suspect
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir

_AT_MOST = "5%"


def register(parser: argparse.ArgumentParser) -> None:
    """The options, equal for every command that may act."""
    group = parser.add_argument_group("acting on failed nodes (docs/operations.md)")
    group.add_argument(
        "--on-fail",
        metavar="ACTION",
        help=(
            "drain (Slurm), cordon (Kubernetes), or a shell command that gets $NODE and $REASON;"
            " only printed without --act"
        ),
    )
    group.add_argument(
        "--undo", metavar="COMMAND", help="with a command: what undoes it, for busbw undrain"
    )
    group.add_argument(
        "--at-most",
        default=_AT_MOST,
        metavar="N|M%",
        help=(
            "nodes that busbw may hold out of service, as a number or a share (default 5%%, one at"
            " least); if it would be more, none is taken out"
        ),
    )
    group.add_argument("--act", action="store_true", help="really do it")


def check(args: argparse.Namespace) -> None:
    """What can be known to fail before hours of measuring.

    Raises:
        UsageError: the options do not go together, or the scheduler's program is not here.
    """
    if args.on_fail is None:
        if args.act or args.undo:
            raise UsageError(
                "--act and --undo need an action",
                seen="no --on-fail",
                next_step="add --on-fail drain, cordon or a command",
            )
        return
    from busbw.act.schedulers import Program, scheduler
    from busbw.act.take_out import at_most

    try:
        at_most(args.at_most, 1)
    except ValueError as error:
        raise UsageError(
            "--at-most is no limit", seen=str(error), next_step="such as --at-most 2"
        ) from error
    system = scheduler(args.on_fail, args.undo or "")
    if isinstance(system, Program) != bool(args.undo):
        seen = f"--on-fail {args.on_fail}" + (f" --undo {args.undo}" if args.undo else "")
        raise UsageError(
            "a command needs --undo, drain and cordon know their own",
            seen=seen,
            next_step="--on-fail 'ticket open $NODE' --undo 'ticket close $NODE'",
        )
    if args.act and shutil.which(system.program) is None:
        raise UsageError(
            f"--on-fail {args.on_fail} needs {system.program} on this machine",
            seen=f"no {system.program} on PATH",
            next_step="run busbw where the scheduler's commands are",
        )


def act(
    args: argparse.Namespace, run: RunDir, plan: RunPlan, suspects: tuple[Suspect, ...]
) -> None:
    """Do it, or say what would be done, on standard error. The verdict stands whatever happens."""
    from busbw.act.schedulers import scheduler
    from busbw.act.take_out import take_out
    from busbw.cli import console

    done = take_out(
        run,
        plan,
        suspects,
        scheduler(args.on_fail, args.undo or ""),
        args.at_most,
        act=args.act,
        now=console.now,
    )
    warning = "warning: " if done.problem else ""
    write_message("".join(f"busbw: {warning}{line}\n" for line in done.lines))
