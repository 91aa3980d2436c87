"""`busbw why --live` on PyTorch jobs over gloo, with real flight recorder dumps: a straggler, a
skipped collective, another size, a dead rank."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import files
from busbw.lab.state import LabState

sys.path.insert(0, str(Path(__file__).with_name("live")))
import jobs  # beside the programs it starts, none of which is a test

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="PyTorch is not installed: pip install 'busbw[torch]'",
    ),
]
SETTINGS = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_FR_DUMP_TEMP_FILE": "/run/node/home/fr_",
    "GLOO_SOCKET_IFNAME": "eth0",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def judged(lab: LabState, tmp_path: Path, fault: str, dumps: tuple[int, ...]) -> Any:
    """The answer once the ranks named have written what they recorded."""
    homes = [files.node_directory(lab, node) / "home" for node in lab.nodes]
    try:
        with jobs.job(
            lab, tmp_path / "job", jobs.GLOO, per_node=1, GLOO_FAULT=fault, **SETTINGS
        ) as job:
            job.await_log("joined", deadline_s=200)
            jobs.until(
                lambda: all((homes[rank] / f"fr_{rank}").exists() for rank in dumps),
                100,
                f"dumps of {dumps}: {job.log(0)}",
            )
            return jobs.why(lab, tmp_path)
    finally:
        for home in homes:
            for file in home.glob("fr_*"):
                file.unlink()


def test_a_straggler_is_the_rank_that_launched_less(lab4: LabState, tmp_path: Path) -> None:
    answer = judged(lab4, tmp_path, "straggler", (0, 1, 2, 3))
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "rank-behind",
        [1],
        ["node2"],
    )
    assert (
        answer["headline"]
        == "rank 1 on node2 has not launched gloo:all_reduce 21; 3 others wait for it"
    )
    assert 0 < answer["watchdog_left_s"] <= 120
    assert "fr_1: last launched gloo:all_gather 20" in answer["findings"][0]["evidence"][0]["text"]


def test_a_rank_that_skips_a_collective_disagrees(lab4: LabState, tmp_path: Path) -> None:
    answer = judged(lab4, tmp_path, "skip", (0, 1, 2, 3))
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "ranks-disagree",
        [1],
        ["node2"],
    )
    assert (
        "launched all_gather Float where 3 others launched all_reduce Float" in answer["headline"]
    )


def test_another_size_is_the_culprit_and_not_the_rank_that_died_of_it(
    lab4: LabState, tmp_path: Path
) -> None:
    answer = judged(lab4, tmp_path, "size", (1, 3))
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "ranks-disagree",
        [1],
        ["node2"],
    )
    assert "2048 elements" in answer["headline"]


def test_a_dead_rank_has_no_dump_and_no_process(lab4: LabState, tmp_path: Path) -> None:
    answer = judged(lab4, tmp_path, "dead", (0, 2, 3))
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "process-dead",
        [1],
        ["node2"],
    )
