"""The labels of tests/why_cases are as they were sealed, and the grader tells right from wrong."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from busbw.parsers.findings.catalogue import load

ROOT = Path(__file__).parents[2]
cases = runpy.run_path(str(ROOT / "tests" / "bench" / "why_cases.py"))
Answer, grade = cases["Answer"], cases["grade"]
ROWS = cases["load"](cases["INDEX"])


def row(**label: object) -> dict[str, object]:
    return {"id": "c1", "batch": 1, "expected": {"visible": "yes", **label}}


def answer(name: str, confidence: str = "likely", text: str = "") -> object:
    return Answer(name, confidence, text)


def test_no_label_has_changed_since_it_was_sealed() -> None:
    assert {r["id"]: cases["changed"](r, None) for r in ROWS if cases["changed"](r, None)} == {}


def test_a_changed_label_is_seen() -> None:
    first = {**ROWS[0], "expected": {**ROWS[0]["expected"], "accept": ["another"]}}
    assert cases["changed"](first, None) == "label"


def test_a_changed_text_is_seen(tmp_path: Path) -> None:
    (tmp_path / f"{ROWS[0]['id']}.txt").write_text("another text")
    assert cases["changed"](ROWS[0], tmp_path) == "text"


def test_a_changed_file_of_a_folder_is_seen(tmp_path: Path) -> None:
    case = {"id": "c1", "batch": 1, "expected": {"visible": "yes"}}
    (tmp_path / "c1").mkdir()
    for rank in (0, 1):
        (tmp_path / "c1" / f"rank{rank}.log").write_text(f"rank {rank} of 2")
    assert cases["seal"]([case], tmp_path, 1, "2026-11-23") == 1
    assert cases["changed"](case, tmp_path) == ""
    (tmp_path / "c1" / "rank1.log").rename(tmp_path / "c1" / "rank2.log")
    assert cases["changed"](case, tmp_path) == "text"


def test_a_folder_is_asked_about_as_one(tmp_path: Path) -> None:
    (tmp_path / "c1").mkdir()
    (tmp_path / "c2.txt").write_text("one text")
    assert cases["text_path"](tmp_path, "c1") == tmp_path / "c1"
    assert cases["text_path"](tmp_path, "c2") == tmp_path / "c2.txt"


def test_every_label_names_findings_of_the_catalogue() -> None:
    known = {entry.id for entry in load().entries} | {"UNCOVERED"}
    keys = ("accept", "also_ok", "must_not", "symptom")
    named = {name for r in ROWS for key in keys for name in r["expected"].get(key, ())}
    assert named - known == set()


def test_case_ids_are_unique_and_every_batch_is_answered_whole() -> None:
    assert len({r["id"] for r in ROWS}) == len(ROWS)
    for result in cases["load"](cases["RESULTS"]):
        ids = {r["id"] for r in ROWS if r["batch"] == result["batch"]}
        assert set(result["answers"]) == ids


def test_the_cause_is_right_first_and_its_symptom_is_not() -> None:
    label = row(accept=["cause"], symptom=["sign"], must_not=["never"])
    assert grade(label, [answer("cause")]).first
    behind = grade(label, [answer("sign"), answer("cause")])
    assert (behind.first, behind.third, behind.symptom) == (False, True, True)


def test_a_forbidden_answer_counts_first_or_stated_but_not_as_a_late_guess() -> None:
    label = row(accept=["cause"], must_not=["never"])
    assert grade(label, [answer("never", "possible")]).forbidden
    assert grade(label, [answer("cause"), answer("never", "likely")]).forbidden
    assert not grade(label, [answer("cause"), answer("never", "possible")]).forbidden


def test_no_answer_is_silence_only_where_a_failure_stands() -> None:
    assert grade(row(accept=["cause"]), []).silent
    assert not grade(row(expect_healthy=True), []).silent


def test_a_healthy_log_tolerates_guesses_but_no_statement() -> None:
    label = row(expect_healthy=True, also_ok=["allowed"])
    assert grade(label, [answer("guess", "possible"), answer("allowed")]).quiet
    assert not grade(label, [answer("guess", "likely")]).quiet


def test_a_cause_without_an_entry_is_graded_by_its_words() -> None:
    label = row(accept=["UNCOVERED"], accept_text="stub", also_ok=["near"])
    assert grade(label, [answer("new", text="a stub library")]).first
    assert not grade(label, [answer("near", text="a stub library")]).first


@pytest.mark.parametrize(("right", "low", "high"), [(0, 0.0, 0.09), (40, 0.91, 1.0)])
def test_the_interval_stays_between_0_and_1(right: int, low: float, high: float) -> None:
    assert cases["wilson"](right, 40) == pytest.approx((low, high), abs=0.01)


def test_a_comment_is_cut_by_the_hashes_of_its_first_and_last_line() -> None:
    marks = [cases["digest"](line.encode())[:12] for line in ("two", "three")]
    assert cases["cut"]("one\r\n two\nthree\nfour", *marks) == " two\nthree\n"
