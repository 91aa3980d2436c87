"""Files of one folder that cannot belong to one job, or of which one tells more than it knows.

The texts are composed."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main

ALL_WELL = "step 200 loss 1.1\nAll 8 ranks finished successfully\n"
ABORTED = "step 140 loss 1.3\n[rank5]: RuntimeError: CUDA error: an illegal memory access was encountered\n"


def why(tmp_path: Path, capsys: pytest.CaptureFixture[str], **texts: str) -> list[str]:
    for name, text in texts.items():
        (tmp_path / f"{name}.log").write_text(text)
    main(["why", str(tmp_path)])
    out = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    return [line for line in out.splitlines() if line.startswith("contradiction: ")]


def started(node: str, ranks: int, communicator: str = "0x9f1") -> str:
    return (
        f"{node}:41:41 [0] NCCL INFO comm 0x5 rank 0 nranks {ranks} cudaDev 0 busId 1000"
        f" commId {communicator} - Init START\n"
    )


def test_one_file_says_that_all_ranks_finished_and_another_that_one_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why(tmp_path, capsys, node1=ALL_WELL, node2=ABORTED) == [
        "contradiction: node1.log:2 says that all finished, node2.log:2 reports a failure:"
        " files of two runs, or the first speaks of its own node only"
    ]


def test_the_last_words_of_a_trainer_are_such_a_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = why(tmp_path, capsys, a="training finished\n", b=ABORTED)
    assert found[0].startswith("contradiction: a.log:1 says that all finished, b.log:2 ")


def test_world_sizes_of_one_job_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = why(tmp_path, capsys, a="WORLD_SIZE=16 RANK=0\n", b="world size: 8\n" + ABORTED)
    assert found == [
        "contradiction: a.log:1 states world size 16, b.log:1 states 8:"
        " files of two jobs, or a node was started with other settings"
    ]


def test_sizes_of_one_communicator_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = why(tmp_path, capsys, a=started("gpu1", 8), b=started("gpu2", 16))
    assert len(found) == 1
    assert "a.log:1 states size of communicator 0x9f1 8, b.log:1 states 16:" in found[0]


def test_versions_of_one_program_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"a": "torch version: 2.4.0+cu124\n", "b": "PyTorch version 2.5.1+cu124\n" + ABORTED}
    found = why(tmp_path, capsys, **texts)
    assert len(found) == 1
    assert "a.log:1 states version of torch 2.4.0, b.log:1 states 2.5.1:" in found[0]


@pytest.mark.parametrize(
    "texts",
    [
        {"a": ALL_WELL, "b": ALL_WELL},
        {"a": ALL_WELL + ABORTED, "b": ABORTED},
        {"a": "WORLD_SIZE=16\n", "b": "world size 16\n" + ABORTED},
        # A group of its own beside that of all.
        {"a": "WORLD_SIZE=16\nworld size 8\n", "b": "world size 8\n" + ABORTED},
        {"a": started("gpu1", 8), "b": started("gpu2", 16, "0xa01") + ABORTED},
        {"a": "torch version: 2.4.0\n", "b": "torch version: 2.4.0+cu124\n" + ABORTED},
        {"a": "data parallel world size 8\n", "b": "tensor parallel world size 2\n" + ABORTED},
        # Runs of several sizes that all went well.
        {"a": "WORLD_SIZE=8\n# Avg bus bandwidth    : 370.1\n", "b": "WORLD_SIZE=16\n"},
        {"a": "WORLD_SIZE=16\nworld size 8\n" + ABORTED},
    ],
)
def test_what_fits_together_is_none(
    texts: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why(tmp_path, capsys, **texts) == []
