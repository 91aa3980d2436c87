"""Nodes of two kinds in one run: two builds, each on all nodes of its kind, one launch; reused by
the next run, built again where they are gone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))
MPI = Path("/usr/lib/x86_64-linux-gnu/openmpi")


def ran(*words: str, out: Path) -> tuple[Path, Any, Any]:
    """(run directory, build.json, outcome of the case)."""
    argv = (sys.executable, "-m", "busbw", "run", *words)
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    run = (out / "latest").resolve()
    case = run / "raw/cases/all-reduce/outcome.json"
    assert case.exists(), done.stderr
    return run, json.loads((run / "raw/build.json").read_text()), json.loads(case.read_text())


def said(run: Path) -> list[str]:
    lines = (run / "raw/events.jsonl").read_text().splitlines()
    return [event["text"] for line in lines if (event := json.loads(line))["step"] == "build"]


def asked(run: Path, node: str, label: str) -> int:
    """How often a node was given a command of that label."""
    return len(list((run / "raw/nodes" / node).glob(f"*-{label}.json")))


def installed(lab: LabState, node: str) -> set[str]:
    # The name of the machine that made a build stands behind the stamp.
    builds = (lab.path / "nodes" / node / "home/.cache/busbw/build").iterdir()
    return {path.name.partition("-")[0] for path in builds}


def test_two_kinds_of_nodes_are_two_builds_and_one_launch(
    lab_factory: Callable, tmp_path: Path
) -> None:  # type: ignore[type-arg]
    if not MPI.is_dir():
        pytest.skip(f"no {MPI} to give a second name")
    lab = lab_factory(nodes=4)
    for name in ("node2", "node4"):
        home = lab.path / "nodes" / name / "home"
        (home / "mpi").symlink_to(MPI)
        (home / ".bashrc").write_text("export MPI_HOME=$HOME/mpi\n")
    out = tmp_path / "runs"
    run, built, case = ran(BOOK, "-i", "lab", "--out", str(out), out=out)
    first, second = built["builds"]
    assert [(each["builder"], each["nodes"], each["reused"]) for each in (first, second)] == [
        ("node1", ["node1", "node3"], False),
        ("node2", ["node2", "node4"], False),
    ]
    assert (built["problems"], built["usable"]) == ([], ["node1", "node2", "node3", "node4"])
    assert f"2 node types: node[1,3]; node[2,4]: mpi home /run/node/home/mpi (there {MPI})" in said(
        run
    )
    chooser = Path(built["folder"]).parent.name
    stamps = {
        "node1": first["stamp"],
        "node2": second["stamp"],
        "node3": first["stamp"],
        "node4": second["stamp"],
    }
    assert {node: installed(lab, node) for node in stamps} == {
        node: {stamp, chooser} for node, stamp in stamps.items()
    }
    assert [asked(run, node, "build") for node in stamps] == [1, 1, 0, 0]
    assert (case["state"], case["exit_status"], case["invocation"]["nranks"]) == ("ended", 0, 8)
    assert f"{built['folder']}/all_reduce_perf" in case["invocation"]["argv"]

    # The same binaries, and MPI's own words through UCX where this Open MPI has it.
    listed = subprocess.run(
        ("ompi_info",), capture_output=True, text=True, timeout=400, check=False
    ).stdout
    ucx = ("--pml", "ucx") if "MCA pml: ucx" in listed else ()
    run, again, case = ran(BOOK, "-i", "lab", "--out", str(out), *ucx, out=out)
    assert ("ucx" in case["invocation"]["argv"]) is bool(ucx)
    assert [each["reused"] for each in again["builds"]] == [True, True]
    assert [asked(run, node, "unpack") for node in stamps] == [0, 0, 0, 0]
    assert (case["state"], case["exit_status"]) == ("ended", 0)

    shutil.rmtree(lab.path / "nodes/node4/home/.cache/busbw/build")
    resumed, restored, _ = ran("--resume", str(run), out=out)
    assert resumed == run
    assert "the nodes do not have any more what was built: once more" in said(run)
    assert (restored["problems"], installed(lab, "node4")) == ([], {second["stamp"], chooser})
