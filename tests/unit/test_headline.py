"""The one sentence that a run comes down to."""

from __future__ import annotations

from dataclasses import replace

import recorded_surveys

from busbw.assess import headline
from busbw.model import Comparison, Confidence, Finding, Reference, Status
from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.verdict import Verdict

LOST = Finding(
    "packets-lost", Status.WARN, "n3 loses packets", ("n3",), (), confidence=Confidence.LIKELY
)
SHORT = Comparison(
    "survey-pairs-1",
    1 << 21,
    0.005,
    Reference("peers", 0.006, "peers"),
    0.83,
    Status.UNKNOWN,
    "83% of its peers",
)


def told(status: Status, *findings: Finding, comparisons: tuple[Comparison, ...] = ()) -> str:
    return headline.run_headline(
        Verdict(status, 0, findings, ()), (), blame.solve((), Fabric(())), comparisons
    )


def test_what_decided_the_verdict_is_reported() -> None:
    assert told(Status.WARN, LOST) == "n3 loses packets"
    assert told(Status.FAIL, replace(LOST, status=Status.FAIL)) == "n3 loses packets"
    assert told(Status.PASS) == "nothing measured"


def test_where_not_enough_was_measured_what_is_likely_is_still_reported_first() -> None:
    asked = "survey-pairs-1: 0.005 GB/s instead of 0.006 GB/s"
    both = "n3 loses packets; not enough measured to tell"
    assert told(Status.UNKNOWN, LOST, comparisons=(SHORT,)) == both
    assert told(Status.UNKNOWN, LOST) == both
    possible, advisory = (
        replace(LOST, confidence=Confidence.POSSIBLE),
        replace(LOST, required=False),
    )
    assert told(Status.UNKNOWN, possible, advisory, comparisons=(SHORT,)) == asked
    assert told(Status.FAIL, LOST, comparisons=(replace(SHORT, status=Status.FAIL),)) == asked, (
        "what failed comes first"
    )


def test_a_warning_without_a_finding_says_which_group_it_is_about() -> None:
    passed = replace(
        SHORT,
        status=Status.WARN,
        reason="78% of its peers; not seen again: it passed by",
        nodes=("n1", "n3"),
    )
    assert (
        told(Status.WARN, comparisons=(passed,))
        == "n[1,3] in survey-pairs-1: 0.005 GB/s instead of 0.006 GB/s"
    )


def test_what_is_suspected_and_not_settled_is_part_of_a_pass() -> None:
    samples = recorded_surveys.samples("healthy")
    outcome = next(
        o
        for count in range(1, len(samples))
        if (o := blame.solve(samples[:count], Fabric(()))).open
    )
    names = ", ".join(dict.fromkeys(doubt.account.part.label for doubt in outcome.open))
    everybody = {node for sample in samples for node in sample.nodes}
    assert 0 < len(outcome.cleared) < len(everybody)
    assert (
        headline.run_headline(Verdict(Status.PASS, 0, (), ()), (), outcome, ())
        == f"nothing measured; possible: {names}"
    )


def test_a_headline_has_twelve_words_at_most_and_names_the_place() -> None:
    shown = {
        title: headline.headline_of(Finding("x", Status.FAIL, title, ("node4",), ()))
        for title in (
            "node4 is slow: 0.0122 GB/s instead of 0.0242 GB/s (51%), slow in 3 of 3 launches",
            "ranks 6 and 7 on node4 are stopped; the others wait for them (all-reduce, at 2 MiB)",
            "A rank died and the others wait: all-reduce measured nothing at all (exit status 137)",
            "one two three four five six seven eight nine ten eleven twelve thirteen",
        )
    }
    assert list(shown.values()) == [
        "node4 is slow: 0.0122 GB/s instead of 0.0242 GB/s (51%)",
        "ranks 6 and 7 on node4 are stopped",
        "A rank died and the others wait: node4",
        "one two three four five six seven eight nine ten eleven …: node4",
    ]
