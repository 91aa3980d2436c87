"""A run that asks for an allocation where no Slurm answers ends with 3: nothing was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_without_slurm_a_run_through_srun_is_unknown_not_failed(tmp_path: Path) -> None:
    salloc = tmp_path / "salloc"
    salloc.write_text("#!/bin/sh\necho 'salloc: error: no controller' >&2\nexit 1\n")
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'slurm_load_partitions: no controller' >&2\nexit 1\n")
    for program in (salloc, sinfo):
        program.chmod(0o755)
    words = ("run", "quick", "-w", "a1,a2", "--launcher", "srun", "--partition", "gpu")
    ended = subprocess.run(
        (sys.executable, "-m", "busbw", *words),
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert "seen: slurm_load_partitions: no controller" in ended.stderr
