"""Accepting a run, finding it again, taking it back."""

from __future__ import annotations

import dataclasses
import re
import runpy
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import assess
from busbw.cli import main
from busbw.codec import dump_json
from busbw.compare import accepted, comparable, earlier
from busbw.errors import RunDirError
from busbw.model import BenchmarkRow, CaseOutcome, Confidence, Finding, RunResult, Status
from busbw.model.history import ComparableRun, Decision
from busbw.store.run_directory import RunDir

FIRST = Decision("2026-11-20T10:00:00Z", "ops", "after the recabling")
BACK = Decision("2026-11-21T10:00:00Z", "ops", "gpu-7 was swapped", revoked=True)


def recorded_run(root: Path, name: str) -> RunDir:
    (root / name / "raw").mkdir(parents=True)
    run = RunDir(root / name)
    run.write_raw("plan.json", "{}")
    return run


def test_a_decision_stays_on_record_and_the_last_one_holds(tmp_path: Path) -> None:
    one, two = recorded_run(tmp_path, "20261120-a"), recorded_run(tmp_path, "20261121-b")
    (tmp_path / "latest").symlink_to("20261121-b")
    (tmp_path / "notes").mkdir()
    assert accepted.standing(one) is None
    accepted.decide(one, FIRST)
    assert accepted.standing(one) == FIRST
    assert [each.run.run_id for each in accepted.accepted_runs(tmp_path)] == ["20261120-a"]
    accepted.decide(one, BACK)
    assert accepted.standing(one) is None
    assert accepted.read(one) == (FIRST, BACK)
    assert [run.run_id for run in accepted.runs(tmp_path)] == [
        "20261120-a",
        "20261121-b",
    ], "the link is no run of its own"
    assert accepted.accepted_runs(tmp_path) == ()
    assert accepted.read(two) == ()


def test_a_broken_record_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, "a")
    (run.path / "accepted.json").write_text('[{"at": 1}]')
    with pytest.raises(RunDirError, match=r"accepted\.json"):
        accepted.standing(run)
    assert accepted.accepted_runs(tmp_path / "nowhere") == ()


RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
RESULT: RunResult = RUNS.healthy().result


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> dict[str, RunResult]:
    """What each run directory comes to, by name."""
    results_by_id: dict[str, RunResult] = {}
    monkeypatch.setattr(assess, "derive", lambda run: results_by_id[run.run_id])
    return results_by_id


def run_of(root: Path, results: dict[str, RunResult], name: str, **changes: object) -> str:
    recorded_run(root, name)
    results[name] = dataclasses.replace(RESULT, run_id=name, **changes)  # type: ignore[arg-type]  # by name
    return str(root / name)


def test_accepting_keeps_who_when_why_and_showing_reports_it_with_regime_numbers_and_versions(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, results, "20261120-a")
    assert main(["baseline", "accept", run, "--note", "firmware 28.43"]) == 0
    (decision,) = accepted.read(RunDir(Path(run)))
    assert (decision.note, decision.revoked, bool(decision.by), decision.at[:2]) == (
        "firmware 28.43",
        False,
        True,
        "20",
    )
    assert main(["baseline", "list", "-o", str(tmp_path)]) == 0
    assert "firmware 28.43" in capsys.readouterr().out
    assert main(["baseline", "show", run]) == 0
    output = capsys.readouterr().out
    for word in (
        "infiniband, 16 nodes, 128 ranks",
        "accepted 20",
        "all_reduce",
        "8 GiB",
        *dict(RESULT.versions).values(),
    ):
        assert word in output or word == RESULT.tool_version, word
    assert main(["baseline", "revoke", run, "--note", "recabled"]) == 0
    assert accepted.standing(RunDir(Path(run))) is None
    assert main(["baseline", "revoke", run]) == 2


def test_accepting_a_run_on_busy_cpus_warns(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    title = "15 of 15 launches ran while others used the CPUs of n1"
    busy = Finding(
        "measured-while-busy", Status.WARN, title, ("n1",), (), confidence=Confidence.CERTAIN
    )
    run = run_of(tmp_path, results, "20261120-a", findings=(busy,))
    assert main(["baseline", "accept", run]) == 0
    assert f"warning: {title}" in capsys.readouterr().err
    free = run_of(tmp_path, results, "20261121-b", findings=())
    assert main(["baseline", "accept", free]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_that_failed_is_not_accepted_unless_somebody_insists(
    tmp_path: Path, results: dict[str, RunResult]
) -> None:
    run = run_of(tmp_path, results, "20261120-a", verdict=Status.FAIL)
    assert main(["baseline", "accept", run]) == 2
    assert accepted.standing(RunDir(Path(run))) is None
    assert main(["baseline", "accept", run, "--anyway", "--note", "one slow rail, known"]) == 0
    nothing = run_of(tmp_path, results, "20261121-b", cases=())
    assert main(["baseline", "accept", nothing]) == 2


def test_diff_takes_the_accepted_runs_beside_it_or_those_named_and_ends_with_its_verdict(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    one, now = run_of(tmp_path, results, "20261120-a"), run_of(tmp_path, results, "20261121-b")
    assert main(["diff", now]) == 2
    assert "no accepted run" in capsys.readouterr().err
    assert main(["diff", now, one]) == 3, "one launch on either side tells nothing"
    main(["baseline", "accept", one])
    capsys.readouterr()
    assert main(["diff", now, "-q"]) == 3
    assert capsys.readouterr().out.startswith("busbw: INCONCLUSIVE")
    results["20261120-a"] = dataclasses.replace(results["20261120-a"], profile="rocev2")
    assert main(["diff", now]) == 3
    assert (
        "not compared with 20261120-a: fabric profile: infiniband here, rocev2 in 20261120-a"
        in capsys.readouterr().out
    )


def test_a_broken_accepted_run_hides_no_other_is_named_and_can_be_revoked(
    tmp_path: Path,
    results: dict[str, RunResult],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, old, now = (
        run_of(tmp_path, results, name)
        for name in ("20261119-good", "20261120-old", "20261121-now")
    )
    for run in (good, old):
        accepted.decide(RunDir(Path(run)), FIRST)
    decided = recorded_run(tmp_path, "20261118-broken")
    (decided.path / "accepted.json").write_text("[{")

    def derived(run: RunDir) -> RunResult:
        if run.run_id == "20261120-old":
            raise RunDirError(
                "raw/build.json: missing key 'builds'\nraw/build.json: unknown key 'stamp'"
            )
        return results[run.run_id]

    monkeypatch.setattr(assess, "derive", derived)
    assert main(["diff", now]) == 3, "one launch on either side tells nothing"
    output = capsys.readouterr().out
    assert (
        "not compared with 20261120-old: raw/build.json: missing key 'builds'; busbw baseline"
        f" revoke {old}, and accept another" in output
    )
    assert re.search(r"not compared with 20261118-broken: .*accepted\.json", output)
    assert "20261121-now against 20261119-good" in output.splitlines()
    assert main(["baseline", "list", "-o", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [
        "20261118-broken",
        "20261119-good",
        "20261120-old",
    ]
    assert "stamp" not in listed[2], "the first line says enough"
    assert ["cannot be read" in line for line in listed] == [True, False, True]
    assert main(["baseline", "revoke", old]) == 0
    capsys.readouterr()
    assert main(["diff", now]) == 3
    assert "20261120-old" not in capsys.readouterr().out


def test_a_run_is_not_held_against_itself(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    now = run_of(tmp_path, results, "20261121-b")
    assert main(["diff", now, now]) == 2
    assert "cannot be compared with itself" in capsys.readouterr().err


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change_a_number(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"369.4", b"309.4"))


DAMAGE = {
    "truncated": (truncate, "10 bytes of 11"),
    "emptied": (lambda file: file.write_bytes(b""), "0 bytes of 11"),
    "deleted": (Path.unlink, "missing"),
    "one number changed": (change_a_number, "other content"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_run_is_named_and_no_reference(
    kind: str, tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    harm, why = DAMAGE[kind]
    good, old, now = (run_of(tmp_path, results, name) for name in ("a-good", "b-old", "c-now"))
    RunDir(Path(old)).write_raw("stdout.txt", "busbw 369.4")
    for run in (good, old):
        assert main(["baseline", "accept", run]) == 0
    capsys.readouterr()
    harm(Path(old) / "raw" / "stdout.txt")
    what = f"files of run b-old are not as they were written: raw/stdout.txt ({why})"
    assert main(["diff", now]) == 3
    printed = capsys.readouterr().out
    assert f"not compared with b-old: {what}; busbw baseline revoke {old}" in printed
    assert "c-now against a-good" in printed.splitlines()
    for words in (["diff", now, old], ["diff", old, now], ["baseline", "accept", "--anyway", old]):
        assert main(words) == 3, "neither a reference nor what is compared with one"
        assert what in capsys.readouterr().err
    plan = SimpleNamespace(cluster=SimpleNamespace(nodes=RESULT.nodes, emulated=False))
    (whole, kept) = earlier.collect(tmp_path, plan, assess.derive)  # type: ignore[arg-type]  # as much of a plan as it uses
    assert (whole.run_id, whole.unreadable) == ("a-good", "")
    assert (kept.run_id, kept.numbers) == ("b-old", ())
    assert kept.unreadable.startswith(what)
    (finding,) = earlier.unreadable_finding((kept,))
    assert (finding.id, finding.status) == ("accepted-run-unreadable", Status.UNKNOWN)
    assert what in finding.title


def test_a_reference_has_the_numbers_of_its_evidence_whatever_its_run_json_says(
    tmp_path: Path,
) -> None:
    recorded = Path(__file__).parents[1] / "fixtures/lab_runs/healthy.tar.xz"
    with tarfile.open(recorded) as archive:
        archive.extractall(tmp_path / "healthy", filter="data")
    run = RunDir(tmp_path / "healthy")
    result = assess.derive(run)
    accepted.decide(run, FIRST)
    plan = assess.load_plan(run)
    changed = dataclasses.replace(result, cases=(), versions=(("busbw", "9"),))
    for text in (dump_json(changed), '{"half": ', None):
        if text is None:
            (run.path / "run.json").unlink()
        else:
            run.write_derived("run.json", text)
        (past,) = earlier.collect(tmp_path, plan, assess.derive)
        assert past == comparable.of_result(result, FIRST)
        assert past.numbers


@pytest.mark.parametrize(("unread", "status"), [((), Status.PASS), (("x",), Status.UNKNOWN)])
def test_a_reference_that_cannot_be_read_leaves_the_comparison_open(
    unread: tuple[str, ...], status: Status
) -> None:
    now, *known = (several_launches(name) for name in ("now", "a", "b", "c"))
    lost = tuple(comparable.unreadable(name, "gone") for name in unread)
    assert comparable.diff(now, (*known, *lost)).status is status


def several_launches(name: str) -> ComparableRun:
    past = comparable.of_result(dataclasses.replace(RESULT, run_id=name))
    values = (369.4, 369.6, 369.5, 369.3, 369.7, 369.5)
    numbers = tuple(dataclasses.replace(each, busbw_gb_s=values) for each in past.numbers)
    return dataclasses.replace(past, numbers=numbers)


def slower_result(share: float) -> RunResult:
    """As the healthy one, with launches enough to tell a loss from noise."""

    def scaled(outcome: CaseOutcome, factor: float) -> CaseOutcome:
        tables = tuple(
            dataclasses.replace(table, rows=tuple(scaled_row(row, factor) for row in table.rows))
            for table in outcome.results
        )
        return dataclasses.replace(outcome, results=tables)

    def scaled_row(row: BenchmarkRow, factor: float) -> BenchmarkRow:
        side = row.out_of_place
        if side is None:
            return row
        faster = dataclasses.replace(
            side, busbw_gb_s=side.busbw_gb_s * factor, time_us=side.time_us / factor
        )
        return dataclasses.replace(row, out_of_place=faster)

    factors = [share * (1 + n / 2000) for n in range(-3, 4)]
    cases = tuple(scaled(each, factor) for each in RESULT.cases for factor in factors)
    return dataclasses.replace(RESULT, cases=cases)


def test_a_run_that_is_slower_than_the_accepted_ones_is_not_accepted_unless_somebody_insists(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    good, slow = (run_of(tmp_path, results, name) for name in ("20261120-a", "20261121-b"))
    for run, share in ((good, 1.0), (slow, 0.9)):
        results[Path(run).name] = dataclasses.replace(slower_result(share), run_id=Path(run).name)
    assert main(["baseline", "accept", good]) == 0
    capsys.readouterr()
    assert main(["baseline", "accept", slow]) == 2
    error = capsys.readouterr().err
    assert "run 20261121-b is slower than the accepted runs" in error
    assert "seen: SLOWER  all_reduce" in error
    assert accepted.standing(RunDir(Path(slow))) is None
    assert main(["baseline", "accept", slow, "--anyway", "--note", "one rail fewer"]) == 0
    assert main(["baseline", "accept", good]) == 0
    assert re.search(r"it was accepted before, 20\S+ by", capsys.readouterr().out)


def test_what_was_wrong_with_an_accepted_run_is_said_when_it_is_accepted_and_in_each_comparison(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    title = "2 ports of n1 are down"
    down = Finding("rdma.state", Status.WARN, title, ("n1",), (), confidence=Confidence.CERTAIN)
    warned = run_of(tmp_path, results, "20261120-a", findings=(down,), verdict=Status.WARN)
    assert main(["baseline", "accept", warned]) == 0
    assert f"busbw: warning: accepted with ▲ warning: {title}" in capsys.readouterr().err
    failed = run_of(tmp_path, results, "20261121-b", verdict=Status.FAIL)
    assert main(["baseline", "accept", failed, "--anyway", "--note", "known"]) == 0
    now = run_of(tmp_path, results, "20261122-c")
    main(["diff", now])
    assert "  accepted though it is FAIL: 20261121-b: known\n" in capsys.readouterr().out


def test_a_copy_of_an_accepted_run_is_no_second_one_and_no_run_is_compared_with_its_copy(
    tmp_path: Path, results: dict[str, RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    good, copy, now = (run_of(tmp_path, results, name) for name in ("a", "a-copy", "c-now"))
    results["a-copy"] = results["a"]
    for run in (good, copy):
        accepted.decide(RunDir(Path(run)), FIRST)
    main(["diff", now])
    assert "c-now against a\n" in capsys.readouterr().out
    plan = SimpleNamespace(cluster=SimpleNamespace(nodes=RESULT.nodes, emulated=False))
    assert len(earlier.collect(tmp_path, plan, assess.derive)) == 1  # type: ignore[arg-type]  # as much of a plan as it uses
    assert main(["diff", copy]) == 2
    assert "is the only accepted run" in capsys.readouterr().err
