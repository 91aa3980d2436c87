"""What busbw itself prints is no output of a benchmark: `busbw read` says what it is."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from format_texts.collectives import NCCL_TESTS

from busbw.cli import main

RECORDED = Path(__file__).parents[1] / "fixtures/lab_runs/healthy.tar.xz"


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_what_it_read_is_not_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    output = tmp_path / "nccl.out"
    output.write_text(NCCL_TESTS.good)
    main(["read", str(output), form])
    own = tmp_path / "own"
    own.write_text(capsys.readouterr().out)
    assert main(["read", str(own)]) == 3
    assert f"this is what busbw read {form} prints, by busbw itself" in capsys.readouterr().out


def test_the_files_of_a_healthy_run_accuse_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(RECORDED) as packed:
        packed.extractall(tmp_path, filter="data")
    (plan,) = tmp_path.rglob("raw/plan.json")
    run = plan.parents[1]
    assert main(["report", str(run)]) == 0
    for name, what in (("run.json", "the result of a run"), ("report.html", "a report")):
        capsys.readouterr()
        assert main(["read", str(run / name)]) == 3
        assert f"this is {what}, by busbw itself: give its folder" in capsys.readouterr().out
        assert main(["why", str(run / name)]) == 3
        out = "".join(capsys.readouterr())
        assert f"this is {what}, by busbw itself: give its folder" in out
        assert "CAUSE" not in out
