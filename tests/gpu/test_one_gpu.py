"""The real nccl-tests on a real GPU: built for the GPU that is here, and measured by the whole
pipeline over the local transport.

NCCL_TESTS_SRC=git+https://github.com/NVIDIA/nccl-tests.git#v2.19.6 pytest tests/gpu
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.nccl_tests]
BOOK = str(Path(__file__).with_name("one_gpu.yaml"))
LIMIT_S = 900


def capability() -> str:
    """Of the first GPU, as `9.0`; skips where something that the run needs is missing."""
    for name in ("nvidia-smi", "nvcc", "mpirun"):
        if shutil.which(name) is None:
            pytest.skip(f"no {name} on PATH")
    asked = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    said = subprocess.run(
        asked, capture_output=True, text=True, timeout=60, check=False
    ).stdout.split()
    if not said:
        pytest.skip("nvidia-smi names no GPU")
    if not os.environ.get("NCCL_TESTS_SRC"):
        pytest.skip("NCCL_TESTS_SRC is not set: the source of nccl-tests is in no package registry")
    return said[0]


def test_one_gpu_is_built_for_measured_and_reported(tmp_path: Path) -> None:
    target = capability().replace(".", "")
    home, out = tmp_path / "home", tmp_path / "runs"
    home.mkdir()
    words = (
        BOOK,
        "-w",
        "localhost",
        "--transport",
        "local",
        "-p",
        "nvlink-only",
        "--ranks-per-node",
        "1",
    )
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        *words,
        "--nccl-tests",
        os.environ["NCCL_TESTS_SRC"],
        "--force",
        "--out",
        str(out),
    )
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(
        argv,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    run = (out / "latest").resolve()
    built = json.loads((run / "raw/build.json").read_text())
    assert (built["problems"], built["usable"]) == ([], ["localhost"]), done.stderr
    (made,) = (run / "raw/nodes/localhost").glob("*-build.json")
    assert (
        f"NVCC_GENCODE=-gencode=arch=compute_{target},code=sm_{target}"
        in json.loads(made.read_text())["argv"]
    )
    for case in ("proof", "all-reduce"):
        outcome = json.loads((run / f"raw/cases/{case}/outcome.json").read_text())
        assert (outcome["state"], outcome["exit_status"]) == ("ended", 0), done.stderr
    said = (run / "raw/cases/all-reduce/stdout.txt").read_text()
    assert re.search(
        r"# {2}Rank {2}0 Group {2}0 Pid +\d+ on .* device +\d \[[0-9a-f:]+\] NVIDIA", said
    ), said
    assert "# Out of bounds values : 0 OK" in said
    result = json.loads((run / "run.json").read_text())
    assert result["emulated"] == "", "a number of real hardware"
    assert [row["size_bytes"] for row in result["cases"][1]["results"][-1]["rows"]] == [
        1 << n for n in range(20, 27)
    ]
    assert (run / "report.html").exists()
