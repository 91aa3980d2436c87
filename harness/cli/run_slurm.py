"""`busbw run` under Slurm: an allocation of the run's own where none is there."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.cli.run_options import options_of
from busbw.errors import LaunchError, UsageError
from busbw.launch.choose import choose

if TYPE_CHECKING:
    from busbw.run.planning import RunOptions

_SLURM_ANSWERS_S = 30.0


def become_allocated(args: argparse.Namespace) -> None:
    """Where an allocation is requested and none is there: start this command over inside `salloc`.
    Does not return then.

    Raises:
        UsageError: the options do not say which nodes.
        LaunchError: there is no salloc on this machine.
    """
    from busbw.launch import salloc

    if "SLURM_JOB_ID" in os.environ or args.replay or (args.dry_run and args.resume):
        return
    if choose(args.launcher).creates_nodes:
        return
    options, nodes = _requested(args)
    if not options and args.node_count is None:
        return
    if args.dry_run:
        words = [word for word in sys.argv[1:] if word != "--dry-run"]
        asked = salloc.salloc(options, nodes, args.node_count, ("busbw", *words))
        sys.stdout.write(f"{shlex.join(asked)}\n\n")
        if not nodes:
            args.nodes = _any(args.node_count)
        return
    own = (sys.executable, "-m", "busbw", *sys.argv[1:])
    argv = salloc.salloc(options, nodes, args.node_count, own)
    if not args.resume:
        _require_options(options_of(args), args.node_count)
    _require_slurm()
    _become(argv)


def _requested(args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options of the allocation and its nodes, by name: those of a run that goes on are the run's.
    () = none are given.

    Raises:
        UsageError: nodes are left out of none.
    """
    from busbw import inventory
    from busbw.assess import load_plan
    from busbw.run import planning
    from busbw.store.run_directory import open_existing

    options = planning.salloc_options(options_of(args))
    if args.resume:
        plan = load_plan(open_existing(args.resume))
        planning.enter_lab(plan)
        return options or plan.salloc, tuple(node.name for node in plan.cluster.nodes)
    if not options and args.node_count is None:
        return (), ()
    if args.nodes or args.inventory:
        found = inventory.resolve(args.inventory, args.nodes, args.exclude, os.environ)
        return options, tuple(node.name for node in found.nodes)
    if args.exclude:
        raise UsageError(
            "-x without -w or -i",
            seen=f"-x {args.exclude}",
            next_step=f"--salloc=--exclude={args.exclude}",
        )
    return options, ()


def _become(argv: tuple[str, ...]) -> None:
    """Run `salloc` in the place of this process."""
    sys.stdout.flush()
    # salloc ends with 1 where it gets no allocation, which would read as "measured and failed".
    failed = str(LaunchError.exit_status)
    environ = {**os.environ, "SLURM_EXIT_ERROR": failed, "SLURM_EXIT_IMMEDIATE": failed}
    try:
        os.execvpe(argv[0], argv, environ)
    except OSError as error:
        raise _no_slurm(f"salloc: {error}") from error


def _require_options(options: RunOptions, count: int | None) -> None:
    """The options make a plan: nobody waits in a queue for nodes to learn that they do not.

    Raises:
        UsageError: one of them is wrong.
        InventoryError: the inventory is.
    """
    from busbw.run import binaries, planning

    if options.nodes is None and options.inventory is None:
        # Which nodes it will be Slurm says: their number is all that counts here.
        options = replace(options, nodes=_any(count), exclude=None, treatment=None)
    binaries.benchmark(options.nccl_tests, planning.new_plan(options), fetch=False)


def _any(count: int | None) -> str:
    """Names that stand for the nodes which Slurm will choose."""
    return f"node[1-{count}]"


def _require_slurm() -> None:
    """A controller of Slurm answers here.

    Raises:
        LaunchError: none does.
    """
    asking = ("sinfo", "--noheader", "--format=%P")
    try:
        answer = subprocess.run(
            asking, capture_output=True, text=True, timeout=_SLURM_ANSWERS_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_slurm(f"sinfo: {error}") from error
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines()
        raise _no_slurm(lines[-1] if lines else f"sinfo: exit status {answer.returncode}")


def _no_slurm(seen: str) -> LaunchError:
    return LaunchError(
        "this machine cannot request an allocation",
        seen=seen,
        next_step="run busbw on a login node of the Slurm cluster",
    )
