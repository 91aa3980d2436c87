"""Runs as tables: names and types of the columns are a promise, and no run is dropped silently."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import busbw
from busbw.cli import main
from busbw.codec import dump_json
from busbw.compare import accepted, frames
from busbw.errors import RunDirError, UsageError
from busbw.model import LaunchRole
from busbw.model.history import Decision
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
COLUMNS = {
    "cases": "run:string started:string playbook:string profile:string emulated:boolean"
    " verdict:string accepted:boolean case:string purpose:string collective:string"
    " required:boolean state:string reason:string exit_status:Int64 duration_s:float64 nodes:Int64",
    "rows": "run:string emulated:string profile:string case:string purpose:string"
    " collective:string case_state:string nodes:Int64 ranks:Int64 repetition:Int64"
    " size_bytes:Int64 type:string redop:string root:Int64 out_of_place_time_us:float64"
    " out_of_place_algbw_gb_s:float64 out_of_place_busbw_gb_s:float64 out_of_place_wrong:Int64"
    " in_place_time_us:float64 in_place_algbw_gb_s:float64 in_place_busbw_gb_s:float64"
    " in_place_wrong:Int64 reference:string reference_busbw_gb_s:float64 ratio:float64"
    " state:string",
    "groups": "run:string started:string case:string survey:boolean medium:string nodes:string"
    " node_count:Int64 size_bytes:Int64 busbw_gb_s:float64 half_interval_gb_s:float64"
    " launches:Int64 launches_below:Int64 reference:string reference_busbw_gb_s:float64"
    " limit_gb_s:float64 ratio:float64 state:string reason:string",
    "nodes": "run:string started:string node:string reached:boolean measured:boolean reason:string"
    " checks_pass:Int64 checks_warn:Int64 checks_fail:Int64 checks_unknown:Int64 blame:string"
    " capacity_gb_s:float64 expected_gb_s:float64 findings:string",
    "findings": "run:string started:string id:string state:string confidence:string"
    " required:boolean effect_ratio:float64 where:string title:string cause:string",
}
"""Notebooks and databases depend on these: a change needs another `frames.SCHEMA`."""


def recorded(root: Path, kind: str) -> RunDir:
    result = getattr(RUNS, kind)().result
    (root / kind / "raw").mkdir(parents=True)
    RunDir(root / kind).write_raw("plan.json", "{}")
    (root / kind / "run.json").write_text(dump_json(dataclasses.replace(result, run_id=kind)))
    return RunDir(root / kind)


@pytest.mark.parametrize("kind", ["healthy", "stalled", "unreachable"])
def test_names_and_types_of_the_columns_are_those_of_the_schema(tmp_path: Path, kind: str) -> None:
    loaded = busbw.load(recorded(tmp_path, kind).path)
    seen = {}
    for name in COLUMNS:
        frame = getattr(loaded, name)
        assert frame.attrs == {"schema": "busbw.frames/1"}
        seen[name] = " ".join(f"{column}:{frame[column].dtype}" for column in frame.columns)
    assert (seen, loaded.schema) == (COLUMNS, "busbw.frames/1")


def test_every_number_of_a_run_is_in_its_table(tmp_path: Path) -> None:
    for kind in ("failing", "healthy"):
        recorded(tmp_path, kind)
    accepted.decide(RunDir(tmp_path / "healthy"), Decision("2026-11-20T00:00:00Z", "ops", ""))
    loaded = busbw.load(tmp_path / "failing", tmp_path / "heal*")
    failing = RUNS.failing().result
    by_run = loaded.cases.groupby("run", sort=False)["accepted"].first()
    assert by_run.to_dict() == {"failing": False, "healthy": True}
    of_failing = loaded.groups[loaded.groups["run"] == "failing"]
    assert len(of_failing) == len(failing.comparisons)
    assert set(of_failing[of_failing["survey"]]["node_count"]) == {2}
    measured = [each.measured_gb_s for each in failing.comparisons]
    assert (
        of_failing["busbw_gb_s"]
        .astype(object)
        .where(of_failing["busbw_gb_s"].notna(), None)
        .tolist()
        == measured
    )
    nodes = loaded.nodes[loaded.nodes["run"] == "failing"].set_index("node")
    assert sorted(nodes.index) == sorted(failing.nodes)
    assert "slow-rail" in nodes.loc["gpu-005", "findings"]
    assert nodes["checks_fail"].sum() == sum(c.status.value == "FAIL" for c in failing.checks)
    assert len(loaded.findings[loaded.findings["run"] == "failing"]) == len(failing.findings)


def test_a_pair_alone_in_its_launch_counts_for_its_nodes_without_a_comparison(
    tmp_path: Path,
) -> None:
    recorded(tmp_path, "emulated")
    result = RUNS.emulated().result
    surveyed = {each.case.id for each in result.cases if each.case.split is not None}
    alone = dataclasses.replace(
        result,
        run_id="emulated",
        cases=tuple(
            dataclasses.replace(
                each, case=dataclasses.replace(each.case, split=None, role=LaunchRole.PAIRS)
            )
            if each.case.id in surveyed
            else each
            for each in result.cases
        ),
        comparisons=tuple(each for each in result.comparisons if each.case_id not in surveyed),
    )
    (tmp_path / "emulated" / "run.json").write_text(dump_json(alone))
    groups = busbw.load(tmp_path / "emulated").groups
    pairs = groups[groups["survey"]]
    assert set(pairs["case"]) == surveyed
    assert set(pairs["node_count"]) == {2}
    assert pairs["busbw_gb_s"].notna().all()


def test_the_node_that_is_blamed_has_what_it_carried(tmp_path: Path) -> None:
    nodes = busbw.load(recorded(tmp_path, "emulated").path).nodes.set_index("node")
    assert nodes["blame"].dropna().to_dict() == {"node3": "slow"}
    (blame,) = RUNS.emulated().result.blame
    assert nodes.loc["node3", "capacity_gb_s"] == blame.capacity_gb_s


def test_a_node_that_was_not_reached_is_a_row_with_the_reason(tmp_path: Path) -> None:
    nodes = busbw.load(recorded(tmp_path, "unreachable").path).nodes.set_index("node")
    assert nodes.loc["gpu-001", ["reached", "measured"]].tolist() == [False, False]
    assert nodes.loc["gpu-001", "reason"].startswith("connect to ")


def damaged(root: Path) -> None:
    """One run cut short, one that did not end, one of another version, and what is no run."""
    for name, text in (("cut", '{"schema"'), ("other", '{"schema": "busbw.run/9"}')):
        (root / name / "raw").mkdir(parents=True)
        (root / name / "run.json").write_text(text)
    (root / "begun" / "raw").mkdir(parents=True)
    (root / "no-run").mkdir()
    (root / "history.sqlite").touch()


def test_runs_that_cannot_be_read_are_named_with_the_reason(tmp_path: Path) -> None:
    damaged(tmp_path)
    recorded(tmp_path, "healthy")
    (tmp_path / "latest").symlink_to("healthy")
    loaded = busbw.load(tmp_path / "*")
    assert set(loaded.cases["run"]) == {"healthy"}
    assert len(loaded.cases) == len(RUNS.healthy().result.cases), "the link is the same run"
    assert [Path(each.path).name for each in loaded.unreadable] == ["begun", "cut", "other"]
    assert loaded.unreadable[0].reason == "no run.json: the run did not end"
    assert "not JSON, or cut short" in loaded.unreadable[1].reason


def test_a_run_whose_evidence_was_changed_behind_its_result_is_named_and_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, "healthy")
    edited = recorded(tmp_path, "failing")
    (edited.raw / "plan.json").write_text("{ }")
    why = "files of run failing are not as they were written: raw/plan.json (3 bytes of 2)"
    loaded = busbw.load(tmp_path / "*")
    assert set(loaded.cases["run"]) == {"healthy"}
    assert [each.reason for each in loaded.unreadable] == [why]
    assert main(["site", str(tmp_path), "-o", str(tmp_path / "site")]) == 0
    assert why in capsys.readouterr().err
    assert main(["history", "-o", str(tmp_path)]) == 0
    assert f"not read: failing: {why}" in capsys.readouterr().out
    assert main(["export", str(tmp_path / "*"), "--csv", str(tmp_path / "tables")]) == 3
    assert why in capsys.readouterr().err


def test_a_result_of_another_version_is_named_and_not_read(tmp_path: Path) -> None:
    recorded(tmp_path, "healthy")
    path = recorded(tmp_path, "emulated").path / "run.json"
    path.write_text(path.read_text().replace("busbw.run/1", "busbw.run/9"))
    loaded = busbw.load(tmp_path / "*")
    assert set(loaded.cases["run"]) == {"healthy"}
    (other,) = loaded.unreadable
    assert other.reason == f"{path} was made by another version of busbw"


def test_folders_of_checks_and_of_sampled_jobs_are_no_runs(tmp_path: Path) -> None:
    recorded(tmp_path, "healthy")
    for name, file in (("check", "check.json"), ("links", "links.json"), ("live", "raw/live.json")):
        (tmp_path / name / "raw").mkdir(parents=True)
        (tmp_path / name / file).write_text("{}")

    assert busbw.load(tmp_path / "*").unreadable == ()


def test_no_readable_run_is_an_error_and_no_run_another(tmp_path: Path) -> None:
    damaged(tmp_path)
    with pytest.raises(RunDirError, match=r"none of 3 runs can be read: no run\.json"):
        busbw.load(tmp_path / "*")
    with pytest.raises(UsageError, match="no run directory"):
        busbw.load(tmp_path / "none-*")


def test_pandas_is_loaded_by_the_call_and_not_by_the_import() -> None:
    code = (
        "import busbw, sys; light = sorted(m for m in sys.modules if m.startswith('busbw.'));"
        " import busbw.compare.frames; print(light, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


def test_export_writes_every_table_and_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "runs", "failing")
    tables = tmp_path / "a" / "tables"
    assert main(["export", str(tmp_path / "runs" / "*"), "--csv", str(tables)]) == 0
    contents = json.loads((tables / "frames.json").read_text())
    assert (contents["schema"], contents["unreadable"]) == ("busbw.frames/1", [])
    for table in contents["tables"]:
        types = {column["name"]: column["type"] for column in table["columns"]}
        frame = pd.read_csv(tables / table["file"], dtype=types, keep_default_na=True)
        assert (len(frame), list(frame.columns)) == (table["rows"], list(types))
    assert "groups.csv  " in capsys.readouterr().out
    assert main(["export", str(tmp_path / "runs" / "*"), "--csv", str(tables)]) == 0


def test_export_names_what_it_could_not_read_and_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged(tmp_path / "runs")
    recorded(tmp_path / "runs", "healthy")
    out = tmp_path / "out"
    assert main(["export", f"{tmp_path}/runs/*", "--csv", str(out)]) == 3
    assert capsys.readouterr().err.count("busbw: not read: ") == 3
    names = [each["reason"] for each in json.loads((out / "frames.json").read_text())["unreadable"]]
    assert names[0] == "no run.json: the run did not end"


def test_no_cell_of_an_export_is_a_formula(tmp_path: Path) -> None:
    result = RUNS.failing().result
    finding = dataclasses.replace(result.findings[0], title="=cmd|x", where=("=1+1",))
    run = recorded(tmp_path, "failing").path
    changed = dataclasses.replace(result, findings=(finding,))
    (run / "run.json").write_text(dump_json(changed))
    main(["export", str(run), "--csv", str(tmp_path / "out")])
    text = (tmp_path / "out" / "findings.csv").read_text()
    assert "'=cmd|x" in text
    assert "'=1+1" in text


def test_parquet_keeps_types_or_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = recorded(tmp_path, "failing").path, tmp_path / "out"
    status = main(["export", str(run), "--parquet", str(out)])
    if importlib.util.find_spec("pyarrow") is None:
        lines = capsys.readouterr().err.splitlines()
        assert (status, len(lines)) == (2, 3)
        assert lines[0].endswith("Parquet needs pyarrow, which is not installed")
        assert lines[2].startswith("busbw: next: pip install pyarrow")
        return
    assert status == 0
    for name, columns in frames.TABLES.items():
        frame = pd.read_parquet(out / f"{name}.parquet")
        assert {each: str(frame[each].dtype) for each in frame.columns} == columns


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    run = recorded(tmp_path, "healthy").path
    assert main(["export", str(run), "--csv", str(tmp_path / "file" / "out")]) == 2
    assert "Not a directory" in capsys.readouterr().err
