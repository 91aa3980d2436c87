"""Contracts above physics are refused while a run is planned, before a node is contacted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from busbw import playbooks
from busbw.cli import main
from busbw.errors import RunDirError
from busbw.store import whole_files

SPECIFIED = "specification: {gpus: 8, nics: 8, nic_rate: 400}\n"


def planned(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    numbers: tuple[int, ...],
    specified: str,
    size: str = "4G",
) -> tuple[int, str]:
    path = tmp_path / "contract.yaml"
    lines = "".join(
        f'  - {{id: "{place}", case: all-reduce, size: {size}, busbw_gb_s: {number}}}\n'
        for place, number in enumerate(numbers, 1)
    )
    path.write_text(f"nodes: 4\n{specified}criteria:\n{lines}")
    status = main(
        [
            "run",
            "quick",
            "--contract",
            str(path),
            "-w",
            "n[1-4]",
            "-p",
            "infiniband",
            "--nccl-tests",
            "/opt/nccl-tests/build",
            "--dry-run",
        ]
    )
    return status, capsys.readouterr().err


def test_a_number_above_physics_is_refused_with_its_criterion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = planned(tmp_path, capsys, (360, 5000, 900), SPECIFIED)
    assert status == 2
    assert "no cluster can meet this contract; nothing was contacted" in err
    assert "criterion 1" not in err
    assert "criterion 2 (all-reduce): 5000 GB/s is above the physical limit of 775.0 GB/s" in err
    assert "criterion 3 (all-reduce): 900 GB/s is above the physical limit of 775.0 GB/s" in err


def test_without_a_specification_the_fastest_gpus_bound_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, capsys, (360, 900), "")[0] == 0
    status, err = planned(tmp_path, capsys, (5000,), "")
    assert status == 2
    assert "5000 GB/s is above the physical limit of 3176.5 GB/s" in err


def test_a_specification_of_at_least_bounds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_least = 'specification: {gpus: 8, nics: 8, nic_rate: ">= 400"}\n'
    assert planned(tmp_path, capsys, (770,), at_least)[0] == 0


def test_a_size_that_the_playbook_does_not_measure_is_refused_before_hours_of_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for size, shown in (("9G", "9 GiB"), ("3G", "3 GiB"), ("16G", "16 GiB")):
        status, err = planned(tmp_path, capsys, (360,), SPECIFIED, size)
        assert status == 2
        assert (
            f"criterion 1 (all-reduce): {shown} is not among its sizes: 1 GiB, 2 GiB, 4 GiB" in err
        )
        assert f"cp {Path(playbooks.__file__).parent}/quick.yaml mine.yaml; busbw run ./" in err
    assert planned(tmp_path, capsys, (360,), SPECIFIED, "2G")[0] == 0


def test_a_time_that_no_call_can_take_is_in_another_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text("criteria:\n  - {id: a, case: all-reduce, size: 1G, time_us: 0.06}\n")
    words = ["run", "quick", "--contract", str(path), "-w", "n[1-4]", "-p", "infiniband"]
    assert main([*words, "--nccl-tests", "/opt/nccl-tests/build", "--dry-run"]) == 2
    assert "criterion a (all-reduce): no collective takes 0.06 µs: is it ms, or s?" in (
        capsys.readouterr().err
    )


def test_a_check_that_is_none_is_refused_while_the_run_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(playbooks.__file__).parent / "quick.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("[ssh.connect,", "[ssh.connect, gpu.cout,"))
    words = ["run", str(path), "-w", "n[1-4]", "-p", "infiniband", "--dry-run"]
    assert main([*words, "--nccl-tests", "/opt/nccl-tests/build"]) == 2
    err = capsys.readouterr().err
    assert "playbook mine: unknown check 'gpu.cout'; did you mean 'gpu.count'?" in err


def test_a_misspelled_fabric_is_named_and_a_bound_has_the_digits_that_decide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["expect", "--gpu", "H100", "--nodes", "8", "--nics", "8x400", "--fabric"]
    assert main([*words, "infinband"]) == 2
    assert "unknown fabric 'infinband'; did you mean 'infiniband'?" in capsys.readouterr().err
    main([*words, "infiniband", "--measured", "321.95"])
    out = capsys.readouterr().out
    assert "WARN  321.95 GB/s at 8 GiB\n  under 322 GB/s" in out
    main([*words, "infiniband", "--measured", "321.99"])
    out = capsys.readouterr().out
    assert "PASS  321.99 GB/s at 8 GiB\n  at least 321.96 GB/s" in out


def test_nodes_as_a_mapping_are_shown_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("nodes:\n  gpu1: {gpus: 8}\n")
    assert main(["check", "-i", str(path)]) == 2
    assert (
        f"{path}:2:3: nodes: a list, such as [gpu1, …] or - name: gpu1; found a mapping"
        in capsys.readouterr().err
    )


def test_a_full_disk_names_the_folder_to_make_room_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert main(["init", "-w", "node1", "-o", str(tmp_path / "b.yaml")]) != 0
    assert f"next: make room in {tmp_path}, or give a file elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_may_not_be_written_to_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(RunDirError) as caught:
        whole_files.write_atomically(tmp_path / "run.json", b"{}")
    assert caught.value.next_step == (
        "write to a folder where you may: name another, or copy the run there (cp -r RUN FOLDER)"
    )
