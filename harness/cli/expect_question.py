"""The question that the options of `busbw expect` ask."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING

from busbw.cli.options import require_positive
from busbw.errors import UsageError
from busbw.fabrics.profiles import carrier_by_fabric, intra_node_fabrics, network_fabrics

if TYPE_CHECKING:
    from busbw.parsers.expect.cluster import Question
    from busbw.parsers.expect.hardware import Gpu

_SHOWN_NODES = (1, 2, 3, 4, 8, 16, 64)


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse what no hardware has.

    Raises:
        UsageError: a number is not above 0, or the oversubscription below 1.
    """
    positive = (
        "nodes",
        "nvlink_domain",
        "gpus_per_node",
        "mtu",
        "nvlink_gb_s",
        "network_gb_s",
        "contract",
        "measured",
    )
    require_positive(args, positive)
    if not 1 <= args.oversubscription < float("inf"):
        raise UsageError(
            "--oversubscription must be 1 or more",
            seen=f"{args.oversubscription:g}",
            next_step="2 means half of the uplinks",
        )


def question_of(args: argparse.Namespace) -> Question:
    """What is asked, of which hardware.

    Raises:
        UsageError: something is missing or unknown.
    """
    from busbw.parsers.expect import cluster, hardware

    _one_of("--collective", args.collective, cluster.COLLECTIVES)
    if args.algorithm is not None:
        _one_of("--algorithm", args.algorithm, ("ring", "tree", "nvls", "nvlstree"))
    gpu, per_node = _gpus(args)
    nics = hardware.parse_nics(args.nics) if args.nics is not None else None
    per_domain = args.nvlink_domain or 1
    one_domain = args.nodes is not None and args.nodes <= per_domain
    fabric = args.fabric or (intra_node_fabrics()[0] if one_domain else None)
    if fabric is not None:
        _one_of("--fabric", fabric, tuple(carrier_by_fabric()))

    def question_for(nodes: int, on: str) -> Question:
        return cluster.Question(
            collective=args.collective,
            nodes=nodes,
            gpus_per_node=per_node,
            fabric=on,
            gpu=gpu,
            nvlink_gb_s=args.nvlink_gb_s,
            nics=nics,
            network_gb_s=args.network_gb_s,
            device_mtu=args.mtu,
            oversubscription=args.oversubscription,
            sharp=args.sharp,
        )

    if args.nodes is None:
        raise UsageError(
            "the node count is missing: one node, two, three, and four or more are different"
            " regimes",
            seen=_limits_by_nodes(
                question_for,
                fabric or network_fabrics()[0],
                has_network=nics is not None or args.network_gb_s is not None,
            ),
            next_step="--nodes 8",
        )
    if args.nodes * per_node < 2:
        raise UsageError(
            "a collective needs two GPUs or more",
            seen=f"{args.nodes} node with {per_node} GPU",
            next_step="--nodes 2",
        )
    if fabric is None or (not one_domain and fabric not in network_fabrics()):
        known = ", ".join(network_fabrics())
        raise UsageError(
            f"{args.nodes} nodes need a fabric; known: {known}",
            seen=f"--fabric {fabric}" if fabric else "",
            next_step="--fabric infiniband",
        )
    return cluster.joined(question_for(args.nodes, fabric), per_domain)


def _gpus(args: argparse.Namespace) -> tuple[Gpu | None, int]:
    """The GPU, None = given by its NVLink rate; and how many a node has.

    Raises:
        UsageError: the model is unknown, or something is missing.
    """
    from busbw.parsers.expect import hardware

    gpu = hardware.gpu_or_refuse(args.gpu) if args.gpu is not None else None
    if gpu is None and args.nvlink_gb_s is None:
        raise UsageError(
            "the GPU is missing",
            seen="neither --gpu nor --nvlink-gb-s",
            next_step="--gpu H100, or --nvlink-gb-s 450 --gpus-per-node 8",
        )
    per_node = args.gpus_per_node or (gpu.gpus_per_node if gpu is not None else None)
    if per_node is None:
        raise UsageError(
            "the number of GPUs per node is missing",
            seen="--nvlink-gb-s without it",
            next_step="--gpus-per-node 8",
        )
    return gpu, per_node


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value in known:
        return
    close = difflib.get_close_matches(value, known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise UsageError(
        f"unknown {option.removeprefix('--')} {value!r}{meant}",
        seen=f"{option} {value}",
        next_step=f"known: {', '.join(known)}",
    )


def _limits_by_nodes(
    question_for: Callable[[int, str], Question], fabric: str, *, has_network: bool
) -> str:
    """Without the node count: the limit for each."""
    from busbw.parsers.expect import cluster

    limits = []
    for nodes in _SHOWN_NODES if has_network else (1,):
        question = question_for(nodes, fabric)
        if nodes * question.gpus_per_node > 1:
            limits.append(f"{nodes}: {cluster.answer(question).limit.value_gb_s:.0f}")
    return f"without --nodes; the limit in GB/s by node count is {', '.join(limits)}"
