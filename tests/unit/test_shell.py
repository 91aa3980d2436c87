"""The shell files that run on nodes: shellcheck finds nothing in them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "harness"
FILES = sorted(HARNESS.rglob("*.sh"))
NOT_CHECKED = {
    "SC1091": "a file that lies beside this one",
    "SC3045": "ulimit -l: dash, bash and busybox know it",
    "SC2034": "a variable that another file of the same script reads",
    "SC2154": "a variable that another file of the same script sets",
    "SC2086": "lists of process numbers and paths are split on purpose",
    "SC3013": "-ef: dash, bash and busybox know it",
    "SC2035": "globs below /sys/class/net: no name there begins with a dash",
    "SC1007": "several variables are emptied in one line",
    "SC2016": "text for another shell or for awk",
    "SC2059": "the question to RAS is a format with newlines",
    "SC2015": "A && B || C, where C may follow a failed B",
    "SC2231": "globs over /sys whose folder holds no blank",
    "SC2115": "the folder is tested before it is removed",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}-{file.name}")
def test_shellcheck_finds_nothing(file: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    argv = ("shellcheck", "-s", "sh", "-f", "gcc", "-e", ",".join(NOT_CHECKED), str(file))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
