"""`busbw cleanup RUN`: end and remove on the nodes whatever a run that was cut off has left there.
Nothing is measured."""

from __future__ import annotations

import argparse
from collections import defaultdict

from busbw.cli import options, write_text

_MEASURE_ERROR = 3


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw cleanup`."""
    options.add_run(parser)
    options.add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Clean up; exit status 0 = nothing of the run is left on any node, 3 = on some it may be."""
    from busbw import assess
    from busbw.inventory.hostlist import fold
    from busbw.run import cleanup, planning
    from busbw.store import own_plans, run_directory
    from busbw.transport.choose import make
    from busbw.transport.fanout import open_fleet

    directory = run_directory.open_existing(args.run)
    own_plans.require_plan(directory.path, trust=args.trust)
    plan = assess.load_plan(directory)
    planning.enter_lab(plan)
    with run_directory.locked(directory):
        transport = make(plan.transport, ssh_config=plan.cluster.ssh_config)
        limit_s = plan.connect_timeout_s
        deadline_s = 2 * limit_s * (1 + len(plan.cluster.nodes) // plan.forks) + 10
        with open_fleet(
            plan.cluster,
            transport,
            forks=plan.forks,
            connect_timeout_s=limit_s,
            deadline_s=deadline_s,
        ) as fleet:
            cleaned = cleanup.clean(fleet, plan.run_id)
    nodes_by_outcome: defaultdict[str, list[str]] = defaultdict(list)
    for node in cleaned:
        done = [f"ended {node.ended} processes"] if node.ended else []
        done += [f"removed {path}" for path in node.removed]
        nodes_by_outcome[
            f"NOT CLEAN: {node.problem}" if node.problem else "; ".join(done) or "nothing was left"
        ].append(node.node)
    write_text("".join(f"{fold(nodes)}: {text}\n" for text, nodes in nodes_by_outcome.items()))
    bad = [node.node for node in cleaned if node.problem]
    if bad:
        write_text(f"try again when {fold(bad)} can be reached: busbw cleanup {directory.shown}\n")
    return _MEASURE_ERROR if bad else 0
