"""What reaches the ranks, with a real mpirun over the nodes of a lab: variables that are taken away,
and the values of a setup script that lies on the nodes."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from busbw.fabrics import fabric
from busbw.lab.state import LabState
from busbw.launch import FabricFacts, LaunchRequest, MpiFacts
from busbw.launch.env import mpi_options
from busbw.launch.mpirun import LAUNCHER, ssh_agent
from busbw.model import (
    BenchmarkCase,
    Collective,
    Node,
    ResolvedVar,
    SetupScript,
    Sizes,
    UnsetVar,
)

pytestmark = pytest.mark.lab

SAY = "echo SAID $(hostname) net=${NCCL_NET-none} plugin=${NCCL_NET_PLUGIN-none} hca=${NCCL_IB_HCA-none}"
SCRIPT = (
    "export NCCL_NET=FromScript NCCL_NET_PLUGIN=from-script NCCL_IB_HCA=from-script; echo sourced"
)
SETUP = "/var/tmp/busbw-rank-environment.sh"
OnNode = Callable[..., Any]


def request(**changes: object) -> LaunchRequest:
    path = shutil.which("mpirun") or "mpirun"
    printed = subprocess.run((path, "--version"), capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+\.\d+\.\d+)", printed)
    assert version, printed
    plain = LaunchRequest(
        case=BenchmarkCase("environment", Collective.ALL_REDUCE, Sizes(8, 8)),
        nodes=(Node("node1", gpus=1), Node("node2", gpus=1)),
        head="node1",
        binary="/bin/sh",
        env=(),
        mpi=MpiFacts(version[1], path, run_as_root=os.geteuid() == 0),
        options=mpi_options(fabric.load("lab"), FabricFacts("eth0", ("eth0",))),
        ssh_agent=ssh_agent(None),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # fields by name


def seen(lab: LabState, on_node: OnNode, launch: LaunchRequest) -> tuple[list[str], str]:
    """(what the ranks say, standard error); the head's own shell has NCCL_NET."""
    argv = LAUNCHER.build(launch).argv
    words = (*argv[: argv.index("/bin/sh")], "/bin/sh", "-c", SAY)
    ran = on_node(lab, "node1", f"NCCL_NET=FromShell {shlex.join(words)}", timeout_s=60.0)
    assert ran.exit_status == 0, ran
    lines = [line for line in ran.out.splitlines() if line.startswith("SAID ")]
    return sorted(line.removeprefix("SAID ") for line in lines), ran.out + ran.err


def test_a_variable_of_the_heads_shell_reaches_its_ranks_unless_it_is_unset(
    lab4: LabState, on_node: OnNode
) -> None:
    before, _ = seen(lab4, on_node, request())
    assert "node1 net=FromShell plugin=none hca=none" in before

    away = (UnsetVar("NCCL_NET", "--unset", "given on the command line"),)
    after, _ = seen(lab4, on_node, request(unset=away))
    assert after == [f"{node} net=none plugin=none hca=none" for node in ("node1", "node2")]


def test_a_setup_script_is_sourced_on_every_node_and_yields_to_what_a_person_set(
    lab4: LabState, on_node: OnNode
) -> None:
    for node in ("node1", "node2"):
        written = on_node(lab4, node, f"printf %s {shlex.quote(SCRIPT)} > {SETUP}", timeout_s=20.0)
        assert written.exit_status == 0
    launch = request(
        env=(
            ResolvedVar("NCCL_NET", "Profile", "profile x", "yields to the script", yields=True),
            ResolvedVar("NCCL_IB_HCA", "person", "--env", "wins over the script"),
        ),
        unset=(UnsetVar("NCCL_NET_PLUGIN", "--unset", "wins over the script"),),
        setup=SetupScript(SETUP, "inventory"),
    )

    lines, everything = seen(lab4, on_node, launch)

    for node in ("node1", "node2"):
        on_node(lab4, node, f"rm -f {SETUP}", timeout_s=20.0)
    assert lines == [f"{node} net=FromScript plugin=none hca=person" for node in ("node1", "node2")]
    assert "sourced" in everything


def test_a_required_script_that_is_missing_ends_the_ranks_and_an_optional_one_does_not(
    lab4: LabState, on_node: OnNode
) -> None:
    gone = SetupScript("/var/tmp/busbw-no-such-script.sh", "inventory")
    lines, _ = seen(lab4, on_node, request(setup=dataclasses.replace(gone, optional=True)))
    assert len(lines) == 2

    argv = shlex.join(LAUNCHER.build(request(setup=gone)).argv)
    ran = on_node(lab4, "node1", argv, timeout_s=60.0)
    assert ran.exit_status != 0
    assert f"setup script {gone.path} cannot be read" in ran.out + ran.err
