"""The files that run on nodes: shellcheck finds nothing in the shell, and any Python 3 reads the
Python."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "harness"
FILES = sorted(HARNESS.rglob("*.sh"))
PROGRAMS = sorted(HARNESS.glob("*/py/*.py"))
OLDEST_PYTHON = (3, 6)
"""Of RHEL 8 and its like."""
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
    "SC2089": "a function as text for another shell",
    "SC2090": "a function as text for another shell",
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


def test_there_are_python_programs() -> None:
    assert {file.name for file in PROGRAMS} == {"connect.py", "listen.py", "matmul.py", "nccl.py"}


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: file.name)
def test_an_old_python_reads_the_program(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), feature_version=OLDEST_PYTHON)


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: file.name)
def test_the_program_imports_only_what_python_has_and_torch(file: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert imported <= {*sys.stdlib_module_names, "torch"}
