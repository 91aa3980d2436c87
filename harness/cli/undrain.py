"""`busbw undrain`: check the nodes again that `--on-fail` took out of service, and put those back
that pass."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_message, write_text
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.act.records import Action
    from busbw.act.undrain import Outcome
    from busbw.run.checking import CheckReport
    from busbw.store.plan import RunPlan
    from busbw.store.run_directory import RunDir


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw undrain`."""
    from busbw.cli import console, options

    parser.add_argument(
        "what", metavar="NODES|RUN", help="such as gpu-[003-004], or the run that took them out"
    )
    options.add_out(parser)
    parser.add_argument(
        "--measured",
        type=Path,
        metavar="RUN",
        help="a later run that measured the nodes: needed where a measurement named them",
    )
    parser.add_argument(
        "--sudo",
        action="store_true",
        help="`sudo -n` before what only root may see, as for busbw check",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check, and say what would be put back"
    )
    options.add_trust(parser)
    console.register(parser.add_argument_group("result"))


def run(args: argparse.Namespace) -> int:
    """Do it. 0 = all are in service, 1 = one failed again, 3 = one could not be checked, or is held
    for another reason."""
    from busbw.run import planning

    matching = _matching(args)
    plans = [
        (directory, _plan(directory, actions, args.trust), actions)
        for directory, actions in matching
    ]
    measured = None
    if args.measured is not None:
        from busbw import assess
        from busbw.store import run_directory

        measured = assess.derive(run_directory.open_existing(args.measured))
    planning.enter_lab(plans[0][1])
    from busbw.act import undrain
    from busbw.cli import console
    from busbw.store import run_directory

    outcomes: list[Outcome] = []
    for directory, plan, actions in plans:
        with run_directory.locked(directory):
            report = _checked(args, plan)
            outcomes += undrain.undrain(
                directory, plan, actions, report, measured, act=not args.dry_run, now=console.now
            )
    write_text("".join(f"{each.node}: {each.text}\n" for each in outcomes))
    statuses = {each.exit_status for each in outcomes}
    return next((status for status in (1, 3) if status in statuses), 0)


def _matching(args: argparse.Namespace) -> list[tuple[RunDir, tuple[Action, ...]]]:
    """Runs with what they did and nobody undid."""
    from busbw.act import records
    from busbw.inventory.hostlist import expand
    from busbw.store import run_directory

    if (Path(args.what) / "raw").is_dir():
        directory = run_directory.open_existing(Path(args.what))
        matching = [(directory, records.of(directory))]
    else:
        if not args.out.is_dir():
            raise UsageError(
                f"no folder {args.out}",
                seen="no such directory",
                next_step="give the folder of the run directories: -o DIR",
            )
        nodes = set(expand(args.what))
        others = records.of_folder(args.out.resolve())
        matching = [
            (each, tuple(action for action in actions if action.node in nodes))
            for each, actions in others.runs
        ]
        write_message("".join(f"busbw: not read: {why}\n" for why in others.unreadable))
    open_ = [(each, actions) for each, actions in matching if actions]
    if not open_:
        raise UsageError(
            f"nothing to undrain: {args.what}",
            seen="no run holds it out of service",
            next_step=f"give the run that took it out, or its folder: -o DIR (now {args.out})",
        )
    return open_


def _plan(directory: RunDir, actions: tuple[Action, ...], trust: bool) -> RunPlan:
    """The plan of the run, where this account may act on it."""
    from busbw import assess
    from busbw.act import records
    from busbw.store import own_plans

    own_plans.require_plan(directory.path, trust=trust)
    for action in actions:
        if not (trust or records.is_own(action)):
            raise UsageError(
                f"the record of {action.node} was not made by this account: nothing is undone",
                seen=f"{directory.shown}/raw/actions/{action.node}.json",
                next_step="read it; if you trust it, give --trust",
            )
    return assess.load_plan(directory)


def _checked(args: argparse.Namespace, plan: RunPlan) -> CheckReport:
    """All nodes of the plan again: some checks compare them with each other."""
    from busbw.cli import check, console
    from busbw.run import checking

    directory, again = check.new_directory(
        checking.without_cases(plan, console.now()), args.out, "undrain"
    )
    screen = console.Console(quiet=args.quiet, verbose=args.verbose)
    with screen:
        return checking.check(
            directory,
            again,
            checking.Access().transport(again),
            checking.Limits(sudo=args.sudo),
            progress=screen.progress,
            now=console.now,
        )
