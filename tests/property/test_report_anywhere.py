"""`busbw report` gives the same bytes in any folder, time zone and locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from planted import healthy

PLACES = (
    {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
    {"TZ": "Pacific/Auckland", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
    {"TZ": "America/St_Johns", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "3", "PYTHONUTF8": "0"},
)


VARIABLES = ("TZ", "LC_ALL", "LANG", "PYTHONHASHSEED", "PYTHONUTF8")
DERIVED = ("run.json", "summary.md", "commands.sh", "junit.xml", "metrics.prom", "report.html")


def test_the_same_raw_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    texts: dict[str, set[bytes]] = {name: set() for name in DERIVED}
    for number, place in enumerate(PLACES):
        folder = tmp_path / str(number)
        run = healthy().written(folder)
        inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        subprocess.run(
            (sys.executable, "-m", "busbw", "report", str(run.path)),
            cwd=folder,
            env=inherited | place,
            capture_output=True,
            check=False,
        )
        for name in DERIVED:
            texts[name].add((run.path / name).read_bytes())
    assert {name: len(each) for name, each in texts.items()} == dict.fromkeys(DERIVED, 1)
