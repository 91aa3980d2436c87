"""`busbw expect`: what a cluster of given hardware should reach, without any cluster at hand.

Exit status: 0 = answered; with --measured that of the judgement (0 pass or warn, 1 fail, 3 not decidable); 2 = something needed is missing,
unknown, or promised above physics.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli.command import CliCommand
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.parsers.judge.baselines import Matches
    from busbw.parsers.judge.baselines_judge import RdmaSum
    from busbw.parsers.judge.baselines_table import Curve, NicFigure, RuleOfThumb
    from busbw.parsers.judge.limits_table import Expectation, Question
    from busbw.records import Comparison, Reference

_SHOWN_NODES = (1, 2, 3, 4, 8, 16, 64)


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is printed, and with --json written."""

    expectation: Expectation
    reference: Reference
    """The published one; its number is None where no row is of the regime."""
    matches: Matches
    curves: tuple[Curve, ...]
    nic_figures: tuple[NicFigure, ...]
    comparison: Comparison | None
    """None = no --measured."""
    contract_gb_s: float | None
    """None = no --contract."""
    contract_notes: tuple[str, ...]
    """What meeting it would prove, and what not."""
    rules: tuple[RuleOfThumb, ...] = ()
    """By which others judge."""
    rdma: RdmaSum | None = None
    """None = no --rdma."""
    described: str = ""
    """Which run or node described the hardware; empty = the options did."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw expect`."""
    parser.add_argument("run_directory", nargs="?", type=Path, metavar="RUN", help="a run directory: the hardware as its nodes said it")
    live = parser.add_argument_group("a live node, in the place of a description")
    live.add_argument("--node", metavar="HOST", help="ask this node once what it has; give --nodes for how many there are")
    live.add_argument("--local", action="store_true", help="ask this machine")
    live.add_argument("--transport", choices=("ssh", "openssh"), default="ssh", help="how --node is reached (default ssh)")
    hardware = parser.add_argument_group("the cluster")
    hardware.add_argument("--gpu", metavar="NAME", help="GPU model, such as H100")
    hardware.add_argument("--nodes", type=int, metavar="K", help="nodes; for rack-scale systems NVLink domains")
    hardware.add_argument("--gpus-per-node", type=int, metavar="G", help="GPUs per node (default: the model's usual node)")
    hardware.add_argument("--nics", metavar="NxRATE", help="NICs per node: 8x400 (Gb/s), 8xNDR, 8xConnectX-7")
    hardware.add_argument("--fabric", metavar="NAME", help="fabric profile, such as infiniband or rocev2")
    hardware.add_argument("--mtu", type=int, metavar="BYTES", help="MTU of the network device (default 9000; InfiniBand 4096)")
    hardware.add_argument("--oversubscription", type=float, default=1.0, metavar="O", help="of the leaves, 1 = none (default)")
    hardware.add_argument("--sharp", action="store_true", help="the switches add up (SHARP)")
    by_hand = parser.add_argument_group("rates by hand, for hardware that the tables do not know")
    by_hand.add_argument("--nvlink-gb-s", type=float, metavar="N", help="NVLink of one GPU, one direction, GB/s")
    by_hand.add_argument("--network-gb-s", type=float, metavar="W", help="network of one node, one direction, GB/s")
    what = parser.add_argument_group("the question")
    what.add_argument("--collective", default="all_reduce", metavar="NAME", help="default all_reduce")
    what.add_argument("--algorithm", metavar="NAME", help="ring, tree, nvls or nvlstree: what NCCL's log shows (default: not known)")
    what.add_argument("--contract", type=float, metavar="GB_S", help="a promised busbw; refused where it is above physics")
    what.add_argument("--measured", type=float, metavar="GB_S", help="a measured busbw to judge")
    what.add_argument(
        "--rdma",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="output of ib_write_bw, one per NIC of a node; may be repeated",
    )
    what.add_argument("--size", default="8G", metavar="SIZE", help="message size of --measured (default 8G)")
    what.add_argument("--contract-template", action="store_true", help="print the form of a contract's numbers, and nothing else")
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def run(args: argparse.Namespace) -> int:
    """Answer."""
    from busbw.cli import expect_text
    from busbw.codec import dump_json
    from busbw.parsers.judge.verdict import EXIT_STATUS
    from busbw.playbook.template import TEMPLATE

    if args.contract_template:
        sys.stdout.write(TEMPLATE)
        return 0
    found = answer(args)
    sys.stdout.write(dump_json(found) if args.json else expect_text.answer(found))
    return EXIT_STATUS[found.comparison.status] if found.comparison is not None else 0


def answer(args: argparse.Namespace) -> Answer:
    """What can be said about the cluster that the options describe.

    Raises:
        UsageError: something is missing or unknown, or --contract is above physics.
    """
    from busbw.cli import expect_facts
    from busbw.parsers.judge import baselines, baselines_judge, baselines_table, limits_table
    from busbw.units import parse_size

    _check_numbers(args)
    described = expect_facts.fill(args) if _sources(args) else ""
    question = _question(args)
    expectation = limits_table.answer(question)
    if args.contract is not None:
        refused = baselines.implausible(args.contract, expectation.limit)
        if refused is not None:
            raise UsageError(f"no cluster can meet this contract: {refused}", seen=f"--contract {args.contract:g}", next_step=_ASK_PROVIDER)
    tables = baselines_table.load()
    matches = baselines_judge.published(tables, expectation, args.algorithm)
    reference = baselines.reference(matches)
    curves = baselines.curves(tables, question.collective, question.gpu, question.nodes, question.gpus_per_node)
    comparison = None
    if args.measured is not None:
        try:
            size_bytes = parse_size(args.size)
        except ValueError as error:
            raise UsageError(str(error), seen=f"--size {args.size}", next_step="--size 8G") from error
        comparison = baselines_judge.judge(
            args.measured, size_bytes, expectation, reference, curves, contract_gb_s=args.contract, algorithm=args.algorithm
        )
    nics = baselines.nic_figures(tables, question.nics.rate_gbit_s) if question.nics is not None and question.nodes > 1 else ()
    contract_notes = () if args.contract is None else baselines_judge.contract_notes(args.contract, expectation)
    return Answer(
        expectation,
        reference,
        matches,
        curves,
        nics,
        comparison,
        args.contract,
        contract_notes,
        tables.rules,
        _rdma(args, question),
        described,
    )


def _rdma(args: argparse.Namespace, question: Question) -> RdmaSum | None:
    """What the NICs gave without NCCL.

    Raises:
        UsageError: a file holds no bandwidth, or there is no NIC for it.
    """
    from busbw.cli import expect_facts
    from busbw.parsers.judge import baselines_judge

    if not args.rdma:
        return None
    if question.nics is None:
        raise UsageError(
            "--rdma is held against the NICs", seen="one node, or --network-gb-s", next_step="--nodes 2 --nics 8x400 beside it"
        )
    try:
        return baselines_judge.rdma_sum(expect_facts.rdma_gbit_s(args.rdma), question.nics.count, question.nics.line_gb_s, args.measured)
    except ValueError as error:
        raise UsageError(str(error), seen=f"--nics {args.nics}", next_step="one file per NIC of one node") from error


def _sources(args: argparse.Namespace) -> bool:
    """Whether nodes describe the cluster.

    Raises:
        UsageError: more than one source was given.
    """
    given = [name for name, there in (("RUN", args.run_directory), ("--node", args.node), ("--local", args.local)) if there]
    if len(given) > 1:
        raise UsageError("one source of the hardware at a time", seen=" and ".join(given), next_step=f"give {given[0]} alone")
    return bool(given)


_ASK_PROVIDER = (
    "ask for the node count, the algorithm and the unit behind the number: Gb/s are eight times GB/s, and NVLink sums count both directions"
)


def _check_numbers(args: argparse.Namespace) -> None:
    positive = ("nodes", "gpus_per_node", "mtu", "nvlink_gb_s", "network_gb_s", "contract", "measured")
    for name in positive:
        value = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} must be above 0", seen=f"{value:g}", next_step="leave it out where it is not known"
            )
    if not 1 <= args.oversubscription < float("inf"):
        raise UsageError("--oversubscription must be 1 or more", seen=f"{args.oversubscription:g}", next_step="2 means half of the uplinks")


def _question(args: argparse.Namespace) -> Question:
    from busbw.parsers.judge import hardware, limits_table

    _one_of("--collective", args.collective, limits_table.COLLECTIVES)
    if args.algorithm is not None:
        _one_of("--algorithm", args.algorithm, ("ring", "tree", "nvls", "nvlstree"))
    gpu = hardware.gpu_or_refuse(args.gpu) if args.gpu is not None else None
    if gpu is None and args.nvlink_gb_s is None:
        raise UsageError(
            "the GPU is missing", seen="neither --gpu nor --nvlink-gb-s", next_step="--gpu H100, or --nvlink-gb-s 450 --gpus-per-node 8"
        )
    per_node = args.gpus_per_node or (gpu.gpus_per_node if gpu is not None else None)
    if per_node is None:
        raise UsageError("the number of GPUs per node is missing", seen="--nvlink-gb-s without it", next_step="--gpus-per-node 8")
    nics = hardware.parse_nics(args.nics) if args.nics is not None else None
    fabric = args.fabric or ("nvlink-only" if args.nodes == 1 else None)
    if fabric is not None:
        _one_of("--fabric", fabric, tuple(limits_table.FABRICS))

    def asked(nodes: int, on: str) -> Question:
        return limits_table.Question(
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
            "the node count is missing: one node, two, three, and four or more are different regimes",
            seen=_limits_by_nodes(asked, fabric or "infiniband", has_network=nics is not None or args.network_gb_s is not None),
            next_step="--nodes 8",
        )
    if args.nodes * per_node < 2:
        raise UsageError("a collective needs two GPUs or more", seen=f"{args.nodes} node with {per_node} GPU", next_step="--nodes 2")
    if fabric is None or (args.nodes > 1 and fabric == "nvlink-only"):
        known = ", ".join(name for name in limits_table.FABRICS if name != "nvlink-only")
        raise UsageError(
            f"{args.nodes} nodes need a fabric; known: {known}",
            seen=f"--fabric {fabric}" if fabric else "",
            next_step="--fabric infiniband",
        )
    return asked(args.nodes, fabric)


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"unknown {option.removeprefix('--')} {value!r}", seen=f"{option} {value}", next_step=f"known: {', '.join(known)}")


def _limits_by_nodes(asked: Callable[[int, str], Question], fabric: str, *, has_network: bool) -> str:
    """What can be said without the node count: the limit for each."""
    from busbw.parsers.judge import limits_table

    limits = []
    for nodes in _SHOWN_NODES if has_network else (1,):
        question = asked(nodes, fabric)
        if nodes * question.gpus_per_node > 1:
            limits.append(f"{nodes}: {limits_table.answer(question).limit.value_gb_s:.0f}")
    return f"without --nodes; the limit in GB/s by node count is {', '.join(limits)}"


COMMAND = CliCommand("expect", "what a cluster of given hardware should reach: limits, NCCL's model, published figures", register, run)
