"""`busbw run` and Slurm: the launcher that is used, and an allocation of its own where none is there."""

from __future__ import annotations

import argparse
import os
import sys

from busbw.errors import LaunchError, UsageError

PMLS = ("ob1", "ucx")


def register(parser: argparse.ArgumentParser) -> None:
    """Options of the launcher."""
    group = parser.add_argument_group("launcher")
    group.add_argument(
        "--launcher",
        metavar="NAME",
        help="mpirun (over ssh), srun, slurm-mpirun (mpirun, its daemons started by srun), or mpijob; default: the inventory's, else mpirun",
    )
    group.add_argument("--pml", choices=PMLS, help="what carries MPI's own few words: ob1 over TCP, or UCX (default: the profile's)")
    group.add_argument("--mpi", metavar="PLUGIN", help="for srun --mpi (default: pmix or pmi2, as srun --mpi=list names them)")
    group.add_argument("--partition", metavar="NAME", help="ask Slurm for an allocation there, run in it, give it back")
    group.add_argument("--time", metavar="TIME", help="limit of that allocation as salloc takes it: 30 (minutes), 2:00:00")
    group.add_argument("--node-count", type=int, metavar="N", help="any N nodes of it, where neither -w nor -i names them")
    group.add_argument(
        "--salloc", action="append", default=[], metavar="OPTION", help="any other option of salloc, such as --salloc=--account=x"
    )


def become_allocated(args: argparse.Namespace) -> None:
    """Where an allocation is asked for and none is there: start this command over inside `salloc`. Does not return then.

    Raises:
        UsageError: the options do not say which nodes.
        LaunchError: there is no salloc on this machine.
    """
    from busbw import inventory, planning
    from busbw.derive import load_plan
    from busbw.launch import allocating
    from busbw.rundir import open_existing

    if "SLURM_JOB_ID" in os.environ or args.dry_run or args.replay or args.launcher == "mpijob":
        return
    asked = planning.salloc_options(args)
    nodes: tuple[str, ...] = ()
    if args.resume:
        plan = load_plan(open_existing(args.resume))
        planning.enter_lab(plan)
        asked, nodes = asked or plan.salloc, tuple(node.name for node in plan.cluster.nodes)
    if not asked and args.node_count is None:
        return
    if not args.resume and (args.nodes or args.inventory):
        nodes = tuple(node.name for node in inventory.resolve(args.inventory, args.nodes, args.exclude, os.environ).nodes)
    elif not args.resume and args.exclude:
        raise UsageError("-x without -w or -i", seen=f"-x {args.exclude}", next_step=f"--salloc=--exclude={args.exclude}")
    argv = allocating.salloc(asked, nodes, args.node_count, (sys.executable, "-m", "busbw", *sys.argv[1:]))
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise LaunchError(
            "no allocation can be asked for from here", seen=f"salloc: {error}", next_step="run busbw on a login node of the Slurm cluster"
        ) from error
