"""The diagnosis on real, labelled cases: share right, no forbidden answer, calibrated confidence,
no alarm on healthy outputs."""

from pathlib import Path
from types import ModuleType

import pytest
from scripts import loaded

from busbw import intake
from busbw.cli import why_reading
from busbw.model import Confidence
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}"),
]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded("tests/bench/why.py")


def test_real_cases_are_diagnosed_as_their_threads_did(
    bench: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = bench.evaluate(CORPUS / "index.yaml")
    with capsys.disabled():
        print("\n" + bench.report(cases, verbose=False))
    assert bench.share(cases, "top1") >= 0.88
    assert bench.share(cases, "top3") >= 0.97
    assert [case.case for case in cases if case.forbidden] == []
    assert [
        case.case for case in cases if case.kind in ("unknown", "healthy") and case.stated_wrong
    ] == []
    levels = bench.calibration(cases)
    for level, least in ((Confidence.CERTAIN, 0.98), (Confidence.LIKELY, 0.85)):
        right, every = levels[level]
        assert right >= least * every, level


def test_outputs_of_runs_that_went_well_raise_no_alarm(bench: ModuleType) -> None:
    import yaml

    rows = yaml.safe_load((CORPUS / "index.yaml").read_text(encoding="utf-8"))
    healthy = [
        row["file"]
        for row in rows
        if row["kind"] == "nccl-tests"
        and row["expected"].get("wrong") in (0, "N/A")
        and (row["expected"].get("max_busbw_oop") or 0) > 0
    ]
    assert len(healthy) > 20
    loud = []
    for name in healthy:
        reading = why_reading.read([str(CORPUS / name)])
        stated = [
            finding.id
            for finding in diagnose(reading.evidence).findings
            if finding.confidence is not Confidence.POSSIBLE
        ]
        loud += [(name, stated)] if stated else []
    assert loud == []


def test_every_text_of_the_corpus_is_answered(tmp_path: Path) -> None:
    for source in intake.expand([str(CORPUS)]):
        reading = why_reading.read([str(source.path)])
        diagnose(EvidenceSet(reading.evidence.texts, reading.evidence.facts))
