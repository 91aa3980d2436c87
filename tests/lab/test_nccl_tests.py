"""The unmodified nccl-tests, built by nvcc on a node and run across the lab on host memory. Needs
its source, nvcc and NCCL's wheel:

pip install --no-deps --target /var/tmp/nccl nvidia-nccl-cu13 NCCL_WHEEL=/var/tmp/nccl
NCCL_TESTS_SRC=git+file:///home/me/nccl-tests#v2.19.6 pytest tests/lab/test_nccl_tests.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.nccl_tests]
BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))
LIMIT_S = 580


def sources() -> str:
    """What NCCL_TESTS_SRC names: a folder, an archive or an address; skips where something that the
    build needs is missing."""
    given, nccl = os.environ.get("NCCL_TESTS_SRC", ""), os.environ.get("NCCL_WHEEL", "")
    if not given:
        pytest.skip("NCCL_TESTS_SRC is not set: the source of nccl-tests is in no package registry")
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    if not (Path(nccl) / "nvidia/nccl/include/nccl.h").is_file():
        pytest.skip(
            "NCCL_WHEEL is not the folder of an unpacked nvidia-nccl wheel (outside /tmp, which"
            " nodes have their own of)"
        )
    return given


def test_the_unmodified_nccl_tests_is_built_and_runs_across_the_lab(
    lab_factory: Callable, tmp_path: Path
) -> None:  # type: ignore[type-arg]
    given = sources()
    lab = lab_factory(nodes=3)
    for node in lab.nodes:
        packages = lab.path / "nodes" / node.name / "home/.local/lib/python3/site-packages"
        packages.mkdir(parents=True)
        (packages / "nvidia").symlink_to(Path(os.environ["NCCL_WHEEL"]).absolute() / "nvidia")
    out = tmp_path / "runs"
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        BOOK,
        "-i",
        "lab",
        "--out",
        str(out),
        "--nccl-tests",
        given,
    )
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL
    )
    run = (out / "latest").resolve()
    built = json.loads((run / "raw/build.json").read_text())
    assert built["problems"] == [], built["problems"]
    assert built["usable"] == ["node1", "node2", "node3"]
    assert (built["origin"], built["version"] is not None) == (given, True)
    outcome = json.loads((run / "raw/cases/all-reduce/outcome.json").read_text())
    assert (outcome["state"], outcome["exit_status"]) == ("ended", 0), done.stderr
    said = (run / "raw/cases/all-reduce/stdout.txt").read_text()
    assert f"# nccl-tests version {built['version']}" in said
    assert said.count("host memory (emulated, no GPU)") == 6
    assert "# Out of bounds values : 0 OK" in said
    assert json.loads((run / "run.json").read_text())["emulated"].startswith("Emulated")
