"""What was found besides breaks ties among accusations that measurements cannot separate, and
accuses nobody by itself."""

from __future__ import annotations

from busbw.model import Blame, BlameState, Component, ComponentKind, Evidence, Finding, Status
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.priors import with_priors

NODE, RAIL = Component(ComponentKind.NODE, ("node7",)), Component(ComponentKind.RAIL, ("node3",), 1)


OTHER = Component(ComponentKind.RAIL, ("node3",), 2)


def flagged(component: Component, *also: Component) -> BlameOutcome:
    blame = Blame(
        component,
        BlameState.SLOW,
        5.0,
        10.0,
        (Evidence("raw/cases/a.json", None, "slow"),),
        (),
        also,
        2,
        2,
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
    (blame,) = with_priors(flagged(NODE, RAIL), (finding("node3 rail 1"),)).blames
    assert (blame.component, blame.also) == (RAIL, (NODE,))
    assert blame.seen_in[-1] == Evidence(
        "raw/p.txt",
        7,
        "ranked first because of: node3 rail 1 is at half its rate",
    )


def test_what_was_found_on_the_node_of_a_rail_speaks_for_the_rail_too() -> None:
    (blame,) = with_priors(flagged(NODE, RAIL), (finding("node3"),)).blames
    assert blame.component == RAIL


def test_what_speaks_for_all_or_for_others_changes_nothing() -> None:
    both = flagged(RAIL, OTHER)
    assert with_priors(both, (finding("node3"),)) == both
    alone = flagged(NODE, RAIL)
    assert with_priors(alone, (finding("node5"), finding("node3 rail 1", Status.PASS))) == alone


def test_nobody_is_accused_by_findings_alone() -> None:
    healthy = BlameOutcome((), 10.0, 0.1, ("node3",), "")
    assert with_priors(healthy, (finding("node3"),)) == healthy


def test_a_clear_accusation_keeps_its_place_and_quotes_what_was_found_besides() -> None:
    (blame,) = with_priors(flagged(NODE), (finding("node7"), finding("node3"))).blames
    assert (blame.component, blame.also) == (NODE, ())
    assert [e.text for e in blame.seen_in] == ["slow", "also found: node7 is at half its rate"]
