"""What explains what: the order of causes and their consequences, on entries made for it."""

from dataclasses import replace

import pytest

from busbw.model import Confidence, Evidence, Finding
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.candidates import Outcome
from busbw.parsers.findings.catalogue import Catalogue, Reason, Role, Signal, Weight, shares
from busbw.parsers.findings.evidence import NO_PLACE, Clue, Context, Place
from busbw.parsers.findings.ranking import rank


def entry(
    name: str, *explains: str, role: Role = Role.CAUSE, fabric: str = "any"
) -> catalogue.Entry:
    return catalogue.Entry(
        id=name,
        title=name,
        stage="init",
        role=role,
        cause="",
        explanation="",
        explains=explains,
        fabrics=(fabric,),
        signals=(Signal("nccl-log", Weight.WEAK, regex=name),),
    )


def clue(
    name: str,
    line: int,
    weight: Weight = Weight.WEAK,
    *,
    span: tuple[int, int] | None = None,
    text: str = "WARN x",
) -> Clue:
    evidence = Evidence("log", line, text)
    return Clue(name, weight, "nccl-log", evidence, Place(0, line), span=span)


def order(known: Catalogue, *clues: Clue) -> list[tuple[str, str]]:
    return [(each.id, each.confidence.value) for each in ranked(known, *clues)]


def ranked(known: Catalogue, *clues: Clue, seen: str = "") -> tuple[Finding, ...]:
    return rank(known, clues, Context(seen=frozenset({seen})), Outcome())


@pytest.fixture(scope="module")
def known() -> Catalogue:
    return catalogue.assemble(
        [
            entry("bad-gid", "retries"),
            entry("bad-mtu", "retries"),
            entry("bad-prefix", "retries", fabric="roce"),
            entry("retries", "gone"),
            entry("slow-disk", "late-rank"),
            entry("late-rank", "aborted"),
            entry("aborted", role=Role.SECONDARY),
            entry("gone", "refused", role=Role.SECONDARY),
            entry("refused"),
            entry("other"),
            replace(
                entry("denied", "gone"),
                reasons=(
                    Reason("acs", 4, "refused"),
                    Reason("limit", 0, "over the limit"),
                ),
            ),
            entry("acs"),
            entry("limit"),
        ]
    )


def test_a_consequence_of_a_consequence_is_one_too(known: Catalogue) -> None:
    assert known.consequences["bad-gid"] == {"retries", "gone"}
    first, second = ranked(known, clue("bad-gid", 1, Weight.STRONG), clue("gone", 2, Weight.STRONG))
    assert (first.id, first.explains) == ("bad-gid", ("gone",))
    assert second.confidence is Confidence.POSSIBLE


def test_what_a_secondary_error_explains_does_not_follow_from_every_cause_of_it(
    known: Catalogue,
) -> None:
    assert known.consequences["retries"] == {"gone"}
    assert known.consequences["gone"] == {"refused"}


def test_a_weak_sign_of_its_own_is_strong_beside_the_failure_that_it_explains(
    known: Catalogue,
) -> None:
    failure = clue("retries", 1, Weight.STRONG)
    assert order(known, failure, clue("bad-gid", 2)) == [
        ("bad-gid", "likely"),
        ("retries", "possible"),
    ]
    assert order(known, failure, clue("other", 2)) == [
        ("retries", "possible"),
        ("other", "possible"),
    ]


def test_two_causes_with_a_weak_sign_each_are_both_only_possible(known: Catalogue) -> None:
    failure = clue("retries", 1, Weight.STRONG)
    found = order(known, failure, clue("bad-gid", 2), clue("bad-mtu", 3))
    assert found == [("retries", "possible"), ("bad-gid", "possible"), ("bad-mtu", "possible")]


def test_a_guess_explains_nothing_by_the_very_line_that_it_shares(known: Catalogue) -> None:
    shared = [clue("slow-disk", 1), clue("late-rank", 1)]
    assert order(known, *shared) == [("late-rank", "possible"), ("slow-disk", "possible")]
    assert ranked(known, *shared)[1].explains == ()
    with_its_own = [*shared, clue("slow-disk", 2)]
    assert ranked(known, *with_its_own)[0].explains == ("late-rank",)


def test_a_reason_of_its_own_stands_before_any_number_of_shared_signs(known: Catalogue) -> None:
    shared = []
    for line in range(1, 7):
        shared += [clue("slow-disk", line), clue("bad-mtu", line)]
    assert order(known, *shared, clue("other", 8))[0] == ("other", "possible")


def test_a_sure_sign_explains_also_what_another_entry_reads_in_the_same_line(
    known: Catalogue,
) -> None:
    found = ranked(known, clue("retries", 1, Weight.CERTAIN), clue("gone", 1))
    assert found[0].explains == ("gone",)


def test_words_of_its_own_in_the_line_of_the_failure_are_a_sign_of_their_own(
    known: Catalogue,
) -> None:
    failure = clue("retries", 1, Weight.STRONG, span=(0, 20))
    assert ranked(known, failure, clue("bad-gid", 1, span=(30, 40)))[0].id == "bad-gid"
    assert ranked(known, failure, clue("bad-gid", 1, span=(10, 40)))[0].id == "retries"


def test_what_a_log_states_as_information_is_no_reason_for_a_failure(known: Catalogue) -> None:
    failure = clue("retries", 2, Weight.STRONG)
    background = clue("bad-gid", 1, text="a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB")
    assert ranked(known, failure, background)[0].id == "retries"


def test_a_weak_sign_of_one_fabric_is_strong_only_where_that_fabric_was_seen(
    known: Catalogue,
) -> None:
    clues = (clue("retries", 1, Weight.STRONG), clue("bad-prefix", 2))
    assert ranked(known, *clues, seen="ib")[0].id == "retries"
    assert ranked(known, *clues, seen="roce")[0].id == "bad-prefix"


def test_the_scheduler_s_end_of_a_job_follows_from_what_failed_before_it() -> None:
    end = "job-ended-by-scheduler"
    known = catalogue.assemble([entry("retries"), entry(end)])
    before = [clue("retries", 1, Weight.STRONG), clue(end, 9, Weight.CERTAIN)]
    assert order(known, *before) == [("retries", "likely"), (end, "possible")]
    after = [clue("retries", 9, Weight.STRONG), clue(end, 1, Weight.CERTAIN)]
    assert order(known, *after) == [(end, "certain"), ("retries", "possible")]


def test_causes_that_have_nothing_to_do_with_each_other_are_possible(known: Catalogue) -> None:
    one, two = clue("bad-gid", 1, Weight.STRONG), clue("other", 2, Weight.STRONG)
    assert order(known, one) == [("bad-gid", "likely")]
    assert order(known, one, two) == [("bad-gid", "possible"), ("other", "possible")]
    for rival in (clue("other", 2), clue("other", 1, Weight.STRONG)):
        assert order(known, one, rival) == [("bad-gid", "possible"), ("other", "possible")]
    consequence = clue("retries", 2)
    assert order(known, one, consequence)[0] == ("bad-gid", "likely")


def test_what_many_entries_explain_is_possible_where_lines_alone_report_it() -> None:
    many = [entry(f"cause-{number}", "crash") for number in range(6)]
    known = catalogue.assemble([*many, entry("crash"), entry("other")])
    assert known.general == {"crash"}
    crash = clue("crash", 1, Weight.STRONG)
    assert order(known, crash) == [("crash", "possible")]
    assert order(known, replace(crash, place=NO_PLACE)) == [("crash", "likely")]
    assert order(known, clue("crash", 1, Weight.CERTAIN)) == [("crash", "certain")]
    assert order(known, crash, clue("other", 2, Weight.STRONG))[0] == ("other", "likely")
    assert order(known, crash, clue("other", 1)) == [("crash", "possible"), ("other", "possible")]
    assert catalogue.assemble([*many[1:], entry("crash")]).general == frozenset()


def test_entries_of_a_provider_are_out_where_another_one_stands_in_its_place() -> None:
    known = catalogue.assemble([entry("gpu-memory", fabric="efa")])
    strong = clue("gpu-memory", 1, Weight.STRONG)
    assert rank(known, [strong], Context(seen=frozenset({"efa"})), Outcome())
    assert rank(known, [strong], Context(absent=frozenset({"efa"})), Outcome()) == ()


def test_a_condition_that_explains_nothing_is_possible_beside_the_cause_of_a_failure() -> None:
    slow, hot = entry("no-peermem", role=Role.STATE), entry("hot", "retries", role=Role.STATE)
    known = catalogue.assemble([slow, hot, entry("retries")])
    clues = [clue(name, 1, Weight.STRONG) for name in ("no-peermem", "hot", "retries")]
    found = {
        each.id: each.confidence.value
        for each in rank(known, clues, Context(), Outcome(failed=True))
    }
    assert found == {"hot": "likely", "retries": "possible", "no-peermem": "likely"}
    found = {
        each.id: each.confidence.value
        for each in rank(known, [clues[0], clues[2]], Context(), Outcome(failed=True))
    }
    assert found == {"retries": "likely", "no-peermem": "possible"}


def test_entries_of_a_provider_need_a_line_that_shows_it() -> None:
    real = catalogue.load()
    weak = clue("efa-security-group", 1)
    assert ranked(real, weak, seen="efa")
    assert ranked(real, weak) == ()


def ended(known: Catalogue, *clues: Clue) -> list[tuple[str, str]]:
    """The order for a job that ended in an error."""
    found = rank(known, clues, Context(), Outcome(failed=True))
    return [(each.id, each.confidence.value) for each in found]


def test_the_shares_of_a_message_s_reasons_leave_room_for_unknown_ones(known: Catalogue) -> None:
    assert shares(known.by_id["denied"]) == {"acs": 5 / 7, "limit": 1 / 7}
    assert shares(known.by_id["other"]) == {}


def test_a_reason_explains_the_message_that_names_it(known: Catalogue) -> None:
    assert known.consequences["acs"] == {"denied", "gone"}


def test_a_message_that_does_not_say_why_gives_its_usual_reasons_after_it(
    known: Catalogue,
) -> None:
    denied = clue("denied", 1, Weight.STRONG)
    assert ended(known, denied) == [
        ("denied", "likely"),
        ("acs", "possible"),
        ("limit", "possible"),
    ]
    assert order(known, denied) == [("denied", "likely")]
    ruled_out = clue("acs", 2, Weight.EXCLUDES)
    assert ended(known, denied, ruled_out) == [("denied", "likely"), ("limit", "possible")]


def test_a_message_that_is_explained_gives_no_reasons(known: Catalogue) -> None:
    found = ended(known, clue("denied", 2, Weight.STRONG), clue("limit", 1, Weight.STRONG))
    assert found == [("limit", "likely"), ("denied", "possible")]


def test_a_sign_that_holds_for_one_channel_does_not_rule_out_what_another_channel_shows(
    known: Catalogue,
) -> None:
    without = clue("other", 1, text="Channel 01/0 : 7[3] -> 0[0] via NET/IB/1")
    with_gdr = clue("other", 2, Weight.EXCLUDES, text="Channel 00/0 : 7[3] -> 0[0] via NET/IB/0")
    everywhere = clue("other", 2, Weight.EXCLUDES, text="GPU Direct RDMA enabled")
    assert order(known, without, with_gdr) == [("other", "possible")]
    assert order(known, without, everywhere) == []


def test_a_general_failure_does_not_stand_before_another_line_that_says_more() -> None:
    many = [entry(f"cause-{number}", "crash") for number in range(6)]
    known = catalogue.assemble([*many, entry("crash"), entry("other")])
    failed, why = "worker 3: failed", "worker 3: failed because the disk is full"
    crash = clue("crash", 2, Weight.STRONG, text=failed)
    for line, text, first in (
        (1, failed, "other"),
        (3, failed, "crash"),
        (3, why, "crash"),
        (3, "NCCL INFO worker 3: failed", "crash"),
        (3, "srun: task 3: exited with exit code 1", "crash"),
        (2, failed, "crash"),
    ):
        assert order(known, crash, clue("other", line, text=text))[0] == (first, "possible")
    strong = clue("other", 3, Weight.STRONG, text=why)
    assert order(known, crash, strong)[0][0] == "other"
    reason = clue("crash", 1, Weight.STRONG, text=why)
    assert order(known, reason, clue("other", 2, text=failed))[0][0] == "crash"
    weighed = clue("cause-1", 1, text=failed), clue("cause-2", 3, text=failed)
    assert order(known, crash, *weighed)[0][0] == "crash"


def test_a_general_failure_drops_no_condition_and_leaves_it_likely() -> None:
    many = [entry(f"cause-{number}", "crash") for number in range(6)]
    known = catalogue.assemble([*many, entry("crash"), entry("slow", role=Role.STATE)])
    crash, weak = clue("crash", 2, Weight.STRONG), clue("slow", 1)
    assert set(ended(known, crash, weak)) == {("crash", "possible"), ("slow", "possible")}
    assert ended(known, crash, replace(weak, weight=Weight.STRONG))[0] == ("slow", "likely")


def test_a_strong_sign_that_only_a_launcher_reports_stands_before_weak_ones(
    known: Catalogue,
) -> None:
    weak = clue("slow-disk", 1, text="could not find the index")
    noticed = clue("other", 2, Weight.STRONG, text="step 7 was cancelled")
    assert order(known, weak, noticed) == [("other", "possible"), ("slow-disk", "possible")]
    assert order(known, weak, replace(noticed, weight=Weight.WEAK))[0] == ("slow-disk", "possible")


def test_one_failure_of_a_whole_output_is_possible_where_a_line_of_a_quotation_is_likely(
    known: Catalogue,
) -> None:
    bare = clue("bad-gid", 5, Weight.STRONG, text="the link failed")
    told = clue("bad-gid", 5, Weight.STRONG, text="the link failed: no such device is present")
    whole, quotation = Context(long_texts=frozenset({0})), Context()

    def sure(line: Clue, context: Context) -> Confidence:
        return rank(known, [line], context, Outcome(failed=True))[0].confidence

    assert sure(bare, quotation) is Confidence.LIKELY
    assert sure(bare, whole) is Confidence.POSSIBLE
    assert sure(told, whole) is Confidence.LIKELY
