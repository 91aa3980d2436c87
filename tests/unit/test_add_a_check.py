"""Adding a check, or a node tool, is adding one module: done here in a copy of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "harness": ".",
    "parsers": "parsers",
    "reports": "reports",
    "playbooks": "playbooks",
    "inventories": "inventories",
}
CHECK = '''"""How many swap areas the node has."""

from busbw.checks import Check, CheckFamily, RuleResult, Section, SectionOutput, results_of
from busbw.model import Status


def _swap(output: SectionOutput) -> tuple[RuleResult, ...]:
    areas = max(len(output.stdout.splitlines()) - 1, 0)
    return (RuleResult("os.swap", Status.PASS, f"{areas} swap areas", "known"),)


CHECK = CheckFamily(
    name="swap",
    checks=(Check("os.swap", "cat /proc/swaps", "shown for information"),),
    sections=(Section("swap", "cat /proc/swaps", small=True),),
    judge=lambda answer: results_of(answer, "swap", "cat /proc/swaps", ("os.swap",), _swap),
)
'''
TOOL = '''"""What `swapon --show` prints (util-linux 2.38)."""

import re

from busbw.parsers.tools import Tool

_ROW = re.compile(r"^(/\\\\S+) +partition +(\\\\S+)", re.M)

TOOL = Tool(
    name="swapon --show",
    marks=("NAME TYPE SIZE",),
    parse=lambda text: tuple(_ROW.findall(text)),
    lines=lambda row: (f"{row[0]} {row[1]}",),
)
'''.replace("\\\\S", "\\S")


@pytest.fixture(name="copy")
def copy_of_the_sources(tmp_path: Path) -> Path:
    """The package as it is imported, in a folder of its own."""
    for folder, place in FOLDERS.items():
        shutil.copytree(
            ROOT / folder,
            tmp_path / "busbw" / place,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return tmp_path


def output_of(copy: Path, *argv: str) -> str:
    result = subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        check=False,
    )
    return result.stdout + result.stderr


def test_a_check_is_one_module(copy: Path) -> None:
    (copy / "busbw" / "checks" / "swap.py").write_text(CHECK)
    program = f"import runpy; print(runpy.run_path({str(ROOT / 'docs/tools/checks_page.py')!r})"
    page = output_of(copy, "-c", f"{program}['render']())")
    assert "| `os.swap` | `cat /proc/swaps` | shown for information |" in page
    argv = ("check", "--local", "-p", "tcp", "--json", "-o", str(copy / "runs"))
    report = output_of(copy, "-m", "busbw", *argv)
    assert '"check_id": "os.swap"' in report
    assert "swap areas" in report


def test_a_node_tool_is_one_module(copy: Path) -> None:
    (copy / "swap.txt").write_text("NAME TYPE SIZE\n/dev/sda2 partition 8G\n")
    unknown = output_of(copy, "-m", "busbw", "read", "swap.txt")
    assert "unknown layout" in unknown
    (copy / "busbw" / "parsers" / "tools" / "swapon.py").write_text(TOOL)
    text = output_of(copy, "-m", "busbw", "read", "swap.txt")
    assert text.splitlines() == [
        "swap.txt: output of a node's tools",
        "  swapon --show          /dev/sda2 8G",
    ]
