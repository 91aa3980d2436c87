"""`busbw check --path`: the path NCCL will use between the nodes, tried without a GPU."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from busbw.cli import check_asked

if TYPE_CHECKING:
    from busbw.plan import RunPlan

SCHEMA = "busbw.path/1"


def register(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument_group("path").add_argument(
        "--path",
        action="store_true",
        help="the path between the nodes instead: the launcher's ssh, an mpirun hello, TCP ports, the interface that NCCL chooses",
    )


def run(args: argparse.Namespace, plan: RunPlan) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        ReachError: no node could be reached.
    """
    from busbw.derive import probe as derived
    from busbw.preflight.software import facts
    from busbw.stages import probe

    with check_asked.asked(args, plan, "path") as nodes:
        probe.attempt(nodes.context, {answer.node.name: facts(answer) for answer in nodes.answers})
    return check_asked.tell(args, nodes.run, SCHEMA, derived.load(nodes.run))
