"""The pictures of the README: `python docs/tools/pictures.py RUN` of a run made by `make demo`. Writes
docs/pictures/report.png (the first screen, needs Chromium) and docs/pictures/terminal.svg."""

from __future__ import annotations

import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from busbw.run import publish
from busbw.store import run_directory

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
STYLES = (("FAIL", "bold red"), ("PASS", "bold green"), ("CAUSE", "bold"), ("DO ", "bold"))
COLUMNS = 132


def terminal(run: Path) -> None:
    """What `busbw report` prints, as the terminal shows it."""
    argv = (sys.executable, "-m", "busbw", "report", os.path.relpath(run))
    printed = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    screen = Console(record=True, width=COLUMNS, file=io.StringIO())
    screen.print(Text(f"$ busbw report {os.path.relpath(run)}", style="bold"))
    for line in printed.splitlines():
        style = next((style for word, style in STYLES if line.startswith(word)), "")
        screen.print(Text(line), style=style, markup=False, highlight=False)
    picture = screen.export_svg(title="busbw", unique_id="busbw")
    # No fonts from the network: the page takes what the machine has.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (PICTURES / "terminal.svg").write_text(picture)


def report(run: Path) -> None:
    """The first screen of the page."""
    publish.publish(run_directory.open_existing(run))
    browser = runpy.run_path(str(ROOT / "tests" / "browser" / "devtools.py"))["Browser"]()
    try:
        page = browser.open((run / "report.html").resolve().as_uri(), width=1280, height=800)
        page.window(PICTURES / "report.png")
    finally:
        browser.close()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    report(Path(sys.argv[1]))
    terminal(Path(sys.argv[1]))
