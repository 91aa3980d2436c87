"""A report section is one template, and a view beside it where it computes: added in a scratch copy
of the package, it stands in the page at its number."""

from __future__ import annotations

import re
from pathlib import Path

from scratch_copy import ROOT, ScratchCopy, scratch_copy

from busbw.reports.sections import __path__ as sections_path

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


SECTION = "reports/sections/37-power.html.j2"
POWER = "reports/sections/power.py"


def page(copy: ScratchCopy) -> str:
    printed = copy.python("-c", PRINT_PAGE)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout


def test_a_section_is_one_template(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    assert "Power</h2>" not in page(copy)

    copy.add(SECTION, '{% set heading = "Power" %}\n<p>{{ result.run_id }}</p>\n')
    assert copy.changed() == [SECTION]
    headings = re.findall(r"<h2[^>]*>([^<]+)</h2>", page(copy))
    assert headings[headings.index("Power") - 1] == "Latency"


def test_a_view_of_the_same_name_computes_what_the_template_shows(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    copy.add(SECTION, TEMPLATE)
    copy.add(POWER, VIEW)
    assert copy.changed() == [SECTION, POWER]
    assert "<p>700 W on 16 nodes</p>" in page(copy)


def test_a_view_of_none_leaves_the_section_out(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    copy.add(SECTION, TEMPLATE)
    copy.add(POWER, "def view(report):\n    return None\n")
    assert "Power</h2>" not in page(copy)


def test_every_view_has_a_template_of_its_name() -> None:
    (folder,) = map(Path, sections_path)
    views = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    names = {path.name[3:].removesuffix(".html.j2") for path in folder.glob("*.j2")}
    assert views <= {name.replace("-", "_") for name in names}
