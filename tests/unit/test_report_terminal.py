"""The verdict on a terminal: order, wording, and the last line."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.model import Confidence, Finding, RunResult, Status, Uncovered, Unreachable
from busbw.reports import lead, terminal

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def verdict_lines(result: RunResult, run_dir: str | None = None) -> tuple[str, ...]:
    return tuple(line.text for line in terminal.verdict_lines(result, run_dir))


def test_verdict_then_cause_then_fix_then_evidence() -> None:
    assert verdict_lines(RUNS.failing().result) == (
        "FAIL  all_reduce reaches 192 GB/s at 8 GiB, 52 % of the accepted runs",
        "CAUSE (likely that it is gpu-005 rail 3)  gpu-005: mlx5_3 trained at 200 Gb/s, expected 400 Gb/s   [slow-rail]",
        "      Every ring crosses the slow rail, so the whole job runs at that rail's speed.",
        "DO    1  Read the link's own account of it   # needs root",
        "         ssh gpu-005 sudo mlxlink -d mlx5_3 -e",
        "      2  Retrain the link   # needs root, disrupts running jobs",
        "         ssh gpu-005 sudo mlxlink -d mlx5_3 -a TG",
        (
            "      3  Reseat or swap the cable, then the far port   # needs on-site hands,"
            " disrupts running jobs"
        ),
        "SEEN  raw/nodes/gpu-005/ibstat:61  Rate: 200",
        (
            "      raw/cases/survey-pairs-1/result.json  every pair with gpu-005: 23.9 GB/s; median"
            " of the other pairs: 48.1 GB/s"
        ),
        (
            "      raw/cases/all-reduce/rank-40.log:311  gpu-005:3121:3140 [3] NCCL INFO NET/IB :"
            " Using [3]mlx5_3:1/IB [RO]; OOB bond0:10.0.5.1<0>"
        ),
        "AFTER THE FIX  busbw run -w gpu-005,gpu-000 --pairs",
        (
            "ALSO  ▲ warning (certain)  NCCL_IB_GID_INDEX is set on 2 nodes; InfiniBand ignores it:"
            " gpu-[002,009]   [gid-rocev1-or-no-ipv4]"
        ),
        "NOT CHECKED  bit error rate of the links; sustained load over 60 minutes",
        "busbw: FAIL gpu-005 rail 3 (slow-rail); all_reduce 192/371 GB/s (52%) gpu-[000-015] runs/20261120-0212-3f9c",
    )


def test_a_pass_prints_its_detection_limits() -> None:
    assert verdict_lines(RUNS.healthy().result)[1:3] == (
        "LIMITS  detects: a missing rail; a port at half rate",
        "        does not detect: 5 % on one uplink of a leaf",
    )


@pytest.mark.parametrize(
    ("threshold", "line"),
    [
        (
            204.6,
            "GATE  all-reduce at 8 GiB fails only below 55% of this run's number (accepted run: 97%;"
            " at least 55% is wanted, not 95%, because its launches scatter by 15%)",
        ),
        (342.0, None),
        (None, None),
    ],
)
def test_a_gate_that_lets_much_pass_is_reported_beside_the_verdict(
    threshold: float | None, line: str | None
) -> None:
    passing = RUNS.healthy().result
    gated = max(lead.whole_cluster(passing), key=lambda each: each.size_bytes)
    why = "97%; at least 55% is wanted, not 95%, because its launches scatter by 15%"
    changed = replace(gated, threshold_gb_s=threshold, measured_gb_s=372.0, reason=why)
    shown = verdict_lines(replace(passing, comparisons=(changed,)))
    assert shown[1].startswith("GATE") is (line is not None)
    assert line is None or shown[1] == line


def test_unreachable_nodes_come_with_what_was_seen_and_what_to_do() -> None:
    assert verdict_lines(RUNS.unreachable().result)[:5] == (
        "UNKNOWN  could not measure: 2 of 4 nodes could not be reached",
        "NOT REACHED  gpu-001: connect to 10.0.0.2 port 22: timed out after 10 s (2 tries)",
        "      try: ssh gpu-001 true",
        "NOT REACHED  gpu-003: host key is not the one in known_hosts: SHA256:2nJ…",
        "      try: ssh-keygen -F gpu-003",
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("healthy", "busbw: PASS all_reduce 372/371 GB/s (100.2%) gpu-[000-015] out/r1"),
        (
            "unreachable",
            "busbw: UNKNOWN could not measure: gpu-[001,003] not reached gpu-[000-003] out/r1",
        ),
        (
            "emulated",
            "busbw: FAIL node3 (slow-node); all_reduce 0.0203/0.1 GB/s (20%) node[2-3] out/r1 (emulated)",
        ),
    ],
)
def test_the_last_line_can_be_grepped(name: str, line: str) -> None:
    assert verdict_lines(getattr(RUNS, name)().result, "out/r1")[-1] == line


def test_an_emulated_run_says_so_on_the_second_line() -> None:
    assert (
        "no number here says anything about real hardware"
        in verdict_lines(RUNS.emulated().result)[1]
    )


def test_a_failure_without_a_failed_number_ends_with_the_headline() -> None:
    result = replace(
        RUNS.healthy().result,
        verdict=Status.FAIL,
        headline="gpu-005: mlx5_3 trained at 200 Gb/s",
        findings=RUNS.failing().result.findings[1:],
    )
    assert (
        verdict_lines(result)[-1] == "busbw: FAIL gpu-005: mlx5_3 trained at 200 Gb/s gpu-[000-015]"
        " runs/20261120-0212-3f9c"
    )


def test_an_advisory_finding_is_not_called_the_cause() -> None:
    result = replace(RUNS.failing().result, findings=RUNS.failing().result.findings[:1])
    lines = verdict_lines(result)
    assert lines[1].startswith("NOTE  ▲ warning (certain)  NCCL_IB_GID_INDEX is set on 2 nodes")
    assert not [line for line in lines if line.startswith("CAUSE")]


def test_no_line_of_a_hostile_run_moves_a_cursor_or_breaks() -> None:
    lines = verdict_lines(RUNS.hostile().result)
    assert all(line.isprintable() for line in lines)
    assert lines[-1].startswith("busbw: FAIL ")
    "\n".join(lines).encode("utf-8")


def test_a_missed_contract_says_whether_the_failures_clear_without_the_suspects() -> None:
    failing = RUNS.acceptance().result
    made = replace(
        failing.acceptance,
        suspects=("gpu-005",),
        without_suspects="without the suspects, on 15 nodes, the failures clear",
    )
    lines = verdict_lines(replace(failing, acceptance=made))
    at = next(number for number, line in enumerate(lines) if "CRITERION" in line)
    assert (
        lines[at + 1 + len(made.criteria)]
        == "      without the suspects, on 15 nodes, the failures clear"
    )
    missing = "; ".join(made.not_measured)
    assert (lines[at + 2 + len(made.criteria)], bool(missing)) == (
        f"      not measured: {missing}",
        True,
    )


def test_at_80_columns_a_criterion_keeps_result_limit_and_number_on_one_line() -> None:
    lines = terminal.verdict_lines(RUNS.acceptance().result)
    at = next(n for n, line in enumerate(lines) if "CRITERION" in line.text)
    rows = terminal.printed(lines[at:][: 1 + len(RUNS.acceptance().result.acceptance.criteria)], 80)
    starts = [row for row in rows.splitlines() if not row.startswith(" " * 8)]
    assert max(map(len, rows.splitlines())) <= 80
    assert len(starts) == 1 + len(RUNS.acceptance().result.acceptance.criteria), rows


def test_a_narrow_terminal_breaks_prose_and_never_a_command_or_the_last_line() -> None:
    lines = terminal.verdict_lines(RUNS.failing().result)
    shown = terminal.printed(lines, 60).splitlines()
    commands = {line.text for line in lines if line.unbroken}
    assert len(commands) == 4
    assert commands <= set(shown)
    assert max(len(line.rstrip()) for line in shown if line not in commands) <= 60
    assert terminal.printed(lines, None) == "".join(f"{line}\n" for line in lines)


def test_a_headline_that_is_the_findings_title_is_not_reported_twice() -> None:
    failing = RUNS.failing().result
    first = next(finding for finding in failing.findings if finding.id == "slow-rail")
    title = "gpu-005 is slow: 23.9 GB/s instead of 48.1 GB/s (50%)"
    slow = replace(first, title=f"{title}, slow in 3 of 3 launches")
    run = replace(failing, headline=title, findings=(slow,))
    lines = verdict_lines(run)
    assert lines[:3] == (
        f"FAIL  {title}",
        (
            "CAUSE (likely that it is gpu-005 rail 3)  Every ring crosses the slow rail, so the whole job runs at that rail's"
            " speed.   [slow-rail]"
        ),
        "      slow in 3 of 3 launches",
    )
    assert sum(title in line for line in lines) == 1
    bare = replace(run, findings=(replace(slow, title=title, cause=""),))
    assert (
        verdict_lines(bare)[1] == f"CAUSE (likely that it is gpu-005 rail 3)  {title}   [slow-rail]"
    )


def test_what_settles_a_suspicion_is_printed_below_it() -> None:
    suspected = Uncovered(
        "suspected: gpu-007", "too few launches", "busbw run --survey --budget 20m"
    )
    lines = verdict_lines(replace(RUNS.healthy().result, uncovered=(suspected,)))
    assert lines[-3:-1] == (
        "NOT CHECKED  suspected: gpu-007",
        "TO CONFIRM  busbw run --survey --budget 20m",
    )


def test_a_node_that_was_not_reached_is_reported_once() -> None:
    gone = Unreachable("gpu-003", "connect to 10.0.0.3 port 22: timed out", "ping 10.0.0.3")
    connect = Finding(
        "ssh.connect", Status.UNKNOWN, f"ssh.connect: {gone.reason}", ("gpu-003",), ()
    )
    healthy = RUNS.healthy().result
    result = replace(
        healthy,
        verdict=Status.UNKNOWN,
        unreachable=(gone,),
        findings=(connect,),
        headline="gpu-003",
    )
    lines = verdict_lines(result)
    assert lines[1:3] == (f"NOT REACHED  gpu-003: {gone.reason}", "      try: ping 10.0.0.3")
    assert not [line for line in lines if line.startswith("CAUSE")]
    left_open = Finding("not-compared", Status.UNKNOWN, "compared with nothing", (), ())
    noted = verdict_lines(replace(result, findings=(connect, left_open)))
    assert [line for line in noted if "not-compared" in line and line.startswith("ALSO  ? unknown")]
    assert not [line for line in noted if line.startswith("CAUSE")], "the node decided it"
    elsewhere = verdict_lines(replace(result, unreachable=()))
    assert elsewhere[1].startswith("CAUSE (not checked on gpu-003)")


def test_a_failure_whose_cause_is_only_possible_is_confirmed_before_anything_is_done() -> None:
    failing = RUNS.failing().result
    first = next(finding for finding in failing.findings if finding.id == "slow-rail")
    doubtful = replace(
        first, confidence=Confidence.POSSIBLE, would_settle=("busbw run --survey --budget 20m",)
    )
    labels = [
        re.split(" {2}| \\(", line)[0]
        for line in verdict_lines(replace(failing, findings=(doubtful,)))
        if not line.startswith(" ")
    ]
    assert labels[:6] == ["FAIL", "CAUSE", "TO CONFIRM", "DO", "SEEN", "AFTER THE FIX"]
    line = verdict_lines(replace(failing, findings=(doubtful,)))[1]
    assert line.startswith("CAUSE (failure certain; possible that it is gpu-005 rail 3)  ")


def test_advisory_warnings_of_checks_share_a_line() -> None:
    healthy = RUNS.healthy().result
    warnings = tuple(
        Finding(name, Status.WARN, f"{name}: odd", (node,), (), required=False)
        for name, node in (("os.psi", "n1"), ("os.cgroup", "n2"))
    )
    lines = verdict_lines(replace(healthy, findings=warnings))
    assert lines[1] == "ALSO  ▲ warning of 2 checks: os.psi: n1; os.cgroup: n2"
