"""Every output in format_texts.py, in every way in which it arrives, is read rightly or refused with
the right exit status: `busbw read` itself, never a silent pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from format_texts import ALL, Case

from busbw import cli


@pytest.mark.parametrize(("name", "case"), ALL, ids=[f"{name}: {case.name}" for name, case in ALL])
def test_it_is_read_rightly_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, case: Case
) -> None:
    path = tmp_path / "output.txt"
    path.write_bytes(case.data)
    status = cli.main(["read", str(path)])
    out = capsys.readouterr().out
    assert status in case.statuses, out
    if status == case.statuses[0]:
        for words in case.shows:
            assert words in out
    elif status != 0:
        assert out.strip()
