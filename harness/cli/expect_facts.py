"""`busbw expect` without describing the cluster by hand: its hardware as a run recorded it, or as a node says it now."""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class Described:
    """What the nodes say of themselves, in the words of the options; None = they do not say, or not alike."""

    gpu: str | None
    gpus_per_node: int | None
    nics: str | None
    fabric: str | None
    nodes: int | None
    mtu: int | None
    told: str
    """Where it comes from, and what it is, as one line."""
    missing: tuple[str, ...]


def fill(args: argparse.Namespace) -> str:
    """Put what the nodes say into the options that were not given; the line that says so.

    Raises:
        BusbwError: the run cannot be read, or the node cannot be reached.
        UsageError: what is needed was neither said nor given.
    """
    described = _of_run(args.run_directory) if args.run_directory is not None else _of_node(args)
    for name in ("gpu", "gpus_per_node", "nics", "fabric", "nodes", "mtu"):
        if getattr(args, name) is None:
            setattr(args, name, getattr(described, name))
    needs_network = (args.nodes or 2) > 1 and args.nics is None and args.network_gb_s is None
    if (args.gpu is None and args.nvlink_gb_s is None) or needs_network:
        raise UsageError(
            "what the nodes say is not enough for a limit",
            seen="; ".join(described.missing) or described.told,
            next_step="give the rest by hand, it wins over what the nodes say: --gpu H100 --gpus-per-node 8 --nics 8x400",
        )
    return described.told


def rdma_gbit_s(paths: list[Path]) -> tuple[float, ...]:
    """The best average of each output of `ib_write_bw`.

    Raises:
        UsageError: one cannot be read, or holds no bandwidth.
    """
    from busbw.parsers.nodes import perftest

    found = []
    for path in paths:
        try:
            read = perftest.parse(path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise UsageError(
                f"--rdma {path}: {error.strerror or error}", next_step="the output of ib_write_bw, one file per NIC"
            ) from error
        best = read.best_gbit_s if read is not None else None
        if best is None:
            why = read.problem if read is not None and read.problem else "no row of a bandwidth test"
            raise UsageError(f"--rdma {path}: no bandwidth in it", seen=why, next_step="ib_write_bw -d DEVICE --report_gbits HOST > FILE")
        found.append(best)
    return tuple(found)


def _of_run(path: Path) -> Described:
    from busbw import artefacts, derive, rundir
    from busbw.artefacts import Participants

    run = rundir.open_existing(path)
    plan = derive.load_plan(run)
    answers = derive.answers(run, plan)
    if not answers:
        raise UsageError(f"run {run.run_id} holds no answer of a node", seen="it ended before the check", next_step="busbw run, or --gpu")
    chosen = artefacts.load(run, "participants.json", Participants)
    nodes = chosen.nodes if chosen is not None else tuple(answer.node.name for answer in answers)
    return _described(plan.profile.name, answers, nodes, f"run {run.run_id}", len(nodes))


def _of_node(args: argparse.Namespace) -> Described:
    """Ask one node once, as `busbw check` does; nothing is kept."""
    from busbw import artefacts, derive, planning, rundir
    from busbw.cli.console import Console, now
    from busbw.stages import preflight
    from busbw.stages.context import Context
    from busbw.stages.reach import reach
    from busbw.transport.choose import make

    node = os.uname().nodename.partition(".")[0] if args.local else args.node
    wanted: dict[str, object] = {
        "inventory": None,
        "nodes": node,
        "exclude": None,
        "playbook": "day-one",
        "profile": args.fabric,
        "env": [],
    }
    wanted |= {"ranks_per_node": None, "temporary_keys": False, "forks": 1, "connect_timeout": 10.0}
    plan = planning.new_plan(argparse.Namespace(**wanted, transport="local" if args.local else args.transport), started=now())
    with tempfile.TemporaryDirectory(prefix="busbw-expect-") as folder:
        run = rundir.create(Path(folder), plan.started, "expect")
        artefacts.keep(run, "plan.json", plan)
        transport = make(plan.transport, ssh_config=plan.cluster.ssh_config, accept_new_host_keys=False)
        say = Console(quiet=args.json).say
        with reach(run, plan, transport, say) as fleet:
            if not fleet.sessions:
                gone = fleet.unreachable[0]
                raise UsageError(
                    f"{node} could not be reached", seen=gone.reason, next_step=gone.next_step or "describe the cluster by hand"
                )
            preflight.ask(Context(run=run, plan=plan, fleet=fleet, now=now, say=say))
        answers = derive.answers(run, plan)
        return _described(derive.load_plan(run).profile.name, answers, tuple(a.node.name for a in answers), f"node {node}", None)


def _described(profile_name: str, answers: tuple[object, ...], nodes: tuple[str, ...], source: str, count: int | None) -> Described:
    from busbw.derive import expectation
    from busbw.parsers.judge import limits_table

    found = expectation.hardware_of(answers, nodes)  # type: ignore[arg-type]  # NodeAnswer, which this module must not import at its top
    fabric = profile_name if profile_name in limits_table.FABRICS else None
    gpu = found.gpu.name if found.gpu is not None else None
    carriers, mtu = expectation.carried_by(found, fabric) if fabric is not None else (found.nics, None)
    nics = f"{carriers.count}x{carriers.rate_gbit_s:g}" if carriers is not None else None
    missing = (*found.missing, *((found.no_sockets,) if fabric == expectation.TCP and found.no_sockets else ()))
    if count is None and fabric == "nvlink-only":
        # One node by itself does not say what joins it to others.
        fabric = None
    parts = [f"{found.gpus_per_node} x {gpu}" if gpu is not None else "", f"{nics.replace('x', ' x ')} Gb/s" if nics else "", fabric or ""]
    told = f"{source}: " + (", ".join(part for part in parts if part) or "nothing that the tables know")
    if count is not None:
        told += f", on {count} nodes"
    return Described(gpu, found.gpus_per_node, nics, fabric, count, mtu if fabric is not None else None, told, missing)
