"""`busbw check` on the command line: what is printed, what is refused, the exit status; on this
machine through the local transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import cli
from busbw.cli import check
from busbw.cli.check_text import check_lines, drain_reason
from busbw.model import CheckResult, Evidence, Status, Unreachable
from busbw.reports import terminal
from busbw.run.checking import CheckReport, verdict_of

AGE_OF_THIS_PROCESS = check._age_s
NODES = tuple(f"gpu-{i:03}" for i in range(1, 5))


@pytest.fixture(autouse=True)
def as_if_just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check is the start of a process; the one of the tests is older."""
    monkeypatch.setattr(check, "_age_s", lambda: 0.3)


def result(
    check_id: str, node: str, status: Status, seen: str, *, reason: str = "", required: bool = True
) -> CheckResult:
    evidence = Evidence(f"raw/preflight/{node}.txt", 12, "GPU 0: NVIDIA H100 80GB HBM3")
    return CheckResult(
        check_id, node, status, seen, "8 GPUs", "nvidia-smi -L", reason, evidence, required
    )


def report(
    *checks: CheckResult,
    verdict: Status,
    exit_status: int,
    unreachable: tuple[Unreachable, ...] = (),
) -> CheckReport:
    return CheckReport(
        schema="busbw.check/1",
        run_id="20261121-1200-check",
        tool_version="1.0",
        profile="infiniband",
        started="2026-11-21T12:00:00Z",
        verdict=verdict,
        exit_status=exit_status,
        emulated="",
        nodes=NODES,
        unreachable=unreachable,
        checks=checks,
    )


FAILING = report(
    *(result("gpu.count", n, Status.PASS, "8 x H100") for n in NODES[:2]),
    *(result("gpu.count", n, Status.FAIL, "7 x H100") for n in NODES[2:]),
    *(
        result(
            "rdma.mtu",
            n,
            Status.UNKNOWN,
            "tool missing",
            reason="ibv_devinfo is not installed",
            required=False,
        )
        for n in NODES
    ),
    *(
        result(
            "efa.devices",
            n,
            Status.SKIPPED,
            "0",
            reason="not applicable to profile infiniband",
            required=False,
        )
        for n in NODES
    ),
    verdict=Status.FAIL,
    exit_status=1,
)


def test_equal_nodes_are_folded_and_each_failure_says_expected_found_command_and_where() -> None:
    assert tuple(map(str, check_lines(FAILING, "runs/x"))) == (
        "FAIL  gpu-[003-004]: 7 x H100 (gpu.count)",
        "  CHECKS  WELL  RESULT",
        "  gpu      2/4  ✖ gpu-[003-004] gpu.count",
        "  rdma       –  not checked",
        "✖ fail  gpu.count  gpu-[003-004]",
        "      found     7 x H100",
        "      expected  8 GPUs",
        "      command   nvidia-smi -L",
        "      seen      raw/preflight/gpu-003.txt:12  GPU 0: NVIDIA H100 80GB HBM3",
        "      do        1  Look for Xid 79 and for the device",
        "                   dmesg -T | grep -i xid",
        "                   lspci | grep -i nvidia",
        "NOT CHECKED  ibv_devinfo is not installed: rdma.mtu  all nodes",
        "NOT APPLICABLE  1 check to these nodes with profile infiniband (reasons in check.json)",
        "busbw: CHECK FAIL 2 failed, 0 warnings, 2 passed, 4 not checked (2 checks on 4 nodes)  runs/x",
    )


def test_different_answers_of_one_check_stand_together_and_what_one_tool_hides_is_shown_once() -> (
    None
):
    odd = report(
        result("gpu.count", NODES[0], Status.FAIL, "7 x H100"),
        *(result("gpu.count", n, Status.FAIL, "no GPU") for n in NODES[1:3]),
        *(
            result(
                f"gpu.{i}",
                NODES[3],
                Status.UNKNOWN,
                "tool missing",
                reason="nvidia-smi is not installed",
            )
            for i in ("driver", "mig")
        ),
        result("os.psi", NODES[3], Status.WARN, "waiting for cpu", required=False),
        verdict=Status.FAIL,
        exit_status=1,
    )
    shown = [
        line
        for line in map(str, check_lines(odd, "runs/x"))
        if not line.startswith(("      exp", "      com", "      seen", "      do", " " * 17))
    ]
    assert shown == [
        "FAIL  3 of 4 nodes not as required: gpu-[001-003]; profile infiniband",
        "  CHECKS  WELL  RESULT",
        "  gpu      0/4  ✖ gpu-[001-003] gpu.count   ? gpu-004 gpu.driver, gpu.mig",
        "  os       0/4  ▲ gpu-004 os.psi",
        "✖ fail  gpu.count  gpu-[001-003]",
        "      found     no GPU   on gpu-[002-003]",
        "                7 x H100   on gpu-001",
        "? unknown  gpu.driver, gpu.mig  gpu-004",
        "      found     tool missing  (nvidia-smi is not installed)",
        "▲ warning  os.psi  gpu-004   (advisory)  waiting for cpu",
        "busbw: CHECK FAIL 3 failed, 1 warning, 0 passed, 2 not checked (4 checks on 4 nodes)  runs/x",
    ]
    assert (
        drain_reason(odd)
        == "busbw: FAIL gpu.count 7 x H100; gpu.count no GPU; gpu.driver, gpu.mig tool missing"
        " (nvidia-smi is not installed)"
    )


def test_a_node_that_was_not_reached_is_reported_once_with_what_to_try() -> None:
    gone = Unreachable("gpu-001", "look up gpu-001: Name or service not known", "correct the name")
    connect = result("ssh.connect", NODES[0], Status.UNKNOWN, gone.reason)
    made = replace(report(connect, verdict=Status.UNKNOWN, exit_status=3), unreachable=(gone,))
    lines = tuple(map(str, check_lines(made, "runs/x")))
    assert lines[3:5] == (f"NOT REACHED  gpu-001: {gone.reason}", "      try: correct the name")
    assert sum(gone.reason in line for line in lines) == 1


def test_a_warning_names_the_advisory_check_that_failed_and_its_nodes() -> None:
    passed = result("ssh.connect", NODES[0], Status.PASS, "reached")
    advised = result("gpu.pcie_link", NODES[1], Status.FAIL, "GPU 2: x8 of x16", required=False)
    assert verdict_of((passed, advised)) is Status.WARN
    lines = check_lines(report(passed, advised, verdict=Status.WARN, exit_status=0), "runs/x")
    assert str(lines[0]) == "WARN  gpu-002: GPU 2: x8 of x16 (gpu.pcie_link)"


def test_lines_for_a_terminal_fit_it_and_lose_nothing() -> None:
    plain = check_lines(FAILING, "runs/x")
    for width in (60, 80, 120):
        shaped = terminal.printed(plain, width).splitlines()
        assert (
            max(len(line.rstrip()) for line in shaped if not line.startswith("busbw: ")) <= width
        ), "the line for grep stays whole"
        assert "".join("".join(shaped).split()) == "".join("".join(map(str, plain)).split())
    assert terminal.printed(plain, None) == "".join(f"{line}\n" for line in plain)


@pytest.mark.parametrize(
    ("framework", "status"), [("busbw", 3), ("nhc", 1), ("nagios", 3), ("npd", 2)]
)
def test_a_check_that_could_not_be_made_ends_as_its_framework_wants(
    framework: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert cli.main(["check", "--local", "--framework", framework, "-p", "nvlink-only"]) == status
    assert (
        "gpu.count timed out (nvidia-smi -L did not end within its time limit)"
        in capsys.readouterr().out
    )


def test_a_framework_without_local_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-w", "a", "--framework", "nhc"]) == 2
    assert "add --local" in capsys.readouterr().err


def test_a_drain_reason_is_one_line_that_leads_with_what_failed() -> None:
    assert drain_reason(FAILING) == "busbw: FAIL gpu.count 7 x H100"
    well = report(
        result("gpu.count", NODES[0], Status.PASS, "8 x H100"), verdict=Status.PASS, exit_status=0
    )
    assert drain_reason(well) == "busbw: PASS 1 check passed, 0 warnings"


def test_text_of_a_node_can_neither_move_the_cursor_nor_make_a_line() -> None:
    hostile = report(
        result("gpu.count", NODES[0], Status.FAIL, "\x1b[2J\nbusbw: PASS"),
        verdict=Status.FAIL,
        exit_status=1,
    )
    for line in (*map(str, check_lines(hostile, "runs/x")), drain_reason(hostile)):
        assert "\x1b" not in line
        assert "\n" not in line


def test_this_machine_is_asked_through_the_local_transport_and_the_run_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(
        [
            "check",
            "-w",
            "a,b",
            "--transport",
            "local",
            "-p",
            "tcp",
            "--out",
            str(tmp_path),
            "--json",
        ]
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == "busbw.check/1"
    assert printed["exit_status"] == status
    assert printed["nodes"] == ["a", "b"]
    by_id = {(c["check_id"], c["node"]): c["status"] for c in printed["checks"]}
    assert (by_id["ssh.connect", "a"], by_id["cross.kernel", "b"]) == ("PASS", "PASS")
    assert (tmp_path / "latest" / "raw" / "preflight" / "a.txt").is_file()
    assert json.loads((tmp_path / "latest" / "check.json").read_text()) == printed


def test_the_report_of_a_check_is_the_same_bytes_when_it_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from busbw.codec import dump_json
    from busbw.run import checking
    from busbw.store import run_directory

    cli.main(
        ["check", "-w", "a", "--transport", "local", "-p", "tcp", "--out", str(tmp_path), "-q"]
    )
    assert capsys.readouterr().out.startswith("busbw: CHECK ")
    run = run_directory.open_existing(tmp_path / "latest")
    kept = (run.path / "check.json").read_text()
    (run.path / "check.json").unlink()
    assert dump_json(checking.conclude(run)) == kept


def test_busbw_report_on_a_check_comes_to_the_verdict_of_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(
        ["check", "-w", "a", "--transport", "local", "-p", "tcp", "--out", str(tmp_path), "-q"]
    )
    checked = capsys.readouterr().out
    (tmp_path / "latest" / "check.json").unlink()
    assert cli.main(["report", str(tmp_path / "latest"), "-q"]) == status
    assert capsys.readouterr().out == checked
    kept = json.loads((tmp_path / "latest" / "check.json").read_text())
    run = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert (kept["exit_status"], kept["verdict"]) == (run["exit_status"], run["verdict"])
    assert "profile tcp" in run["headline"]
    assert "gpu.count" in (tmp_path / "latest" / "report.html").read_text()


def test_busbw_report_inside_a_run_prints_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(
        ["check", "-w", "a", "--transport", "local", "-p", "tcp", "--out", str(tmp_path), "-q"]
    )
    run = (tmp_path / "latest").resolve()
    capsys.readouterr()

    def place() -> str:
        cli.main(["report", str(run), "-q"])
        return capsys.readouterr().out.split()[-1]

    monkeypatch.chdir(tmp_path)
    assert place() == run.name
    for inside in (run, run / "raw"):
        monkeypatch.chdir(inside)
        assert place() == str(run)


def test_local_reads_no_inventory_that_only_lies_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prolog runs as root in the folder of the job. With -i it is the caller's word."""
    host = os.uname().nodename.partition(".")[0]
    (tmp_path / "busbw.yaml").write_text(f"nodes: [{host}\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "--local", "-p", "tcp"]) in (0, 1, 3)
    assert "busbw.yaml" not in capsys.readouterr().err
    assert cli.main(["check", "--local", "-i", "busbw.yaml", "-p", "tcp"]) == 2
    assert "busbw.yaml:" in capsys.readouterr().err


def test_local_prints_one_line_and_leaves_no_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status = cli.main(["check", "--local", "-p", "tcp"])
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.startswith({0: "busbw: ", 1: "busbw: FAIL ", 3: "busbw: UNKNOWN "}[status])
    assert list(tmp_path.iterdir()) == []


def test_local_together_with_a_host_list_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--local", "-w", "gpu-1", "-p", "tcp"]) == 2
    assert "--local means this machine" in capsys.readouterr().err


def test_without_a_fabric_a_dry_run_asks_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["run", "quick", "-w", "gpu-1", "--dry-run", "--nccl-tests", "/opt/nccl-tests"])
        == 2
    )
    assert "a dry run contacts no node, so the fabric must be named" in capsys.readouterr().err


@pytest.mark.parametrize(("age_s", "left_s"), [(0.3, 2.8), (0.8, 2.3), (4.0, 2.2), (None, 2.6)])
def test_a_slow_start_takes_from_the_script_so_that_a_prolog_still_ends_within_five_seconds(
    age_s: float | None, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_age_s", lambda: age_s)

    assert check._local_within_s() == pytest.approx(left_s)


def test_the_age_of_this_process_is_its_own_and_grows() -> None:
    first, second = AGE_OF_THIS_PROCESS(), AGE_OF_THIS_PROCESS()

    assert first is not None
    assert second is not None
    assert 0.0 < first <= second < 86_400.0


def test_a_check_of_this_machine_loads_no_ssh_library() -> None:
    program = (
        "import sys; from busbw import cli; cli.main(['check', '--local', '-p', 'tcp']);"
        " sys.exit('paramiko' in sys.modules)"
    )

    assert (
        subprocess.run(
            (sys.executable, "-c", program), stdout=subprocess.DEVNULL, timeout=60, check=False
        ).returncode
        == 0
    )


def test_what_only_says_the_same_less_closely_is_a_line_below_the_check_that_says_it() -> None:
    port = result("rdma.port_state", "gpu-003", Status.FAIL, "mlx5_5 DOWN")
    rates = result("cross.rate", "gpu-003", Status.FAIL, "7 x 400 Gb/s")
    made = report(rates, port, verdict=Status.FAIL, exit_status=1)
    lines = tuple(map(str, check_lines(made, "runs/x")))
    assert lines[0] == "FAIL  gpu-003: mlx5_5 DOWN (rdma.port_state)"
    assert "      follows   cross.rate" in lines
    assert not any(line.startswith("✖ fail  cross.rate") for line in lines)
