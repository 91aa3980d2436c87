"""A run that asks for an allocation where no Slurm answers ends with 3: nothing was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_without_slurm_a_run_through_srun_is_unknown_not_failed(tmp_path: Path) -> None:
    write(tmp_path / "salloc", "echo 'salloc: error: no controller' >&2\nexit 1")
    write(tmp_path / "sinfo", "echo 'slurm_load_partitions: no controller' >&2\nexit 1")
    ended = asked(tmp_path, "--nccl-tests", "/opt/nccl-tests/build")
    assert ended.returncode == 3, ended.stderr
    assert "seen: slurm_load_partitions: no controller" in ended.stderr


def test_what_is_wrong_in_the_options_is_said_before_an_allocation_is_asked_for(
    tmp_path: Path,
) -> None:
    write(tmp_path / "sinfo", "exit 0")
    write(tmp_path / "salloc", "touch granted")
    for words, why in (
        ((), "seen: no --nccl-tests"),
        (("--nccl-tests", "/opt/nccl-tests/build", "--contract", "none.yaml"), "none.yaml"),
        (("--nccl-tests", "/opt/nccl-tests/build", "--node-count", "2", "-p", "x"), "x"),
    ):
        ended = asked(tmp_path, *words)
        assert (ended.returncode, why in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / "granted").exists()


def test_a_dry_run_shows_what_is_asked_of_slurm_and_asks_for_nothing(tmp_path: Path) -> None:
    write(tmp_path / "sinfo", "touch asked")
    write(tmp_path / "salloc", "touch asked")
    words = ("--nccl-tests", "/opt/nccl-tests/build", "-p", "tcp", "--dry-run")
    named = asked(tmp_path, *words)
    assert named.returncode == 0, named.stderr
    assert named.stdout.startswith("salloc ")
    assert "--nodelist=a[1-2]' --partition=gpu busbw run quick" in named.stdout.splitlines()[0]
    counted = asked(tmp_path, *words, "--node-count", "3", nodes=())
    assert counted.returncode == 0, counted.stderr
    assert "--nodes=3" in counted.stdout.splitlines()[0]
    assert "--dry-run" not in counted.stdout.splitlines()[0]
    assert "on 3 nodes" in counted.stdout
    assert not (tmp_path / "asked").exists()


def write(program: Path, body: str) -> None:
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def asked(
    tmp_path: Path, *more: str, nodes: tuple[str, ...] = ("-w", "a1,a2")
) -> subprocess.CompletedProcess[str]:
    words = ("run", "quick", *nodes, "--launcher", "srun", "--partition", "gpu", *more)
    return subprocess.run(
        (sys.executable, "-m", "busbw", *words),
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
