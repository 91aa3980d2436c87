"""Which nodes a command line names: host lists in parts, and options that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main


@pytest.fixture(autouse=True)
def _four_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text("".join(f"gpu-00{n} slots=8\n" for n in range(1, 5)))


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The first line of a dry run: how many nodes, and from where."""
    assert (
        main(["run", "quick", "-p", "tcp", "--nccl-tests", "/opt/nccl-tests", "--dry-run", *words])
        == 0
    )
    return capsys.readouterr().out.splitlines()[0]


def test_each_exclude_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Before, only the last one did, and busbw contacted the nodes of the others."""
    first = planned(capsys, "-i", "hosts", "-x", "gpu-001", "-x", "gpu-003")
    assert first.startswith("# quick on 2 nodes from hosts (Open MPI hostfile), -x gpu-[001,003]; ")


def test_each_host_list_counts(capsys: pytest.CaptureFixture[str]) -> None:
    first = planned(capsys, "-w", "gpu-001", "-w", "gpu-[003-004]")
    assert first.startswith("# quick on 3 nodes from -w gpu-[001,003-004]; ")


def test_options_override_the_variable_as_a_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_EXCLUDE", "gpu-004")
    first = planned(capsys, "-i", "hosts", "-x", "gpu-001", "-x", "gpu-002")
    assert "-x gpu-[001-002]; " in first


def test_everything_excluded_in_parts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for n in range(1, 5) for word in ("-x", f"gpu-00{n}")]
    assert main(["check", "-i", "hosts", *words]) == 2
    assert "no node is left" in capsys.readouterr().err


def test_a_second_inventory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-i", "hosts", "-i", "others"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "busbw: error: check: argument -i/--inventory: given twice: hosts and others\n"
    )
