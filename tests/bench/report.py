"""Size of the report, time to make it, and time to open it in headless Chromium: `python
tests/bench/report.py [CASES]` (the first so many cases).

Goals: 1,000 nodes and 5,000 ranks at most 300 KB, 3 s to make, 0.3 s to open; 16 nodes at most 150
KB. "Open" is from the navigation to the second frame after the load event, median of five, and
includes what an empty page costs, which is printed beside it.
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


def open_seconds(browser: Any, address: str) -> float:
    """Median of five loads."""

    def load() -> None:
        browser.open(address).evaluate(FRAMES)

    return seconds_of(load, 5)


def measure(name: str, report: ReportInput, browser: Any, folder: Path) -> None:
    """Print one case: the page, then the other outputs."""
    path = folder / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    made = seconds_of(lambda: html.render(report), 3)
    opened = (
        f"{open_seconds(browser, path.as_uri()):.2f} s to open"
        if browser
        else "no Chromium here to open it"
    )
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
            if browser:
                blank = Path(folder) / "blank.html"
                blank.write_text("<!doctype html><title>blank</title>", encoding="utf-8")
                print(f"an empty page opens in {open_seconds(browser, blank.as_uri()):.2f} s")
            for name, make in CASES[:count]:
                measure(name, make(), browser, Path(folder))
    finally:
        if browser:
            browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(CASES))
