"""The pages of runs that were recorded in the lab, as a person meets them: the answer on the first
screen, few screens, readable on a telephone and where a policy forbids scripts and images."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.run import publish

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "traps"))
sys.path.insert(0, str(HERE.parent / "fuzz"))
BASES = SimpleNamespace(**runpy.run_path(str(HERE.parent / "fuzz" / "bases.py")))
NAMES = ("acceptance", "healthy", "persona", "quick", "resumed", "slowed", "stalled", "unreached")
AXE = "axe-core@4.14.1"
STRICT = "default-src 'none'; style-src 'unsafe-inline'"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each recorded run, made from its `raw/`."""
    folder = tmp_path_factory.mktemp("recorded")
    made = {}
    for base in BASES.recorded():
        if base.name in NAMES:
            publish.publish(base.written(folder / base.name))
            made[base.name] = folder / base.name / "report.html"
    return made


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core (MPL 2.0, Deque), from the npm registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine: apt-get install npm")
    folder = tmp_path_factory.mktemp("axe")
    got = subprocess.run(
        (npm, "pack", "--silent", AXE), cwd=folder, capture_output=True, text=True, timeout=60
    )
    if got.returncode:
        pytest.skip(f"npm pack {AXE}: {got.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def violations(browser: Any, axe: str, path: Path) -> list[str]:
    """What axe-core finds in a page with all its parts open: rule and element."""
    page = browser.open(path.as_uri(), width=1280, height=800)
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true)) ?? true")
    page.evaluate(f"{axe};true")
    found = page.evaluate("axe.run().then((r) => r.violations)")
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_violation(browser: Any, pages: dict[str, Path], axe: str, name: str) -> None:
    assert violations(browser, axe, pages[name]) == []


def test_axe_finds_a_planted_violation(
    browser: Any, pages: dict[str, Path], axe: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    text = pages["healthy"].read_text(encoding="utf-8")
    broken.write_text(text.replace('<html lang="en">', "<html>"), encoding="utf-8")
    assert any(each.startswith("html-has-lang") for each in violations(browser, axe, broken))


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("slowed", ("FAIL", "node3", "likely", "24%", "busbw check")),
        ("stalled", ("FAIL", "node4", "certain", "Ask who sent the signal")),
        ("unreached", ("UNKNOWN", "node2", "look at sshd")),
        ("healthy", ("PASS", "does not detect")),
        ("acceptance", ("INCONCLUSIVE", "1 of 1 criteria met", "≥ 0.006 GB/s", "C1")),
    ],
)
def test_the_first_screen_has_the_answer(
    browser: Any, pages: dict[str, Path], name: str, answers: tuple[str, ...]
) -> None:
    page = browser.open(pages[name].as_uri(), width=1280, height=800)
    shown = page.first_screen()
    assert [answer for answer in answers if answer not in shown] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_is_at_most_five_screens(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    page = browser.open(pages[name].as_uri(), width=1280, height=800)
    assert page.evaluate("document.documentElement.scrollHeight / innerHeight") <= 5


@pytest.mark.parametrize("name", NAMES)
def test_on_a_telephone_pictures_fit_and_their_labels_are_readable(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    page = browser.open(pages[name].as_uri(), width=420, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true)) ?? true")
    small = page.evaluate("""[...document.querySelectorAll('svg.chart text')]
      .filter((t) => t.checkVisibility())
      .map((t) => [t.textContent, t.getBoundingClientRect()])
      .filter(([, box]) => box.right > 421 || Math.min(box.width, box.height) < 8)
      .map(([text]) => text)""")
    assert small == []


@pytest.mark.parametrize("name", ["slowed", "healthy"])
def test_pictures_are_drawn_where_scripts_and_images_are_forbidden(
    browser: Any, pages: dict[str, Path], tmp_path: Path, name: str
) -> None:
    text = pages[name].read_text(encoding="utf-8")
    strict = re.sub(r'(Content-Security-Policy" content=")[^"]*', rf"\1{STRICT}", text)
    path = tmp_path / "strict.html"
    path.write_text(strict, encoding="utf-8")
    page = browser.open(path.as_uri(), width=1280, height=800)
    assert page.evaluate("document.querySelectorAll('svg image, img').length") == 0
    box = "document.querySelector('#chart-fabric').getBoundingClientRect()"
    assert page.evaluate(f"{box}.width") > 900
    assert re.search("FAIL|PASS", page.first_screen())


def test_orange_belongs_to_the_suspect_alone(browser: Any, pages: dict[str, Path]) -> None:
    count = "document.querySelectorAll('svg .s-bad, svg .f-bad, svg .t-bad').length"
    assert browser.open(pages["healthy"].as_uri()).evaluate(count) == 0
    page = browser.open(pages["slowed"].as_uri())
    named = "[...document.querySelectorAll('svg text.t-bad')].map((t) => t.textContent)"
    assert {text for text in page.evaluate(named) if "node" in text} == {"node3", "node3: slow"}
