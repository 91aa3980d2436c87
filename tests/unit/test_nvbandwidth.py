"""nvbandwidth and dcgmi diag: each GPU by itself, in whichever layout the version has."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.parsers.tools import dcgm, nvbandwidth
from busbw.parsers.tools.dcgm import Diag, DiagResult
from busbw.parsers.tools.nvbandwidth import CopyRun, CopyTest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "bandwidth"


def copies(name: str) -> CopyRun:
    found = nvbandwidth.parse((FIXTURES / name).read_text())
    assert found is not None
    return found


def diag(name: str) -> Diag | None:
    return dcgm.parse((FIXTURES / name).read_text())


def test_the_matrices_of_the_text_are_read_whole() -> None:
    found = copies("nvbandwidth.txt")
    assert (found.version, found.driver, found.problem) == ("v0.8", "570.86.15", "")
    assert found.tests == (
        CopyTest("host_to_device_memcpy_ce", "Passed", ((55.40, 55.38, 21.02, 55.41),)),
        CopyTest("device_to_host_memcpy_ce", "Passed", ((55.10, 55.11, 55.12, 55.13),)),
        CopyTest(
            "device_to_device_memcpy_read_ce",
            "Passed",
            (
                (None, 396.10, 396.20, 396.30),
                (396.10, None, 396.20, 396.30),
                (396.10, 396.20, None, 396.30),
                (396.10, 396.20, 396.30, None),
            ),
        ),
    )


def test_a_gpu_s_number_is_the_mean_of_its_column_without_itself() -> None:
    assert copies("nvbandwidth.txt").tests[2].per_gpu_gb_s() == pytest.approx(
        (396.1, 1188.5 / 3, 1188.7 / 3, 396.3)
    )


def test_the_json_says_the_same_and_what_was_waived_has_no_number() -> None:
    found = copies("nvbandwidth.json")
    assert found.tests == (
        CopyTest("host_to_device_memcpy_ce", "Passed", ((55.40, 55.38, 21.02, 55.41),)),
        CopyTest("device_to_device_memcpy_read_ce", "Waived", ()),
    )
    assert found.tests[1].per_gpu_gb_s() == ()


def test_a_run_that_was_cut_off_keeps_what_it_had_and_a_cut_document_says_so() -> None:
    text = (FIXTURES / "nvbandwidth.txt").read_text()
    cut = nvbandwidth.parse(
        text[: text.index("Running device_to_device")]
        + "Running device_to_device_memcpy_read_ce.\n"
    )
    assert cut is not None
    assert [test.status for test in cut.tests] == ["Passed", "Passed", "Running"]
    half = nvbandwidth.parse((FIXTURES / "nvbandwidth.json").read_text()[:200])
    assert half is not None
    assert half.problem.startswith("incomplete JSON")


def test_dcgm_3_names_gpus_by_a_text_and_has_warnings_as_text_or_list() -> None:
    assert diag("dcgm3.json") == Diag(
        "3.3.5",
        (
            DiagResult("Denylist", None, "Pass", ""),
            DiagResult("Persistence Mode", None, "Fail", "Persistence mode for GPU 1 is disabled."),
            DiagResult("GPU Memory", 0, "Pass", ""),
            DiagResult("GPU Memory", 1, "Fail", "GPU 1 had uncorrectable memory errors."),
        ),
        "",
    )


def test_dcgm_4_names_entities_and_has_warnings_as_objects() -> None:
    assert diag("dcgm4.json") == Diag(
        "4.1.1",
        (
            DiagResult("software", 0, "Pass", ""),
            DiagResult("pcie", 0, "Pass", ""),
            DiagResult("pcie", 1, "Fail", "Detected 3 PCIe replays for GPU 1, above the limit."),
        ),
        "",
    )


def test_a_diagnosis_that_did_not_run_says_why_and_a_cut_one_too() -> None:
    assert dcgm.parse(
        '{"DCGM Diagnostic": {"runtime_error": "Cannot run diagnostic: GPUs are in use"}}'
    ) == Diag(None, (), "Cannot run diagnostic: GPUs are in use")
    half = dcgm.parse((FIXTURES / "dcgm4.json").read_text()[:300])
    assert half is not None
    assert half.problem.startswith("incomplete JSON")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvbandwidth: command not found\n",
        "{}",
        "[]",
        "Error: unable to establish a connection\n",
    ],
)
def test_other_texts_are_not_taken(text: str) -> None:
    assert nvbandwidth.parse(text) is None
    assert dcgm.parse(text) is None
