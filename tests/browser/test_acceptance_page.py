"""The page that is signed: verdict, criteria, questions and signatures on one sheet of A4."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.model import ProviderAnswer
from busbw.reports import ReportInput, html

HERE = Path(__file__).parent
RUNS = SimpleNamespace(**runpy.run_path(str(HERE.parent / "fixtures" / "reports" / "runs.py")))
CRITERIA, QUESTIONS = 8, 6

pytestmark = pytest.mark.browser


def full() -> ReportInput:
    """An acceptance with as many criteria and answers as a contract has."""
    report: ReportInput = RUNS.acceptance()
    made = report.result.acceptance
    assert made is not None
    criteria = tuple(
        replace(made.criteria[i % len(made.criteria)], id=f"§ 4.{i}") for i in range(CRITERIA)
    )
    answers = tuple(
        ProviderAnswer(
            f"{made.answers[0].question} ({i})",
            "8 x 400 Gb/s InfiniBand on 16 nodes, as the ports say; " * 2,
            bool(i % 2),
        )
        for i in range(QUESTIONS)
    )
    return replace(
        report,
        result=replace(report.result, acceptance=replace(made, criteria=criteria, answers=answers)),
    )


def sheets(page: Any) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf()))


def test_what_is_signed_is_one_sheet_and_nothing_else_is_on_it(
    browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "acceptance.html"
    path.write_text(html.render(full()), encoding="utf-8")
    page = browser.open(path.as_uri())
    whole = sheets(page)
    left = page.evaluate(
        "(() => { const own = document.querySelector('.signed').closest('section'); while"
        " (own.nextElementSibling) own.nextElementSibling.remove(); return"
        " document.querySelectorAll('.signed dt').length; })()"
    )
    assert (left, sheets(page)) == (2, 1)
    page.evaluate("document.querySelector('.signed').closest('section').remove()")
    assert whole > 2, "the rest of the report begins on a sheet of its own"
