"""What nccl-tests does not write never passes: a document or table that was edited, damaged or put
together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.model.benchmark import BenchmarkResult
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
