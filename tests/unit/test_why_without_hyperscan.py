"""Where `hyperscan` is not installed, `busbw why` gives the same answers by the standard library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 400_000
_PROGRAM = """
import contextlib, io, json, sys
if sys.argv[1] == "without":
    sys.modules["hyperscan"] = None
from busbw import cli
from busbw.parsers.logs import scan_literals
answers = {"literals": scan_literals.finder(()).__class__.__name__}
for path in sys.stdin.read().splitlines():
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = cli.main(["why", "--json", path])
    answers[path] = [status, out.getvalue(), errors.getvalue()]
json.dump(answers, sys.stdout)
"""


def answers(mode: str, paths: list[str]) -> dict[str, object]:
    """What `why --json` prints for each text, in a process with or without the library."""
    done = subprocess.run(
        (sys.executable, "-c", _PROGRAM, mode),
        input="\n".join(paths),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("folder", ["tests/fixtures", "../shared/corpus", "../shared/corpus-2"])
def test_the_answers_without_hyperscan_are_those_with_it(folder: str) -> None:
    pytest.importorskip("hyperscan")
    logs = [
        str(path)
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".txt", ".log") and path.is_file() and path.stat().st_size < _LONGEST
    ]
    if not logs:
        pytest.skip(f"{folder} is not beside this checkout")
    with_it, without = answers("with", logs), answers("without", logs)
    assert (with_it.pop("literals"), without.pop("literals")) == ("LiteralFinder", "Sieve")
    assert [path for path in logs if with_it[path] != without[path]] == []
