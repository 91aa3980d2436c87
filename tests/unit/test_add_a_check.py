"""Adding a check, or a node tool, is adding one module: done here in a copy of the sources."""

from __future__ import annotations

from pathlib import Path

from scratch_copy import ROOT, scratch_copy

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


def test_a_check_is_one_module(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    copy.add("checks/swap.py", CHECK)
    assert copy.changed() == ["checks/swap.py"]

    program = f"import runpy; print(runpy.run_path({str(ROOT / 'docs/tools/checks_page.py')!r})"
    page = copy.python("-c", f"{program}['render']())").stdout
    assert "| `os.swap` | `cat /proc/swaps` | shown for information |" in page
    report = copy.run("check", "--local", "-p", "tcp", "--json", "-o", str(tmp_path / "runs"))
    assert '"check_id": "os.swap"' in report.stdout
    assert "swap areas" in report.stdout


def test_a_node_tool_is_one_module(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    (tmp_path / "swap.txt").write_text("NAME TYPE SIZE\n/dev/sda2 partition 8G\n")
    assert "unknown layout" in copy.run("read", "swap.txt").stdout

    copy.add("parsers/tools/swapon.py", TOOL)
    assert copy.changed() == ["parsers/tools/swapon.py"]
    assert copy.run("read", "swap.txt").stdout.splitlines() == [
        "swap.txt: output of a node's tools",
        "  swapon --show          /dev/sda2 8G",
    ]
