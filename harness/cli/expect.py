"""`busbw expect`: what a cluster of given hardware should reach, without any cluster at hand.

Exit status: 0 = answered; with --measured that of the judgement (0 pass or warn, 1 fail, 3 not
decidable); 2 = something needed is missing, unknown, or promised above physics.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_text
from busbw.errors import UsageError
from busbw.fabrics.fabric import carrier_by_fabric, intra_node_fabrics, network_fabrics
from busbw.files import read_given
from busbw.reports import phrases
from busbw.text import decoded
from busbw.units import format_bandwidth, format_size, format_time_us

# `busbw expect` without describing the cluster by hand: its hardware as a run recorded it, or as
# a node says it now.


@dataclass(frozen=True, slots=True)
class Described:
    """What the nodes say of themselves, in the words of the options; None = they do not say, or not
    alike."""

    gpu: str | None
    gpus_per_node: int | None
    nics: str | None
    fabric: str | None
    nodes: int | None
    mtu: int | None
    summary: str
    """Where it comes from, and what it is, as one line."""
    missing: tuple[str, ...]
    nvlink_domain: int | None = None
    """Nodes that NVLink joins, by IMEX."""


def fill(args: argparse.Namespace) -> str:
    """Fill the options that were not given from what the nodes report; the line that names the
    source.

    Raises:
        BusbwError: the run cannot be read, or the node cannot be reached.
        UsageError: what is needed was neither reported nor given.
    """
    described = _of_run(args.run_directory) if args.run_directory is not None else _of_node(args)
    for name in ("gpu", "gpus_per_node", "nics", "fabric", "nodes", "mtu", "nvlink_domain"):
        if getattr(args, name) is None:
            setattr(args, name, getattr(described, name))
    several = (args.nodes or 2) > (args.nvlink_domain or 1)
    needs_network = several and args.nics is None and args.network_gb_s is None
    if (args.gpu is None and args.nvlink_gb_s is None) or needs_network:
        raise UsageError(
            "what the nodes say is not enough for a limit",
            seen="; ".join(described.missing) or described.summary,
            next_step=(
                "give the rest by hand, it wins over what the nodes say: --gpu H100 --gpus-per-node"
                " 8 --nics 8x400"
            ),
        )
    return described.summary


def rdma_gbit_s(paths: list[Path]) -> tuple[float, ...]:
    """The best average of each output of `ib_write_bw`.

    Raises:
        UsageError: one cannot be read, or holds no bandwidth.
    """
    from busbw.parsers.tools import perftest

    rates = []
    for path in paths:
        try:
            read = perftest.parse(decoded(read_given(path)))
        except OSError as error:
            raise UsageError(
                f"--rdma {path}: {error.strerror or error}",
                next_step="the output of ib_write_bw, one file per NIC",
            ) from error
        if read is None or read.best_gbit_s is None:
            problem = read.problem if read is not None else ""
            raise UsageError(
                f"--rdma {path}: no bandwidth in it",
                seen=problem or "no row of a bandwidth test",
                next_step="ib_write_bw -d DEVICE --report_gbits HOST > FILE",
            )
        rates.append(read.best_gbit_s)
    return tuple(rates)


def _of_run(path: Path) -> Described:
    from busbw import assess
    from busbw.store import artefacts, run_directory
    from busbw.store.artefacts import Participants

    run = run_directory.open_existing(path)
    plan = assess.load_plan(run)
    answers = assess.answers(run, plan)
    if not answers:
        raise UsageError(
            f"run {run.run_id} holds no answer of a node",
            seen="it ended before the check",
            next_step="busbw run, or --gpu",
        )
    chosen = artefacts.load(run, "participants.json", Participants)
    nodes = chosen.nodes if chosen is not None else tuple(answer.node.name for answer in answers)
    return _described(plan.profile.name, answers, nodes, f"run {run.run_id}", len(nodes))


def _of_node(args: argparse.Namespace) -> Described:
    """Ask one node once, as `busbw check` does; nothing is kept."""
    from busbw import assess
    from busbw.cli.console import Console, now
    from busbw.run import planning
    from busbw.run.context import Context
    from busbw.run.reach import ask, reach
    from busbw.store import artefacts, run_directory
    from busbw.transport.choose import make

    node = os.uname().nodename.partition(".")[0] if args.local else args.node
    options = planning.RunOptions(
        playbook="day-one",
        nodes=node,
        profile=args.fabric,
        forks=1,
        transport="local" if args.local else args.transport,
    )
    plan = planning.new_plan(options, started=now())
    with tempfile.TemporaryDirectory(prefix="busbw-expect-") as folder:
        run = run_directory.create(Path(folder), plan.started, "expect")
        artefacts.keep(run, "plan.json", plan)
        transport = make(
            plan.transport, ssh_config=plan.cluster.ssh_config, accept_new_host_keys=False
        )
        progress = Console(quiet=args.json).progress
        with reach(run, plan, transport, progress) as fleet:
            if not fleet.sessions:
                gone = fleet.unreachable[0]
                raise UsageError(
                    f"{node} could not be reached",
                    seen=gone.reason,
                    next_step=gone.next_step or "describe the cluster by hand",
                )
            ask(Context(run=run, plan=plan, fleet=fleet, now=now, progress=progress))
        answers = assess.answers(run, plan)
        return _described(
            assess.load_plan(run).profile.name,
            answers,
            tuple(a.node.name for a in answers),
            f"node {node}",
            None,
        )


def _described(
    profile_name: str,
    answers: tuple[object, ...],
    nodes: tuple[str, ...],
    source: str,
    count: int | None,
) -> Described:
    from busbw.assess import expectation

    hardware = expectation.demanded_of(answers, nodes)  # type: ignore[arg-type]  # NodeAnswer, which this module must not import at its top
    fabric = profile_name if profile_name in carrier_by_fabric() else None
    interfaces, mtu, missing = hardware.nics, None, hardware.missing
    if fabric is not None:
        interfaces, mtu = expectation.carried_by(hardware, fabric)
        if expectation.over_tcp(fabric) and hardware.no_sockets:
            missing = (*missing, hardware.no_sockets)
    if count is None and fabric in intra_node_fabrics():
        # One node by itself does not say what joins it to others.
        fabric = mtu = None
    parts = []
    gpu = nics = None
    if hardware.gpu is not None:
        gpu = hardware.gpu.name
        parts.append(f"{hardware.gpus_per_node} x {gpu}")
    if interfaces is not None:
        rate = f"{interfaces.rate_gbit_s:g}"
        nics = f"{interfaces.count}x{rate}"
        parts.append(f"{interfaces.count} x {rate} Gb/s")
    if fabric:
        parts.append(fabric)
    if count is not None:
        domain, why_not = expectation.nodes_per_domain(hardware, count)
        missing = (*missing, why_not) if why_not else missing
    else:
        # One node says how many its domain has.
        domain = max((len(node.nvlink_domain) for node in hardware.nodes), default=1) or 1
    if domain is not None and domain > 1:
        parts.append(f"NVLink joins {phrases.count(domain, 'node')}")
    summary = f"{source}: {', '.join(parts) or 'nothing that the tables know'}"
    if count is not None:
        summary += f", on {phrases.count(count, 'node')}"
    per_node = hardware.gpus_per_node
    return Described(gpu, per_node, nics, fabric, count, mtu, summary, missing, domain)


if TYPE_CHECKING:
    from busbw.model import Comparison, Reference
    from busbw.parsers.expect.baselines import Curve, Matches, NicFigure, RuleOfThumb, Tables
    from busbw.parsers.expect.cluster import Expectation, Question
    from busbw.parsers.expect.judge import RdmaSum
    from busbw.store.own_figures import OwnFigures

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
    tables: tuple[str, ...] = ()
    """Which tables of figures were looked in, each with its age."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw expect`."""
    parser.add_argument(
        "run_directory",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a run directory: the hardware as its nodes reported it",
    )
    live = parser.add_argument_group("a live node, in the place of a description")
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
    hardware = parser.add_argument_group("the cluster")
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
    by_hand = parser.add_argument_group("rates by hand, for hardware that the tables do not know")
    by_hand.add_argument(
        "--nvlink-gb-s", type=float, metavar="N", help="NVLink of one GPU, one direction, GB/s"
    )
    by_hand.add_argument(
        "--network-gb-s", type=float, metavar="W", help="network of one node, one direction, GB/s"
    )
    what = parser.add_argument_group("the question")
    what.add_argument(
        "--collective", default="all_reduce", metavar="NAME", help="default all_reduce"
    )
    what.add_argument(
        "--algorithm",
        metavar="NAME",
        help="ring, tree, nvls or nvlstree: what NCCL's log shows (default: not known)",
    )
    what.add_argument(
        "--contract",
        type=float,
        metavar="GB_S",
        help="a promised busbw; refused where it is above physics",
    )
    what.add_argument("--measured", type=float, metavar="GB_S", help="a measured busbw to judge")
    what.add_argument(
        "--rdma",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="output of ib_write_bw, one per NIC of a node; may be repeated",
    )
    what.add_argument(
        "--size", default="8G", metavar="SIZE", help="message size of --measured (default 8G)"
    )
    what.add_argument(
        "--contract-template",
        action="store_true",
        help="print the form of a contract's numbers, and nothing else",
    )
    figures = parser.add_argument_group("published figures")
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
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def run(args: argparse.Namespace) -> int:
    """Answer."""
    from busbw.codec import dump_json
    from busbw.parsers.verdict import EXIT_STATUS
    from busbw.playbook.template import TEMPLATE

    if args.contract_template:
        sys.stdout.write(TEMPLATE)
        return 0
    if args.update is not None:
        return _update(args)
    if args.submit is not None:
        sys.stdout.write(dump_json(_rows_of_run(args.submit)))
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
    from busbw.parsers.expect import baselines, cluster, judge
    from busbw.store import own_figures
    from busbw.units import parse_size

    _check_numbers(args)
    described = fill(args) if _sources(args) else ""
    question = _question(args)
    expectation = cluster.answer(question)
    if args.contract is not None:
        refused = baselines.implausible(args.contract, expectation.limit)
        if refused is not None:
            raise UsageError(
                f"no cluster can meet this contract: {refused}",
                seen=f"--contract {args.contract:g}",
                next_step=_ASK_PROVIDER,
            )
    shipped, own = baselines.load(), own_figures.load(args.table or own_figures.default_path())
    tables = own_figures.with_own(shipped, own)
    matches = judge.published(tables, expectation, args.algorithm)
    reference = baselines.reference(matches)
    curves = baselines.curves(
        tables, question.collective, question.gpu, question.nodes, question.gpus_per_node
    )
    comparison = None
    if args.measured is not None:
        try:
            size_bytes = parse_size(args.size)
        except ValueError as error:
            raise UsageError(
                str(error), seen=f"--size {args.size}", next_step="--size 8G"
            ) from error
        comparison = judge.judge(
            args.measured,
            size_bytes,
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
    contract_notes = (
        () if args.contract is None else judge.contract_notes(args.contract, expectation)
    )
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
        _ages(shipped, own),
    )


def _ages(shipped: Tables, own: OwnFigures) -> tuple[str, ...]:
    from busbw.parsers.expect import baselines

    count = phrases.count(len(shipped.published), "published row")
    lines = [f"shipped, {count}, as of {baselines.AS_OF} ({_age(baselines.AS_OF)})"]
    if own.rows:
        day = own.updates[-1].at[:10]
        count = phrases.count(len(own.rows), "row")
        lines.append(f"your own, {count}, updated on {day} ({_age(day)})")
    return tuple(lines)


def _age(day: str) -> str:
    """Of a table, in days; a clock that is behind gives none."""
    days = (datetime.date.today() - datetime.date.fromisoformat(day)).days
    return f"{phrases.count(max(days, 0), 'day')} old"


def _update(args: argparse.Namespace) -> int:
    """Add rows to the user's own table and print what changed. 2 = nothing was written."""
    from busbw.cli.console import now
    from busbw.parsers.expect import baselines
    from busbw.reports.safe import one_line
    from busbw.store import own_figures

    path = args.table or own_figures.default_path()
    own = own_figures.load(path)
    content = own_figures.fetched(args.update)
    rows = own_figures.rows_of(content, args.update, baselines.load())
    changes = own_figures.changes(own, rows)
    for change in changes:
        sys.stdout.write(one_line(f"{change.kind:7} {change.id}  {change.text}") + "\n")
    other = [change.id for change in changes if change.kind == "changed"]
    if other and not args.replace:
        raise UsageError(
            f"{phrases.count(len(other), 'row')} would be replaced: {', '.join(other[:5])}",
            seen=f"{path} has them with other values; nothing was written",
            next_step=f"busbw expect --update {args.update} --replace",
        )
    after = own_figures.merged(own, rows, args.update, content, now())
    if after.updates[-1].ids:
        own_figures.save(after, path)
    written = phrases.count(len(after.updates[-1].ids), "row")
    sums = f"sha256 {after.updates[-1].sha256}"
    sys.stdout.write(one_line(f"{path}: {written} written, {sums}, from {args.update}") + "\n")
    return 0


def _rows_of_run(path: Path) -> tuple[Row, ...]:
    """The figure of each collective at its largest size, on all nodes of a run: hardware, fabric
    and numbers, and no name of the site.

    Raises:
        UsageError: the run is emulated, did not pass, or does not say its hardware.
        RunDirError: it cannot be read.
    """
    from busbw import assess
    from busbw.model import Status
    from busbw.parsers.expect.baselines import Grade, NicSet, Row, Source, Spread
    from busbw.parsers.expect.hardware import parse_nics
    from busbw.reports import lead
    from busbw.store import run_directory

    result = assess.derive(run_directory.open_existing(path))
    described = _of_run(path)
    why = ""
    if result.emulated:
        why = "it is emulated: its numbers say nothing about real hardware"
    elif result.verdict not in (Status.PASS, Status.WARN):
        why = f"its verdict is {result.verdict.value}: no figure to compare others with"
    elif described.gpu is None or described.fabric is None:
        why = f"its nodes do not say all: {described.summary}"
    if why:
        raise UsageError(
            f"run {result.run_id} is no reference for others",
            seen=why,
            next_step="give a run that passed on real hardware",
        )
    nics = parse_nics(described.nics) if described.nics else None
    several = len(result.nodes) > 1
    fabric = carrier_by_fabric()[str(described.fabric)].published if several else "intra-node"
    versions = dict(result.versions)
    source = Source(f"measured with busbw {result.tool_version}", date=result.started[:10])
    rows: dict[str, Row] = {}
    for each in sorted(lead.whole_cluster(result), key=lambda each: -each.size_bytes):
        outcome = lead.outcome_of(result, each.case_id)
        measured, half = each.measured_gb_s, each.half_interval_gb_s
        if outcome is None or measured is None or outcome.case.purpose != "bandwidth":
            continue
        name = outcome.case.collective.value
        rows.setdefault(
            each.case_id,
            Row(
                id=f"{described.gpu}-{len(result.nodes)}n-{fabric}-{each.case_id}-{source.date}".lower(),
                grade=Grade.GOOD,
                collective=name,
                fabric=fabric,
                source=source,
                gpu=described.gpu,
                gpus_per_node=described.gpus_per_node,
                nodes=len(result.nodes),
                nics=NicSet(nics.count, nics.rate_gbit_s) if nics and several else None,
                size_bytes=each.size_bytes,
                busbw_gb_s=Spread(
                    None if half is None else measured - half,
                    measured,
                    None if half is None else measured + half,
                ),
                library_version=versions.get("NCCL"),
                note=f"median of {phrases.count(each.launches, 'launch', 'launches')}",
            ),
        )
    return tuple(rows.values())


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


_ASK_PROVIDER = (
    "ask for the node count, the algorithm and the unit behind the number: Gb/s are eight times"
    " GB/s, and NVLink sums count both directions"
)


def _check_numbers(args: argparse.Namespace) -> None:
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
    for name in positive:
        value = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} must be above 0",
                seen=f"{value:g}",
                next_step="leave it out where it is not known",
            )
    if not 1 <= args.oversubscription < float("inf"):
        raise UsageError(
            "--oversubscription must be 1 or more",
            seen=f"{args.oversubscription:g}",
            next_step="2 means half of the uplinks",
        )


def _question(args: argparse.Namespace) -> Question:
    from busbw.parsers.expect import cluster, hardware

    _one_of("--collective", args.collective, cluster.COLLECTIVES)
    if args.algorithm is not None:
        _one_of("--algorithm", args.algorithm, ("ring", "tree", "nvls", "nvlstree"))
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


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(
            f"unknown {option.removeprefix('--')} {value!r}",
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


# What `busbw expect` prints: the limit first, then what tuned systems reach, then who published
# what.

if TYPE_CHECKING:
    from busbw.model import Limit
    from busbw.parsers.expect.baselines import Curve, NicFigure, Row, RuleOfThumb, Source
    from busbw.parsers.expect.cluster import Bound, Expectation, Question
    from busbw.parsers.expect.hardware import Nics

_SIZES = tuple(1 << power for power in (20, 24, 26, 28, 30, 32, 34))


def answer_lines(answer: Answer) -> str:
    """All blocks of the answer."""
    expectation = answer.expectation
    blocks = [
        _title_block(answer),
        _comparison(answer),
        [f"contract: {note}" for note in answer.contract_notes],
        [f"rdma: {line}" for line in answer.rdma.lines] if answer.rdma is not None else [],
        _headline(expectation),
        _block("bounds by specification", [_bound(bound) for bound in expectation.bounds]),
        _model(expectation),
        _published(answer),
        _thresholds(answer),
        _block(
            "quoted by articles, without a run's output: never judged by",
            [_row(row, "") for row in answer.matches.articles],
        ),
        _curves(answer.curves, expectation.question),
        _block("one NIC by perftest", [_nic(figure) for figure in answer.nic_figures]),
        _latency(expectation),
        _rules(answer),
        [f"table: {line}" for line in answer.tables],
        [f"note: {note}" for note in expectation.notes],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _block(title: str, lines: list[str]) -> list[str]:
    """Lines under their title; without lines there is no title."""
    return [title, *lines] if lines else []


def _title_block(answer: Answer) -> list[str]:
    lines = [_title(answer.expectation.question)]
    if answer.described:
        lines.append(f"described by {answer.described}")
    return lines


def _title(question: Question) -> str:
    if question.gpu is not None:
        gpu, usual = question.gpu.name, question.gpu.gpus_per_node
    else:
        gpu = f"GPU with {question.nvlink_gb_s:g} GB/s of NVLink"
        usual = question.gpus_per_node
    unit = "node" if question.gpus_per_node <= usual else "NVLink domain"
    nodes = phrases.count(question.nodes, unit)
    text = f"{question.collective} on {nodes} of {question.gpus_per_node} x {gpu}"
    if question.nodes == 1:
        return text
    if question.network_gb_s is not None:
        return f"{text}, {question.network_gb_s:g} GB/s of network per node, {question.fabric}"
    assert question.nics is not None
    nic = f"{question.nics.rate_gbit_s:g} Gb/s"
    if not question.nics.name.isdigit():
        nic = f"{question.nics.name} ({nic})"
    return f"{text}, {question.nics.count} x {nic}, {question.fabric}"


def _comparison(answer: Answer) -> list[str]:
    comparison = answer.comparison
    if comparison is None:
        return []
    measured = format_bandwidth(comparison.measured_gb_s)
    state = comparison.status.value.upper()
    return [
        f"{state}  {measured} at {format_size(comparison.size_bytes)}",
        f"  {comparison.reason}",
    ]


def _number(value_gb_s: float) -> str:
    return f"{value_gb_s:8.1f} GB/s"


def _bound(bound: Bound) -> str:
    return f"  {_number(bound.limit.value_gb_s)}  {bound.name}: {bound.limit.formula}"


def _headline(expectation: Expectation) -> list[str]:
    limit: Limit = expectation.limit
    inputs = ", ".join(f"{name} = {value}" for name, value in limit.inputs)
    lines = [
        f"limit    {_number(limit.value_gb_s)}  nothing exceeds it: {limit.formula}",
        f"         {inputs}",
    ]
    banded = [item for item in expectation.expected if item.low_gb_s is not None]
    for item in banded[:2]:
        lines.append(
            f"expect   {item.low_gb_s:8.0f} to {item.typical_gb_s:.0f} GB/s where {item.name} runs,"
            " for large messages"
        )
    if not banded:
        why = expectation.why_no_estimate or "no band for what runs here"
        lines.append(f"expect   unknown: {why}")
    question = expectation.question
    if question.gpu is not None:
        lines.append(f"source   GPU: {question.gpu.source}")
    if question.nics is not None and question.nics.source and question.nodes > 1:
        lines.append(f"source   NIC: {question.nics.source}")
    return lines


_BASIS = {
    "published": "published runs",
    "model": "the model alone, wide",
    "none": "nothing",
}


def _model(expectation: Expectation) -> list[str]:
    lines = []
    for item in expectation.expected:
        band = "no band"
        if item.low_gb_s is not None:
            basis = _BASIS[item.basis]
            band = f"tuned {item.low_gb_s:.0f} to {item.typical_gb_s:.0f} by {basis} ({item.kind})"
        estimate = _number(item.estimate.value_gb_s)
        lines.append(f"  {estimate}  {item.name:<9} {item.binds} binds, {band}")
    title = "estimate from the rates that NCCL counts with, and payload after headers (not a limit)"
    return _block(title, lines)


def _published(answer: Answer) -> list[str]:
    matches = answer.matches
    lines = ["published: no row of this regime or near it"]
    if matches.exact:
        count = phrases.count(len(matches.exact), "row")
        median = format_bandwidth(matches.median_gb_s)
        lines = [f"published, same regime: {count}, median {median}"]
        lines += [_row(row, "") for row in matches.exact]
    elif matches.nearest:
        count = f"{len(matches.nearest)} nearest"
        lines = [f"published: no row of this regime; {count} (nearest, not the same)"]
        for near in matches.nearest:
            lines.append(_row(near.row, f"differs: {', '.join(near.differences)}; "))
    if matches.other:
        lines.append("  shown, not counted:")
        for row in matches.other:
            algorithm = row.algorithm or "algorithm not stated"
            lines.append(_row(row, f"{row.grade.value}; {algorithm}; "))
    return lines


def _row(row: Row, prefix: str) -> str:
    figure = row.busbw_gb_s
    assert figure is not None
    nodes = f"{phrases.count(row.nodes, 'node')}; " if row.nodes is not None else ""
    source = f"{_source(row.source)}{_after(row.note)}"
    return f"  {_number(figure.value)}{_at_size(row)}  {prefix}{nodes}{source}"


def _at_size(row: Row) -> str:
    return "" if row.size_bytes is None else f" at {format_size(row.size_bytes)}"


def _after(note: str | None) -> str:
    return f"; {note}" if note else ""


def _source(source: Source) -> str:
    return ", ".join(part for part in (source.title, source.address, source.date) if part)


def _thresholds(answer: Answer) -> list[str]:
    from busbw.parsers.expect.baselines import blind

    limit = answer.expectation.limit
    lines = []
    for near in answer.matches.thresholds:
        figure = near.row.busbw_gb_s
        assert figure is not None
        text = f"{figure.value / limit.value_gb_s:.0%} of the limit"
        if blind(figure.value, limit):
            text += ", too low to see a fabric that lost a third"
        text += f"; {_source(near.row.source)}"
        if near.differences:
            text += f"; differs: {', '.join(near.differences)}"
        lines.append(f"  {_number(figure.value)}  {text}")
    for row in answer.matches.refused:
        figure = row.busbw_gb_s
        assert figure is not None
        why = f"refused, no system of this kind gives it{_at_size(row)}"
        lines.append(f"  {_number(figure.value)}  {why}: {_source(row.source)}")
    return _block("floors that clouds and tools ship (to pass, not to expect)", lines)


def _curves(curves: tuple[Curve, ...], question: Question) -> list[str]:
    from busbw.parsers.expect.baselines import share_at
    from busbw.parsers.expect.hardware import find_gpu

    lines = []
    for curve in curves:
        shares = [(size, share_at(curve, size)) for size in _SIZES]
        known = [f"{format_size(size)} {share:.0%}" for size, share in shares if share is not None]
        other = "" if find_gpu(curve.gpu) == question.gpu else ", another GPU"
        lines.append(
            f"  {curve.gpu}, {curve.nodes} x {curve.gpus_per_node} GPUs{other}:"
            f" {' · '.join(known)}; {_source(curve.source)}"
        )
    return _block("by message size, share of the figure for the largest", lines)


def _nic(figure: NicFigure) -> str:
    value = f"at most {figure.latency_max_us} µs"
    if figure.gbit_s is not None:
        value = f"{figure.gbit_s:g} Gb/s"
    kind = "floor" if figure.kind == "acceptance-threshold" else "measured"
    source = f"{_source(figure.source)}{_after(figure.note)}"
    return f"  {value}  {kind}, {figure.test}, {figure.link}; {source}"


def _latency(expectation: Expectation) -> list[str]:
    if not expectation.latency_us:
        return []
    text = ", ".join(f"{name} {format_time_us(value)}" for name, value in expectation.latency_us)
    return [
        f"a few bytes, by NCCL's model: {text}; measured systems lie between 0.85 and 10 times it"
        " (EFA, TCPXO and RCCL highest)"
    ]


def _rules(answer: Answer) -> list[str]:
    question = answer.expectation.question
    nics = question.nics if question.nodes > 1 else None
    return _block("rules by which others judge", [_rule(rule, nics) for rule in answer.rules])


def _rule(rule: RuleOfThumb, nics: Nics | None) -> str:
    here = ""
    each = None if nics is None else dict(rule.gb_s_per_nic).get(nics.rate_gbit_s)
    if nics is not None and each is not None:
        here = f" (here {nics.count} x {each:g} = {nics.count * each:g} GB/s)"
    return f"  {rule.rule}{here}: {rule.used}; {_source(rule.source)}"
