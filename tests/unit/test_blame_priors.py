"""What was found besides breaks ties among accusations that measurements cannot separate, and
accuses nobody by itself."""

from __future__ import annotations

from busbw.model import Blame, BlameState, Evidence, Finding, Status
from busbw.parsers.blame.blame import BlameOutcome, with_priors
from busbw.parsers.blame.explain import Account, Suspicion
from busbw.parsers.blame.parts import Part, PartKind

NODE, RAIL = Part(PartKind.NODE, ("node7",)), Part(PartKind.RAIL, ("node3",), 1)


def flagged(component: str, *also: str) -> BlameOutcome:
    blame = Blame(
        "node",
        component,
        BlameState.SLOW,
        5.0,
        10.0,
        (Evidence("raw/cases/a.json", None, "slow"),),
        (),
        also,
        "slow in 2 of 2",
    )
    doubt = Suspicion(Account(NODE, 0.5, 0.5, 60.0, 50.0, (0, 1), (), ()), (RAIL,))
    return BlameOutcome((blame,), 10.0, 0.1, (), "", open=(doubt,))


def finding(where: str, status: Status = Status.FAIL) -> Finding:
    return Finding(
        id="link-rate",
        status=status,
        title=f"{where} is at half its rate",
        where=(where,),
        evidence=(Evidence("raw/p.txt", 7, "x"),),
    )


def test_the_part_that_a_failed_check_names_comes_first_among_those_that_cannot_be_separated() -> (
    None
):
    (blame,) = with_priors(flagged("node7", "node3 rail 1"), (finding("node3 rail 1"),)).blames
    assert (blame.kind, blame.component, blame.also) == ("rail", "node3 rail 1", ("node7",))
    assert blame.seen_in[-1] == Evidence(
        "raw/p.txt",
        7,
        "comes first because of what was found besides: node3 rail 1 is at half its rate",
    )


def test_what_was_found_on_the_node_of_a_rail_speaks_for_the_rail_too() -> None:
    (blame,) = with_priors(flagged("node7", "node3 rail 1"), (finding("node3"),)).blames
    assert blame.component == "node3 rail 1"


def test_what_speaks_for_all_or_for_others_changes_nothing() -> None:
    both = flagged("node3 rail 1", "node3 rail 2")
    assert with_priors(both, (finding("node3"),)) == both
    alone = flagged("node7", "node3 rail 1")
    assert with_priors(alone, (finding("node5"), finding("node3 rail 1", Status.PASS))) == alone


def test_nobody_is_accused_by_findings_alone() -> None:
    healthy = BlameOutcome((), 10.0, 0.1, ("node3",), "")
    assert with_priors(healthy, (finding("node3"),)) == healthy


def test_a_clear_accusation_keeps_its_place_and_quotes_what_was_found_besides() -> None:
    (blame,) = with_priors(flagged("node7"), (finding("node7"), finding("node3"))).blames
    assert (blame.component, blame.also) == ("node7", ())
    assert [e.text for e in blame.seen_in] == ["slow", "found besides: node7 is at half its rate"]
