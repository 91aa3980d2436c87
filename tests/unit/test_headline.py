"""The one sentence that a run comes down to."""

from __future__ import annotations

from dataclasses import replace

from busbw.derive import wording
from busbw.parsers.judge import blame
from busbw.parsers.judge.blame_parts import Fabric
from busbw.parsers.judge.verdict import Verdict
from busbw.records import Comparison, Confidence, Finding, Reference, Status

LOST = Finding("packets-lost", Status.WARN, "n3 loses packets", ("n3",), (), confidence=Confidence.LIKELY)
SHORT = Comparison("survey-pairs-1", 1 << 21, 0.005, Reference("peers", 0.006, "peers"), 0.83, Status.UNKNOWN, "83% of its peers")


def told(status: Status, *findings: Finding, comparisons: tuple[Comparison, ...] = ()) -> str:
    return wording.headline(Verdict(status, 0, findings, ()), (), blame.solve((), Fabric(())), comparisons)


def test_what_decided_the_verdict_is_told() -> None:
    assert told(Status.WARN, LOST) == "n3 loses packets"
    assert told(Status.FAIL, replace(LOST, status=Status.FAIL)) == "n3 loses packets"
    assert told(Status.PASS) == "nothing measured"


def test_where_not_enough_was_measured_what_is_likely_is_still_told_first() -> None:
    asked = "survey-pairs-1 at 2 MiB: 0.005 GB/s, compared with 0.006 GB/s (peers): 83% of its peers"
    assert told(Status.UNKNOWN, LOST, comparisons=(SHORT,)) == f"n3 loses packets; {asked}"
    assert told(Status.UNKNOWN, LOST) == "n3 loses packets; not enough was measured to tell"
    possible, advisory = replace(LOST, confidence=Confidence.POSSIBLE), replace(LOST, required=False)
    assert told(Status.UNKNOWN, possible, advisory, comparisons=(SHORT,)) == asked
    assert told(Status.FAIL, LOST, comparisons=(replace(SHORT, status=Status.FAIL),)) == asked, "what failed comes first"
