"""Real outputs from public sources, where their folder stands beside the checkout: every case is
read exactly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
BUSBW = Path(sys.executable).with_name("busbw")


@pytest.mark.corpus
@pytest.mark.skipif(
    not (CORPUS / "grade_read.py").exists(), reason="../shared/corpus is not beside this checkout"
)
@pytest.mark.skipif(
    not BUSBW.exists(), reason="the busbw command is not installed beside this Python"
)
def test_every_case_of_the_corpus_is_exact() -> None:
    command = (
        sys.executable,
        str(CORPUS / "grade_read.py"),
        str(CORPUS / "index.yaml"),
        str(CORPUS),
        "--jobs",
        "2",
        "--",
        str(BUSBW),
    )
    graded = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    last = graded.stdout.strip().splitlines()[-1]
    exact, _, total = last.removeprefix("exact ").partition(" of ")
    assert exact == total, graded.stdout
    assert int(total) >= 36
