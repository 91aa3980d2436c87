"""CSV, read back: every row of every table, numbers as numbers, hostile cells as text."""

from __future__ import annotations

import csv
import io
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from busbw.reports import csv as report_csv

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def rows(name: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(io.StringIO(report_csv.render(getattr(RUNS, name)().result), newline=""))
    )


def test_every_size_of_every_case_is_a_row() -> None:
    found = rows("failing")
    assert [(row["case"], row["size_bytes"]) for row in found] == [
        *(("all-reduce", str((256 << 10) << n)) for n in range(16)),
        *(("latency", str(8 << n)) for n in range(14)),
        ("processes", str(256 << 20)),
    ]
    assert found[15] == {
        "run": "20261120-0212-3f9c",
        "emulated": "no",
        "profile": "infiniband",
        "case": "all-reduce",
        "purpose": "bandwidth",
        "collective": "all_reduce",
        "case_state": "PASS",
        "nodes": "16",
        "ranks": "128",
        "repetition": "1",
        "size_bytes": "8589934592",
        "type": "float",
        "redop": "sum",
        "root": "",
        "out_of_place_time_us": "88762.44",
        "out_of_place_algbw_gb_s": "96.7744",
        "out_of_place_busbw_gb_s": "192.0368",
        "out_of_place_wrong": "0",
        "in_place_time_us": "88853.29",
        "in_place_algbw_gb_s": "96.6755",
        "in_place_busbw_gb_s": "191.8404",
        "in_place_wrong": "0",
        "reference": "accepted-run",
        "reference_busbw_gb_s": "371.4",
        "ratio": "0.5171",
        "state": "FAIL",
    }


def test_what_was_not_measured_is_an_empty_cell_not_zero() -> None:
    plain = RUNS.healthy().result
    case = plain.cases[0]
    row = replace(case.results[0].rows[0], in_place=None)
    result = replace(case.results[0], rows=(row,), nranks=None)
    text = report_csv.render(
        replace(plain, cases=(replace(case, results=(result,)),), comparisons=())
    )
    found = next(csv.DictReader(io.StringIO(text, newline="")))
    assert [
        found[name]
        for name in ("ranks", "in_place_time_us", "in_place_busbw_gb_s", "reference", "state")
    ] == ["", "", "", "", ""]


def test_a_launch_of_several_groups_has_no_bandwidth_that_is_nobodys() -> None:
    """nccl-tests prints the first group's time, and the factor of all ranks."""
    plain = RUNS.healthy().result
    outcome = plain.cases[0]
    split = replace(outcome, case=replace(outcome.case, split="DIV 4"))
    text = report_csv.render(replace(plain, cases=(split,), comparisons=()))
    found = next(csv.DictReader(io.StringIO(text, newline="")))
    assert found["out_of_place_time_us"]
    assert (found["out_of_place_busbw_gb_s"], found["in_place_algbw_gb_s"]) == ("", "")


def test_hostile_cells_run_nothing_and_break_no_line() -> None:
    plain = RUNS.hostile().result
    text = report_csv.render(replace(plain, run_id="=cmd|' /C calc'!A0", profile="@x"))
    assert len(text.splitlines()) == 1 + len(rows("acceptance"))
    found = next(csv.DictReader(io.StringIO(text, newline="")))
    assert (found["run"], found["profile"]) == ("'=cmd|' /C calc'!A0", "'@x")


def test_a_run_without_measurements_is_the_head_line_alone() -> None:
    assert report_csv.render(RUNS.unreachable().result) == ",".join(report_csv.COLUMNS) + "\r\n"
