"""`busbw check --fabric` from the command line: files alone, and nodes and a host that are asked;
without network, GPU or adapter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.assess import fabric
from busbw.cli import main
from busbw.store import run_directory

LINKS = """\
CA: gpu-001 mlx5_0:
      0xa088c20300000000      1    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>     100    1[  ] "MF0;leaf01:MQM9700/U1" ( )
CA: gpu-002 mlx5_0:
      0xa088c20300000010      2    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>     100    2[  ] "MF0;leaf01:MQM9700/U1" ( )
CA: gpu-003 mlx5_0:
      0xa088c20300000020      3    1[  ] ==( 4X         53.125 Gbps Active/  LinkUp)==>     100    3[  ] "MF0;leaf01:MQM9700/U1" ( )
"""
QUIET = "\n## Summary: 4 nodes checked, 0 bad nodes found\n"
HALF = "gpu-003 mlx5_0 – leaf01 port 3: 200 Gb/s (4X HDR), 2 of 3 of its like run at 400 Gb/s"


@dataclass(frozen=True)
class Done:
    """What the command left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs `busbw check WORDS` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        status = main(["check", *words, "-o", "runs"])
        streams = capsys.readouterr()
        return Done(status, streams.out, streams.err)

    return run


def report(folder: Path) -> Any:
    return json.loads((folder / "runs/latest/fabric.json").read_text())


def test_files_alone_give_the_verdict_with_both_ends_and_the_line(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    (tmp_path / "link.txt").write_text(LINKS)
    done = check("--fabric-file", "link.txt")
    assert done.returncode == 1, done
    lines = done.stdout.splitlines()
    assert lines[0] == "FAIL  3 links, 3 nodes: unknown, 1 group of 3 nodes"
    assert lines[1:4] == [
        "✖ fail  fabric.link_rate  gpu-003",
        f"      found     {HALF}",
        "      expected  the rate of most links of the same kind, all lanes",
    ]
    assert lines[4].startswith("      command   iblinkinfo"), lines
    assert lines[5].startswith("      seen      link.txt:6  "), lines
    assert lines[6] == (
        "      do        1  Reseat or replace the cable named   # needs on-site hands"
    )
    assert lines[-3] == "  leaf01       gpu-[001-003]  rail 0"
    assert (
        lines[-2]
        == "NOT CHECKED  fabric.errors  gpu-[001-003]: neither ibqueryerrors nor ibdiagnet was read"
    )
    assert lines[-1].startswith("busbw: FABRIC FAIL 1 failed, 0 warnings, 11 passed, 3 not checked")


def test_what_was_concluded_can_be_concluded_again_from_the_run_alone(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    (tmp_path / "link.txt").write_text(LINKS)
    check("--fabric-file", "link.txt")
    (tmp_path / "link.txt").unlink()
    found = fabric.load(run_directory.open_existing(tmp_path / "runs/latest"))
    assert found is not None
    assert [check.seen for check in found.checks if check.status == "FAIL"] == [HALF]
    assert [(leaf.name, leaf.nodes) for leaf in found.topology.leaves] == [
        ("leaf01", ("gpu-001", "gpu-002", "gpu-003"))
    ]


def test_json_on_standard_output_is_the_report_and_nothing_else(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    (tmp_path / "link.txt").write_text(LINKS)
    done = check("--fabric-file", "link.txt", "--json")
    assert json.loads(done.stdout) == report(tmp_path)
    assert done.stderr == ""


def test_a_file_of_nothing_known_is_not_a_pass(tmp_path: Path, check: Callable[..., Done]) -> None:
    (tmp_path / "notes.txt").write_text("all is well\n")
    done = check("--fabric-file", "notes.txt")
    assert done.returncode == 3
    assert "NOT READ  notes.txt: not of a tool that busbw knows" in done.stdout


def test_a_file_that_is_not_there_is_a_usage_error(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    assert check("--fabric-file", "no-such.txt").returncode == 2


def test_lldp_files_belong_to_the_node_of_their_name(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    for node in ("gpu-001", "gpu-002"):
        # As on switches that give every port the same words.
        (tmp_path / f"{node}.txt").write_text(
            "lldp.ens1.via=LLDP\nlldp.ens1.chassis.name=leaf01\nlldp.ens1.port.descr=to a server\n"
        )
    done = check("--fabric-file", "gpu-001.txt", "gpu-002.txt")
    assert done.returncode == 0, done
    assert report(tmp_path)["topology"]["leaves"] == [
        {"name": "leaf01", "guid": None, "nodes": ["gpu-001", "gpu-002"]}
    ]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with programs that print composed texts under the names of the fabric's tools."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("iblinkinfo", LINKS), ("ibqueryerrors", QUIET)):
        (folder / f"{name}.txt").write_text(text)
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec cat "{folder}/{name}.txt"\n')
        program.chmod(0o755)
    broken = folder / "ibnetdiscover"
    broken.write_text(
        "#!/bin/sh\necho 'ibpanic: [4] main: client_register for mgmt 1 failed' >&2\nexit 255\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return str(folder)


def test_a_host_with_the_tools_is_asked_and_what_failed_there_is_reported(
    tmp_path: Path, check: Callable[..., Done], tools: str
) -> None:
    done = check("--fabric", "-w", "gpu-[001-003]", "--transport", "local")
    assert done.returncode == 1, done
    assert HALF in done.stdout
    assert (
        "NOT READ  ibnetdiscover on gpu-001: ibpanic: [4] main: client_register for mgmt 1 failed"
        in done.stdout
    )
    (bad,) = [check for check in report(tmp_path)["checks"] if check["status"] == "FAIL"]
    recorded = (tmp_path / "runs/latest/raw/fabric/host/gpu-001.txt").read_text().splitlines()
    assert bad["evidence"]["artefact"] == "raw/fabric/host/gpu-001.txt"
    assert "53.125" in recorded[bad["evidence"]["line_no"] - 1]


def test_a_host_without_the_tools_is_unknown_and_says_which_are_missing(
    tmp_path: Path, check: Callable[..., Done]
) -> None:
    done = check(
        "--fabric", "-w", "gpu-[001-002]", "--transport", "local", "--fabric-host", "local"
    )
    assert done.returncode == 3, done
    assert done.stdout.splitlines()[0] == "UNKNOWN  0 links, 0 nodes: no link was read"
    assert "NOT READ  iblinkinfo on local:" in done.stdout
    required = [
        each["check_id"]
        for each in report(tmp_path)["checks"]
        if each["status"] == "UNKNOWN" and each["required"]
    ]
    assert required
    # What is required is a problem above: the gaps are of advisory checks.
    assert not [each for each in required if f"NOT CHECKED  {each}" in done.stdout]


def test_a_report_of_such_a_run_never_says_better_than_the_run_did(
    tmp_path: Path, check: Callable[..., Done], tools: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, status in (
        (("--fabric", "-w", "gpu-[001-003]"), 1),
        (("--fabric", "-w", "gpu-[004-005]"), 3),
    ):
        assert check(*words, "--transport", "local", "-p", "tcp").returncode == status
        assert main(["report", "runs/latest"]) == status
        assert f"busbw: CHECK {'FAIL' if status == 1 else 'UNKNOWN'}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("-w", "gpu-[001-003]")])
def test_a_run_made_of_files_alone_can_be_reported_again(
    tmp_path: Path,
    check: Callable[..., Done],
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    (tmp_path / "link.txt").write_text(LINKS)
    assert check("--fabric-file", "link.txt", *words).returncode == 1

    assert main(["report", "runs/latest"]) == 1
    told = capsys.readouterr().out
    assert HALF in told
    assert "busbw: CHECK FAIL 1 failed" in told
    assert HALF in (tmp_path / "runs/latest/report.html").read_text()


def test_a_dry_run_refuses_a_fabric_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "link.txt"
    words = [
        "run",
        "-w",
        "gpu-[001-002]",
        "--dry-run",
        "--ranks-per-node",
        "8",
        "-p",
        "infiniband",
        "--nccl-tests",
        "/opt/nccl-tests/build",
    ]
    assert main([*words, "--fabric-file", str(given)]) == 2
    assert "link.txt" in capsys.readouterr().err
    given.write_text(LINKS)
    assert main([*words, "--fabric-file", str(given)]) == 0
