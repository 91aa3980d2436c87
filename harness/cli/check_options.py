"""The options of `busbw check`, and the exit statuses that node-health frameworks expect of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from busbw.cli import console, examples, on_fail, options

FRAMEWORKS = {
    "busbw": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 3},
    "nhc": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 1},
    "nagios": {"PASS": 0, "WARN": 1, "FAIL": 2, "UNKNOWN": 3},
    "npd": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 2},
}
"""Exit status by verdict: LBNL Node Health Check and Slurm's Prolog (anything but 0 takes the node
out), the Nagios plugin interface (also Meta's GCM), the custom plugins of Kubernetes'
node-problem-detector."""
_EPILOG = """\
exit status of a check, and with --local of a prolog or node-health script (--framework):

              all well   warnings   required failed   required not checked
  (default)       0          0             1                  3
  nhc             0          0             1                  1     also Slurm's Prolog
  nagios          0          1             2                  3
  npd             0          0             1                  2     node-problem-detector
  usage: 2, interrupted: 130

  Slurm's Prolog:   busbw check --local --framework nhc -p infiniband || exit 1
  drain by hand:
  scontrol update nodename=$(hostname -s) state=drain reason="$(busbw check --local -p infiniband)"
"""


def add(parser: argparse.ArgumentParser) -> None:
    """All of them, in groups."""
    parser.formatter_class = examples.Formatter
    parser.epilog = "\n".join(filter(None, (_EPILOG, parser.epilog)))
    _add_nodes(parser.add_argument_group("nodes"))
    parser.add_argument(
        "-p",
        "--profile",
        metavar="NAME",
        help="fabric profile, such as infiniband or rocev2 (default: the inventory's)",
    )
    _add_path(parser.add_argument_group("path"))
    _add_gpus(parser.add_argument_group("gpus"))
    _add_links(parser.add_argument_group("links"))
    _add_fabric(parser.add_argument_group("fabric"))
    parser.add_argument_group("context").add_argument(
        "--inside",
        metavar="PREFIX",
        help=(
            "run every check behind this on the node, such as 'docker exec -i train': the job's"
            " limits, devices, libraries"
        ),
    )
    result = parser.add_argument_group("result")
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="where run directories go (default runs; with --local none is kept)",
    )
    result.add_argument(
        "--json", action="store_true", help="print check.json instead of the verdict"
    )
    console.register(result)
    on_fail.register(parser)


def _add_nodes(nodes: argparse._ArgumentGroup) -> None:
    options.add_nodes(nodes)
    nodes.add_argument(
        "--local",
        action="store_true",
        help=(
            "this machine alone, in 5 s, one line for a drain reason; with -i: what the inventory"
            " expects of it"
        ),
    )
    nodes.add_argument(
        "--framework",
        choices=tuple(FRAMEWORKS),
        default="busbw",
        help="with --local: whose exit status (table below; default busbw)",
    )
    nodes.add_argument(
        "--sudo",
        action="store_true",
        help="`sudo -n` before what only root may see: dmesg, lspci, mlnx_qos, mstconfig",
    )
    options.add_reach(nodes)
    options.add_host_keys(nodes)


def _add_path(path: argparse._ArgumentGroup) -> None:
    path.add_argument(
        "--path",
        action="store_true",
        help=(
            "the path between the nodes instead: the launcher's ssh, an mpirun hello, TCP ports,"
            " routes and packet sizes of each rail, EFA, the interface that NCCL chooses"
        ),
    )


def _add_gpus(gpus: argparse._ArgumentGroup) -> None:
    gpus.add_argument(
        "--gpus",
        action="store_true",
        help="each GPU by itself instead: nvbandwidth's copies, compared over all GPUs; loads them",
    )
    gpus.add_argument(
        "--dcgm",
        type=int,
        choices=(1, 2, 3),
        metavar="LEVEL",
        help="with --gpus: dcgmi diag -r LEVEL too (3 takes half an hour)",
    )
    gpus.add_argument(
        "--force",
        action="store_true",
        help="with --gpus and --links: also while other jobs run there",
    )


def _add_links(links: argparse._ArgumentGroup) -> None:
    links.add_argument(
        "--links",
        action="store_true",
        help=(
            "every rail of every node instead, without NCCL: ib_write_bw or iperf3 in rounds of"
            " disjoint pairs, both directions; loads the network"
        ),
    )
    links.add_argument(
        "--budget",
        metavar="TIME",
        help="with --links: no further round begins that would end later (default 5m)",
    )
    links.add_argument(
        "--memory",
        choices=("host", "gpu", "both"),
        default="host",
        help="with --links: where ib_write_bw's buffers lie (gpu needs a build with CUDA)",
    )
    links.add_argument(
        "--replay",
        type=Path,
        metavar="RUN",
        help="with --links: measure again from a recorded link test, without any node",
    )


def _add_fabric(fabric: argparse._ArgumentGroup) -> None:
    fabric.add_argument(
        "--fabric",
        action="store_true",
        help=(
            "the fabric's side instead of the nodes': links, rates, errors and cabling, from"
            " iblinkinfo, ibnetdiscover, ibqueryerrors and LLDP"
        ),
    )
    fabric.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help=(
            "the same from files, no node is contacted: their output, ibdiagnet's, UFM exports"
            " (JSON, CSV), lldpctl's (NODE.txt)"
        ),
    )
    fabric.add_argument(
        "--fabric-host",
        metavar="HOST",
        help="where the fabric's tools run (default: the head node; `local` = this machine)",
    )
