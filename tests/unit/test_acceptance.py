"""A contract against launches: what counts as met, missed and not measured, and what all of it
comes to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from busbw.errors import PlaybookError
from busbw.model import Confidence, CriterionResult, HardwareId, Limit, Status
from busbw.parsers import contract as acceptance
from busbw.parsers import verdict
from busbw.parsers.contract import Launches, RunFacts
from busbw.playbook import contract
from busbw.playbook.contract import Contract, Criterion
from busbw.reports import phrases

GIB = 1 << 30
PROMISE = Criterion("C1", "all-reduce", 8 * GIB, busbw_gb_s=370.0)
LIMIT = Limit(400.0, "min(W, N g/(g-1))", (("k", "8"),))
PARTS = (HardwareId("n1", "GPU 0", "GPU-1"),)
FACTS = RunFacts("Order 4711", 8, 8, Status.PASS, "all_reduce 381 GB/s", False, 8 * GIB, (), PARTS)


def seen(*values: float, why_not: str = "") -> Launches:
    return Launches(values, 8, ("raw/cases/all-reduce/stdout.txt",), why_not)


def judged(
    *values: float, wanted: Criterion = PROMISE, limit: Limit | None = LIMIT
) -> CriterionResult:
    return acceptance.criterion(wanted, "all_reduce", seen(*values), limit)


def test_a_number_that_is_met_says_by_how_much_and_how_sure_it_is() -> None:
    assert judged(380.0, 381.0, 382.0) == CriterionResult(
        id="C1",
        case_id="all-reduce",
        collective="all_reduce",
        size_bytes=8 * GIB,
        unit="GB/s",
        limit=370.0,
        measured=381.0,
        half_interval=pytest.approx(2.484, abs=1e-3),
        launches=3,
        nodes=8,
        status=Status.PASS,
        reason="+3.0% against the limit",
        physical_limit=400.0,
        artefacts=("raw/cases/all-reduce/stdout.txt",),
    )


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ((350.0, 351.0, 352.0), Status.FAIL, "-5.1% against the limit"),
        ((368.0, 371.0, 374.0), Status.UNKNOWN, "the limit lies within ±: raise trials above 3"),
        ((381.0, 382.0), Status.UNKNOWN, "2 of 3 launches that the contract wants"),
        ((), Status.UNKNOWN, "not measured"),
        ((420.0, 421.0, 422.0), Status.UNKNOWN, "measured above the physical limit of 400.0 GB/s: the description of the cluster is wrong, "
         "so nothing is accepted on it"),
    ],
)  # fmt: skip
def test_what_is_missed_and_what_is_not_decided(
    values: tuple[float, ...], status: Status, reason: str
) -> None:
    found = judged(*values)
    assert (found.status, found.reason) == (status, reason)


def test_the_worst_launch_is_named_where_it_decides() -> None:
    worst = dataclasses.replace(judged(380.0, 381.0, 382.0), quantile=0.0)
    assert phrases.criterion(judged(380.0, 381.0, 382.0)) == "all_reduce 8 GiB"
    assert phrases.criterion(worst) == "all_reduce 8 GiB (worst launch)"
    best = dataclasses.replace(worst, quantile=1.0)
    assert phrases.criterion(best) == "all_reduce 8 GiB (best launch)"
    tenth = dataclasses.replace(worst, case_id="ring", quantile=0.1)
    assert phrases.criterion(tenth) == "all_reduce 8 GiB (ring, 10% quantile)"


def test_a_promise_above_physics_is_never_met_and_says_why() -> None:
    found = judged(380.0, 381.0, 382.0, wanted=dataclasses.replace(PROMISE, busbw_gb_s=480.0))
    assert found.status is Status.UNKNOWN
    assert found.reason.startswith(
        "480.0 GB/s is above the physical limit of 400.0 GB/s (min(W, N g/(g-1))): no cluster of"
        " this hardware"
    )


def test_without_a_known_limit_the_launches_alone_decide() -> None:
    assert judged(480.0, 481.0, 482.0, limit=None).status is Status.PASS


def test_a_time_is_met_from_below_and_its_quantile_counts_the_slow_ones() -> None:
    wanted = Criterion("L", "latency", 8, time_us=60.0, quantile=0.0)
    slow = judged(50.0, 51.0, 90.0, wanted=wanted, limit=None)
    fast = judged(50.0, 51.0, 52.0, wanted=wanted, limit=None)
    assert (slow.measured, slow.unit, fast.measured, fast.status) == (90.0, "µs", 52.0, Status.PASS)
    assert acceptance.words(fast) == "all_reduce at 8 B: at most 60.0 µs"


@pytest.mark.parametrize(
    ("values", "facts", "word", "headline"),
    [
        (
            (380.0, 381.0, 382.0),
            FACTS,
            "ACCEPTED",
            "1 of 1 criteria met",
        ),
        (
            (350.0, 351.0, 352.0),
            FACTS,
            "NOT ACCEPTED",
            "0 of 1 criteria met, 1 failed",
        ),
        ((), FACTS, "INCONCLUSIVE", "0 of 1 criteria met, 1 not measured"),
        (
            (360.0, 371.0, 382.0),
            FACTS,
            "INCONCLUSIVE",
            "0 of 1 criteria met, 1 undecided",
        ),
        (
            (380.0, 381.0, 382.0),
            dataclasses.replace(FACTS, verdict=Status.FAIL, run_problem="wrong data"),
            "NOT ACCEPTED",
            "1 of 1 criteria met; besides the contract: wrong data",
        ),
        (
            (380.0, 381.0, 382.0),
            dataclasses.replace(FACTS, verdict=Status.UNKNOWN, run_problem="n3 not reached"),
            "INCONCLUSIVE",
            "1 of 1 criteria met; besides the contract: n3 not reached",
        ),
        (
            (380.0, 381.0, 382.0),
            dataclasses.replace(FACTS, emulated=True),
            "INCONCLUSIVE",
            ("1 of 1 criteria met; a rehearsal: emulated hosts accept nothing"),
        ),
    ],
)
def test_the_word_and_the_exit_status_say_the_same(
    values: tuple[float, ...], facts: RunFacts, word: str, headline: str
) -> None:
    made = acceptance.conclude((judged(*values),), facts)
    assert (made.word, acceptance.headline(made)) == (word, f"{word}: {headline}")
    decided = verdict.Verdict(facts.verdict, 0, (), ())
    assert (
        verdict.of_contract(decided, made).exit_status
        == {"ACCEPTED": 0, "NOT ACCEPTED": 1, "INCONCLUSIVE": 3}[word]
    )


def test_a_contract_without_criteria_is_never_accepted() -> None:
    assert acceptance.conclude((), FACTS).word == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("values", "emulated", "finding_id", "command"),
    [
        (
            (380.0, 381.0, 382.0),
            True,
            "contract-rehearsed",
            "busbw run provider-acceptance -i busbw.yaml --contract CONTRACT",
        ),
        (
            (360.0, 371.0, 382.0),
            True,
            "contract-undecided",
            "busbw run provider-acceptance --contract CONTRACT",
        ),
        ((), False, "contract-open", "busbw run --resume RUN"),
    ],
)
def test_a_rehearsal_sends_nobody_to_measure_what_is_measured(
    values: tuple[float, ...], emulated: bool, finding_id: str, command: str
) -> None:
    made = acceptance.conclude((judged(*values),), dataclasses.replace(FACTS, emulated=emulated))
    (finding,) = verdict.of_contract(verdict.Verdict(Status.PASS, 0, (), ()), made).findings
    assert (finding.id, finding.fixes[0].commands) == (finding_id, (command,))


@pytest.mark.parametrize(
    ("busy", "confidence"),
    [({"all-reduce"}, Confidence.LIKELY), ({"other"}, Confidence.CERTAIN)],
)
def test_a_criterion_missed_on_busy_cpus_is_no_more_than_likely(
    busy: set[str], confidence: Confidence
) -> None:
    made = acceptance.conclude((judged(350.0, 351.0, 352.0),), FACTS)
    decided = verdict.Verdict(Status.PASS, 0, (), ())
    (finding,) = verdict.of_contract(decided, made, frozenset(busy)).findings
    assert (finding.id, finding.confidence) == ("contract-not-met", confidence)
    blames_provider = finding.fixes[0].summary.startswith("Give the acceptance page")
    assert blames_provider == (confidence is Confidence.CERTAIN)


def test_what_was_measured_and_is_undecided_is_not_called_not_measured() -> None:
    scattered, absent = judged(368.0, 371.0, 374.0), judged()
    made = acceptance.conclude((scattered, absent), dataclasses.replace(FACTS, contract_nodes=8))
    assert acceptance.undecided(made) == (scattered,)
    assert not [each for each in made.not_measured if "within ±" in each]
    # What was not measured at all is what to measure first.
    (finding,) = verdict.of_contract(verdict.Verdict(Status.PASS, 0, (), ()), made).findings
    assert finding.id == "contract-open"


def test_what_was_not_measured_is_named() -> None:
    made = acceptance.conclude((judged(),), dataclasses.replace(FACTS, contract_nodes=512))
    assert made.not_measured == (
        "512 nodes: valid only for the 8 measured",
        "messages above 8 GiB",
        "all_reduce at 8 GiB: at least 370.0 GB/s: not measured",
    )
    assert (
        acceptance.conclude((), dataclasses.replace(FACTS, contract_nodes=None)).not_measured[0]
        == "more than 8 nodes: the contract names no number of nodes"
    )


def test_other_hardware_has_another_fingerprint() -> None:
    other = (HardwareId("n1", "GPU 0", "GPU-2"),)
    assert acceptance.fingerprint(PARTS) != acceptance.fingerprint(other)
    assert acceptance.conclude((), FACTS).fingerprint == acceptance.fingerprint(PARTS)


def test_a_contract_is_read_from_a_file_in_the_units_people_write(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(
        "title: Order 4711\nnodes: 8\ncriteria:\n  - {id: C1, case: all-reduce, size: 8G,"
        " busbw_gb_s: 370}\n"
    )
    assert contract.load(path, frozenset({"all-reduce"})) == Contract((PROMISE,), "Order 4711", 8)


def test_every_mistake_in_a_contract_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(
        "nodes: 0\n"
        "criteria:\n"
        "  - {id: C1, case: all-redcue, size: 8G, busbw_gb_s: 370}\n"
        "  - {id: C1, case: all-reduce, size: 8G}\n"
        "  - {id: C2, case: all-reduce, size: 8G, busbw_gb_s: -1, quantile: 2, trials: 0}\n"
    )
    with pytest.raises(PlaybookError) as caught:
        contract.load(path, frozenset({"all-reduce"}))
    assert [line.removeprefix(str(path)) for line in caught.value.what.splitlines()] == [
        ":1:8: must be 1 or more, not 0",
        ":3:20: no case 'all-redcue'; known: all-reduce",
        ":4:5: a criterion has busbw_gb_s or time_us, and not both",
        ":4:10: criterion 'C1' is there already",
        ":5:54: must be more than 0, not -1",
        ":5:68: a share between 0 and 1, not 2",
        ":5:79: must be 1 or more, not 0",
    ]


def test_a_contract_that_is_not_there_says_where_a_form_is(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError) as caught:
        contract.load(tmp_path / "no.yaml", frozenset())
    assert caught.value.next_step == "busbw expect --contract-template prints a form"
