"""Size of the report, time to make it, and time to open it in headless Chromium: `python
tests/bench/report.py [CASES]` (the first so many cases).

Goals: 1,000 nodes and 5,000 ranks at most 300 KB, 3 s to make, 0.3 s to open; 16 nodes at most 150
KB. "Open" is from the navigation to the second frame after the load event, median of nine; an empty
page is opened in turn with it, and what that costs is taken off: it is the browser's and the
machine's.
"""

from __future__ import annotations

import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from busbw.reports import ReportInput, csv, html, junit, markdown, metrics

HERE = Path(__file__).parent
RUNS = SimpleNamespace(**runpy.run_path(str(HERE.parent / "fixtures" / "reports" / "runs.py")))
DEVTOOLS = SimpleNamespace(**runpy.run_path(str(HERE.parent / "browser" / "devtools.py")))
FRAMES = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
)
CASES: tuple[tuple[str, Callable[[], ReportInput]], ...] = (
    ("16 nodes, 128 ranks, healthy", RUNS.healthy),
    ("16 nodes, 128 ranks, failing", RUNS.failing),
    ("128 nodes, 1,024 ranks", lambda: RUNS.failing(128)),
    ("1,000 nodes, 5,000 ranks, 15,404 pairs", RUNS.huge),
    ("1,000 nodes, all 499,500 pairs", lambda: RUNS.every_pair(1000)),
)


def seconds_of(work: Callable[[], object], times: int) -> float:
    """Median wall time."""
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def open_seconds(browser: Any, address: str, blank: str) -> tuple[float, float]:
    """Median times of the page and of an empty one, opened in turn: both meet the same load."""

    def load(of: str) -> None:
        page = browser.open(of)
        page.evaluate(FRAMES)
        browser.call("Target.closeTarget", targetId=page.target)

    times = [
        (seconds_of(lambda: load(address), 1), seconds_of(lambda: load(blank), 1)) for _ in range(9)
    ]
    page_s, blank_s = (statistics.median(each) for each in zip(*times, strict=True))
    return page_s, blank_s


def measure(name: str, report: ReportInput, browser: Any, folder: Path) -> None:
    """Print one case: the page, then the other outputs."""
    path = folder / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    made = seconds_of(lambda: html.render(report), 3)
    opened = "no Chromium here to open it"
    if browser:
        blank = folder / "blank.html"
        blank.write_text("<!doctype html><title>blank</title>", encoding="utf-8")
        page_s, blank_s = open_seconds(browser, path.as_uri(), blank.as_uri())
        opened = f"{page_s - blank_s:.2f} s to open beside {blank_s:.2f} s of an empty page"
    print(f"{name}: {path.stat().st_size / 1024:.0f} KiB, {made:.2f} s to make, {opened}")
    others: tuple[tuple[str, Callable[[], str]], ...] = (
        ("summary.md", lambda: markdown.render(report)),
        ("junit.xml", lambda: junit.render(report.result)),
        ("metrics.prom", lambda: metrics.render(report.result)),
        ("csv", lambda: csv.render(report.result)),
    )
    print(
        "    "
        + "; ".join(
            f"{file} {len(write().encode()) / 1024:.0f} KiB, {seconds_of(write, 1):.2f} s"
            for file, write in others
        )
    )


def main(count: int) -> None:
    """Print what is measured."""
    browser = DEVTOOLS.Browser() if DEVTOOLS.executable() else None
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, make in CASES[:count]:
                measure(name, make(), browser, Path(folder))
    finally:
        if browser:
            browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(CASES))
