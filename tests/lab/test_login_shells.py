"""fish and tcsh as the login shell of every node: the launch, and what `busbw check --path` tries,
go as with bash."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.lab import enter, files
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab
BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))


def log_in_with(lab: LabState, name: str) -> None:
    """Every node's accounts have that login shell from now on."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    passwd = lab.path / "passwd"
    text = re.sub(r"^(.*:)[^:\n]*$", rf"\g<1>{program}", passwd.read_text(), flags=re.M)
    # In place: the nodes have this very file as their own.
    passwd.write_text(text)


@pytest.fixture(scope="module")
def lab(lab4: LabState) -> Iterator[LabState]:
    """A lab whose login shells a test may change."""
    passwd = lab4.path / "passwd"
    before = passwd.read_text()
    yield lab4
    passwd.write_text(before)


def busbw(lab: LabState, out: Path, *words: str) -> Path:
    """The run directory of a command inside the lab."""
    argv = enter.reexec_argv(lab, (sys.executable, "-m", "busbw", *words, "--out", str(out)))
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (out / "latest").exists(), done.stderr
    return (out / "latest").resolve()


def greeted(run: Path) -> list[str]:
    """The nodes that answered to the launcher's hello, by rank."""
    return [
        line.split()[2] for line in sorted((run / "raw/probe/hello.txt").read_text().splitlines())
    ]


@pytest.mark.parametrize("name", ["fish", "tcsh"])
def test_a_launch_and_its_rehearsal_go_as_with_bash(
    lab: LabState, tmp_path: Path, name: str
) -> None:
    log_in_with(lab, name)
    nodes = ("-i", f"lab:{lab.name}", "-w", "node[1-2]")
    assert greeted(busbw(lab, tmp_path, "check", "--path", *nodes)) == ["node1", "node2"]
    run = busbw(lab, tmp_path, "run", BOOK, *nodes)
    case = json.loads((run / "raw/cases/all-reduce/outcome.json").read_text())
    assert (case["state"], case["exit_status"]) == ("ended", 0), case
    assert "BUSBW_AGENT" in " ".join(case["invocation"]["argv"])


@pytest.mark.parametrize("name", ["bash", "fish", "tcsh"])
def test_hydra_starts_its_ranks_whatever_the_login_shell(
    lab: LabState, tmp_path: Path, name: str
) -> None:
    program = shutil.which("mpiexec.hydra")
    if program is None:
        pytest.skip("MPICH's mpiexec.hydra is not installed")
    log_in_with(lab, name)
    for node in ("node1", "node2"):
        link = lab.path / "nodes" / node / "bin/mpirun"
        link.unlink(missing_ok=True)
        link.symlink_to(Path(program).resolve())
    inventory = tmp_path / "hydra.yaml"
    inventory.write_text(
        f"nodes: node[1-2]\nssh_config: {files.ssh_config(lab)}\nlauncher: hydra\n"
    )
    try:
        run = busbw(lab, tmp_path, "check", "--path", "-i", str(inventory), "-p", "tcp")
    finally:
        for node in ("node1", "node2"):
            (lab.path / "nodes" / node / "bin/mpirun").unlink()
    assert greeted(run) == ["node1", "node2"]
