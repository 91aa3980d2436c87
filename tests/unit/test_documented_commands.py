"""The commands of the documentation that need no lab print what stands there, at every test run: those
of the lab are compared by tests/lab/test_transcripts.py, which few runs have the time for."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
_OFFLINE = ("busbw why ", "busbw read ", "busbw init -w ")


def test_what_reads_the_examples_prints_what_the_documents_show(transcripts: ModuleType) -> None:
    wanted = []
    for document in transcripts.documents():
        for step in transcripts.steps(document.read_text(encoding="utf-8"), long=True):
            if step.command.startswith(_OFFLINE) and "--live" not in step.command:
                wanted.append(step)
    assert len(wanted) >= 3
    ran = transcripts.run(tuple(step.command for step in wanted))
    for old, new in zip(wanted, ran, strict=True):
        assert transcripts.alike(old.printed, new.printed), f"$ {new.command}\n{new.printed}"


def test_the_first_example_names_a_cause_its_place_and_a_fix(transcripts: ModuleType) -> None:
    (ran,) = transcripts.run(("busbw why nccl.log",))
    lines = ran.printed.splitlines()
    assert lines[0].startswith("✖ CAUSE (")
    assert "[retry-exceeded-at-start]" in lines[0]
    assert "  where     gpu-007, mlx5_0, peer 10.1.0.8" in lines
    assert "NCCL_DEBUG=INFO" not in ran.printed, "the log has NCCL's lines of information already"
