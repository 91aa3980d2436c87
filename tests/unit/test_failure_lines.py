"""A text with a line that reports a failure is never a pass, and `read` and `why` agree on it.

The texts are composed in the public output formats of each writer, not recorded.
"""

import argparse
from pathlib import Path

import pytest

from busbw import codec, intake
from busbw.cli import read_texts, why, why_reading
from busbw.errors import BusbwError
from busbw.model import Confidence, Status
from busbw.parsers.findings.diagnose import Diagnosis, diagnose
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.failure_lines import Writer

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES: list[dict[str, object]] = codec.load_yaml(
    (FIXTURES / "failure_lines" / "cases.yaml").read_text(),
    "cases.yaml",
    list[dict[str, object]],
    error=ValueError,
)
LEXICON = failure_lines.load()


def why_status(path: Path) -> int:
    parser = argparse.ArgumentParser()
    why.register(parser)
    try:
        return why.run(parser.parse_args([str(path)]))
    except BusbwError as error:
        return error.exit_status


def read_status(path: Path) -> int:
    return read_texts.exit_status(read_texts.read_all(intake.expand([str(path)])))


def diagnosis_of(path: Path) -> Diagnosis:
    return diagnose(why_reading.read([str(path)]).evidence)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_both_readers_end_with_the_status_that_is_owed(
    case: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(str(case["text"]))
    is_bad = bool(case.get("bad"))
    assert why_status(path) in ((1, 3) if is_bad else (0,))
    owed = case.get("read")
    if owed is not None:
        assert read_status(path) == owed
    else:
        assert read_status(path) in ((1, 3) if is_bad else (0, 3))


@pytest.mark.parametrize("writer", LEXICON.writers, ids=lambda writer: writer.name)
def test_a_writer_matches_its_examples_and_rejects_the_harmless_ones(writer: Writer) -> None:
    def is_hit(line: str) -> bool:
        expressions = failure_lines.patterns_of(writer)
        return any(pattern.counts(line) for pattern in expressions)

    assert [line for line in writer.matches if not is_hit(line)] == []
    assert [line for line in writer.rejects if is_hit(line)] == []


def test_the_first_line_of_failure_is_quoted_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("[INFO] start\nerrors: 0\n[ERROR] lost worker 3\n[ERROR] giving up\n")
    first = diagnosis_of(path).unexplained[0]
    assert (first.line_no, first.text) == (3, "[ERROR] lost worker 3")


def test_a_failure_behind_many_harmless_remarks_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("error: none\nNET/OFI Could not find ncclGetVersion symbol\n" * 40)
    assert why_status(path) == 0
    path.write_text(path.read_text() + "[ERROR] lost worker 3\n")
    assert [line.text for line in diagnosis_of(path).unexplained] == ["[ERROR] lost worker 3"]


def test_an_empty_file_beside_a_good_one_is_unknown(tmp_path: Path) -> None:
    good, empty = FIXTURES / "healthy" / "nccl-2.21-h100.txt", tmp_path / "rank1.log"
    empty.touch()
    parser = argparse.ArgumentParser()
    why.register(parser)
    assert why.run(parser.parse_args([str(good)])) == 0
    assert why.run(parser.parse_args([str(good), str(empty)])) == 3


ERRORS_OF_OTHERS = {"nginx-access.txt": 3, "traceback-other.txt": 1}
"""Texts that nothing of a job is wrong in, and that hold the error line of another program, with the
status of `why`: what a program says at its end is its own error."""


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "healthy").glob("*.txt")), ids=lambda path: path.name
)
def test_a_healthy_text_raises_no_alarm(path: Path) -> None:
    assert why_status(path) == ERRORS_OF_OTHERS.get(path.name, 0)
    assert read_status(path) in (0, 3)


ALL_TEXTS = pytest.mark.parametrize(
    "path",
    sorted(path for path in FIXTURES.rglob("*.txt") if "reports" not in path.parts),
    ids=lambda path: str(path.relative_to(FIXTURES)),
)


@ALL_TEXTS
def test_what_read_calls_bad_or_incomplete_is_no_pass_for_why(path: Path) -> None:
    (text,) = read_texts.read_all(intake.expand([str(path)]))
    if read_texts.exit_status([text]) and text.documents:
        assert why_status(path) != 0


@ALL_TEXTS
def test_what_fails_for_why_is_no_pass_for_read(path: Path) -> None:
    diagnosis = diagnosis_of(path)
    stated = [each for each in diagnosis.findings if each.confidence is not Confidence.POSSIBLE]
    if diagnosis.unexplained or any(each.status is Status.FAIL for each in stated):
        assert read_status(path) != 0


TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           8             2     float     sum      -1    30.00    0.00    0.00       0    30.00    0.00    0.00       0
"""


def test_a_table_that_was_cut_off_is_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.log"
    path.write_text(TABLE)
    assert (read_status(path), why_status(path)) == (3, 3)
    assert "no 'Avg bus bandwidth' line" in capsys.readouterr().out


def test_a_device_of_another_container_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    closed = "pod-a:30:97 [0] ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
    own = "pod-a:30:97 [0] NCCL INFO NET/IB : Using [0]mlx5_8:1/RoCE ; OOB eth0:10.0.0.1<0>\n"
    path.write_text(closed + own)
    assert (read_status(path), why_status(path)) == (0, 0)
    path.write_text(closed)
    assert (read_status(path), why_status(path)) == (1, 1)


def test_what_a_program_reports_in_a_log_makes_it_bad_for_read(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    log = "n1:1:1 [0] NCCL INFO Using network IB\n"
    path.write_text(log + "n1: Test CUDA failure common.cu:297 'an illegal memory access'\n")
    assert read_status(path) == 1
    path.write_text(log + "worker 3 timed out\n")
    assert read_status(path) == 3
    path.write_text(log)
    assert read_status(path) == 0
