"""A node that was not reached leads what that leaves open."""

from __future__ import annotations

from busbw.model import CheckResult, Confidence, Evidence, Finding, Status
from busbw.parsers import verdict


def test_the_node_that_was_not_reached_is_what_to_act_on_first() -> None:
    open_one = Finding(
        "not-compared",
        Status.UNKNOWN,
        "all-reduce: compared with nothing",
        (),
        (Evidence("raw/x", None, "seen"),),
        confidence=Confidence.CERTAIN,
    )
    missing = CheckResult(
        "ssh.connect", "n2", Status.UNKNOWN, "not reached", "reached", "", reason="timed out"
    )
    found = (*verdict.check_findings((missing,)), open_one)
    decided = verdict.decide((missing,), (), (), found, ())
    assert [each.id for each in decided.findings] == ["ssh.connect", "not-compared"]
    # "expected reached" would be said as the cause.
    assert decided.findings[0].cause == ""
