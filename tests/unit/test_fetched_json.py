"""The JSON of nccl-tests leaves its node without the environment, in which everybody's tokens
are."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from busbw.launch import nccl_tests
from busbw.parsers.nccl_tests import results_json

FIXTURES = Path(__file__).parents[1] / "fixtures/nccl_tests"
DOCUMENT = {
    "version": 3,
    "args": ["a"],
    "env": ['A=b \\ "] x', "HF_TOKEN=hunter2", "NCCL_DEBUG=INFO\n"],
    "nccl_version": 23007,
    "results": [1],
}
SHELLS = [
    pytest.param(
        shell, marks=pytest.mark.skipif(not shutil.which(shell[0]), reason=f"no {shell[0]}")
    )
    for shell in (("sh",), ("busybox", "sh"))
]


def fetched(path: Path, shell: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = nccl_tests.fetch_json(str(path), "cases/a/result.json")
    return subprocess.run(
        (*shell, *command.argv[1:]), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_environment_stays_and_all_else_comes(
    tmp_path: Path, shell: tuple[str, ...], indent: int | None
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(DOCUMENT, indent=indent) + "\n")
    done = fetched(path, shell)
    assert (done.returncode, json.loads(done.stdout)) == (0, {**DOCUMENT, "env": []}), done


@pytest.mark.parametrize("length", range(20, 110, 3))
def test_wherever_the_file_is_cut_no_part_of_the_environment_comes(
    tmp_path: Path, length: int
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(DOCUMENT)[:length])
    done = fetched(path, ("sh",))
    assert done.returncode == 0
    assert "TOKEN" not in done.stdout
    assert "A=b" not in done.stdout


@pytest.mark.parametrize("name", ["printer-2.19.6-fast.json", "all_gather-I-S.json"])
def test_a_real_document_reads_the_same(tmp_path: Path, name: str) -> None:
    done = fetched(FIXTURES / name, ("sh",))
    assert results_json.parse(done.stdout) == results_json.parse((FIXTURES / name).read_text())


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    assert fetched(tmp_path / "none", ("sh",)).returncode == 1
