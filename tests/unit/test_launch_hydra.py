"""The mpiexec command lines of MPICH's Hydra, literally."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from busbw.checks.software import NodeFacts
from busbw.fabrics import fabric
from busbw.launch import FabricFacts, LaunchRequest, Mpi, MpiFacts
from busbw.launch.env import mpi_options
from busbw.launch.hydra import LAUNCHER
from busbw.launch.mpirun import ssh_agent
from busbw.launch.render import render
from busbw.model import BenchmarkCase, Collective, Node, ResolvedVar, Sizes
from busbw.parsers.tools.open_mpi import parse_version
from busbw.run.launching import mpi_of

CASE = BenchmarkCase("ar", Collective.ALL_REDUCE, Sizes(8, 8 << 30), check=0)
REQUEST = LaunchRequest(
    case=CASE,
    nodes=(Node("gpu-001", gpus=8), Node("gpu-002", gpus=8)),
    head="gpu-001",
    binary="/opt/all_reduce_perf",
    env=(ResolvedVar("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "profile", "why", "source"),),
    mpi=MpiFacts("4.0.2", "/usr/bin/mpirun"),
    options=mpi_options(fabric.load("infiniband"), FabricFacts("bond0")),
)
_SSH = "env 'HYDRA_LAUNCHER_EXTRA_ARGS=' /usr/bin/mpirun -launcher ssh -launcher-exec ssh"
_PLACES = "-hosts gpu-001,gpu-002 -ppn 8 -n 16"
_REST = (
    "-bind-to none -genvnone -genv NCCL_IB_HCA =mlx5_0,mlx5_1 /opt/all_reduce_perf"
    " -b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"
)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (REQUEST, f"{_SSH} -iface bond0 {_PLACES} {_REST}"),
        (dataclasses.replace(REQUEST, options=()), f"{_SSH} {_PLACES} {_REST}"),
        (
            dataclasses.replace(REQUEST, options=(), case=dataclasses.replace(CASE, by_rail=True)),
            f"{_SSH} -hosts gpu-001,gpu-002 -ppn 1 -n 16 {_REST}",
        ),
        (
            dataclasses.replace(REQUEST, options=(), ssh_agent=ssh_agent("/run/config")),
            _SSH.replace(
                "'HYDRA_LAUNCHER_EXTRA_ARGS='",
                "'HYDRA_LAUNCHER_EXTRA_ARGS=-F /run/config -o BatchMode=yes"
                " -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o KexAlgorithms=-sntrup*'",
            )
            + f" {_PLACES} {_REST}",
        ),
    ],
)
def test_the_command_line_of_hydra(request_: LaunchRequest, expected: str) -> None:
    assert list(LAUNCHER.build(request_).argv) == shlex.split(expected)


def test_a_command_line_is_shown_with_an_option_a_line() -> None:
    lines = render(LAUNCHER.build(REQUEST)).splitlines()

    assert "  -genvnone \\" in lines
    assert "  -genv NCCL_IB_HCA =mlx5_0,mlx5_1 \\" in lines


def test_an_mpi_is_taken_for_the_launcher_that_needs_it_only() -> None:
    version = parse_version("HYDRA build details:\n    Version:            4.0.2\n")
    facts = NodeFacts("n1", "n1", None, 0, "/usr/bin/mpirun", version, None, (), 8, None)

    assert mpi_of(facts, Mpi.MPICH) == MpiFacts("4.0.2", "/usr/bin/mpirun", run_as_root=True)
    assert mpi_of(facts, Mpi.OPEN_MPI) is None
