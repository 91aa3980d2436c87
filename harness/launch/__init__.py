"""Launchers: pure builders of complete command lines. One file per launcher, with a `LAUNCHER`;
nothing else names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from busbw.fabrics.profile import MpiOption
from busbw.model import BenchmarkCase, Invocation, Node, ResolvedVar, SetupScript, UnsetVar


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """What the placeholders of a profile stand for; None or () = not known, and what needs it is
    left out."""

    socket_ifname: str | None = None
    """Interface that reaches all nodes and has the same name on all, for bootstrap and for the
    launcher; several are comma-separated."""
    rails: tuple[str, ...] = ()
    """Compute devices, where they have the same names on all nodes."""
    nccl_version: str | None = None
    """`2.27.5`; None = not known: values of a limited range of versions are then set only if an
    unknown name does no harm (`since`)."""
    log_dir: str | None = None
    """Directory on every node for NCCL's logs; None = NCCL writes to standard output."""
    machine: str | None = None
    """The provider's name of the machine (`BM.GPU.H100.8`), where all nodes are alike: the label
    `machine` of the inventory; None = not stated."""


class Mpi(StrEnum):
    """An implementation of MPI, by the name that `busbw.parsers.tools.open_mpi` gives it."""

    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"


@dataclass(frozen=True, slots=True)
class MpiFacts:
    """The MPI that starts the ranks."""

    version: str
    """As `mpirun --version` prints it: `4.1.4`."""
    path: str = "mpirun"
    """Absolute path where known: it makes the other nodes use the same installation."""
    run_as_root: bool = False


@dataclass(frozen=True, slots=True)
class SlurmFacts:
    """The Slurm allocation that a launch runs in."""

    job: str
    """Its number."""
    nodes: tuple[str, ...]
    """All its nodes in Slurm's own order."""
    mpi: str | None = None
    """The plugin for `srun --mpi`: `pmix`; None = Slurm has none that Open MPI can use."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything a launcher needs for one launch."""

    case: BenchmarkCase
    nodes: tuple[Node, ...]
    """The nodes used, in the order their ranks must have."""
    head: str
    """Name of the node that the command line is run on."""
    binary: str
    """Absolute path on every node."""
    env: tuple[ResolvedVar, ...]
    mpi: MpiFacts
    options: tuple[MpiOption, ...] = ()
    json_path: str | None = None
    """Where rank 0 writes its JSON, on the first of `nodes`; None = no JSON."""
    ssh_agent: str = "ssh"
    """Command with which the head reaches the other nodes, as one line."""
    odd_shells: bool = False
    """True = a node's login shell is not POSIX (fish, tcsh): what starts a daemon there is encoded."""
    ranks_per_node: int | None = None
    """For a case that does not say: None = the nodes' own slots or GPUs."""
    slurm: SlurmFacts | None = None
    """For launchers that start ranks through Slurm; None = there is no allocation."""
    unset: tuple[UnsetVar, ...] = ()
    setup: SetupScript | None = None


@dataclass(frozen=True, slots=True)
class Launcher:
    """A way of starting ranks on nodes, and all that the rest of busbw knows about it."""

    name: str
    """As given to `--launcher`."""
    title: str
    """One line for `busbw run --help`."""
    build: Callable[[LaunchRequest], Invocation]
    """The complete command line. Raises UsageError: the request contradicts itself, or says too
    little."""
    mpi: Mpi = Mpi.OPEN_MPI
    """The MPI that must be on the head node."""
    over_ssh: bool = False
    """True = the head logs in to the other nodes by ssh, with its own keys and known hosts."""
    in_allocation: bool = False
    """True = it needs a Slurm allocation."""
    concurrent: bool = False
    """True = several launches may run at once, each on nodes of its own."""
    creates_nodes: bool = False
    """True = the nodes exist for the time of the run only, and none are named on the command
    line."""
    option_words: tuple[tuple[str, int], ...] = ()
    """Words after an option where that is not one, so that a command line is shown an option a
    line."""
