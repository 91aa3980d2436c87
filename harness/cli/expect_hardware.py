"""`busbw expect` without describing the cluster by hand: its hardware as a run recorded it, or as a
node says it now."""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import UsageError
from busbw.fabrics.profiles import carrier_by_fabric, intra_node_fabrics
from busbw.files import read_given
from busbw.text import decoded
from busbw.units import counted


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
    described = of_run(args.run_directory) if args.run_directory is not None else _of_node(args)
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


def of_run(path: Path) -> Described:
    """The hardware as the nodes of a run reported it.

    Raises:
        UsageError: the run holds no answer of a node.
        RunDirError: it cannot be read.
    """
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
        parts.append(f"NVLink joins {counted(domain, 'node')}")
    summary = f"{source}: {', '.join(parts) or 'nothing that the tables know'}"
    if count is not None:
        summary += f", on {counted(count, 'node')}"
    per_node = hardware.gpus_per_node
    return Described(gpu, per_node, nics, fabric, count, mtu, summary, missing, domain)
