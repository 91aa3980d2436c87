"""The options of the `busbw lab` commands."""

from __future__ import annotations

import argparse
from typing import TypeAlias

_WHICH = "which lab (default: the one named lab, or the only one)"
_RAIL = "only this rail (0, 1… or eth0, eth1…)"
_NODE = ("NODE", "which node")
_Kinds: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `busbw lab fault` chooses from."""


def add_all(parser: argparse.ArgumentParser) -> None:
    """Options of all `busbw lab` commands."""
    parsers = parser.add_subparsers(dest="lab_command", metavar="COMMAND", required=True)
    _register_up(parsers.add_parser("up", help="bring a lab up"))
    status = parsers.add_parser(
        "status", help="what the lab is, what is broken in it, what it cannot do"
    )
    status.add_argument("--name", help=_WHICH)
    status.add_argument("--json", action="store_true", help="the record of the lab as JSON")
    usage = "busbw lab exec [NODE] -- CMD…"
    execute = parsers.add_parser(
        "exec",
        help="run a command on a node; without a node, in the lab's head namespace",
        usage=usage,
    )
    execute.add_argument("--name", help=_WHICH)
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="[NODE] -- CMD…")
    _register_faults(parsers.add_parser("fault", help="break something for real, or fix it again"))
    down = parsers.add_parser("down", help="take a lab down, complete or half made")
    down.add_argument("--name", help=_WHICH)
    down.add_argument("--all", action="store_true", help="every lab")


def _register_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("-n", "--nodes", type=int, default=4, metavar="N", help="nodes (default 4)")
    up.add_argument(
        "--mode",
        choices=("auto", "root", "userns", "loopback"),
        default="auto",
        help="what nodes are made of (default: the best there is)",
    )
    _add_network(up)
    up.add_argument(
        "--name",
        default="lab",
        help="several labs live side by side under different names (default lab)",
    )
    _add_machines(up)


def _add_network(up: argparse.ArgumentParser) -> None:
    up.add_argument(
        "--rails",
        type=int,
        default=1,
        metavar="R",
        help="links per node, each a network of its own (default 1)",
    )
    up.add_argument(
        "--leaves",
        type=int,
        default=1,
        metavar="L",
        help="switches the nodes are spread over, with uplinks to a spine (default 1)",
    )
    up.add_argument(
        "--rate",
        metavar="RATE",
        default="auto",
        help=(
            "rate of every rail both ways, such as 1gbit; none = not shaped; auto = one that the"
            " CPUs can well push (default auto)"
        ),
    )
    up.add_argument("--uplink-rate", metavar="RATE", help="rate of every leaf's uplink per rail")


def _add_machines(up: argparse.ArgumentParser) -> None:
    up.add_argument(
        "--gpus",
        type=int,
        default=2,
        metavar="G",
        help="emulated GPUs, so ranks, per node (default 2)",
    )
    up.add_argument(
        "--persona",
        metavar="NAME",
        help=(
            "hardware that the nodes show without having it: h100, h200, b200, a100, h100-roce,"
            " gb200, mi300x, mi325x, mi355x, ethernet, or a YAML file (default: none)"
        ),
    )
    up.add_argument(
        "--slurm",
        action="store_true",
        help="a real Slurm over all nodes: slurmctld, a slurmd on each, munge (root only)",
    )
    up.add_argument(
        "--cpus-per-node",
        type=float,
        metavar="CPUS",
        help="limit of each node's CPU time (default: equal shares)",
    )
    up.add_argument(
        "--no-cgroups",
        action="store_true",
        help="make no control groups: nodes take CPU time from each other",
    )
    up.add_argument("--no-node-ssh", action="store_true", help="nodes cannot log in to each other")


def _register_faults(fault: argparse.ArgumentParser) -> None:
    fault.add_argument("--name", help=_WHICH)
    kinds = fault.add_subparsers(dest="kind", metavar="KIND", required=True)
    _add_link_faults(kinds)
    _add_rank_faults(kinds)
    _add_node_faults(kinds)
    _add_hardware_faults(kinds)
    clear = _kind(kinds, "clear", "fix a node, a leaf, or everything")
    clear.add_argument("target", nargs="?", default="all", help="node, leaf or all (default all)")


def _kind(kinds: _Kinds, name: str, text: str, *words: tuple[str, str]) -> argparse.ArgumentParser:
    """One kind of fault, with its required words in order: (metavar, help)."""
    parser = kinds.add_parser(name, help=text)
    # Before KIND or after it; without a default here, which would hide the one given before.
    parser.add_argument("--name", default=argparse.SUPPRESS, help=_WHICH)
    for word, meaning in words:
        parser.add_argument(word.lower(), metavar=word, help=meaning)
    return parser


def _add_link_faults(kinds: _Kinds) -> None:
    slow_rate = ("RATE", "such as 200mbit, or 50%% of the lab's --rate")
    slow = _kind(kinds, "slow", "slow a node's links", _NODE, slow_rate)
    slow.add_argument("--rail", help=_RAIL)
    slow.add_argument("--to", metavar="NODE2", help="only what NODE sends to NODE2")
    share = ("PERCENT", "share of packets lost, each way")
    loss = _kind(kinds, "loss", "lose packets at random", _NODE, share)
    loss.add_argument("--rail", help=f"{_RAIL}; mgmt = the management link")
    down = _kind(kinds, "link-down", "cut a node's links", _NODE)
    down.add_argument("--rail", help=f"{_RAIL}; mgmt = the management link, which ssh uses")
    leaf = ("LEAF", "such as leaf1")
    uplink_rate = ("RATE", "such as 200mbit, or 50%% of the lab's --uplink-rate")
    _kind(kinds, "uplink", "slow a leaf's uplinks", leaf, uplink_rate)


def _add_rank_faults(kinds: _Kinds) -> None:
    target = ("TARGET", "node, or number of one rank")
    _kind(kinds, "stall", "stop ranks of a running benchmark (SIGSTOP)", target)
    _kind(kinds, "kill", "kill ranks of a running benchmark (SIGKILL)", target)


def _add_node_faults(kinds: _Kinds) -> None:
    load = _kind(kinds, "cpu-load", "keep a node's share of the CPUs busy", _NODE)
    load.add_argument(
        "--seconds", type=float, default=60.0, help="for how long at most (default 60)"
    )
    load.add_argument("--loops", type=int, help="how many busy loops (default: one per CPU)")
    limit = "give a node no more CPU time than that, as a container's limit does"
    _kind(kinds, "cpu-limit", limit, _NODE, ("CPUS", "such as 0.1"))
    _kind(kinds, "hang-ssh", "a node's sshd accepts connections and never answers", _NODE)
    _kind(kinds, "host-key", "a node shows another host key than known_hosts has", _NODE)


def _add_hardware_faults(kinds: _Kinds) -> None:
    what = "break the hardware that --persona shows; without KIND: what can be broken"
    hardware = _kind(kinds, "hw", what)
    hardware.add_argument(
        "hardware", nargs="?", metavar="KIND", help="such as gpu-missing or port-down"
    )
    hardware.add_argument("node", nargs="?", metavar="NODE", help="which node")
    hardware.add_argument(
        "--index", type=int, metavar="I", help="which GPU or adapter, from 0 (default: the last)"
    )
    hardware.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="of errors-grow: for how long at most (default 60)",
    )
