"""The report as a person meets it, in a real Chromium: silent, complete without scripts, usable by
keyboard, readable, printable."""

from __future__ import annotations

import os
import re
import runpy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.reports import html

HERE = Path(__file__).parent
RUNS = SimpleNamespace(**runpy.run_path(str(HERE.parent / "fixtures" / "reports" / "runs.py")))
NAMES = (
    "healthy",
    "failing",
    "unreachable",
    "emulated",
    "swept",
    "stalled",
    "acceptance",
    "every_pair",
    "hostile",
    "hostile_lab",
    "huge",
)

pytestmark = pytest.mark.browser

# Of every piece of text that is shown: contrast with what lies behind it, and what WCAG AA wants of
# its size.
CONTRAST = """
(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "title", "desc"].includes(e.tagName) || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const inSvg = e instanceof SVGElement;
    const [a, b] = [light(parse(inSvg ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push([walk.currentNode.textContent.trim().slice(0, 40), ratio.toFixed(2), e.className.baseVal ?? e.className]);
  }
  return bad;
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    for name in NAMES:
        (folder / f"{name}.html").write_text(html.render(getattr(RUNS, name)()), encoding="utf-8")
    return folder


def address(pages: Path, name: str) -> str:
    return (pages / f"{name}.html").as_uri()


def noise(page: Any) -> list[dict[str, Any]]:
    """Whatever a silent page does not do: log, throw, open dialogs or windows."""
    return list(
        page.said(
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
            "Page.windowOpen",
        )
    )


def asked(page: Any) -> set[str]:
    """Addresses the page asked for, images inside it left out."""
    return {
        e["request"]["url"]
        for e in page.said("Network.requestWillBeSent")
        if not e["request"]["url"].startswith("data:")
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_page_opens_without_request_message_or_dialog(
    browser: Any, pages: Path, name: str
) -> None:
    page = browser.open(address(pages, name))
    assert asked(page) == {address(pages, name)}
    assert noise(page) == []
    kept = os.environ.get("BUSBW_ARTEFACTS")
    if kept:
        page.screenshot(Path(kept) / f"report-{name}.png")


@pytest.mark.parametrize("name", ["hostile", "hostile_lab"])
def test_escaping_holds_without_the_policy(browser: Any, pages: Path, name: str) -> None:
    text = (pages / f"{name}.html").read_text(encoding="utf-8")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert bare != text
    path = pages / f"{name}-bare.html"
    path.write_text(bare, encoding="utf-8")
    page = browser.open(path.as_uri())
    assert asked(page) == {path.as_uri()}
    assert noise(page) == []
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, embed, form, base').length")
        == 0
    )


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_one_outline_and_landmarks_are_there(
    browser: Any, pages: Path, name: str
) -> None:
    page = browser.open(address(pages, name))
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.evaluate(
        "['header', 'nav', 'main', 'footer'].map((tag) => document.querySelectorAll(tag).length)"
    ) == [1, 1, 1, 1]


def test_arrow_keys_move_the_cursor_and_say_the_value(browser: Any, pages: Path) -> None:
    page = browser.open(address(pages, "failing"))
    page.evaluate("document.querySelector('#chart-curve-all-reduce').focus()")
    read = "document.querySelector('#curve .readout').textContent"
    assert (
        page.evaluate(read)
        == "8 GiB: 192.0 GB/s in 88.8 ms, in place 191.8 GB/s, accepted run 371.4 GB/s"
    )
    page.press("ArrowLeft", 37)
    assert page.evaluate(read).startswith("4 GiB: 193.3 GB/s in ")
    page.press("Home", 36)
    assert page.evaluate(read).startswith("8 B: ")
    page.press("ArrowLeft", 37)
    assert page.evaluate(read).startswith("8 B: ")
    cursor = "document.querySelector('#chart-curve-all-reduce .cursor')"
    assert page.evaluate(f"[{cursor}.getAttribute('visibility'), {cursor}.getAttribute('x1')]") == [
        "visible",
        "78",
    ]
    assert (
        page.evaluate("document.querySelector('#curve .readout').getAttribute('aria-live')")
        == "polite"
    )


def test_every_control_can_be_reached_with_tab_and_shows_its_focus(
    browser: Any, pages: Path
) -> None:
    page = browser.open(address(pages, "failing"))
    reached = []
    for _ in range(200):
        page.press("Tab", 9)
        name = page.evaluate(
            "document.activeElement === document.body ? '' : document.activeElement.tagName"
        )
        if not name:
            break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", name
        reached.append(name)
    assert {"A", "BUTTON", "SUMMARY", "svg", "DIV"} <= set(reached)
    assert reached[0] == "A"


def test_copy_buttons_fill_the_clipboard_with_the_exact_command(browser: Any, pages: Path) -> None:
    page = browser.open(address(pages, "failing"))
    browser.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    page.call("Page.bringToFront")
    page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    assert page.evaluate(
        "document.querySelectorAll('pre.cmd').length === document.querySelectorAll('pre.cmd"
        " button').length"
    )
    done = page.evaluate("""(async () => {
          const button = document.querySelector('#F01 .fixes li:nth-child(2) pre.cmd button');
          button.click();
          for (let i = 0; i < 100 && button.textContent === 'Copy'; i++) await new Promise((r) => setTimeout(r, 20));
          return [button.textContent, await navigator.clipboard.readText()];
        })()""")
    assert done == ["Copied", "ssh gpu-005 sudo mlxlink -d mlx5_3 -a TG"]


def test_the_page_is_complete_without_scripts(browser: Any, pages: Path) -> None:
    text = "[...document.querySelectorAll('main, header')].map((e) => e.textContent).join('')"
    with_scripts = browser.open(address(pages, "failing"))
    without = browser.open(address(pages, "failing"), scripts=False)
    assert without.evaluate("document.querySelectorAll('button').length") == 0
    gone = with_scripts.evaluate(
        "document.querySelectorAll('button, .readout').forEach((e) => (e.textContent = '')) ?? true"
    )
    assert gone
    assert without.evaluate(text) == with_scripts.evaluate(text)
    box = "document.querySelector('#chart-curve-all-reduce').getBoundingClientRect().height > 200"
    assert without.evaluate(box)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["healthy", "failing", "unreachable", "emulated", "stalled", "acceptance"]
)
def test_contrast_is_aa(browser: Any, pages: Path, name: str, scheme: str) -> None:
    page = browser.open(address(pages, name), scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true)) ?? true")
    assert page.evaluate(CONTRAST) == []


def test_dark_pages_are_dark(browser: Any, pages: Path) -> None:
    page = browser.open(address(pages, "failing"), scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    assert (
        page.evaluate(
            "getComputedStyle(document.querySelector('#chart-curve-all-reduce path.s-good')).stroke"
        )
        == "rgb(90, 180, 232)"
    )


@pytest.mark.parametrize(
    "name", ["failing", "unreachable", "acceptance", "hostile", "huge", "swept"]
)
def test_a_narrow_screen_scrolls_down_only(browser: Any, pages: Path, name: str) -> None:
    page = browser.open(address(pages, name), width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_table_that_goes_on_beyond_the_edge_of_a_narrow_screen_shows_a_shadow_there(
    browser: Any, pages: Path
) -> None:
    page = browser.open(address(pages, "failing"), width=420)
    tables = "Array.from(document.querySelectorAll('.scroll'))"
    table = f"{tables}.find(each => each.scrollWidth > each.clientWidth)"
    assert page.evaluate(f"Boolean({table})")
    style = f"getComputedStyle({table})"
    # Two covers that travel with the content, over two shadows that stay at the edges.
    assert page.evaluate(f"{style}.backgroundAttachment") == "local, local, scroll, scroll"
    assert page.evaluate(f"{style}.backgroundImage").count("linear-gradient") == 4


def test_curves_keep_their_colours_where_styles_and_scripts_are_forbidden(
    browser: Any, pages: Path
) -> None:
    # What Jenkins sends with archived pages (jenkins.io, "Configuring Content Security Policy"),
    # but for `sandbox`, which a page cannot set.
    text = (pages / "failing.html").read_text(encoding="utf-8")
    strict = re.sub(
        r'(Content-Security-Policy" content=")[^"]*',
        r"\1default-src 'none'; img-src 'self'; style-src 'self'",
        text,
    )
    path = pages / "jenkins.html"
    path.write_text(strict, encoding="utf-8")
    page = browser.open(path.as_uri())
    shown = "getComputedStyle(document.querySelector('#chart-curve-all-reduce path.s-good'))"
    assert page.evaluate(f"[{shown}.stroke, {shown}.fill]") == ["rgb(0, 114, 178)", "none"]
    assert page.evaluate("document.querySelector('h1').getBoundingClientRect().height > 0")


@pytest.mark.parametrize(
    ("name", "most"), [("failing", 6), ("acceptance", 6), ("unreachable", 2), ("huge", 7)]
)
def test_it_prints_on_few_sheets_of_a4(browser: Any, pages: Path, name: str, most: int) -> None:
    data = browser.open(address(pages, name)).pdf()
    sheets = re.findall(rb"/Type\s*/Page\b", data)
    assert 1 <= len(sheets) <= most
    boxes = {
        tuple(float(v) for v in box.split())
        for box in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", data)
    }
    assert {(round(w / 72 * 25.4), round(h / 72 * 25.4)) for _, _, w, h in boxes} == {(210, 297)}
