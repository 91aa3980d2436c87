"""The options of `busbw expect`."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_all(parser: argparse.ArgumentParser) -> None:
    """Every option, in the groups of `busbw expect --help`."""
    parser.add_argument(
        "run_directory",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a run directory: the hardware as its nodes reported it",
    )
    _add_live(parser.add_argument_group("a live node, in the place of a description"))
    _add_hardware(parser.add_argument_group("the cluster"))
    _add_rates(parser.add_argument_group("rates by hand, for hardware that the tables do not know"))
    _add_question(parser.add_argument_group("the question"))
    _add_figures(parser.add_argument_group("published figures"))
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def _add_live(live: argparse._ArgumentGroup) -> None:
    live.add_argument(
        "--node",
        metavar="HOST",
        help="ask this node once what it has; give --nodes for how many there are",
    )
    live.add_argument("--local", action="store_true", help="ask this machine")
    live.add_argument(
        "--transport",
        choices=("ssh", "openssh"),
        default="ssh",
        help="how --node is reached (default ssh)",
    )


def _add_hardware(hardware: argparse._ArgumentGroup) -> None:
    hardware.add_argument("--gpu", metavar="NAME", help="GPU model, such as H100")
    hardware.add_argument(
        "--nodes", type=int, metavar="K", help="nodes; of rack-scale systems the trays"
    )
    hardware.add_argument(
        "--nvlink-domain",
        type=int,
        metavar="NODES",
        help="nodes that NVLink joins: 18 in a rack of GB200 NVL72 (default: as IMEX says, else 1)",
    )
    hardware.add_argument(
        "--gpus-per-node",
        type=int,
        metavar="G",
        help="GPUs per node (default: the model's usual node)",
    )
    hardware.add_argument(
        "--nics", metavar="NxRATE", help="NICs per node: 8x400 (Gb/s), 8xNDR, 8xConnectX-7"
    )
    hardware.add_argument(
        "--fabric", metavar="NAME", help="fabric profile, such as infiniband or rocev2"
    )
    hardware.add_argument(
        "--mtu",
        type=int,
        metavar="BYTES",
        help="MTU of the network device (default 9000; InfiniBand 4096)",
    )
    hardware.add_argument(
        "--oversubscription",
        type=float,
        default=1.0,
        metavar="O",
        help="of the leaves, 1 = none (default)",
    )
    hardware.add_argument("--sharp", action="store_true", help="the switches add up (SHARP)")


def _add_rates(rates: argparse._ArgumentGroup) -> None:
    rates.add_argument(
        "--nvlink-gb-s", type=float, metavar="N", help="NVLink of one GPU, one direction, GB/s"
    )
    rates.add_argument(
        "--network-gb-s", type=float, metavar="W", help="network of one node, one direction, GB/s"
    )


def _add_question(question: argparse._ArgumentGroup) -> None:
    question.add_argument(
        "--collective", default="all_reduce", metavar="NAME", help="default all_reduce"
    )
    question.add_argument(
        "--algorithm",
        metavar="NAME",
        help="ring, tree, nvls or nvlstree: what NCCL's log shows (default: not known)",
    )
    question.add_argument(
        "--contract",
        type=float,
        metavar="GB_S",
        help="a promised busbw; refused where it is above physics",
    )
    question.add_argument(
        "--measured", type=float, metavar="GB_S", help="a measured busbw to judge"
    )
    question.add_argument(
        "--rdma",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="output of ib_write_bw, one per NIC of a node; may be repeated",
    )
    question.add_argument(
        "--size", default="8G", metavar="SIZE", help="message size of --measured (default 8G)"
    )
    question.add_argument(
        "--contract-template",
        action="store_true",
        help="print the form of a contract's numbers, and nothing else",
    )


def _add_figures(figures: argparse._ArgumentGroup) -> None:
    figures.add_argument(
        "--update",
        metavar="FILE|URL",
        help="add these rows to your own table, and nothing else; https only",
    )
    figures.add_argument(
        "--replace", action="store_true", help="with --update: also rows that you have otherwise"
    )
    figures.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help="your own table (default figures.json in ~/.local/share/busbw)",
    )
    figures.add_argument(
        "--submit",
        type=Path,
        metavar="RUN",
        help="print the figures of a run as rows without a name of the site, and nothing else",
    )
