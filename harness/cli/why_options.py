"""The options of `busbw why` that concern a live job: here, because why a log failed needs nothing of
what reads live jobs."""

from __future__ import annotations

import argparse

from busbw.cli import options


def register_live(parser: argparse.ArgumentParser) -> None:
    """The options of `busbw why` that concern a live job."""
    live = parser.add_argument_group(
        "a job that runs or hangs now (reads only: nothing is changed, restarted or signalled)"
    )
    live.add_argument(
        "--live",
        action="store_true",
        help="take two samples of the job's nodes and name the culprit",
    )
    options.add_nodes(live)
    live.add_argument("--job", metavar="SLURM_ID", help="the nodes of this Slurm job")
    live.add_argument(
        "--pid",
        type=int,
        metavar="PID",
        help="the job of this process; without -w, -i or --job: on this machine",
    )
    live.add_argument(
        "--local", action="store_true", help="this machine alone, as from a scheduler's epilog"
    )
    live.add_argument(
        "--watch",
        metavar="TIME",
        help="sample again every so often, such as 10s, until it stalls or ends",
    )
    live.add_argument(
        "--interval", type=int, metavar="S", help="seconds between the two samples (default 5)"
    )
    live.add_argument(
        "--stacks",
        action="store_true",
        help="read stacks with py-spy or gdb: this pauses every rank for a moment",
    )
    live.add_argument(
        "--print-script",
        action="store_true",
        help="print the collecting script, for sites that run it by their own means",
    )
    live.add_argument(
        "--redact",
        action="store_true",
        help=(
            "show aliases for hosts, addresses, GUIDs, serials and users, for a ticket that"
            " travels; redacted-names.csv stays at home"
        ),
    )
    options.add_reach(live, connect_timeout_s=5.0)
    options.add_out(live, "where the evidence is kept")
