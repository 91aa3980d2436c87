"""What reaches the ranks, with a real mpirun over the nodes of a lab: variables that are taken away,
and the values of a setup script that lies on the nodes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.fabrics import profiles
from busbw.lab.state import LabState
from busbw.launch import FabricFacts, LaunchRequest, MpiFacts
from busbw.launch.env import mpi_options
from busbw.launch.mpirun import LAUNCHER, ssh_agent
from busbw.model import BenchmarkCase, Collective, Node, ResolvedVar, SetupScript, Sizes, UnsetVar

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
        options=mpi_options(profiles.load("lab"), FabricFacts("eth0", ("eth0",))),
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


BOOK = f"""\
description: One short case, for the environment of its ranks.
checks:
  required: [ssh.connect, sw.mpirun]
setup: {SETUP}
env: {{NCCL_NET_PLUGIN: null}}
cases:
  - {{id: all-reduce, collective: all_reduce, sizes: 64K..128K, iterations: 2, warmup: 1, timeout: 1m, stall: 20s}}
survey: {{when: never}}
lab: {{payload: lab, fabric: lab}}
"""


def test_a_run_keeps_what_its_script_is_and_sets_and_names_the_node_with_another(
    lab4: LabState, on_node: OnNode, tmp_path: Path
) -> None:
    text = "NCCL_IB_TC=106; [ $(hostname) != node3 ] || NCCL_IB_TC=96; export NCCL_IB_TC"
    for node in lab4.nodes:
        written = on_node(
            lab4, node.name, f"printf %s {shlex.quote(text)} > {SETUP}", timeout_s=20.0
        )
        assert written.exit_status == 0
    book = tmp_path / "book.yaml"
    book.write_text(BOOK)
    argv = [sys.executable, "-m", "busbw", "run", str(book), "-i", f"lab:{lab4.name}"]
    done = subprocess.run(
        [*argv, "--out", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    for node in lab4.nodes:
        on_node(lab4, node.name, f"rm -f {SETUP}", timeout_s=20.0)
    run = (tmp_path / "runs/latest").resolve()
    kept = json.loads((run / "raw/setup.json").read_text())
    assert {node["node"]: dict(node["variables"]) for node in kept["nodes"]} == {
        "node1": {"NCCL_IB_TC": "106"},
        "node2": {"NCCL_IB_TC": "106"},
        "node3": {"NCCL_IB_TC": "96"},
        "node4": {"NCCL_IB_TC": "106"},
    }, done.stderr
    result = json.loads((run / "run.json").read_text())
    (finding,) = [each for each in result["findings"] if each["id"] == "setup-script-differs"]
    assert finding["where"] == ["node3"]
    case = json.loads((run / "raw/cases/all-reduce/outcome.json").read_text())
    assert case["state"] == "ended", done.stderr
    assert case["exit_status"] == 0, done.stderr
    assert case["invocation"]["unset"][0]["name"] == "NCCL_NET_PLUGIN"
