"""The pages of runs that were recorded in the lab, as a person meets them: the answer on the first
screen, few screens, readable on a telephone and where a policy forbids scripts and images."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.run import publish

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "traps"))
sys.path.insert(0, str(HERE.parent / "fuzz"))
BASES = SimpleNamespace(**runpy.run_path(str(HERE.parent / "fuzz" / "bases.py")))
DEVTOOLS = SimpleNamespace(**runpy.run_path(str(HERE / "devtools.py")))
NAMES = ("acceptance", "healthy", "persona", "quick", "resumed", "slowed", "stalled", "unreached")
STRICT = "default-src 'none'; style-src 'unsafe-inline'"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        DEVTOOLS.executable() is None,
        reason="no Chromium on this machine: apt-get install chromium",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    started = DEVTOOLS.Browser()
    yield started
    started.close()


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


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("slowed", ("FAIL", "node3", "likely", "24%", "busbw check")),
        ("stalled", ("FAIL", "node4", "certain", "kill -CONT")),
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
