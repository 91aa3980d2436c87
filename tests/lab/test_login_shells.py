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


LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
NODES = ("node1", "node2")


@pytest.fixture
def mpich(lab: LabState, tmp_path: Path) -> Iterator[Path]:
    """An inventory of two nodes that have MPICH as their MPI: its programs, header and library."""
    program = shutil.which("mpiexec.hydra")
    if program is None:
        pytest.skip("MPICH's mpiexec.hydra is not installed")
    programs = Path(program).resolve().parent
    parts = {
        "bin/mpirun": Path(program).resolve(),
        # Hydra looks for it beside the name that it was called by.
        "bin/hydra_pmi_proxy": programs / "hydra_pmi_proxy",
        "include": LIBRARIES / "mpich/include",
        "lib/libmpi.so": LIBRARIES / "libmpich.so",
    }
    links = [lab.path / "nodes" / node / name for node in NODES for name in parts]
    for link, part in zip(links, [*parts.values()] * len(NODES), strict=True):
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(part)
    inventory = tmp_path / "hydra.yaml"
    inventory.write_text(
        f"nodes: node[1-2]\nssh_config: {files.ssh_config(lab)}\nlauncher: hydra\n"
    )
    yield inventory
    for link in links:
        link.unlink()


@pytest.mark.parametrize("name", ["bash", "fish", "tcsh"])
def test_hydra_starts_its_ranks_whatever_the_login_shell(
    lab: LabState, mpich: Path, tmp_path: Path, name: str
) -> None:
    log_in_with(lab, name)
    run = busbw(lab, tmp_path, "check", "--path", "-i", str(mpich), "-p", "tcp")
    assert greeted(run) == [*NODES]


@pytest.mark.long
@pytest.mark.usefixtures("mpich")
@pytest.mark.parametrize("name", ["bash", "fish", "tcsh"])
def test_hydra_measures_whatever_the_login_shell(lab: LabState, tmp_path: Path, name: str) -> None:
    """All sizes: where CPUs are few, MPICH 4.0.2 on UCX may spin at the end of its ranks."""
    if not (LIBRARIES / "mpich/include/mpi.h").exists():
        pytest.skip("MPICH's header is not installed: apt-get install libmpich-dev")
    log_in_with(lab, name)
    nodes = ("-i", f"lab:{lab.name}", "-w", "node[1-2]")
    # The nodes of a lab have one boot id: UCX would give them memory that they do not share.
    tcp = ("--env", "UCX_TLS=tcp,self")
    run = busbw(lab, tmp_path, "run", BOOK, *nodes, "--launcher", "hydra", *tcp)
    printed = (run / "raw/cases/all-reduce/stdout.txt").read_text()
    ranks = re.findall(r"Rank +\d+ .* on +(\S+) device", printed)
    sizes = re.findall(r"^ +(\d+) +\d+ +float .* 0$", printed, re.M)
    assert (sorted(set(ranks)), sizes) == ([*NODES], ["65536", "131072", "262144"]), printed
