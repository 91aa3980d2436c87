"""Taking nodes out of service and putting them back: who, never more than the limit, with a fake
kubectl and with commands of the user's. Slurm is real in tests/lab/test_act.py."""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw import cli
from busbw.act import records, suspects
from busbw.act.schedulers import scheduler
from busbw.act.suspects import Suspect
from busbw.act.take_out import Outcome, at_most, take_out
from busbw.act.undrain import undrain, why_not
from busbw.model import CheckResult, Confidence, Finding, RunResult, Status
from busbw.model.run import TIE
from busbw.parsers.findings import catalogue
from busbw.run import planning
from busbw.run.checking import CheckReport
from busbw.store import artefacts, own_plans, run_directory
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
AT = "2026-11-21T12:00:00Z"
KUBECTL = """#!/usr/bin/env python3
import json, pathlib, sys
state = pathlib.Path(__file__).with_name("nodes.json")
nodes = json.loads(state.read_text())
words = sys.argv[1:]
if words[:2] == ["get", "nodes"]:
    print(json.dumps({"items": [
        {"metadata": {"name": n, "annotations": v["annotations"]}, "spec": {"unschedulable": v["cordoned"]}}
        for n, v in nodes.items()]}))
elif words[0] in ("cordon", "uncordon"):
    if nodes[words[1]].get("forbidden"):
        sys.exit("Error from server (Forbidden): nodes is forbidden")
    nodes[words[1]]["cordoned"] = words[0] == "cordon"
elif words[0] == "annotate":
    node, setting = words[-2:]
    name, found, value = setting.partition("=")
    if found:
        nodes[node]["annotations"][name] = value
    else:
        nodes[node]["annotations"].pop(name[:-1])
else:
    sys.exit(f"unexpected: {words}")
state.write_text(json.dumps(nodes))
"""


def suspect(node: str, *, measured: bool = False) -> Suspect:
    ids = ("slow-node",) if measured else ("gpu.count",)
    return Suspect(node, 'gpu.count 7 x "H100"', ids, measured)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunPlan:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = planning.RunOptions(playbook="quick", nodes="gpu-[1-40]", profile="tcp")
    return planning.new_plan(options, started=AT)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_directory.create(tmp_path / "runs", AT, "quick")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake kubectl on the PATH; the file of its nodes."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    nodes = tmp_path / "bin/nodes.json"
    nodes.write_text(
        json.dumps({f"gpu-{i}": {"cordoned": False, "annotations": {}} for i in range(1, 41)})
    )
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return nodes


def changed(nodes: Path, node: str, **values: object) -> None:
    state = json.loads(nodes.read_text())
    state[node].update(values)
    nodes.write_text(json.dumps(state))


def of(nodes: Path, node: str) -> tuple[bool, dict[str, str]]:
    state = json.loads(nodes.read_text())[node]
    return state["cordoned"], state["annotations"]


def acted(
    run: RunDir,
    plan: RunPlan,
    *each: Suspect,
    act: bool = True,
    limit: str = "5%",
    on: str = "cordon",
) -> Outcome:
    undo = "" if on == "cordon" else "echo back $NODE >> log"
    return take_out(run, plan, each, scheduler(on, undo), limit, act=act, now=lambda: AT)


def report(plan: RunPlan, *checks: CheckResult) -> CheckReport:
    return CheckReport(
        schema="busbw.check/1",
        run_id="again",
        tool_version="1",
        profile="tcp",
        started=AT,
        verdict=Status.PASS,
        exit_status=0,
        emulated="",
        nodes=tuple(node.name for node in plan.cluster.nodes),
        unreachable=(),
        checks=checks,
    )


def answer(status: Status, node: str = "gpu-3", check_id: str = "gpu.count") -> CheckResult:
    return CheckResult(check_id, node, status, "8 x H100", "8 x H100", "nvidia-smi -L")


def test_nothing_is_done_without_act_and_the_way_back_is_printed(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    done = acted(run, plan, suspect("gpu-3"), act=False)
    reason = f"busbw: gpu.count 7 x H100 ({run.run_id})"
    assert done.lines == (
        f"would cordon gpu-3: {reason}",
        f"      do    kubectl annotate --overwrite node gpu-3 'busbw/reason={reason}'",
        "      do    kubectl cordon gpu-3",
        "      undo  kubectl uncordon gpu-3",
        "      undo  kubectl annotate node gpu-3 busbw/reason-",
        "nothing was done; --act does it",
    )
    assert of(cluster, "gpu-3") == (False, {})
    assert records.of(run) == ()


def test_a_node_is_cordoned_with_its_reason_and_put_back_when_it_passes(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    acted(run, plan, suspect("gpu-3"))
    (action,) = records.of(run)
    assert of(cluster, "gpu-3") == (True, {"busbw/reason": action.reason})
    assert (action.who, action.at) == (records.who(), AT)
    again = report(plan, answer(Status.FAIL))
    (still,) = undrain(run, plan, (action,), again, None, act=True, now=lambda: AT)
    assert (still.exit_status, still.text) == (1, "still out of service: FAIL gpu.count 8 x H100")
    assert of(cluster, "gpu-3")[0]
    well = report(plan, answer(Status.PASS))
    (back,) = undrain(run, plan, (action,), well, None, act=True, now=lambda: AT)
    assert back.exit_status == 0
    assert of(cluster, "gpu-3") == (False, {})
    assert records.of(run) == ()


def test_what_somebody_else_took_out_is_neither_taken_nor_put_back(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    changed(cluster, "gpu-3", cordoned=True)
    done = acted(run, plan, suspect("gpu-3"))
    assert done.lines == ("gpu-3 is left alone: it is out of service already (no reason given)",)
    changed(cluster, "gpu-3", cordoned=False)
    acted(run, plan, suspect("gpu-3"))
    changed(cluster, "gpu-3", annotations={"busbw/reason": "maintenance until Friday"})
    (kept,) = undrain(
        run,
        plan,
        records.of(run),
        report(plan, answer(Status.PASS)),
        None,
        act=True,
        now=lambda: AT,
    )
    assert kept.text == "left alone: held for another reason now (maintenance until Friday)"
    assert of(cluster, "gpu-3")[0]


def test_more_nodes_than_the_limit_are_all_left_alone(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    done = acted(run, plan, suspect("gpu-3"), suspect("gpu-4"), suspect("gpu-5"))
    assert done == Outcome(
        (
            "nothing is taken out of service: 3 nodes would be (gpu-[3-5]), and 2 of 40 is the limit"
            " (--at-most)",
        ),
        problem=True,
    )
    assert not any(of(cluster, f"gpu-{i}")[0] for i in (3, 4, 5))


def test_nodes_that_are_out_already_count_so_that_nights_do_not_add_up(
    run: RunDir, plan: RunPlan, cluster: Path, tmp_path: Path
) -> None:
    acted(run, plan, suspect("gpu-3"), suspect("gpu-4"))
    next_night = run_directory.create(tmp_path / "runs", "2026-11-22T12:00:00Z", "quick")
    done = acted(next_night, plan, suspect("gpu-5"))
    assert "gpu-[3-4] out already" in done.lines[0]
    assert not of(cluster, "gpu-5")[0]


def test_what_is_forbidden_is_reported_and_nothing_is_left_to_undo(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    changed(cluster, "gpu-3", forbidden=True)
    done = acted(run, plan, suspect("gpu-3"))
    assert done.problem
    assert "Forbidden" in done.lines[0]
    assert records.of(run) == ()


def test_a_command_gets_node_and_reason_as_data_and_its_undo_is_run(
    run: RunDir, plan: RunPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = replace(suspect("gpu-3"), diagnosis="7 GPUs; $(touch owned) `touch owned`")
    acted(run, plan, hostile, on='echo "$NODE $REASON" >> log')
    (action,) = records.of(run)
    undrain(run, plan, (action,), report(plan, answer(Status.PASS)), None, act=True, now=lambda: AT)
    assert (tmp_path / "log").read_text().splitlines() == [
        f"gpu-3 busbw: 7 GPUs; (touch owned) touch owned ({run.run_id})",
        "back gpu-3",
    ]
    assert not (tmp_path / "owned").exists()


def test_what_a_measurement_found_only_a_later_measurement_takes_back(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    acted(run, plan, suspect("gpu-3", measured=True))
    (action,) = records.of(run)
    well = report(plan, answer(Status.PASS))
    without = why_not(action, plan, well, None)
    assert without is not None
    assert "busbw run quick -w gpu-3,OTHER" in without.text
    healthy = RUNS.healthy().result
    later = replace(
        healthy,
        playbook="quick",
        profile="tcp",
        started="2026-11-21T13:00:00Z",
        verdict=Status.PASS,
        cases=tuple(replace(case, nodes=("gpu-3", "gpu-4")) for case in healthy.cases),
    )
    assert why_not(action, plan, well, later) is None
    refused = {
        "began before it": replace(later, started=AT),
        "is FAIL": replace(later, verdict=Status.FAIL),
        "did not measure it": healthy_elsewhere(later),
        "not quick over tcp": replace(later, playbook="day-one"),
    }
    for text, other in refused.items():
        outcome = why_not(action, plan, well, other)
        assert outcome is not None
        assert (outcome.exit_status, text in outcome.text) == (3, True), text


def healthy_elsewhere(result: RunResult) -> RunResult:
    cases = tuple(replace(case, nodes=("gpu-7", "gpu-8")) for case in result.cases)
    return replace(result, cases=cases)


def test_a_check_that_was_not_made_this_time_puts_nothing_back(
    run: RunDir, plan: RunPlan, cluster: Path
) -> None:
    acted(run, plan, suspect("gpu-3"))
    (action,) = records.of(run)
    for checks in ((), (answer(Status.PASS, check_id="rdma.rate"),), (answer(Status.SKIPPED),)):
        outcome = why_not(action, plan, report(plan, *checks), None)
        assert outcome is not None
        assert (outcome.exit_status, outcome.text[:20]) == (3, "still out of service")


@pytest.mark.parametrize("check_id", ["ssh.connect", "ssh.node_to_node", "os.hosts", "sw.room"])
def test_never_for_reaching_names_or_logins(check_id: str) -> None:
    assert suspects.of_checks([answer(Status.FAIL, check_id=check_id)]) == ()
    assert suspects.of_checks([replace(answer(Status.FAIL), required=False)]) == ()
    assert suspects.of_checks([answer(Status.UNKNOWN)]) == ()


def test_never_where_nodes_differ_and_none_has_the_majority() -> None:
    tied = answer(Status.FAIL, check_id="cross.active_ports")
    assert suspects.of_checks([tied]) != ()
    assert suspects.of_checks([replace(tied, values=(("distinct", 2.0), TIE))]) == ()


def finding(**values: object) -> Finding:
    known: dict[str, object] = {
        "id": "slow-rail",
        "status": Status.FAIL,
        "title": "gpu-003 rail 2 is slow: 12 GB/s instead of 48 GB/s",
        "where": ("gpu-003 rail 2",),
        "evidence": (),
        "confidence": Confidence.LIKELY,
    }
    return Finding(**{**known, **values})  # type: ignore[arg-type]  # as the test's author wrote them


def test_a_run_acts_on_one_likely_node_and_on_nothing_less_sure() -> None:
    base = replace(RUNS.healthy().result, findings=(finding(),))
    node = base.nodes[2]
    named = finding(where=(f"{node} rail 2",))
    (one,) = suspects.of_run(replace(base, findings=(named,)))
    assert (one.node, one.ids, one.measured) == (node, ("slow-rail",), True)
    nothing = (
        replace(named, confidence=Confidence.POSSIBLE),
        replace(named, status=Status.WARN),
        replace(named, required=False),
        replace(named, id="ssh-hostkey"),
        replace(named, id="slow-pair", where=(f"{base.nodes[0]} + {base.nodes[1]}",)),
        replace(named, where=(base.nodes[0], base.nodes[1])),
        replace(named, where=("somebody-else",)),
        replace(named, where=()),
    )
    for each in nothing:
        assert suspects.of_run(replace(base, findings=(each,))) == (), each


def test_every_id_that_may_act_is_in_the_catalogue() -> None:
    known = catalogue.load().by_id
    assert [
        each for each in (*suspects.MEASURED, *suspects.BROKEN_PARTS) if each not in known
    ] == []
    assert [each for each in suspects._NEVER_IDS if each not in known] == []


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-1", "five", "", "5.5%"])
def test_what_is_no_limit_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        at_most(text, 10)
    words = ["check", "-w", "a", "--on-fail", "true", "--undo", "true", f"--at-most={text}"]
    assert cli.main(words) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--act"],
        ["--on-fail", "reboot $NODE"],
        ["--on-fail", "drain", "--undo", "true"],
        ["--on-fail", "drain", "--local"],
        ["--on-fail", "drain", "--path"],
    ],
)
def test_options_that_do_not_go_together_are_refused_before_a_node_is_asked(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "-w", "nowhere.invalid", "-p", "tcp", *words]) == 2
    assert capsys.readouterr().err.count("busbw: ") == 3


def test_a_scheduler_that_is_not_here_is_missed_before_hours_of_measuring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["run", "quick", "-w", "a", "--on-fail", "cordon", "--act"]) == 2
    assert "kubectl" in capsys.readouterr().err


def test_nothing_to_undrain_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["undrain", "gpu-3", "-o", str(tmp_path)]) == 2
    assert "no run holds it out of service" in capsys.readouterr().err


def test_an_undo_command_that_this_account_did_not_write_is_never_run(
    run: RunDir, plan: RunPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artefacts.keep(run, "plan.json", plan)
    own_plans.note(run.read_raw("plan.json") or b"")
    acted(run, plan, suspect("gpu-3"), on="true")
    record = run.raw / "actions/gpu-3.json"
    planted = record.read_text().replace("echo back $NODE >> log", f"touch {tmp_path}/owned")
    record.write_text(planted)
    assert cli.main(["undrain", str(run.path)]) == 2
    assert "was not made by this account: nothing is undone" in capsys.readouterr().err
    assert not (tmp_path / "owned").exists()


def test_an_undo_command_under_another_nodes_name_is_never_run(
    run: RunDir, plan: RunPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artefacts.keep(run, "plan.json", plan)
    own_plans.note(run.read_raw("plan.json") or b"")
    acted(run, plan, suspect("gpu-3"), on="true")
    record = (run.raw / "actions/gpu-3.json").read_text()
    planted = record.replace("echo back $NODE >> log", f"touch {tmp_path}/owned")
    (run.raw / "actions/gpu-30.json").write_text(planted)
    assert cli.main(["undrain", str(run.path)]) == 3
    assert "raw/actions/gpu-30.json is of another node" in capsys.readouterr().err
    forged = replace(records.Action(**vars_of(record)), undo_command="true")
    assert not records.is_own(forged)
    assert records.is_own(records.Action(**vars_of(record)))
    assert not (tmp_path / "owned").exists()


def vars_of(record: str) -> dict[str, Any]:
    values = json.loads(record)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def broken(place: Path) -> None:
    (place / "actions").mkdir(parents=True)
    (place / "actions/gpu-1.json").write_text("{")


def link(place: Path) -> None:
    (place / "actions").mkdir(parents=True)
    (place / "actions/gpu-1.json").symlink_to("/etc/passwd")


def fifo(place: Path) -> None:
    (place / "actions").mkdir(parents=True)
    os.mkfifo(place / "actions/gpu-1.json")


def folder_elsewhere(place: Path) -> None:
    broken(place.parents[2] / "elsewhere")
    place.mkdir(parents=True)
    (place / "actions").symlink_to(place.parents[2] / "elsewhere/actions")


def raw_elsewhere(place: Path) -> None:
    broken(place.parents[2] / "elsewhere")
    place.parent.mkdir(parents=True)
    place.symlink_to(place.parents[2] / "elsewhere")


@pytest.mark.parametrize("change", [broken, link, fifo, folder_elsewhere, raw_elsewhere])
def test_what_somebody_put_beside_a_run_neither_ends_it_nor_hides_what_it_did(
    change: Callable[[Path], None],
    run: RunDir,
    plan: RunPlan,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(run.path.parent / "20250101-000000-other/raw")
    done = acted(run, plan, suspect("gpu-3"), on="true")
    assert "not counted as out of service: 20250101-000000-other/raw/actions/" in done.lines[0]
    assert done.lines[1].startswith("acted on gpu-3")
    cli.main(["undrain", "gpu-4", "-o", str(run.path.parent), "--dry-run"])
    assert "not read: 20250101-000000-other/raw/actions/" in capsys.readouterr().err
    assert [each.run_id for each, _ in records.of_folder(run.path.parent).runs] == [run.run_id]
