"""`busbw expect`: what a cluster of given hardware should reach, without any cluster at hand.

Exit status: 0 = answered; with --measured that of the judgement (0 pass or warn, 1 fail, 3 not
decidable); 2 = something needed is missing, unknown, or promised above physics.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from busbw.cli import expect_options, write_text
from busbw.cli.expect_hardware import fill, rdma_gbit_s
from busbw.cli.expect_question import check_numbers, question_of
from busbw.cli.expect_table import ages, rows_of_run, update
from busbw.cli.expect_text import Answer, answer_lines
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.parsers.expect.cluster import Expectation, Question
    from busbw.parsers.expect.judge import RdmaSum

_ASK_PROVIDER = (
    "ask for the node count, the algorithm and the unit behind the number: Gb/s are eight times"
    " GB/s, and NVLink sums count both directions"
)


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw expect`."""
    expect_options.add_all(parser)


def run(args: argparse.Namespace) -> int:
    """Answer."""
    from busbw.codec import dump_json
    from busbw.parsers.verdict import EXIT_STATUS
    from busbw.playbook.template import TEMPLATE

    if args.contract_template:
        sys.stdout.write(TEMPLATE)
        return 0
    if args.update is not None:
        return update(args)
    if args.submit is not None:
        sys.stdout.write(dump_json(rows_of_run(args.submit)))
        return 0
    result = answer(args)
    if args.json:
        sys.stdout.write(dump_json(result))
    else:
        write_text(answer_lines(result))
    return EXIT_STATUS[result.comparison.status] if result.comparison is not None else 0


def answer(args: argparse.Namespace) -> Answer:
    """The answer for the cluster that the options describe.

    Raises:
        UsageError: something is missing or unknown, or --contract is above physics.
    """
    from busbw.parsers.expect import baselines, cluster, figures, judge
    from busbw.store import own_figures

    check_numbers(args)
    described = fill(args) if _sources(args) else ""
    question = question_of(args)
    expectation = cluster.answer(question)
    notes = () if args.contract is None else _contract_notes(args.contract, expectation)
    shipped, own = figures.load(), own_figures.load(args.table or own_figures.default_path())
    tables = own_figures.with_own(shipped, own)
    matches = judge.published(tables, expectation, args.algorithm)
    reference = baselines.reference(matches)
    curves = baselines.curves(
        tables, question.collective, question.gpu, question.nodes, question.gpus_per_node
    )
    comparison = None
    if args.measured is not None:
        comparison = judge.judge(
            args.measured,
            _size_bytes(args.size),
            expectation,
            reference,
            curves,
            contract_gb_s=args.contract,
            algorithm=args.algorithm,
        )
    nics = (
        baselines.nic_figures(tables, question.nics.rate_gbit_s)
        if question.nics is not None and question.nodes > 1
        else ()
    )
    return Answer(
        expectation,
        reference,
        matches,
        curves,
        nics,
        comparison,
        args.contract,
        notes,
        tables.rules,
        _rdma(args, question),
        described,
        ages(shipped, own),
    )


def _contract_notes(contract_gb_s: float, expectation: Expectation) -> tuple[str, ...]:
    """What to know of a promised number.

    Raises:
        UsageError: it is above physics.
    """
    from busbw.parsers.expect import baselines, judge

    refused = baselines.implausible(contract_gb_s, expectation.limit)
    if refused is not None:
        raise UsageError(
            f"no cluster can meet this contract: {refused}",
            seen=f"--contract {contract_gb_s:g}",
            next_step=_ASK_PROVIDER,
        )
    return judge.contract_notes(contract_gb_s, expectation)


def _size_bytes(text: str) -> int:
    """Raises: UsageError: it is no size."""
    from busbw.units import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(str(error), seen=f"--size {text}", next_step="--size 8G") from error


def _rdma(args: argparse.Namespace, question: Question) -> RdmaSum | None:
    """What the NICs gave without NCCL.

    Raises:
        UsageError: a file holds no bandwidth, or there is no NIC for it.
    """
    from busbw.parsers.expect import judge

    if not args.rdma:
        return None
    if question.nics is None:
        raise UsageError(
            "--rdma is compared with the NICs",
            seen="one node, or --network-gb-s",
            next_step="add --nodes 2 --nics 8x400",
        )
    try:
        return judge.rdma_sum(
            rdma_gbit_s(args.rdma), question.nics.count, question.nics.line_gb_s, args.measured
        )
    except ValueError as error:
        raise UsageError(
            str(error), seen=f"--nics {args.nics}", next_step="one file per NIC of one node"
        ) from error


def _sources(args: argparse.Namespace) -> bool:
    """Whether nodes describe the cluster.

    Raises:
        UsageError: more than one source was given.
    """
    sources = {"RUN": args.run_directory, "--node": args.node, "--local": args.local}
    given = [name for name, value in sources.items() if value]
    if len(given) > 1:
        raise UsageError(
            "one source of the hardware at a time",
            seen=" and ".join(given),
            next_step=f"give {given[0]} alone",
        )
    return bool(given)
