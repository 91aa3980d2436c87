"""Outputs in which nothing is wrong get no finding above possible, most of them none: see
tests/fixtures/healthy/README.md."""

from pathlib import Path

import pytest

from busbw.cli import why_reading
from busbw.model import Confidence
from busbw.parsers.findings.diagnose import Diagnosis, diagnose

FIXTURES = Path(__file__).parents[1] / "fixtures" / "healthy"
TEXTS = sorted(FIXTURES.glob("*.txt"))
MENTIONED = {
    "dmesg-boot.txt": {"mlx5-access-reg-noise"},
    "mpirun-chatter.txt": {"openib-noise"},
    "nccl-2.18-efa.txt": {"ofi-version-lookup-noise"},
    "nccl-2.24-two-jobs.txt": {"ras-port-noise"},
    "nccl-2.30-sockets-two-nodes.txt": {
        "libibverbs-missing",
        "silent-tcp-fallback",
        "tcp-single-flow-limit",
    },
    "nccl-2.4-sockets.txt": {"libibverbs-missing", "silent-tcp-fallback", "tcp-single-flow-limit"},
    "nginx-access.txt": {"unmapped-message"},
    "rccl-2.22.txt": {"iommu-translating"},
    "traceback-other.txt": {"program-error"},
}
"""Remarks worth a line beside a healthy output: harmless warnings by their names, and conditions
that cost bandwidth. A failure of another field is shown, and nothing is guessed."""


def ask(*paths: Path) -> Diagnosis:
    return diagnose(why_reading.read([str(path) for path in paths]).evidence)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_nothing_is_stated_and_little_mentioned(path: Path) -> None:
    findings = ask(path).findings
    assert [
        finding.id for finding in findings if finding.confidence is not Confidence.POSSIBLE
    ] == []
    assert {finding.id for finding in findings} <= MENTIONED.get(path.name, set())


def test_what_is_not_of_nccl_is_still_nothing_all_together() -> None:
    diagnosis = ask(*(path for path in TEXTS if "ccl-" not in path.name))
    assert [
        finding.id
        for finding in diagnosis.findings
        if finding.confidence is not Confidence.POSSIBLE
    ] == []
    assert {line.artefact.rpartition("/")[2] for line in diagnosis.unexplained} <= {
        "nginx-access.txt",
        "traceback-other.txt",
    }


def test_there_are_as_many_kinds_as_the_readme_promises() -> None:
    assert len(TEXTS) >= 20, "the fixtures are missing"


RUN = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
    "a:1:2 [0] p2p.cc:290 NCCL WARN Cuda failure 101 'invalid device ordinal'\n"
)
COMPLETE = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 178.2\n"


def causes(folder: Path, text: str) -> list[str]:
    path = folder / "log.txt"
    path.write_text(text)
    return [each.id for each in ask(path).findings]


def test_a_warning_that_its_run_outlived_is_no_cause(tmp_path: Path) -> None:
    assert causes(tmp_path, RUN)
    assert causes(tmp_path, RUN + COMPLETE) == []


def test_the_run_after_a_failed_one_does_not_excuse_it(tmp_path: Path) -> None:
    next_run = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
    assert causes(tmp_path, RUN + next_run + COMPLETE)


def test_a_run_with_wrong_values_outlives_nothing(tmp_path: Path) -> None:
    assert causes(tmp_path, RUN + COMPLETE.replace("0 OK", "3 FAILED"))
