"""The detection limits that a passing check prints."""

from __future__ import annotations

from busbw.assess import headline
from busbw.cli.check_text import check_lines
from busbw.model import CheckResult, Status
from busbw.run.checking import CheckReport


def result(check_id: str, node: str, status: Status) -> CheckResult:
    return CheckResult(
        check_id, node, status, "8", "8", "nvidia-smi -L", required=status is not Status.UNKNOWN
    )


CHECKS = tuple(
    result(check_id, node, status)
    for node in ("n1", "n2")
    for check_id, status in (
        ("gpu.count", Status.PASS),
        ("sw.mpirun", Status.PASS),
        ("sw.cuda", Status.UNKNOWN),
        ("efa.mtu", Status.SKIPPED),
    )
)
CAUGHT = (
    "detects: another answer than expected to 2 checks of gpu, sw, on each of 2 nodes, at"
    " that moment"
)
UNSEEN = "does not detect: what was not checked on some or all nodes (sw.cuda)"
MOVES = (
    "does not detect: whether data moves, how fast, and what comes and goes: nothing was measured"
    " (busbw run)"
)


def test_a_passing_check_says_what_it_detects_and_what_it_does_not() -> None:
    assert headline.sensitivity(CHECKS) == (CAUGHT, UNSEEN, MOVES)
    assert headline.sensitivity(()) == (MOVES,)


def printed(verdict: Status) -> tuple[str, ...]:
    report = CheckReport(
        "busbw.check/1",
        "r",
        "1",
        "tcp",
        "2026-11-21T12:00:00Z",
        verdict,
        0,
        "",
        ("n1", "n2"),
        (),
        CHECKS,
    )
    return tuple(map(str, check_lines(report, "runs/r")))


def test_the_terminal_prints_the_limits_of_a_pass_and_none_of_a_failure() -> None:
    assert [line for line in printed(Status.PASS) if "detect" in line] == [
        f"LIMITS  {CAUGHT}",
        f"        {UNSEEN}",
        f"        {MOVES}",
    ]
    assert not any("detect" in line for line in printed(Status.FAIL))
