"""Options that several commands share: which nodes, how they are reached, which run, where it is
kept."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from busbw.errors import UsageError

Group = argparse.ArgumentParser | argparse._ArgumentGroup
"""What options are added to: a command, or one group of its help."""


class HostList(argparse.Action):
    """A host list that may be given in parts: `-x gpu-001 -x gpu-002` is `-x gpu-001,gpu-002`. With
    argparse's own rule, the last one counts, busbw would contact the node that the first one
    excludes."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        earlier = getattr(namespace, self.dest)
        joined = values if earlier is self.default else f"{earlier},{values}"
        setattr(namespace, self.dest, joined)


class Once(argparse.Action):
    """An option whose second value would silently replace the first one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        earlier = getattr(namespace, self.dest)
        if earlier is not self.default:
            raise argparse.ArgumentError(self, f"given twice: {earlier} and {values}")
        setattr(namespace, self.dest, values)


def add_nodes(group: Group) -> None:
    """`-i`, `-w` and `-x`: the nodes."""
    group.add_argument(
        "-i",
        "--inventory",
        action=Once,
        metavar="FILE",
        help="YAML, Ansible or Open MPI hostfile; `lab` or `lab:NAME` for the embedded lab",
    )
    group.add_argument(
        "-w",
        "--nodes",
        action=HostList,
        metavar="HOSTLIST",
        help="such as gpu-[001-016]; with -i: only these of it",
    )
    add_exclude(group)


def add_exclude(group: Group) -> None:
    """`-x`: nodes that are left out."""
    group.add_argument(
        "-x", "--exclude", action=HostList, metavar="HOSTLIST", help="leave these out"
    )


def add_reach(group: Group, *, connect_timeout_s: float = 10.0) -> None:
    """`--transport`, `-f` and `--connect-timeout`: how the nodes are reached."""
    group.add_argument(
        "--transport",
        choices=("ssh", "openssh", "local"),
        default="ssh",
        help="how nodes are reached (default ssh)",
    )
    group.add_argument(
        "-f",
        "--forks",
        type=int,
        default=64,
        metavar="N",
        help="nodes reached at once (default 64)",
    )
    group.add_argument(
        "--connect-timeout",
        type=float,
        default=connect_timeout_s,
        metavar="S",
        help=f"limit of one connection, in seconds (default {connect_timeout_s:g})",
    )


def add_host_keys(group: Group) -> None:
    """`--accept-new-host-keys`."""
    group.add_argument(
        "--accept-new-host-keys",
        action="store_true",
        help="take the key of a node never seen before; it is recorded",
    )


def add_trust(group: Group) -> None:
    """The user's word for a plan that another account made."""
    group.add_argument(
        "--trust",
        action="store_true",
        help="contact the nodes of a plan that this account did not make (it names programs to run here)",
    )


def add_run(group: Group) -> None:
    """The run directory that a command is about."""
    group.add_argument(
        "run",
        type=Path,
        nargs="?",
        default=Path("runs/latest"),
        metavar="RUN",
        help="run directory (default runs/latest)",
    )


def add_out(group: Group, purpose: str = "where run directories are") -> None:
    """The folder that holds the run directories."""
    group.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help=f"{purpose} (default runs)",
    )


def require_positive(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Each of these options, where it is given, is a finite number above 0.

    Raises:
        UsageError: one is not.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} must be above 0",
                seen=f"{value:g}",
                next_step="leave it out where it is not known",
            )
