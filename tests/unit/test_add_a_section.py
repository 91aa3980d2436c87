"""A report section is one template, and a view beside it where it computes: added in a scratch copy
of the package, it stands in the page at its number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from busbw.reports.sections import __path__ as sections_path

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "tests" / "fixtures" / "reports" / "runs.py"
PRINT_PAGE = (
    "import runpy, sys, busbw.reports.html as html\n"
    f"report = runpy.run_path({str(RUNS)!r})['healthy']()\n"
    "sys.stdout.buffer.write(html.render(report).encode())"
)
TEMPLATE = '{% set heading = "Power" %}\n<p>{{ view.watts }} W on {{ view.nodes }} nodes</p>\n'
VIEW = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Power:
    watts: int
    nodes: int

def view(report):
    return Power(700, len(report.result.nodes)) if report.result.nodes else None
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package laid out as installed: all linked, the sections copied."""
    package = tmp_path / "busbw"
    package.mkdir()
    for entry in (ROOT / "harness").iterdir():
        (package / entry.name).symlink_to(entry)
    for folder in ("parsers", "playbooks", "inventories"):
        (package / folder).symlink_to(ROOT / folder)
    (package / "reports").mkdir()
    for entry in (ROOT / "reports").iterdir():
        if entry.name != "sections":
            (package / "reports" / entry.name).symlink_to(entry)
    copytree(ROOT / "reports" / "sections", package / "reports" / "sections")
    return tmp_path


def page(folder: Path) -> str:
    environ = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_PAGE], env=environ, capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode()


def test_a_template_alone_is_a_section(copy: Path) -> None:
    before = page(copy)
    sections = copy / "busbw" / "reports" / "sections"
    (sections / "37-power.html.j2").write_text(
        '{% set heading = "Power" %}\n<p>{{ result.run_id }}</p>\n'
    )
    after = page(copy)
    assert "Power</h2>" not in before
    headings = re.findall(r"<h2[^>]*>([^<]+)</h2>", after)
    assert headings[headings.index("Power") - 1] == "Latency"


def test_a_view_of_the_same_name_computes_what_the_template_shows(copy: Path) -> None:
    sections = copy / "busbw" / "reports" / "sections"
    (sections / "37-power.html.j2").write_text(TEMPLATE)
    (sections / "power.py").write_text(VIEW)
    assert "<p>700 W on 16 nodes</p>" in page(copy)


def test_a_view_of_none_leaves_the_section_out(copy: Path) -> None:
    sections = copy / "busbw" / "reports" / "sections"
    (sections / "37-power.html.j2").write_text(TEMPLATE)
    (sections / "power.py").write_text("def view(report):\n    return None\n")
    assert "Power</h2>" not in page(copy)


def test_every_view_has_a_template_of_its_name() -> None:
    (folder,) = map(Path, sections_path)
    views = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    names = {path.name[3:].removesuffix(".html.j2") for path in folder.glob("*.j2")}
    assert views <= {name.replace("-", "_") for name in names}
