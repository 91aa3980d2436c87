"""One lab, one fault, every launcher: mpirun over ssh, srun, and mpirun whose daemons Slurm starts.
The verdict is the cluster's, not theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults, processes, requirements
from busbw.lab.state import LabState, Mode

pytestmark = [pytest.mark.lab, pytest.mark.slurm]

BOOK = str(Path(__file__).with_name("launchers.yaml"))
ASKED = ("--partition", "lab", "--time", "5")
SLOW_NODE = ("slow-node", "slow-network-side", "slow-link")
"""By what else a run measured besides its survey."""


@pytest.fixture(scope="module")
def slow3(
    needs_lab: None, make_labs: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:  # type: ignore[type-arg]
    """A lab of 4 nodes with a Slurm; node3 has a fifth of the others' rate."""
    lacking = requirements.missing(Mode.ROOT, slurm=True)
    if lacking:
        pytest.skip(f"missing packages: {requirements.apt_command(lacking)}")
    with make_labs(tmp_path_factory.mktemp("l4") / "labs") as labs:
        state = labs(built=True, nodes=4, slurm=True, rate_bit_s=200e6)
        yield faults.slow(state, "node3", 40e6, None, None)


def words(lab: LabState, out: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "busbw",
        "run",
        BOOK,
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(out),
        *options,
    ]


def measured(lab: LabState, out: Path, *options: str) -> Any:
    """run.json."""
    done = subprocess.run(
        words(lab, out, *options),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stderr + done.stdout
    return json.loads(((out / "latest").resolve() / "run.json").read_text())


def given_back(lab: LabState, in_head: Callable) -> None:  # type: ignore[type-arg]
    """Once Slurm has no job any more."""
    processes.wait_until(
        lambda: in_head(lab, "squeue", "--noheader").out == "", 30, "the end of the allocation"
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--launcher", "mpirun"),
        ("--launcher", "srun", *ASKED),
        ("--launcher", "slurm-mpirun", *ASKED),
    ],
    ids=lambda options: options[1],
)
def test_every_launcher_ends_in_the_same_verdict(
    slow3: LabState, tmp_path: Path, in_head: Callable, options: tuple[str, ...]
) -> None:  # type: ignore[type-arg]
    result = measured(slow3, tmp_path / "runs", *options)
    assert result["verdict"] == "FAIL", result["findings"]
    assert result["findings"][0]["id"] in SLOW_NODE, result["findings"][0]
    # Other work on the machine may scatter another node; the run then says what it was measured
    # beside, and what is slow all the time comes first.
    slow = [blame["component"]["names"] for blame in result["blame"] if blame["state"] == "slow"]
    beside = [each["id"] for each in result["findings"] if each["id"] == "measured-while-busy"]
    assert result["findings"][0]["where"][0].split()[0] == "node3", result["findings"][0]
    assert slow == [["node3"]] or (beside and ["node3"] in slow), slow
    case = json.loads(
        ((tmp_path / "runs/latest").resolve() / "raw/cases/all-reduce/outcome.json").read_text()
    )
    assert case["invocation"]["nranks"] == 8
    assert ("srun" in case["invocation"]["argv"]) is (options[1] == "srun")
    # Slurm calls the job COMPLETING for a moment after salloc has ended.
    given_back(slow3, in_head)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_run_that_is_ended_gives_its_allocation_back(
    slow3: LabState, tmp_path: Path, in_head: Callable, number: signal.Signals
) -> None:  # type: ignore[type-arg]
    run = subprocess.Popen(
        words(slow3, tmp_path / "runs", "--launcher", "srun", *ASKED),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        processes.wait_until(lambda: bool(processes.ranks(slow3, slow3.nodes)), 60, "the ranks")
        (inside,) = processes.children(run.pid)
        assert processes.command_line(run.pid).startswith("salloc "), (
            "the user's command became salloc"
        )
        # A terminal sends Ctrl-C to the command in salloc, which has a process group of its own.
        os.kill(inside, number)
        said, _ = run.communicate(timeout=400)
    finally:
        run.kill()
        run.wait()
    given_back(slow3, in_head)
    processes.wait_until(
        lambda: not processes.ranks(slow3, slow3.nodes), 30, "the end of the ranks"
    )
    if number is signal.SIGINT:
        assert "busbw run --resume" in said
        assert (tmp_path / "runs/latest/report.html").exists()
