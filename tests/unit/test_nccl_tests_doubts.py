"""What nccl-tests does not write never passes: a document or table that was edited, damaged or put
together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.model.benchmark import BenchmarkResult
from busbw.parsers.expect.saved import with_remarks
from busbw.parsers.nccl_tests import table
from busbw.parsers.nccl_tests.results_json import parse

NCCL_TESTS = Path(__file__).parents[1] / "fixtures" / "nccl_tests"
TEXT = (NCCL_TESTS / "printer-2.19.6-fast.json").read_text()


def changed(change: Callable[[dict], object]) -> BenchmarkResult:
    """The recorded document after a change."""
    tree = json.loads(TEXT)
    change(tree)
    return parse(json.dumps(tree))


def test_the_recorded_document_has_no_doubt() -> None:
    assert not any("not as the program writes it" in problem for problem in parse(TEXT).problems)
    assert parse(TEXT).complete


CHANGES = {
    "a verdict in Python's spelling": lambda t: t["out_of_bounds"].update(okay="False"),
    "a verdict that is a number": lambda t: t["average_bus_bandwidth"].update(okay=0),
    "a count in words": lambda t: t["results"][0]["out_of_place"].update(nwrong="many"),
    "a count that is true": lambda t: t["results"][0]["out_of_place"].update(nwrong=True),
    "a count below zero": lambda t: t["out_of_bounds"].update(count=-1),
    "no iteration": lambda t: t["results"][0].update(actual_iterations=0),
    "errors that are no list": lambda t: t.update(errors="NCCL failure"),
    "errors that are objects": lambda t: t.update(errors=[{"rank": 3}]),
    "one size without a placement": lambda t: t["results"][0].update(in_place=None),
    "no average": lambda t: t.pop("average_bus_bandwidth"),
    "an average in words": lambda t: t["average_bus_bandwidth"].update(bandwidth="fast"),
    "an empty end": lambda t: t.update(end_time=""),
    "an end before the start": lambda t: t.update(end_time="2026-11-21 14:00:30"),
    "an exit status of its own": lambda t: t.update(exit_status=1),
    "a word of failure": lambda t: t.update(status="FAILED"),
    "one row that was not checked": lambda t: t["results"][1]["out_of_place"].update(nwrong=None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_program_does_not_write_makes_a_document_incomplete(name: str) -> None:
    assert not changed(CHANGES[name]).complete


def test_a_failure_among_the_errors_is_a_fault() -> None:
    result = changed(lambda t: t.update(errors=["Test CUDA failure common.cu:730 'ECC error'"]))
    assert result.faults


@pytest.mark.parametrize("key", ["nwrong", "count"])
def test_a_key_that_stands_twice_hides_what_stood_first(key: str) -> None:
    twice = TEXT.replace(f'"{key}":0', f'"{key}":9,"{key}":0', 1)
    assert twice != TEXT
    result = parse(twice)
    assert not result.complete
    assert f"not as the program writes it: {key} stands twice in one object" in result.problems


@pytest.mark.parametrize("cell", ["-1 OK", "12 BAD", "1e+03 OK", "0.5 OK", "nan OK", "N/A", ""])
def test_a_line_out_of_bounds_that_says_no_count_does_not_pass(cell: str) -> None:
    text = (NCCL_TESTS / "printer-2.19.6-fast.txt").read_text()
    line = next(line for line in text.splitlines() if "Out of bounds" in line)
    assert table.parse(text)[0].complete
    (result,) = table.parse(text.replace(line, f"# Out of bounds values : {cell}"))
    assert not result.complete


@pytest.mark.parametrize(
    "behind",
    ["Test CUDA failure common.cu:730 'uncorrectable ECC error'", "rank 3 is gone", "\0" * 512],
)
def test_what_stands_behind_a_document_on_its_own_line_does_not_pass(behind: str) -> None:
    # However long the document's line is: a search of lines ends long before.
    one_line = json.dumps(json.loads(TEXT))
    assert len(one_line) > 4096
    assert parse(one_line + "\n").complete
    assert parse(f"{one_line}, {one_line}`\n").complete
    assert not parse(f"{one_line} {behind}\n").complete


def test_a_document_that_is_missing_from_a_list_of_runs_is_a_doubt() -> None:
    tree = json.loads(TEXT)
    assert parse(json.dumps([tree, tree])).complete
    assert not parse(json.dumps([tree, None])).complete


TABLE = (NCCL_TESTS / "printer-2.19.6-fast.txt").read_text()
ROWS = [line for line in TABLE.splitlines() if " float " in line]


def read(text: str) -> BenchmarkResult:
    (result,) = table.parse(text)
    return result


@pytest.mark.parametrize("cells", ["5", "  0.00", "N/A  3"])
def test_cells_behind_a_row_for_which_there_is_no_column_do_not_pass(cells: str) -> None:
    assert not read(with_row(f"{ROWS[2].rstrip()}  {cells}")).complete


def with_row(row: str) -> str:
    return TABLE.replace(ROWS[2], row)


def test_words_behind_a_row_are_no_cells() -> None:
    assert read(with_row(f"{ROWS[2].rstrip()} node-a:41:41 [0] NCCL INFO x")).complete


def test_a_size_that_a_sweep_without_configuration_jumps_over_is_missing() -> None:
    lines = [line for line in TABLE.splitlines() if "minBytes" not in line]
    whole = "\n".join(lines) + "\n"
    assert read(whole).complete
    result = read(average_of_rows(whole.replace(ROWS[4] + "\n", "")))
    assert not result.complete
    assert any("jumps" in problem for problem in result.problems), result.problems


def average_of_rows(text: str) -> str:
    """The text with the average of the rows that it still has."""
    rows = [line.split() for line in text.splitlines() if " float " in line]
    values = [float(row[place]) for row in rows for place in (7, 11)]
    return re.sub(r"(Avg bus bandwidth\s*: )\S+", rf"\g<1>{sum(values) / len(values):g}", text)


def remarked(text: str) -> BenchmarkResult:
    """As `busbw read` has it."""
    (result,) = with_remarks(table.document(table.parse(text))).records
    assert isinstance(result, BenchmarkResult)
    return result


REMARKS = {
    "what stood above the table is missing": lambda t: t[t.index("#       size") :],
    "the list of devices is missing": lambda t: re.sub(r"#  Rank .*\n", "", t),
    "no warm-up (-w 0)": lambda t: t.replace("warmup iters: 1 ", "warmup iters: 0 "),
    "several GPU models in one run: 7 x NVIDIA H200, 1 x NVIDIA A100": lambda t: t.replace(
        "NVIDIA H200", "NVIDIA A100", 1
    ),
}


@pytest.mark.parametrize("remark", REMARKS)
def test_what_is_missing_around_a_whole_table_is_said(remark: str) -> None:
    assert not any(text.startswith(remark) for text in remarked(TABLE).problems)
    result = remarked(REMARKS[remark](TABLE))
    assert result.complete
    assert any(text.startswith(remark) for text in result.problems), result.problems


def test_a_schema_that_is_newer_than_the_reader_is_said() -> None:
    assert any(
        "schema 99" in problem for problem in changed(lambda t: t.update(version=99)).problems
    )
