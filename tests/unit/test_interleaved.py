"""Launches made in turn: settings tried against none, changed nodes between unchanged ones, a soak;
and what may be asked for."""

from __future__ import annotations

import dataclasses
import random
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import playbook
from busbw.assess.launches import Launch
from busbw.compare import ab, comparable, plan, soak, soak_watch
from busbw.compare import result as concluded
from busbw.compare.ab import Slot
from busbw.compare.comparable import Parts, diff
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import UNDETECTED, undetected
from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Collective,
    Invocation,
    Measurement,
    Sizes,
    Status,
)
from busbw.model.history import Change, ComparableRun, Soak, SoakEvent, SoakRound
from busbw.reports import html
from busbw.reports.sections import interleaved as interleaved
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CaseArtefact, CounterFile, CountersArtefact

SIZE = 1 << 30
CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(SIZE, SIZE), purpose="diagnosis")
SETTINGS = ((), (("NCCL_IB_QPS_PER_CONNECTION", "4"),), (("NCCL_IB_TC", "106"),))


def launch(
    slot: Slot, value: float | None, nodes: tuple[str, ...] = ("a", "b"), wrong: int = 0
) -> CaseOutcome:
    row = BenchmarkRow(
        SIZE,
        SIZE // 4,
        "float",
        "sum",
        None,
        Measurement(100.0, value or 1.0, value or 1.0, 0),
        None,
    )
    table = BenchmarkResult(
        "all_reduce", len(nodes), len(nodes), (row,), (), value, wrong, None, None, True, ()
    )
    case = dataclasses.replace(CASE, id=ab.slot_id(slot))
    if value is None:
        return CaseOutcome(case, Status.UNKNOWN, "ended with exit status 3", (), 3, 1.0, (), nodes)
    return CaseOutcome(
        case,
        Status.FAIL if wrong else Status.PASS,
        "wrong data" if wrong else "",
        (table,),
        0,
        1.0,
        (),
        nodes,
    )


def rounds(levels: tuple[float, ...], count: int = 7, cv: float = 0.005) -> list[CaseOutcome]:
    """The fabric's drift falls by a third over the rounds; each setting has its own level."""
    draw = random.Random(7)
    drifts = [1 - number / count / 3 for number in range(count)]
    return [
        launch(
            Slot("sweep", number + 1, str(variant), "all-reduce"),
            100 * drift * level * (1 + cv * draw.gauss(0, 1)),
        )
        for number, drift in enumerate(drifts)
        for variant, level in enumerate(levels)
    ]


def test_a_gain_repeats_beyond_the_noise_although_the_fabric_falls_by_a_third_meanwhile() -> None:
    faster, same = ab.sweep_results(rounds((1.0, 1.1, 1.0)), SETTINGS)
    assert (faster.setting, faster.collective, faster.size_bytes) == (
        "NCCL_IB_QPS_PER_CONNECTION=4",
        "all_reduce",
        SIZE,
    )
    assert faster.shift is not None
    assert same.shift is not None
    assert (faster.shift.change, same.shift.change) == (Change.FASTER, Change.SAME)
    assert faster.shift.ratio == pytest.approx(1.1, abs=0.01)
    assert faster.shift.low is not None
    assert faster.shift.low > 1.05


def test_noise_is_no_gain() -> None:
    by_setting = ab.sweep_results(rounds((1.0, 1.01, 0.99), cv=0.05), SETTINGS)
    assert [each.shift.change for each in by_setting if each.shift] == [
        Change.INCONCLUSIVE,
        Change.INCONCLUSIVE,
    ]


@pytest.mark.parametrize(
    "bad",
    [
        launch(Slot("sweep", 8, "1", "all-reduce"), None),
        launch(Slot("sweep", 8, "1", "all-reduce"), 300.0, wrong=3),
    ],
)
def test_a_setting_that_failed_once_or_corrupted_data_is_no_gain_however_fast_it_was(
    bad: CaseOutcome,
) -> None:
    faster, same = ab.sweep_results([*rounds((1.0, 1.5, 1.0)), bad], SETTINGS)
    assert faster.shift is None
    assert faster.problem == f"sweep-008-1-all-reduce: {bad.reason}"
    assert same.shift is not None


def control(number: int, before: float, changed: float, after: float) -> list[CaseOutcome]:
    return [
        launch(Slot("ab", number, ab.BEFORE, "all-reduce"), before, ("a", "b")),
        launch(Slot("ab", number, ab.TREATMENT, "all-reduce"), changed, ("d", "a")),
        launch(Slot("ab", number, ab.AFTER, "all-reduce"), after, ("a", "b")),
    ]


def controlled(name: str, level: float, drift: float = 1.0) -> ComparableRun:
    draw = random.Random(name)
    # Within a round the fabric falls evenly, from 1.02 to 0.98 of its middle.
    noisy = [
        (
            1.02 + 0.004 * draw.gauss(0, 1),
            1 + 0.004 * draw.gauss(0, 1),
            0.98 + 0.004 * draw.gauss(0, 1),
        )
        for _ in range(7)
    ]
    cases = [
        each
        for n, (b, c, a) in enumerate(noisy, 1)
        for each in control(n, 50 * drift * b, 50 * drift * level * c, 50 * drift * a)
    ]
    nodes = ("a", "b", "c", "d")
    return comparable.of_parts(
        Parts(name, "2026-11-20T02:12:00Z", "PASS", "lab", True, nodes, (), tuple(cases), ())
    )


def test_a_round_is_the_changed_launch_over_the_unchanged_before_and_after_so_that_an_even_fall_cancels_out() -> (
    None
):
    (contrast,) = ab.contrasts(control(1, 51.0, 45.0, 49.0))
    assert (contrast.treatment, contrast.control) == (
        ("d",),
        ("a", "b"),
    ), "the partner that both launches share was not changed"
    assert contrast.ratios[0] == pytest.approx(0.9, abs=0.001)
    assert ab.contrasts([*control(1, 51.0, 45.0, 49.0), *control(2, 51.0, 45.0, 49.0)[:2]]) == (
        contrast,
    ), "half a round is none"


def test_changed_nodes_that_lost_a_tenth_are_named_and_drift_of_all_nodes_is_not_blamed_on_the_change() -> (
    None
):
    good = (controlled("one", 1.0), controlled("two", 1.0))
    lost = diff(controlled("lost", 0.9), good)
    assert (lost.status, lost.contrasts[0].shift.change) == (Status.FAIL, Change.SLOWER)
    assert lost.contrasts[0].fabric is not None
    assert lost.contrasts[0].fabric.change is not Change.SLOWER
    drifted = diff(controlled("drifted", 1.0, drift=0.8), good)
    assert (drifted.status, drifted.contrasts[0].shift.change) == (Status.PASS, Change.SAME)
    assert drifted.contrasts[0].fabric is not None
    assert drifted.contrasts[0].fabric.change is Change.SLOWER


def test_nodes_that_were_always_slower_are_not_slower_by_the_change() -> None:
    assert (
        diff(controlled("now", 0.9), (controlled("one", 0.9), controlled("two", 0.9))).status
        is Status.PASS
    )
    alone = diff(controlled("now", 0.9), ())
    assert (alone.contrasts[0].before, alone.contrasts[0].shift.change, alone.status) == (
        None,
        Change.SLOWER,
        Status.UNKNOWN,
    )


def test_turns_never_become_numbers_that_later_runs_are_held_against() -> None:
    assert controlled("now", 1.0).numbers == ()


def soaked(values: list[float | None]) -> tuple[SoakRound, ...]:
    return tuple(
        SoakRound("all-reduce", n, "", n * 10.0, SIZE, value, "" if value else "lost")
        for n, value in enumerate(values, 1)
    )


def test_a_round_far_below_the_others_is_a_dip_with_its_round_and_one_without_number_failed() -> (
    None
):
    draw = random.Random(3)
    values: list[float | None] = [100 + draw.gauss(0, 0.5) for _ in range(40)]
    values[20], values[30] = 80.0, None
    outcomes = soak.dips(soaked(values))
    assert [(event.kind, event.number) for event in outcomes] == [("dip", 21), ("failed", 31)]
    assert "-20% against the median" in outcomes[0].text


def test_a_drift_hides_no_dip_and_a_round_without_a_number_shifts_none() -> None:
    # An hour in a lab, MB/s: the link was made slower by 6 % in steps, and round 36 was disturbed.
    hour = (937, 928, 933, 971, 960, 935, 924, 924, 954, 940, 911, 933, 919, 928, 926, 943, 907, 933, 930, 946, 916, 903, 932, 904, 922, 900,
            885, 916, 893, 878, 903, 894, 896, 909, None, 715, 892, 874, 897, 869, 882, 891, 885, 878, 877, 882, 884, 880, 904, 893, 900, 879,
            874, 876, 860, 886, 900, 886, 883, 879)  # fmt: skip
    rounds = [
        SoakRound(
            "all-reduce", n, "", 60.0 * n, SIZE, value and value / 1e6, "" if value else "lost"
        )
        for n, value in enumerate(hour, 1)
    ]
    assert [(each.kind, each.number) for each in soak.dips(rounds)] == [("failed", 35), ("dip", 36)]


def test_a_slow_drift_is_found_and_noise_is_none() -> None:
    draw = random.Random(4)
    falling = soak.drift("all-reduce", [100 - 0.05 * n + draw.gauss(0, 1) for n in range(120)])
    steady = soak.drift("all-reduce", [100 + draw.gauss(0, 1) for _ in range(120)])
    long = soak.drift("all-reduce", [100 - 0.005 * n + draw.gauss(0, 1) for n in range(1200)])
    faint = soak.drift("all-reduce", [100 - 0.004 * n + draw.gauss(0, 2) for n in range(1000)])
    assert falling is not None
    assert steady is not None
    assert long is not None
    assert faint is not None
    assert (faint.change, faint.chance < 1e-9) == (pytest.approx(-0.04, abs=0.01), True)
    assert falling.change == pytest.approx(-0.06, abs=0.01)
    assert long.change == pytest.approx(-0.06, abs=0.015)
    ended = Soak(60.0, 60.0, (), (), (falling, steady, long))
    assert [(each.id, each.status) for each in soak.findings(ended)] == [
        ("soak-drift", Status.FAIL)
    ] * 2


def test_a_counter_that_moves_in_many_rounds_is_one_finding_and_two_counters_are_two() -> None:
    events = tuple(
        SoakEvent(
            "counter",
            n,
            f"2026-11-20T03:0{n}:00Z",
            60.0 * n,
            (node,),
            f"{node} {counter} +{n}",
            f"raw/{n}.txt",
            counter=counter,
            delta=n,
        )
        for n, node, counter in (
            (1, "node1", "tx_errors"),
            (2, "node2", "tx_errors"),
            (3, "node2", "rx_errors"),
            (5, "node2", "tx_errors"),
        )
    )
    by_setting = [
        (each.id, each.status, each.where, each.title)
        for each in soak.findings(Soak(600.0, 600.0, (), events, ()))
    ]
    assert by_setting == [
        ("soak-counter", Status.WARN, (node,), title)
        for node, title in (
            (
                "node1",
                (
                    "node1 tx_errors +1, in round 1, began 2026-11-20T03:01:00Z, 1 m 00 s into the"
                    " soak"
                ),
            ),
            (
                "node2",
                (
                    "node2 tx_errors +7 in 2 rounds; round 2, began 2026-11-20T03:02:00Z, 2 m 00 s"
                    " into the soak, to round 5, began 2026-11-20T03:05:00Z, 5 m 00 s into the soak"
                ),
            ),
            (
                "node2",
                (
                    "node2 rx_errors +3, in round 3, began 2026-11-20T03:03:00Z, 3 m 00 s into the"
                    " soak"
                ),
            ),
        )
    ]


def test_the_line_after_each_round_has_every_case_with_its_trend_and_the_last_event() -> None:
    values = {"all-reduce": [100.0 - n for n in range(9)], "alltoall": [50.0, 51.0, 49.0] * 3}
    rounds = tuple(
        SoakRound(case_id, n + 1, "", 60.0 * n, SIZE, values[case_id][n], "")
        for n in range(9)
        for case_id in ("all-reduce", "alltoall")
    )
    down = SoakEvent(
        "link-down",
        2,
        "2026-11-20T03:00:00Z",
        60.0,
        ("node2 eth0",),
        "node2 eth0 lost its link",
        "raw/x.txt",
        4,
    )
    drifts = tuple(
        outcomes
        for name, numbers in values.items()
        if (outcomes := soak.drift(name, numbers)) is not None
    )
    assert (
        soak.summary(Soak(3600.0, 540.0, rounds, (down,), drifts))
        == "round 9, 9 m 00 s of 1 h 00 m: all-reduce 92.00 GB/s (median 96.00 GB/s, drift -8.3%),"
        " alltoall 49.00 GB/s (median 50.00 GB/s, no trend); 1 event, the last link-down began"
        " 2026-11-20T03:00:00Z, 1 m 00 s into the soak"
    )


def test_a_lost_link_fails_a_soak_with_its_port_and_time_and_a_dip_only_warns() -> None:
    down = SoakEvent(
        "link-down",
        12,
        "2026-11-20T03:00:00Z",
        3600.0,
        ("node2 eth0",),
        "node2 eth0 lost its link",
        "raw/x.txt",
        4,
    )
    dip = SoakEvent(
        "dip", 12, "2026-11-20T03:00:00Z", 3600.0, (), "all-reduce 80 GB/s", "raw/y.txt"
    )
    lost, slow = soak.findings(Soak(7200.0, 7200.0, (), (down, dip), ()))
    assert (lost.id, lost.status, lost.where) == ("soak-link-down", Status.FAIL, ("node2 eth0",))
    assert "in round 12, began 2026-11-20T03:00:00Z" in lost.title
    assert slow.status is Status.WARN


def test_all_combinations_are_tried_each_variable_also_unset_and_a_comma_can_be_meant() -> None:
    outcomes = plan.settings(["NCCL_IB_TC=1,2", "NCCL_IB_HCA==mlx5_0\\,mlx5_1"])
    assert [ab.setting_text(each) for each in outcomes] == [
        "unset",
        "NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NCCL_IB_TC=1",
        "NCCL_IB_TC=1 NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NCCL_IB_TC=2",
        "NCCL_IB_TC=2 NCCL_IB_HCA==mlx5_0,mlx5_1",
    ]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("NCCL_IB_TC", "expected NAME=VALUE,VALUE"),
        ("NCCL_IB_TC=1,,2", "expected NAME=VALUE,VALUE"),
        ("LD_PRELOAD=/tmp/x.so", "does not tune NCCL"),
        ("NCCL_TESTS_SPLIT=MOD 2", "would change what is measured"),
        ("NCCL_API_KEY=1", "looks like a secret"),
        ("NCCL_IB_TC=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "makes 17 combinations"),
    ],
)
def test_what_cannot_be_tried_is_refused(option: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan.settings([option])


@pytest.mark.parametrize(
    ("fabric", "option", "why"),
    [
        ("infiniband", "NCCL_PROTO=Simple,LL128", r"NCCL_PROTO=LL128 is refused: .*corrupts data"),
        ("infiniband", "NCCL_IB_RETRY_CNT=13", "three-bit"),
        ("rocev2", "NCCL_CHUNK_SIZE=2097152", "wrong results"),
        ("infiniband", "NCCL_NET_GDR_LEVEL=SYS", "across the CPU"),
        (UNDETECTED, "NCCL_PROTO=LL128", "corrupts data"),
        (UNDETECTED, "CUDA_LAUNCH_BLOCKING=1", "deadlock"),
    ],
)
def test_unsafe_settings_are_refused_with_the_reason_from_the_fabrics_table(
    fabric: str, option: str, why: str
) -> None:
    known = undetected() if fabric == UNDETECTED else profiles.load(fabric)
    with pytest.raises(UsageError, match=why):
        plan.refuse_unsafe(plan.settings([option]), known)


def test_what_tunes_without_harm_is_not_refused() -> None:
    expected = plan.settings(["NCCL_IB_QPS_PER_CONNECTION=2,4", "NCCL_PROTO=Simple"])
    plan.refuse_unsafe(expected, profiles.load("rocev2"))


def test_turns_take_the_place_of_the_bandwidth_cases_and_settings_are_checked_for_wrong_data() -> (
    None
):
    book = playbook.load("firmware-ci")
    artefact, launched = plan.interleave(book, ("a", "b"), SETTINGS)
    assert launched is not None
    assert [case.id for case in artefact.cases] == ["proof"]
    assert [(case.id, case.purpose, case.check) for case in launched.cases] == [
        ("all-reduce", "diagnosis", 1),
        ("alltoall", "diagnosis", 1),
    ]
    assert (artefact.gates, artefact.survey.when) == ((), "never")
    assert plan.interleave(book, ("a", "b")) == (book, None)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (("a", "b", "c"), "1 control nodes for 3 treatment"),
        (("z",), "which the run does not have"),
        (("a", "b", "c", "d"), "0 control"),
    ],
)
def test_controls_want_as_many_unchanged_nodes_as_changed_ones(
    changed: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        plan.interleave(playbook.load("quick"), ("a", "b", "c", "d"), (), changed)


def test_two_kinds_of_turns_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot be measured together"):
        plan.interleave(playbook.load("quick"), ("a", "b", "c"), SETTINGS, ("a",))


RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def test_what_was_measured_in_turn_is_printed_and_drawn_and_nothing_of_it_is_markup() -> None:
    report = RUNS.healthy()
    gains = ab.sweep_results(rounds((1.0, 1.1, 1.0)), SETTINGS)
    down = SoakEvent(
        "link-down",
        3,
        "2026-11-20T03:00:00Z",
        30.0,
        ("node2 eth0",),
        "<b>node2</b> lost its link",
        "raw/x.txt",
        4,
    )
    trend = soak.drift("all-reduce", [100.0] * 6)
    assert trend is not None
    soaked_hour = Soak(60.0, 60.0, soaked([100.0, 101.0, 60.0, 100.0]), (down,), (trend,))
    compared = diff(controlled("lost", 0.9), (controlled("one", 1.0),))
    result = dataclasses.replace(report.result, sweep=gains, soak=soaked_hour, compared=compared)
    shown_lines = interleaved.lines(result)
    assert any(
        line.startswith("NCCL_IB_QPS_PER_CONNECTION=4")
        and "gains: +" in line
        and "7 rounds" in line
        for line in shown_lines
    )
    assert any(
        "treatment d over control, before " in line and "slower" in line for line in shown_lines
    )
    assert any("round 3  link-down: <b>node2</b> lost its link" in line for line in shown_lines)
    page = html.render(dataclasses.replace(report, result=result))
    section = page[page.index('<section id="interleaved"') :]
    section = section[: section.index("</section>")]
    assert "Interleaved measurements" in section
    assert section.count("<svg") == 2
    assert "&lt;b&gt;node2&lt;/b&gt; lost its link" in section
    assert "<b>" not in section
    assert "Interleaved measurements" not in html.render(report)
    assert interleaved.lines(report.result) == ()


def test_a_link_lost_during_a_launch_and_one_lost_between_two_are_both_seen_and_bytes_are_no_event(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "soak")
    # What eth0 of node2 had counted, before and after each of three launches.
    counts = {1: (3, 3), 2: (4, 4), 3: (4, 6)}
    launched = []
    for number, moments in counts.items():
        outcome = launch(Slot("soak", number, "", "all-reduce"), 100.0)
        for moment, count in zip(("before", "after"), moments, strict=True):
            name = f"cases/{outcome.case.id}/counters-{moment}"
            run.write_raw(
                f"{name}/node2.txt",
                f"== time {number * 10}.0\n== net\neth0/carrier_down_count:{count}\n== end\n",
            )
            artefact = CountersArtefact(moment, (CounterFile("node2", f"raw/{name}/node2.txt"),))
            artefacts.keep(run, f"{name}.json", artefact)
        invocation = Invocation(outcome.case.id, (), (), ("a", "b"), 1.0, 2)
        began = f"2026-11-21T10:0{number}:00Z"
        kept_case = CaseArtefact(
            outcome.case, invocation, ("a", "b"), 1, "ended", 0, 10.0, None, None, None, began=began
        )
        launched.append(Launch(kept_case, outcome.results, outcome, (), ()))
    outcomes = soak_watch.soaked(run, tuple(launched), 60.0)
    assert outcomes.done_s == 30.0
    assert [
        (each.number, each.began[-9:], each.after_s, each.busbw_gb_s) for each in outcomes.rounds
    ] == [
        (1, "10:01:00Z", 0.0, 100.0),
        (2, "10:02:00Z", 10.0, 100.0),
        (3, "10:03:00Z", 20.0, 100.0),
    ]
    assert [(event.kind, event.number, event.where, event.text) for event in outcomes.events] == [
        (
            "link-down",
            2,
            ("node2 eth0",),
            (
                "node2 eth0 lost its link (carrier_down_count +1) between the launch that began"
                " 2026-11-21T10:01:00Z and this one"
            ),
        ),
        ("link-down", 3, ("node2 eth0",), "node2 eth0 lost its link (carrier_down_count +2)"),
    ]


def test_a_sweep_in_which_no_launch_gave_a_number_has_no_result() -> None:
    assert ab.sweep_results([launch(Slot("sweep", 1, "0", "all-reduce"), None)], SETTINGS) == ()
    alone = ab.sweep_results([launch(Slot("sweep", 1, "1", "all-reduce"), 100.0)], SETTINGS)
    assert alone == (), "without a launch of the same round unset there is nothing to compare"


@pytest.mark.parametrize(
    ("words", "folder"), [(("soak",), "runs/"), (("soak", "-o", "/data/soaks"), "/data/soaks/")]
)
def test_a_soak_that_was_cut_off_is_resumed_by_the_path_of_its_run(
    words: tuple[str, ...], folder: str
) -> None:
    of = SimpleNamespace(run_id="20261121-soak", run_words=words)
    cut = concluded._soak(of, Soak(600.0, 60.0, (), (), ()))  # type: ignore[arg-type]  # no more is read
    assert cut.uncovered[0].would_settle == f"busbw run --resume {folder}20261121-soak"
