"""`busbw why RUN` on a real run of the lab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.lab.state import LabState

pytestmark = pytest.mark.lab
SHORT = str(Path(__file__).with_name("short.yaml"))


def busbw(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )


def test_a_run_is_explained_by_its_own_findings_and_its_texts(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=2)
    busbw("run", SHORT, "-i", f"lab:{lab.name}", "-o", str(tmp_path / "runs"), "-q")
    run = tmp_path / "runs" / "latest"
    result = json.loads((run / "run.json").read_text())
    document = json.loads(busbw("why", str(run), "--json", "--all").stdout)
    assert {finding["id"] for finding in result["findings"]} <= {
        finding["id"] for finding in document["findings"]
    }
    assert any(entry["file"].endswith("stdout.txt") for entry in document["read"])
    # Of a run that is UNKNOWN the answer says so: two nodes have no peers to be compared with.
    assert result["verdict"] == "UNKNOWN"
    assert document["problems"] == [f"run {result['run_id']}: {result['headline']}"]
