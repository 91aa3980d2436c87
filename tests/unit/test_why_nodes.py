"""The node of a kernel's line: from the line itself, else from the name of its file or folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main
from busbw.cli.why_nodes import node_of
from busbw.model import Evidence

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4123, GPU has fallen off the bus.\n"
DMESG = "[Thu Nov 26 03:11:02 2026] " + XID


def why(capsys: pytest.CaptureFixture[str], *names: Path) -> str:
    main(["why", *map(str, names)])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        "node07.dmesg",
        "node07/dmesg.txt",
        "node07/kern.log",
        "dmesg-node07.log",
        "node07_dmesg.txt",
        "node07/var/log/messages",
        "node07.dmesg-T",
        "rank_12_node07.log",
    ],
)
def test_a_file_or_folder_that_is_named_for_a_node_says_which_node_it_is(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DMESG)
    text = why(capsys, path)
    assert "  where     node07, GPU 0000:3b:00\n" in text
    assert "scontrol update nodename=node07 state=drain" in text
    assert "ssh node07 ipmitool" in text


def test_the_host_of_a_syslog_line_wins_over_the_files_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node01.log"
    path.write_text("Nov 26 03:11:02 r1n03 kernel: " + XID)
    assert "  where     r1n03, GPU 0000:3b:00\n" in why(capsys, path)


def test_of_several_nodes_no_command_is_written_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("node07.dmesg", "node08.dmesg"):
        (tmp_path / name).write_text(DMESG)
    text = why(capsys, tmp_path)
    assert "  where     node[07-08], GPU 0000:3b:00\n" in text
    assert "nodename=<node>" in text


@pytest.mark.parametrize(
    "name",
    [
        "job1234.txt",
        "dmesg.txt",
        "logs/dmesg",
        "c1404.txt",
        "kern.log.1",
        "run-7/dmesg.txt",
        "/home/user2/dmesg",
        "node-2026-11-26/dmesg",
        "job_4711/kern.log",
    ],
)
def test_names_that_are_no_nodes_name_none(name: str) -> None:
    assert node_of(Evidence(name, 1, DMESG)) == ""
