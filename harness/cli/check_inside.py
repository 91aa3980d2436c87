"""How `busbw check` reaches the nodes, and `--inside`: checks in the job's own context instead of the login shell's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.plan import RunPlan
    from busbw.transport import Transport


def register(parser: argparse.ArgumentParser) -> None:
    """The option."""
    group = parser.add_argument_group("context")
    group.add_argument(
        "--inside",
        metavar="PREFIX",
        help="run every check behind this on the node, such as 'docker exec -i train': the job's limits, devices, libraries",
    )


def transport(args: argparse.Namespace, plan: RunPlan) -> Transport:
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
        way = make(plan.transport, ssh_config=plan.cluster.ssh_config, accept_new_host_keys=args.accept_new_host_keys)
    return InsideTransport(way, prefix) if prefix else way
