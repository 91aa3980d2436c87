"""A run's findings and the catalogue's, put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model import Confidence, Evidence, Finding, Fix, Status
from busbw.parsers import verdict
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.findings.explain import MOST_POSSIBLE, explain, with_followers

ANSWER = "raw/nodes/node3/0001-preflight.out"
OUTPUT = "raw/cases/all-reduce/stderr.txt"
FEEDS = {"path-mtu": frozenset({"rdma.mtu"}), "dead-process": frozenset[str]()}
CHECK = Finding(
    "rdma.mtu",
    Status.FAIL,
    "rdma.mtu: 2048",
    ("node3",),
    (Evidence(ANSWER, 40, "active_mtu: 2048"),),
    cause="expected 4096",
)
MTU = Finding(
    "path-mtu",
    Status.FAIL,
    "MTU too small",
    ("node3 mlx5_0",),
    (Evidence(ANSWER, 40, "active_mtu = 2048"),),
    cause="the switch port has a smaller MTU",
    fixes=(Fix("raise it"),),
    verify=("ibv_devinfo",),
)
NOTHING = Finding(
    "nothing-measured",
    Status.UNKNOWN,
    "all-reduce measured nothing",
    ("node2",),
    (Evidence(OUTPUT, 6, "signal 9"),),
    effect=1.0,
)
DEAD = Finding(
    "dead-process",
    Status.FAIL,
    "A rank died",
    (),
    (Evidence(OUTPUT, 6, "signal 9 (Killed)"),),
    cause="killed",
    confidence=Confidence.LIKELY,
)


def told(*findings: Finding, own: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return explain(own, findings, FEEDS, lambda artefact: artefact == ANSWER)


def test_a_failed_check_gets_the_cause_and_the_fixes_and_the_fault_is_listed_once() -> None:
    (only,) = told(MTU, own=(CHECK,))
    assert only == replace(
        CHECK,
        cause="expected 4096. the switch port has a smaller MTU",
        fixes=MTU.fixes,
        verify=("ibv_devinfo",),
        also=("path-mtu",),
    )


def test_a_cause_on_another_node_is_not_the_cause_of_this_check() -> None:
    (only,) = told(replace(MTU, where=("node4 mlx5_0",)), own=(CHECK,))
    assert only == filled(CHECK)
    assert "The MTU" not in only.cause


def test_a_check_without_a_known_cause_says_what_its_own_entry_says_unless_it_has_no_answer() -> (
    None
):
    (failed,) = told(own=(CHECK,))
    assert [fix.summary for fix in failed.fixes] == [
        step.do for step in catalogue.entry(CHECK.id).fix
    ]
    open_ = replace(CHECK, status=Status.UNKNOWN)
    assert told(own=(open_,)) == (open_,)


def test_a_launch_that_failed_gets_the_name_of_its_reason_and_keeps_its_status_and_its_node() -> (
    None
):
    (only,) = told(DEAD, own=(NOTHING,))
    assert (only.id, only.status, only.where, only.effect) == (
        "dead-process",
        Status.UNKNOWN,
        ("node2",),
        1.0,
    )
    assert only.title == "A rank died: all-reduce measured nothing"
    assert (only.also, only.explains) == ((), ("nothing-measured",))


def test_a_reason_that_stands_in_another_file_is_told_beside_it_as_a_warning() -> None:
    elsewhere = replace(DEAD, evidence=(Evidence("raw/cases/proof/stderr.txt", 2, "signal 9"),))
    assert told(elsewhere, own=(NOTHING,)) == (
        filled(NOTHING),
        replace(elsewhere, status=Status.WARN, required=False),
    )


def test_a_sure_sign_in_a_run_that_is_well_is_a_warning_and_cannot_fail_it() -> None:
    assert told(DEAD, own=()) == (replace(DEAD, status=Status.WARN, required=False),)


def test_what_is_only_possible_is_told_where_something_is_wrong_and_nothing_sure_is_known() -> None:
    guesses = tuple(
        replace(DEAD, id=f"guess-{n}", confidence=Confidence.POSSIBLE) for n in range(5)
    )
    assert told(*guesses, own=()) == ()
    assert [each.id for each in told(*guesses, own=(NOTHING,))] == [
        "nothing-measured",
        *(g.id for g in guesses[:MOST_POSSIBLE]),
    ]
    assert [each.id for each in told(DEAD, *guesses, own=(NOTHING,))] == ["dead-process"]


def test_what_a_narrower_check_says_more_closely_follows_from_it_and_counts_through_it() -> None:
    whole = Finding("cross.rate", Status.FAIL, "cross.rate: 7 x 400 Gb/s", ("node4",), ())
    port = Finding("rdma.rate", Status.FAIL, "rdma.rate: mlx5_3", ("node4",), (), required=False)
    _, narrow = told(own=(whole, port))
    assert (narrow.explains, narrow.required) == (("cross.rate",), True)
    _, other = told(own=(replace(whole, where=("node3",)), port))
    assert (other.explains, other.required) == ((), False)


@pytest.mark.parametrize("cause", ["slow-node", "slow-rail", "slow-link", "narrow-uplinks"])
def test_what_is_slow_leads_and_the_accepted_numbers_follow_from_it(cause: str) -> None:
    slow = Finding(cause, Status.FAIL, "node3 is slow", ("node3",), (), effect=0.3)
    changed = Finding("slower-than-accepted", Status.FAIL, "-40 %", (), (), effect=0.4)
    alone, behind = with_followers((changed, slow))
    assert (alone.explains, behind.explains) == ((), ("slower-than-accepted",))
    (first, second) = verdict.decide((), (), (), (alone, behind), ()).findings
    assert (first.id, second.id) == (cause, "slower-than-accepted")
