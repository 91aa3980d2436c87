"""The commands of the documentation still do what stands there."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.lab
ROOT = Path(__file__).resolve().parents[2]


def verdict(printed: str) -> tuple[str, ...]:
    """What holds on a busy machine too: the exit status, and the verdict of the line for grep."""
    lines = printed.splitlines()
    status = [line for line in lines if line.startswith("(exit ")]
    return (*status, *(" ".join(line.split()[:2]) for line in lines if line.startswith("busbw: ")))


@pytest.mark.long
def test_the_quick_starts_commands_end_as_they_stand_there(
    needs_lab: None, transcripts: ModuleType
) -> None:
    wanted = transcripts.steps((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"))
    ran = transcripts.run(tuple(step.command for step in wanted))
    assert [(step.command, verdict(step.printed)) for step in ran] == [
        (step.command, verdict(step.printed)) for step in wanted
    ]
    offline = [
        (old, new)
        for old, new in zip(wanted, ran, strict=True)
        if old.command.startswith(("busbw why ", "busbw read ", "busbw init "))
    ]
    assert len(offline) == 3
    for old, new in offline:
        assert transcripts.alike(old.printed, new.printed), new.printed
