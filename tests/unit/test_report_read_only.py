"""`busbw report` of a run that lies where nothing may be written: an archive, a colleague's folder."""

from __future__ import annotations

import errno
import os
import socket
import tarfile
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.store.run_directory import RunDir, locked

RECORDED = Path(__file__).parents[1] / "fixtures/lab_runs/healthy.tar.xz"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with tarfile.open(RECORDED) as packed:
        packed.extractall(tmp_path, filter="data")
    (plan,) = tmp_path.rglob("raw/plan.json")
    return plan.parents[1]


def test_the_json_document_is_the_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(run), "--json"])
    assert capsys.readouterr().out == (run / "run.json").read_text()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_its_verdict_is_printed_all_the_same(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    status = main(["report", str(run)])
    written = capsys.readouterr().out

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refused)
    assert main(["report", str(run)]) == status
    out, err = capsys.readouterr()
    assert out == written
    assert "may not be written to: its files are as they were" in err
    monkeypatch.setattr(RunDir, "write_derived", refused_for_lack_of_room)
    assert main(["report", str(run)]) == 3, "a full disk is an error"


def test_a_run_that_goes_on_is_said_to_and_left_alone(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in run.iterdir())
    with locked(RunDir(run)):
        main(["report", str(run)])
    out, err = capsys.readouterr()
    assert f"process {os.getpid()} on {socket.gethostname()} still works on" in err
    assert "node[1-4]" in out
    assert sorted(path.name for path in run.iterdir()) == sorted([*before, ".lock"])
    main(["report", str(run)])
    assert capsys.readouterr().err == ""


def refused_for_lack_of_room(run: RunDir, *_: object) -> None:
    from busbw.errors import RunDirError

    raise RunDirError("cannot write") from OSError(errno.ENOSPC, "")


def test_a_run_that_may_not_be_read_is_no_defect_of_busbw(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: str | Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "scandir", refused)
    assert main(["report", str(run)]) == 3
    assert capsys.readouterr().err == (
        f"busbw: error: {run} cannot be read\n"
        f"busbw: seen: [Errno 13] Permission denied: '{run / 'raw'}'\n"
        "busbw: next: read it as its owner, or have its owner copy it\n"
    )


def test_a_plan_that_was_cut_is_not_called_missing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = run / "raw" / "plan.json"
    size = plan.stat().st_size
    os.truncate(plan, 100)
    assert main(["report", str(run)]) == 3
    assert f"plan.json: 100 bytes of {size}\n" in capsys.readouterr().err
    plan.unlink()
    assert main(["report", str(run)]) == 3
    assert "plan.json: missing\n" in capsys.readouterr().err
