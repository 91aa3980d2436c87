"""Which places a finding names whose composed lines name several kinds of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main

ECC = "[rank4]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
XID = "NVRM: Xid (PCI:0000:{}:00): 48, pid=1, name=python3, DBE (double bit error) ECC Error\n"


def where(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    path = tmp_path / "job.log"
    path.write_text(text)
    main(["why", str(path)])
    lines = capsys.readouterr().out.splitlines()
    return next((line.split(None, 1)[1] for line in lines if line.startswith("  where")), "")


def test_the_only_device_of_its_lines_is_a_place_beside_the_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "GPU 0000:9d:00" in where(tmp_path, capsys, XID.format("9d") + ECC)


def test_of_a_drained_task_range_the_host_is_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "[4789.extern] error: setup_imex_channel: failed to create"
        " /dev/nvidia-caps-imex-channels/channel4: Operation not permitted\n"
        "srun: error: dgx-105: task 8-11: launch failed\n"
    )
    assert where(tmp_path, capsys, text) == "dgx-105"
    assert where(tmp_path, capsys, text.replace("dgx-105", "dgx-[105-106]")) == ""
