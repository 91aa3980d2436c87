"""The index of runs: made from the directories, made anew, shared, cut off."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import wait_until

from busbw import files
from busbw.cli import main
from busbw.codec import dump_json
from busbw.compare import accepted
from busbw.compare import history as runs_over_time
from busbw.compare.history import FILE, History, Trend, TrendPoint
from busbw.model.history import Decision
from busbw.reports import trend
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
RESULT = RUNS.healthy().result
REFRESH = (
    "import sys; from pathlib import Path; from busbw.compare.history import History;"
    " print(History(Path(sys.argv[1])).refresh())"
)


def recorded_run(root: Path, number: int) -> RunDir:
    name = f"202611{number // 28 + 1:02d}-{number % 28:06d}-day-one"
    (root / name / "raw").mkdir(parents=True)
    RunDir(root / name).write_raw("plan.json", "{}")
    started = f"2026-11-{number % 28 + 1:02d}T00:00:{number % 60:02d}Z"
    (root / name / "run.json").write_text(
        dump_json(dataclasses.replace(RESULT, run_id=name, started=started))
    )
    return RunDir(root / name)


def content(root: Path) -> tuple[Trend, ...]:
    table = History(root).table()
    return runs_over_time.trends(runs_over_time.with_rolling(table))


def test_the_index_holds_every_number_and_is_the_same_when_made_anew(tmp_path: Path) -> None:
    runs = [recorded_run(tmp_path, number) for number in range(4)]
    accepted.decide(runs[1], Decision("2026-11-20T00:00:00Z", "ops", ""))
    assert History(tmp_path).refresh() == ()
    first = content(tmp_path)
    assert first
    assert all(
        [point.accepted for point in number.points] == [False, True, False, False]
        for number in first
    )
    for file in tmp_path.glob(f"{FILE}*"):
        file.unlink()
    History(tmp_path).refresh()
    assert content(tmp_path) == first


def test_what_is_gone_is_forgotten_and_what_changed_is_read_again(tmp_path: Path) -> None:
    one, two = recorded_run(tmp_path, 1), recorded_run(tmp_path, 2)
    History(tmp_path).refresh()
    (two.path / "run.json").write_text("{}")
    assert [problem.partition(":")[0] for problem in History(tmp_path).refresh()] == [two.run_id]
    assert {point.run_id for number in content(tmp_path) for point in number.points} == {one.run_id}
    (one.path / "raw" / "plan.json").unlink()
    History(tmp_path).refresh()
    assert content(tmp_path) == ()


def test_a_run_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded_run(tmp_path, 1)

    def refused(path: str | Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as closed:
        stats = SimpleNamespace(scandir=os.scandir, stat=refused)
        closed.setattr(runs_over_time, "os", stats)
        closed.setattr(files, "read_beneath", refused)
        (problem,) = History(tmp_path).refresh()
    assert problem == f"{run.run_id}: {run.path}/run.json cannot be read"


def test_several_at_once_and_one_killed_leave_a_whole_index(tmp_path: Path) -> None:
    for number in range(12):
        recorded_run(tmp_path, number)
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", REFRESH, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    wait_until((tmp_path / FILE).exists, "the first line")
    os.kill(jobs[0].pid, signal.SIGKILL)
    outputs = [job.communicate(timeout=120) for job in jobs]
    assert outputs[1:] == [("()\n", "")] * 5
    assert History(tmp_path).refresh() == ()
    assert {len(number.points) for number in content(tmp_path)} == {12}


def test_a_broken_index_says_how_to_get_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_run(tmp_path, 1)
    (tmp_path / FILE).write_text(
        "this is no database, and it is longer than a header of one would be " * 20
    )
    assert main(["history", "-o", str(tmp_path)]) == 3
    assert f"rm {tmp_path / FILE}" in capsys.readouterr().err


def test_the_trend_is_reported_with_bars_and_the_last_run_against_those_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        recorded_run(tmp_path, number)
    assert main(["history", "-o", str(tmp_path), "--collective", "all_reduce"]) == 0
    output = capsys.readouterr().out
    regime, head, row, *_ = output.splitlines()
    assert regime.endswith("2026-11-01 to 2026-11-05")
    assert head.split() == ["NUMBER", "RUNS", "MEDIAN", "SCATTER", "LAST", "CHANGE", "TREND"]
    cells = "all_reduce 8 GiB 5 372.0 GB/s 0.0% 372.0 GB/s +0.0% ▄▄▄▄▄"
    assert row.split() == cells.split()
    assert head.index("TREND") == row.index("▄")
    assert main(["history", "-o", str(tmp_path / "none")]) == 2
    assert main(["history", "-o", str(tmp_path), "--collective", "sendrecv_no"]) == 2


def trend_of(*values: float) -> Trend:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "run": [f"run-{n:03}" for n in range(len(values))],
            "started": [f"2026-11-{n % 28 + 1:02d}T02:00:00Z" for n in range(len(values))],
            "verdict": "PASS",
            "accepted": [n == 2 for n in range(len(values))],
            "collective": "all_reduce",
            "size_bytes": 8 << 30,
            "options": "-n 20",
            "regime": "infiniband <b>, 16 nodes",
            "busbw_gb_s": values,
            "launches": 1,
        }
    )
    (number,) = runs_over_time.trends(runs_over_time.with_rolling(frame))
    return number


def test_each_run_has_the_median_of_the_seven_before_it_from_the_third_on() -> None:
    points = trend_of(10.0, 12.0, 11.0, 9.0).points
    assert points[3] == TrendPoint(
        "run-003", "2026-11-04T02:00:00Z", "PASS", False, 9.0, 1, 11.0, False
    )
    assert [point.rolling_median_gb_s for point in points] == [None, None, None, 11.0]


def test_a_run_that_differs_from_those_before_it_is_an_outlier_and_ordinary_scatter_is_not() -> (
    None
):
    quiet = [370 + number % 3 for number in range(20)]
    shown = trend.view(trend_of(*quiet, 340.0, *quiet[:3]))
    assert shown.outliers == (("run-020", "340.0 GB/s", "-8.4%"),)
    assert "24 runs" in shown.summary
    assert trend.view(trend_of(*quiet)).outliers == ()


def test_the_page_of_trends_is_complete_in_itself_and_nothing_in_it_runs_or_leaves_it() -> None:
    page = trend.render(
        "busbw history", (trend_of(370.0, 371.0, 369.0, 370.0, 340.0), trend_of(50.0))
    )
    assert "default-src &#39;none&#39;" in page
    assert "infiniband &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<svg") == 2 * 2, "each trend twice: for a wide page and for a narrow one"
    assert "accepted runs 369.0 GB/s" in page
    assert not re.search(r"(?:src|href)=\"(?!data:,|#)", page.replace('href="#main"', ""))
    assert trend.render("busbw history", (trend_of(50.0),)) == trend.render(
        "busbw history", (trend_of(50.0),)
    )


def test_the_command_writes_the_page_and_says_where_it_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        recorded_run(tmp_path, number)
    page = tmp_path / "trend.html"
    assert main(["history", "-o", str(tmp_path), "--html", str(page)]) == 0
    assert "<svg" in page.read_text(encoding="utf-8")
    assert (
        main(["history", "-o", str(tmp_path), "--html", str(tmp_path / "no" / "trend.html")]) == 2
    )
    assert "no/trend.html" in capsys.readouterr().err


def test_the_numbers_are_exported_as_a_table_that_pandas_reads_back(tmp_path: Path) -> None:
    import pandas as pd

    for number in range(5):
        recorded_run(tmp_path, number)
    file = tmp_path / "numbers.csv"
    options = ["history", "-o", str(tmp_path), "--collective", "all_reduce"]
    assert main([*options, "--frame", str(file)]) == 0
    frame = pd.read_csv(file)
    assert list(frame.columns) == [
        "run",
        "started",
        "verdict",
        "accepted",
        "collective",
        "size_bytes",
        "options",
        "regime",
        "busbw_gb_s",
        "launches",
        "rolling_median_gb_s",
        "rolling_deviation_gb_s",
        "outlier",
    ]
    assert frame["started"].is_monotonic_increasing
    assert len(frame) == 5
    assert set(frame["size_bytes"]) == {8589934592}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("numbers.parquet", "pip install pyarrow"),
        ("numbers.xlsx", "expected a file that ends in .csv or .parquet"),
        ("no/numbers.csv", "No such file or directory|non-existent directory"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_with_the_reason(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_run(tmp_path, 1)
    if name.endswith(".parquet") and importlib.util.find_spec("pyarrow") is not None:
        pytest.skip("pyarrow is installed")
    assert main(["history", "-o", str(tmp_path), "--frame", str(tmp_path / name)]) == 2
    assert re.search(reason, capsys.readouterr().err)
    assert not (tmp_path / name).exists()
