"""What was built against what ran."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from busbw.assess import builds
from busbw.assess.launches import Launch
from busbw.building.recipe import BuildOutcome, NodeTypeBuild
from busbw.model import (
    BenchmarkCase,
    CaseOutcome,
    Collective,
    Confidence,
    Evidence,
    Finding,
    Invocation,
    Sizes,
    Status,
)
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.nccl_tests import table
from busbw.store.artefacts import CaseArtefact

(RESULT,) = table.parse(
    (Path(__file__).parents[1] / "fixtures/nccl_tests/all_reduce.txt").read_text()
)
CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8, 8))
KIND = NodeTypeBuild("1f", "/home/b/build/1f", "n1", False, ("n1", "n2"), "12.8", "2.27.5")
BUILD = BuildOutcome("/home/b/build/1f/build", (KIND,), (), ("n1", "n2"), (), version="2.19.6")


def launched(tests: str | None, nccl: str | None) -> tuple[Launch, ...]:
    artefact = CaseArtefact(
        CASE,
        Invocation("all-reduce", ("mpirun",), (), ("n1",), 60.0, 2),
        ("n1",),
        2,
        "ended",
        0,
        1.0,
        "raw/cases/all-reduce/stdout.txt",
        None,
        None,
    )
    result = dataclasses.replace(RESULT, tests_version=tests, nccl_version=nccl)
    return (
        Launch(
            artefact,
            (result,),
            CaseOutcome(CASE, Status.PASS, "", (result,), 0, 1.0, (), ("n1",)),
            (),
            (),
        ),
    )


@pytest.mark.parametrize(
    ("tests", "nccl"), [("2.19.6", "2.27.5"), ("2.19.6", "2.27.5+cuda12.9"), (None, None)]
)
def test_what_ran_is_what_was_built_where_it_says_so_or_says_nothing(
    tests: str | None, nccl: str | None
) -> None:
    assert builds.findings(BUILD, launched(tests, nccl), emulated=False) == ()
    assert builds.findings(None, launched(tests, nccl), emulated=False) == ()


def test_another_nccl_tests_or_nccl_than_was_built_is_a_finding() -> None:
    findings = builds.findings(BUILD, launched("2.13.10", "2.18.3+cuda12.2"), emulated=False)
    stdout = "raw/cases/all-reduce/stdout.txt"
    assert findings == tuple(
        filled(
            Finding(
                id="build-not-measured",
                status=Status.UNKNOWN,
                title=title,
                where=(),
                evidence=(Evidence(stdout, None, text),),
                confidence=Confidence.CERTAIN,
            )
        )
        for title, text in (
            ("nccl-tests 2.13.10 was measured, and 2.19.6 was built", "nccl-tests 2.13.10"),
            ("NCCL 2.18.3 was measured, and 2.27.5 was built", "NCCL 2.18.3"),
        )
    )
    assert [
        f.title for f in builds.findings(BUILD, launched("2.19.6", "2.32.3"), emulated=True)
    ] == [], "a stand-in proves no NCCL"


def test_every_problem_of_the_build_is_a_finding() -> None:
    wrong = dataclasses.replace(BUILD, problems=("n2 does not have the binaries that n1 built",))
    (finding,) = builds.findings(wrong, (), emulated=False)
    assert (finding.id, finding.title, finding.evidence) == (
        "build-differs",
        wrong.problems[0],
        (Evidence("raw/build.json", None, wrong.problems[0]),),
    )
