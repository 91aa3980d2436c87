"""The build contract of nccl-tests, kept by the payload."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.lab

Build = Callable[..., Path]
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "alltoall", "sendrecv")


def test_make_gives_the_six_binaries_without_a_word_on_stderr(
    build: Build, mpi_settings: tuple[str, ...], tmp_path: Path
) -> None:
    built = build(tmp_path / "all", *mpi_settings)
    assert sorted(path.name for path in built.glob("*_perf")) == sorted(
        f"{name}_perf" for name in COLLECTIVES
    )


def test_binaries_and_folder_can_be_chosen_and_mpicc_stands_in_for_mpi_home(
    build: Build, mpi_settings: tuple[str, ...], tmp_path: Path
) -> None:
    build(
        tmp_path / "one",
        "MPI=1",
        "BIN_FILES_LIST=all_reduce sendrecv",
        f"BUILDDIR={tmp_path / 'out'}",
    )
    assert sorted(path.name for path in (tmp_path / "out").glob("*_perf")) == [
        "all_reduce_perf",
        "sendrecv_perf",
    ]


def test_built_without_mpi_every_process_prints_a_table_of_one_rank(
    build: Build, mpi_settings: tuple[str, ...], run: Callable[..., Any], tmp_path: Path
) -> None:
    built = build(tmp_path / "alone", "BIN_FILES_LIST=all_reduce")
    ended = run(built / "all_reduce_perf", 3, "-b", "1K", "-e", "1K", "-n", "1")
    assert ended.exit_status == 0
    assert re.findall(r"#  Rank +(\d+) Group +(\d+)", ended.out) == [("0", "0")] * 3
    assert ended.out.count("# Collective test starting: all_reduce_perf") == 3
    assert [(row[7], row[8]) for row in ended.rows] == [("0.00", "0")] * 3
