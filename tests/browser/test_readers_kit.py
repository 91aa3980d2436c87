"""The sheets of the readers' trial: every case once a sheet, in another form on the other, and no
answer on either."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DEVTOOLS = runpy.run_path(str(HERE / "devtools.py"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        DEVTOOLS["executable"]() is None,
        reason="no Chromium on this machine: apt-get install chromium",
    ),
]


def test_each_sheet_has_every_case_and_no_answer(tmp_path: Path) -> None:
    kit = HERE.parent / "readers" / "kit.py"
    argv = (sys.executable, str(kit), str(tmp_path / "sheets"), str(tmp_path / "key"))
    subprocess.run(argv, check=True, timeout=300)
    key = (tmp_path / "key" / "key.md").read_text()
    faults = [line for line in key.splitlines() if line.startswith("## case")]
    assert len(faults) >= 9
    forms = []
    for sheet in ("sheet-A", "sheet-B"):
        folder = tmp_path / "sheets" / sheet
        forms.append({path.stem for path in folder.glob("case-*.txt")})
        assert {path.name for path in folder.iterdir() if "key" in path.name} == set()
        written = "".join(path.read_text() for path in folder.glob("*.txt"))
        for fault in faults:
            broken = fault.partition(": ")[2].rpartition(" (")[0]
            assert broken == "nothing" or broken not in written
    assert len(forms[0]) == len(forms[1]) == len(faults)
    assert forms[0].isdisjoint(forms[1])
