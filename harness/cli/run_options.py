"""The options of `busbw run`, and the record that planning takes of them."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import console, on_fail, options, outputs
from busbw.launch.choose import launchers

if TYPE_CHECKING:
    from busbw.run.planning import RunOptions


DEFAULT_PLAYBOOK = "day-one"
PLAYBOOKS = ("quick", "day-one", "firmware-ci", "provider-acceptance", "soak")
"""From the shortest to the longest; written out, since `--help` reads no file."""
PMLS = ("ob1", "ucx")


def add_all(parser: argparse.ArgumentParser) -> None:
    """Every option, in the groups of `busbw run --help`."""
    parser.add_argument(
        "playbook",
        nargs="?",
        default=DEFAULT_PLAYBOOK,
        metavar="PLAYBOOK",
        help=f"{', '.join(PLAYBOOKS)}, or a file (default {DEFAULT_PLAYBOOK})",
    )
    _add_nodes(parser)
    what = parser.add_argument_group("what is measured")
    _add_benchmark(what)
    _add_survey(what)
    _add_launcher(parser)
    _add_kubernetes(parser)
    _add_interleaved(what)
    _add_result(parser)
    outputs.register(parser)
    on_fail.register(parser)


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    nodes = parser.add_argument_group("nodes")
    options.add_nodes(nodes)
    options.add_reach(nodes)
    options.add_host_keys(nodes)
    nodes.add_argument(
        "--temporary-keys",
        action="store_true",
        help="where nodes cannot log in to each other: a key for this run, removed at its end",
    )
    nodes.add_argument(
        "--force",
        action="store_true",
        help="measure also on nodes where somebody else works; without it they are refused",
    )


def _add_benchmark(what: argparse._ArgumentGroup) -> None:
    """The fabric, the ranks and their environment, the contract, nccl-tests."""
    what.add_argument(
        "-p",
        "--profile",
        metavar="NAME",
        help=(
            "fabric profile, such as infiniband or rocev2, or a file that extends one, such as"
            " ./mine.yaml (default: the inventory's, else detected)"
        ),
    )
    what.add_argument(
        "--ranks-per-node",
        type=int,
        metavar="N",
        help="ranks per node (default: the inventory's, else the node's GPUs)",
    )
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable over the profile's; may be repeated",
    )
    what.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable that no rank may have, whoever sets it; may be repeated",
    )
    what.add_argument(
        "--contract",
        type=Path,
        metavar="FILE",
        help="numbers that a provider promised; busbw expect --contract-template",
    )
    what.add_argument(
        "--nccl-tests",
        metavar="PATH",
        help=(
            "nccl-tests: a folder or archive of sources here, its address"
            " (https://…/x.tar.gz#sha256=…, git+https://…#v2.19.6), or an absolute folder of"
            " binaries there"
        ),
    )


def _add_survey(what: argparse._ArgumentGroup) -> None:
    what.add_argument(
        "--survey",
        action="store_true",
        help="measure groups of nodes against each other whether or not something falls short",
    )
    what.add_argument(
        "--budget",
        metavar="TIME",
        help="time for the survey, such as 90s or 20m (default: the playbook's); implies --survey",
    )
    what.add_argument(
        "--with",
        dest="with_",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help=(
            "earlier runs whose surveys of these nodes count as well: fewer launches until somebody"
            " is named (default: those of the last four hours, alike, that left open who is slow)"
        ),
    )
    what.add_argument(
        "--fresh",
        action="store_true",
        help="no earlier survey counts, such as after a fix",
    )
    what.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help=(
            "the fabric's own view, as for busbw check: links are judged, and findings name the"
            " switch port at the far end"
        ),
    )


def _add_interleaved(what: argparse._ArgumentGroup) -> None:
    """A parameter sweep, treatment nodes, a soak."""
    what.add_argument(
        "--sweep",
        dest="sweep",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help=(
            "parameter sweep: measure these values interleaved with the variable unset, in place of"
            " the playbook's cases; an option of the benchmark by its field (registration=0,2), the"
            " collectives by collective=all_reduce,alltoall; repeated: all combinations"
        ),
    )
    what.add_argument(
        "--treatment",
        action=options.HostList,
        metavar="NODES",
        help="these nodes have a change: measure them interleaved with as many control nodes",
    )
    what.add_argument(
        "--duration",
        metavar="TIME",
        help="repeat the bandwidth cases for so long, such as 8h: a soak",
    )


def _add_result(parser: argparse.ArgumentParser) -> None:
    result = parser.add_argument_group("result")
    options.add_out(result, "where run directories go")
    result.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with an interrupted run; finished steps are not repeated",
    )
    options.add_trust(result)
    result.add_argument(
        "--replay", type=Path, metavar="RUN", help="run again from a recording, without any node"
    )
    result.add_argument(
        "--dry-run",
        action="store_true",
        help="print every command line with the reason of each variable; contact no node; with -v the"
        " probes' scripts too",
    )
    result.add_argument("--json", action="store_true", help="print run.json instead of the verdict")
    console.register(result)


def _add_launcher(parser: argparse.ArgumentParser) -> None:
    """Options of the launcher."""
    group = parser.add_argument_group("launcher")
    group.add_argument(
        "--launcher",
        metavar="NAME",
        help="; ".join(f"{each.name}: {each.title}" for each in launchers().values())
        + " (default: the inventory's, else mpirun)",
    )
    group.add_argument(
        "--pml",
        choices=PMLS,
        help="what carries MPI's own few words: ob1 over TCP, or UCX (default: the profile's)",
    )
    group.add_argument(
        "--mpi",
        metavar="PLUGIN",
        help="for srun --mpi (default: pmix or pmi2, as srun --mpi=list names them)",
    )
    group.add_argument(
        "--partition",
        metavar="NAME",
        help="ask Slurm for an allocation there, run in it, give it back",
    )
    group.add_argument(
        "--time",
        metavar="TIME",
        help="limit of that allocation as salloc takes it: 30 (minutes), 2:00:00",
    )
    group.add_argument(
        "--node-count",
        type=int,
        metavar="N",
        help="any N nodes of it, where neither -w nor -i names them",
    )
    group.add_argument(
        "--salloc",
        action="append",
        default=[],
        metavar="OPTION",
        help="any other option of salloc, such as --salloc=--account=x",
    )


def _add_kubernetes(parser: argparse.ArgumentParser) -> None:
    """Options of the MPIJob."""
    group = parser.add_argument_group(
        "Kubernetes",
        "with --launcher mpijob and --node-count: workers of the MPI operator"
        " (kubeflow.org/v2beta1)",
    )
    group.add_argument(
        "--image",
        metavar="IMAGE",
        help="with Open MPI, an sshd, and nccl-tests (--nccl-tests /FOLDER in it)",
    )
    group.add_argument("--namespace", metavar="NAME", help="default: the context's own")
    group.add_argument(
        "--context", metavar="NAME", help="of kubectl's configuration; default: the current one"
    )
    group.add_argument(
        "--pod-gpus",
        type=int,
        default=8,
        metavar="N",
        help="nvidia.com/gpu of each worker (default 8)",
    )
    group.add_argument(
        "--rdma",
        action="append",
        default=[],
        metavar="RESOURCE=N",
        help="such as rdma/ib=8; may be repeated",
    )
    group.add_argument(
        "--networks",
        metavar="TEXT",
        help="secondary interfaces: the annotation k8s.v1.cni.cncf.io/networks",
    )
    group.add_argument(
        "--hugepages", metavar="SIZE", help="of 2 MiB, such as 4Gi; needs --pod-memory"
    )
    group.add_argument("--pod-memory", metavar="SIZE", help="of each worker")
    group.add_argument(
        "--pod-spec",
        type=Path,
        metavar="FILE",
        help=(
            "YAML with more of each worker's pod: nodeSelector, tolerations, serviceAccountName,"
            " imagePullSecrets, resourceClaims and the like"
        ),
    )
    group.add_argument(
        "--shm", default="64Gi", metavar="SIZE", help="of /dev/shm in each worker (default 64Gi)"
    )


def options_of(args: argparse.Namespace) -> RunOptions:
    """What was given on the command line, as the record that planning takes."""
    from busbw.run.planning import RunOptions

    given = {
        field.name: getattr(args, field.name)
        for field in dataclasses.fields(RunOptions)
        if hasattr(args, field.name)
    }
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return RunOptions(**{**given, **lists, "connect_timeout_s": args.connect_timeout})
