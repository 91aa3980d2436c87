"""`busbw init`: looks around for the nodes and writes them down as a commented `busbw.yaml`."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import options, write_text
from busbw.errors import InventoryError, UsageError
from busbw.files import read_given
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.model import Cluster

_FILE = "busbw.yaml"
_USUAL = (
    "inventory.yaml",
    "inventory.yml",
    "inventory.ini",
    "hosts.ini",
    "hosts.yaml",
    "hosts.yml",
    "hosts",
    "hostfile",
    "machinefile",
    "inventory",
)
"""Names that inventories and hostfiles usually have."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw init`."""
    parser.add_argument(
        "-i",
        "--inventory",
        action=options.Once,
        metavar="FILE",
        help="take the nodes from this file (default: look around)",
    )
    parser.add_argument(
        "-w",
        "--nodes",
        action=options.HostList,
        metavar="HOSTLIST",
        help="the nodes, such as gpu-[001-016]",
    )
    options.add_exclude(parser)
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path(_FILE),
        metavar="FILE",
        help=f"what to write (default {_FILE})",
    )
    parser.add_argument(
        "--propose",
        type=Path,
        metavar="RUN",
        help=(
            "add what all nodes of this check or run have in common as a commented specification:"
            " block"
        ),
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(args: argparse.Namespace) -> int:
    """Write it. 0 = written, 2 = no nodes were found, or the file is there already."""
    if args.propose is not None and args.out.exists() and not args.force:
        return _append(args.out, args.propose)
    from busbw.fabrics import profiles
    from busbw.inventory import fold, own_text
    from busbw.store.whole_files import write_atomically

    if args.out.exists() and not args.force:
        raise UsageError(
            f"{args.out} is there already",
            seen=str(args.out.resolve()),
            next_step="edit it, or write it anew with --force",
        )
    cluster = _cluster(args)
    proposal = _proposal(args.propose) if args.propose is not None else ""
    text = own_text.text(cluster, profiles.names()) + proposal
    write_atomically(args.out.absolute(), text.encode(), mode=0o666)
    count = len(cluster.nodes)
    where = "" if args.out == Path(_FILE) else f" -i {shlex.quote(str(args.out))}"
    inside = ""
    if cluster.emulated:  # Their addresses are known in the lab alone.
        inside = f"lab exec --name {cluster.source.split()[1]} -- busbw "
    nccl_tests = "" if cluster.emulated else " --nccl-tests PATH"
    write_text(
        f"wrote {args.out}: {count} {'node' if count == 1 else 'nodes'}"
        f" {fold(node.name for node in cluster.nodes)}, from {cluster.source}\nnext: busbw"
        f" {inside}check{where}        # read-only: every node against its expected configuration, and"
        f" against the others\n      busbw {inside}run{where}{nccl_tests}        # check, build, measure, judge\n"
    )
    return 0


def _append(out: Path, run: Path) -> int:
    """The proposal at the end of an inventory that is there."""
    from busbw.store.whole_files import write_atomically

    text = read_given(out).decode()
    if re.search(r"(?m)^(# )?specification:", text):
        raise UsageError(
            f"{out} has a specification: block",
            seen=str(out.resolve()),
            next_step=f"edit it, or write it to another file: busbw init --propose {shlex.quote(str(run))} -o FILE",
        )
    proposal = _proposal(run)
    write_atomically(out.absolute(), (text.rstrip("\n") + "\n" + proposal).encode(), mode=0o666)
    write_text(
        f"added a proposal to {out}: {proposal.count(chr(10)) - 4} keys, as comments\n"
        "next: compare each with the order, and remove the # of what must hold\n"
    )
    return 0


def _proposal(path: Path) -> str:
    """What the nodes of a check or run have in common, as comments.

    Raises:
        UsageError: a required check failed there, or the nodes have nothing in common.
    """
    from busbw import assess
    from busbw.checks import specification
    from busbw.inventory import own_text
    from busbw.model import Status
    from busbw.run.checking import verdict_of
    from busbw.store import run_directory

    run = run_directory.open_existing(path)
    plan = assess.load_plan(run)
    answers = assess.answers(run, plan)
    verdict = verdict_of(assess.checked(run, plan, answers))
    if verdict not in (Status.PASS, Status.WARN):
        raise UsageError(
            f"{path} is no good example: its checks came to {verdict.value}",
            seen=f"{counted(len(answers), 'node')} of run {run.run_id}",
            next_step="correct what busbw check names, check again, and propose from that run",
        )
    shared = specification.shared(answers)
    if not shared:
        raise UsageError(
            f"the nodes of {path} show nothing that all have in common",
            seen=f"{counted(len(answers), 'node')} of run {run.run_id}",
            next_step="write the specification: block by hand: docs/checks.md has its keys",
        )
    return own_text.proposal(shared, run.run_id, len(answers))


def _cluster(args: argparse.Namespace) -> Cluster:
    """The nodes that were named, of the Slurm allocation, or of the one inventory here."""
    from busbw import inventory

    if args.inventory is None and args.nodes is None and not _in_allocation():
        if args.propose is not None:
            from busbw import assess
            from busbw.store import run_directory

            return assess.load_plan(run_directory.open_existing(args.propose)).cluster
        here = [name for name in _USUAL if Path(name).is_file()]
        if len(here) > 1:
            raise InventoryError(
                "several files here may be the inventory",
                seen=", ".join(here),
                next_step=f"busbw init -i {here[0]}",
            )
        if not here:
            raise InventoryError(
                "nothing here names nodes",
                seen="no Slurm allocation, and no file named " + ", ".join(_USUAL),
                next_step="busbw init -w 'gpu-[001-016]', or busbw init -i FILE",
            )
        args.inventory = here[0]
    return inventory.resolve(args.inventory, args.nodes, args.exclude, os.environ, here=False)


def _in_allocation() -> bool:
    return any(
        os.environ.get(name, "").strip() for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
    )
