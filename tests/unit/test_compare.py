"""Runs held against runs: what may be compared, what changed in the numbers and in the machine, and
how it is told."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import assess
from busbw.cli import diff as diff_command
from busbw.compare import comparable, earlier
from busbw.compare.comparable import diff
from busbw.model import RunResult, Status
from busbw.model.history import Change, ComparableRun, Number, Regime
from busbw.reports import html
from busbw.reports.compare import lines
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
REGIME = Regime("infiniband", "8 x H100 on 16", "400 Gb/s", 16, 128, False)
MACHINE = (("NCCL", "2.28.3"), ("rdma.firmware", "28.43.2026 on 16"))


def run(
    name: str, *values: float, machine: tuple[tuple[str, str], ...] = MACHINE, **changes: object
) -> ComparableRun:
    number = Number(
        "all-reduce", "all_reduce", "bandwidth", 8 << 30, "-n 20 -w 5 -c 1 -z 0 float sum", values
    )
    run_record = ComparableRun(
        name, "2026-11-20T02:12:00Z", "PASS", REGIME, (number,), machine, ("gpu-001", "gpu-002")
    )
    return dataclasses.replace(run_record, **changes)  # type: ignore[arg-type]  # as the test's author wrote them


GOOD = tuple(run(f"good-{n}", 371 + n / 10, 370.5, 371.2, 370.9) for n in range(3))


def test_a_result_gives_its_regime_its_numbers_over_launches_and_its_machine() -> None:
    result: RunResult = RUNS.healthy().result
    seen = comparable.of_result(result)
    assert (seen.regime.profile, seen.regime.nodes, seen.regime.ranks) == (result.profile, 16, 128)
    assert seen.numbers
    assert {number.purpose for number in seen.numbers} <= {"bandwidth", "latency"}
    assert all(value > 0 for number in seen.numbers for value in number.busbw_gb_s)
    assert comparable.why_not_comparable(seen, seen) == ()
    assert comparable.machine_changes(seen, seen) == ()


def test_a_ring_is_another_number_than_what_nccl_chooses() -> None:
    """Both are all_reduce with the same counts; together they would be one number with much noise."""
    result: RunResult = RUNS.healthy().result
    chosen = next(each for each in result.cases if each.case.purpose == "bandwidth")
    (table,) = chosen.results
    rows = tuple(
        dataclasses.replace(
            row, out_of_place=dataclasses.replace(row.out_of_place, busbw_gb_s=100.0)
        )
        for row in table.rows
        if row.out_of_place is not None
    )
    case = dataclasses.replace(
        chosen.case, id="ring", env=(("NCCL_ALGO", "Ring"), ("NCCL_NET", None))
    )
    ring = dataclasses.replace(chosen, case=case, results=(dataclasses.replace(table, rows=rows),))
    seen = comparable.of_result(dataclasses.replace(result, cases=(chosen, ring)))
    before = dataclasses.replace(seen, run_id="before")
    difference = diff(seen, (before,))
    assert [each.now_gb_s == each.before_gb_s for each in difference.shifts]
    rings = [each.before_gb_s for each in difference.shifts if each.number.case_id == "ring"]
    assert rings == [pytest.approx(100)] * len(rows)
    # A variable that the case unsets is part of its name as well.
    unset = dataclasses.replace(chosen, case=dataclasses.replace(case, env=(("NCCL_ALGO", None),)))
    numbers = comparable.of_result(dataclasses.replace(result, cases=(chosen, unset))).numbers
    assert any("NCCL_ALGO unset" in number.options for number in numbers)
    printed = [line for line in lines(difference) if "n=1/1" in line]
    assert len({line.index(" GB/s") for line in printed if " GB/s" in line}) == 1, "one column"
    names = [line.partition("  ")[0][2:] for line in printed]
    assert len(set(names)) == len(names) == 2 * len(rows)
    assert "all_reduce 8 GiB NCCL_ALGO=Ring NCCL_NET unset" in " ".join(lines(difference))


def test_the_first_line_of_an_open_comparison_names_a_number_that_decides() -> None:
    def with_latency(one: ComparableRun, *times_us: float) -> ComparableRun:
        busbw_gb_s = tuple(0.015 / each for each in times_us)
        own = Number("lat", "all_reduce", "latency", 8, "-n 20", busbw_gb_s, times_us, False)
        return dataclasses.replace(one, numbers=(*one.numbers, own))

    before = with_latency(run("good", 371.0, 330.0, 371.2), 20.0, 60.0, 20.2)
    printed = lines(
        diff(with_latency(run("now", 331.0, 371.0, 320.0), 200.0, 31.1, 90.0), (before,))
    )
    assert printed[0].startswith("INCONCLUSIVE  all_reduce 8 GiB -4."), printed[0]
    assert ", worst -4." in printed[-1]


def test_another_build_of_the_benchmark_is_a_change_and_the_same_one_used_again_is_none() -> None:
    def built(summary: str) -> ComparableRun:
        result: RunResult = RUNS.healthy().result
        return comparable.of_result(dataclasses.replace(result, versions=(("build", summary),)))

    before = built("built 19b8d2f6ece38cee on gpu-000 for 16 nodes")
    again = built("reused 19b8d2f6ece38cee on gpu-001 for 16 nodes")
    other = built("built 28c7e34ecc8ad517 on gpu-000 for 16 nodes")
    assert comparable.machine_changes(again, before) == ()
    assert comparable.machine_changes(other, before) == (
        ("build of nccl-tests", "19b8d2f6ece38cee", "28c7e34ecc8ad517"),
    )


def test_a_latency_case_is_compared_in_times() -> None:
    def small(name: str, *times_us: float) -> ComparableRun:
        busbw_gb_s = tuple(0.015 / time_us for time_us in times_us)
        number = Number("lat", "all_reduce", "latency", 8, "-n 20", busbw_gb_s, times_us)
        return run(name, numbers=(number,))

    before = tuple(small(f"good-{n}", 20.0 + n / 10, 20.1, 20.2) for n in range(3))
    printed = lines(diff(small("now", 31.0, 31.1, 31.2), before))

    (row,) = (line for line in printed if "n=" in line and "all_reduce 8 B" in line)
    assert row.split()[4:9] == ["20.1", "µs", "31.1", "µs", "+54.5%"]
    assert "GB/s" not in row


def test_a_slower_run_is_reported_with_the_change_of_the_machine_that_coincides() -> None:
    now = run(
        "now",
        344.1,
        343.8,
        344.6,
        344.2,
        machine=(("NCCL", "2.28.3"), ("rdma.firmware", "28.45.1020 on 16")),
    )
    difference = diff(now, GOOD)
    assert difference.status is Status.FAIL
    (only,) = difference.shifts
    assert only.shift.change is Change.SLOWER
    assert difference.machine == (("rdma.firmware", "28.43.2026 on 16", "28.45.1020 on 16"),)
    text = lines(difference)
    assert text[:2] == ("SLOWER  all_reduce 8 GiB -7.2%", "now against 3 runs, good-0 to good-2")
    assert any(
        line.startswith("✖ all_reduce 8 GiB") and "slower" in line and "n=12/4" in line
        for line in text
    ), text
    assert any("no proof of a cause" in line for line in text)
    assert text[-1].startswith("busbw: SLOWER 1 slower of 1 numbers, worst -7.")


def test_the_change_follows_from_the_numbers_before_and_now() -> None:
    """One launch of four is disturbed on either side: medians would differ by 42 %."""
    before = run("before", 400.0, 210.0, 390.0, 205.0)
    (only,) = diff(run("now", 310.0, 120.0, 130.0, 125.0), (before,)).shifts
    assert only.shift.ratio == pytest.approx(only.now_gb_s / only.before_gb_s)


def test_the_worst_of_a_regression_is_a_number_that_is_slower_and_not_an_open_one() -> None:
    def both(one: ComparableRun, *open_gb_s: float) -> ComparableRun:
        number = dataclasses.replace(one.numbers[0], size_bytes=1 << 30)
        number = dataclasses.replace(number, busbw_gb_s=open_gb_s)
        return dataclasses.replace(one, numbers=(*one.numbers, number))

    now = both(run("now", 344.1, 343.8, 344.6, 344.2), 30.0)
    text = lines(diff(now, tuple(both(good, 300.0) for good in GOOD[:2])))
    assert text[-1].startswith("busbw: SLOWER 1 slower, 1 inconclusive of 2 numbers, worst -7.")


def test_the_same_again_is_no_regression_and_too_few_launches_are_inconclusive() -> None:
    assert diff(run("now", 371.0, 370.6, 371.3), GOOD).status is Status.PASS
    one = diff(run("now", 371.0), GOOD[:1])
    assert one.status is Status.UNKNOWN
    assert lines(one)[-1].startswith("busbw: INCONCLUSIVE ")


def test_an_advisory_number_that_stays_open_decides_nothing_and_is_counted() -> None:
    def both(one: ComparableRun, *times_us: float, required: bool = False) -> ComparableRun:
        busbw_gb_s = tuple(0.015 / time_us for time_us in times_us)
        number = Number("lat", "all_reduce", "latency", 8, "-n 20", busbw_gb_s, times_us, required)
        return dataclasses.replace(one, numbers=(*one.numbers, number))

    good = both(GOOD[0], 20.0, 30.0, 15.0)
    now = run("now", 371.0, 370.6, 371.3)
    text = lines(diff(both(now, 16.0, 24.0, 33.0), (good,)))
    assert text[0].startswith("NO REGRESSION  worst: all_reduce 8 GiB ")
    assert text[0].endswith("; 1 advisory number inconclusive")
    assert text[-1].startswith("busbw: NO REGRESSION 1 same, 1 inconclusive of 2 numbers, worst ")
    assert " in time" not in text[-1]
    required = diff(both(now, 16.0, 24.0, 33.0, required=True), (good,))
    assert required.status is Status.UNKNOWN
    slower = diff(both(now, 90.0, 90.1, 90.2), (both(GOOD[0], 20.0, 20.1, 20.2),))
    assert slower.status is Status.FAIL
    alone = dataclasses.replace(both(now, 16.0, 24.0, 33.0), numbers=good.numbers[1:])
    assert diff(alone, (good,)).status is Status.UNKNOWN, "nothing else was compared"


def test_inconclusive_numbers_show_their_change_and_a_common_reason_once() -> None:
    sizes = tuple(1 << power for power in (31, 32, 33))
    now, before = (
        dataclasses.replace(
            one,
            numbers=tuple(dataclasses.replace(one.numbers[0], size_bytes=size) for size in sizes),
        )
        for one in (run("now", 180.0), run("before", 371.0))
    )
    text = lines(diff(now, (before,)))
    reason = "1 launch before and 1 now; 3 on either side are needed, or 3 accepted runs"
    assert text[0] == f"INCONCLUSIVE  all_reduce 2 GiB -51.5% ({reason})"
    assert sum("-51.5%" in line and "inconclusive (a)" in line for line in text) == 3
    assert text.count(f"  (a) {reason}") == 1
    assert (
        text[-3]
        == "  next: busbw run firmware-ci   # launches a case several times; accept such runs, too"
    )


def test_runs_of_another_regime_are_left_out_with_the_reason_and_nothing_is_compared_with_nothing() -> (
    None
):
    other = run("other", 371.0, 371.0, 371.0, regime=dataclasses.replace(REGIME, nodes=8, ranks=64))
    difference = diff(run("now", 371.0, 370.0, 372.0), (other,))
    assert (difference.against, difference.status) == ((), Status.UNKNOWN)
    assert difference.excluded == (
        ("other", ("nodes: 16 here, 8 in other", "ranks: 128 here, 64 in other")),
    )
    assert lines(difference)[-1].startswith("busbw: INCONCLUSIVE nothing to compare with")


def test_a_number_that_was_measured_with_other_options_is_not_held_against() -> None:
    now = run("now", 300.0, 300.0, 300.0)
    longer = dataclasses.replace(now.numbers[0], options="-n 100 -w 5 -c 0 -z 0 float sum")
    difference = diff(dataclasses.replace(now, numbers=(longer,)), GOOD)
    assert [each.before_gb_s for each in difference.shifts] == [None]
    assert difference.status is Status.UNKNOWN
    assert any("not measured" in line for line in lines(difference))


def test_a_number_that_every_accepted_run_has_and_this_one_lacks_is_no_pass() -> None:
    def with_small(one: ComparableRun) -> ComparableRun:
        small = dataclasses.replace(one.numbers[0], size_bytes=1 << 20)
        return dataclasses.replace(one, numbers=(*one.numbers, small))

    now = run("now", 371.0, 370.6, 371.3)
    difference = diff(now, tuple(map(with_small, GOOD)))
    assert [number.size_bytes for number in difference.not_measured] == [1 << 20]
    assert difference.status is Status.UNKNOWN
    text = lines(difference)
    assert text[0] == "INCONCLUSIVE  not measured now: all_reduce 1 MiB"
    assert "  not measured now: all_reduce 1 MiB (-n 20 -w 5 -c 1 -z 0 float sum)" in text
    assert "  next: measure again with the sizes and options of good-2" in text
    # What one of several accepted runs measured in addition is no gap.
    assert diff(now, (*GOOD[:2], with_small(GOOD[2]))).status is Status.PASS
    # What is slower stays a regression.
    slow = run("now", 344.1, 343.8, 344.6, 344.2)
    assert diff(slow, tuple(map(with_small, GOOD))).status is Status.FAIL


def test_other_nodes_are_reported_as_a_change() -> None:
    difference = diff(run("now", 371.0, 370.6, 371.3, nodes=("gpu-001", "gpu-009")), GOOD)
    assert difference.machine == (("nodes", "2", "2, 1 of them new: gpu-009"),)


def test_the_report_shows_the_change_with_its_interval_and_the_machine_beside_it() -> None:
    report = RUNS.healthy()
    now = run(
        "now",
        344.1,
        343.8,
        344.6,
        344.2,
        machine=(("NCCL", "2.28.3"), ("rdma.firmware", "<b>28.45</b>")),
    )
    page = html.render(
        dataclasses.replace(
            report, result=dataclasses.replace(report.result, compared=diff(now, GOOD))
        )
    )
    assert "Since the accepted runs" in page
    section = page[page.rindex("Since the accepted runs") :]
    assert re.search(
        r"all_reduce 8 GiB.*370\.\d GB/s.*344\.\d GB/s.*-7\.\d% \(-\d\.\d% to -\d\.\d%\)",
        section[:4000],
        re.DOTALL,
    )
    assert "&lt;b&gt;28.45&lt;/b&gt;" in section
    assert "Since the accepted runs" not in html.render(report)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("profile", "rocev2", "fabric profile: infiniband here, rocev2 in other"),
        ("gpus", "8 x H200 on 16", "GPUs: 8 x H100 on 16 here, 8 x H200 on 16 in other"),
        ("nics", "8 x 200 Gb/s", "NICs: 400 Gb/s here, 8 x 200 Gb/s in other"),
        ("nodes", 8, "nodes: 16 here, 8 in other"),
        ("ranks", 64, "ranks: 128 here, 64 in other"),
        ("emulated", True, "emulated: False here, True in other"),
    ],
)
def test_each_key_that_two_runs_do_not_share_forbids_the_comparison_and_is_reported(
    key: str, value: object, why: str
) -> None:
    other = run("other", 371.0, 371.0, 371.0, regime=dataclasses.replace(REGIME, **{key: value}))  # type: ignore[arg-type]  # by name
    difference = diff(run("now", 371.0, 370.0, 372.0), (other, *GOOD))
    assert difference.excluded == (("other", (why,)),)
    assert [each.run_id for each in difference.against] == [each.run_id for each in GOOD], (
        "the others are still compared"
    )


def test_nics_that_nobody_was_asked_for_forbid_nothing() -> None:
    unknown = run(
        "unknown",
        371.0,
        371.0,
        371.0,
        regime=dataclasses.replace(REGIME, nics=comparable.NOT_KNOWN),
    )
    assert comparable.why_not_comparable(GOOD[0], unknown) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [("collective", "all_gather"), ("size_bytes", 4 << 30), ("options", "-n 20 -w 5 -c 0")],
)
def test_numbers_of_another_collective_size_or_options_are_not_held_against_each_other(
    field: str, value: object
) -> None:
    now = run("now", 300.0, 300.0, 300.0)
    (number,) = now.numbers
    difference = diff(
        dataclasses.replace(now, numbers=(dataclasses.replace(number, **{field: value}),)), GOOD
    )  # type: ignore[arg-type]  # by name
    assert (difference.shifts[0].before_gb_s, difference.shifts[0].shift.change) == (
        None,
        Change.INCONCLUSIVE,
    )


def test_every_change_of_the_machine_stands_beside_the_numbers_and_none_is_called_the_cause() -> (
    None
):
    before = (
        ("NCCL", "2.28.3"),
        ("gpu.driver", "570.86 on 16"),
        ("os.kernel", "6.8.0-45 on 16"),
        ("rdma.firmware", "28.43 on 16"),
    )
    after = (
        ("NCCL", "2.29.2"),
        ("gpu.driver", "575.51 on 16"),
        ("os.kernel", "6.8.0-60 on 16"),
        ("rdma.firmware", "28.43 on 15; 28.45 on 1"),
    )
    good = tuple(dataclasses.replace(each, machine=before) for each in GOOD)
    difference = diff(run("now", 344.1, 343.8, 344.6, 344.2, machine=after), good)
    assert [what for what, _, _ in difference.machine] == [
        "NCCL",
        "gpu.driver",
        "os.kernel",
        "rdma.firmware",
    ]
    text = "\n".join(lines(difference))
    assert "28.43 on 16  ->  28.43 on 15; 28.45 on 1" in text
    assert "it coincides; that is no proof of a cause" in text
    (finding,) = earlier.findings(difference)
    assert " mean 344.2 GB/s, accepted " in finding.title, "the gate's number is the median"
    assert finding.cause.startswith("Changed since the accepted runs: NCCL: 2.28.3 -> 2.29.2; ")


def test_a_run_that_no_accepted_run_may_be_compared_with_has_no_answer() -> None:
    halved = run(
        "halved", 180.0, 180.0, 180.0, regime=dataclasses.replace(REGIME, nics="8 x 200 Gb/s")
    )
    difference = diff(halved, GOOD)
    (finding,) = earlier.inconclusive_finding(difference, frozenset({"all-reduce"}))
    assert (finding.id, finding.status) == ("nothing-comparable", Status.UNKNOWN)
    assert "NICs: 8 x 200 Gb/s here, 400 Gb/s in good-2" in finding.title
    assert "none of them may be compared" in earlier.uncovered(difference)[0].why


def test_the_next_command_of_a_run_with_nothing_to_compare_names_its_folder() -> None:
    text = lines(diff(run("now", 371.0), ()), "kept/now")
    assert any(line.endswith("busbw diff kept/now RUN") for line in text), text


def test_accepted_runs_that_cannot_be_read_are_named_by_the_run_and_alone_leave_it_without_an_answer(
    tmp_path: Path,
) -> None:
    for name, content in (("1-torn", '{"half": '), ("2-none", "{}")):
        directory = tmp_path / name
        (directory / "raw").mkdir(parents=True)
        RunDir(directory).write_raw("plan.json", content)
        (directory / "accepted.json").write_text(
            '[{"at": "2026-11-20T10:00:00Z", "by": "ops", "note": ""}]'
        )
    plan = SimpleNamespace(cluster=SimpleNamespace(nodes=("a", "b"), emulated=False))
    accepted = earlier.collect(tmp_path, plan, assess.derive)  # type: ignore[arg-type]  # as much of a plan as it uses
    assert [each.run_id for each in accepted] == ["1-torn", "2-none"]
    assert f"busbw baseline revoke {tmp_path}/2-none" in accepted[1].unreadable
    difference = diff(run("now", 371.0, 370.0, 372.0), accepted)
    assert [name for name, _ in difference.excluded] == ["1-torn", "2-none"]
    (finding,) = earlier.inconclusive_finding(difference, frozenset())
    assert (finding.id, finding.status) == ("nothing-comparable", Status.UNKNOWN)
    assert (
        earlier.inconclusive_finding(
            diff(run("now", 371.0, 370.0, 372.0), (*GOOD, *accepted)), frozenset()
        )
        == ()
    ), "the others are enough"


def test_a_number_that_was_measured_otherwise_says_how_and_a_run_without_numbers_says_so() -> None:
    other = dataclasses.replace(GOOD[0].numbers[0], options="-n 100 -w 5 -c 1 -z 0 float sum")
    text = "\n".join(lines(diff(run("now", 371.0, numbers=(other,)), GOOD)))
    assert "all_reduce 8 GiB is not compared with another measurement: -n 100 -w 5" in text
    assert "-n 20 -w 5 -c 1 -z 0 float sum before" in text
    text = "\n".join(lines(diff(run("soak", 371.0, numbers=()), GOOD)))
    assert (
        "this run has no number over all nodes that could be compared; before there were all_reduce"
        " 8 GiB" in text
    )
    text = "\n".join(
        lines(diff(run("now", 371.0, regime=dataclasses.replace(REGIME, nodes=8)), GOOD))
    )
    assert "next: busbw baseline accept RUN" in text


def test_a_check_is_not_compared_and_the_last_run_that_measured_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("20261101-quick", "20261102-quick", "20261103-check"):
        (tmp_path / name / "raw").mkdir(parents=True)
        if name.endswith("quick"):
            (tmp_path / name / "raw" / "cases").mkdir()
    monkeypatch.chdir(tmp_path)
    error = diff_command._without_numbers("20261103-check", tmp_path)
    assert error.lines() == (
        "error: 20261103-check measured nothing: there is nothing to compare",
        "seen: a check, or a run that ended before its first case",
        "next: the last run that measured: busbw diff 20261102-quick",
    )
