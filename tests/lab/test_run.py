"""`busbw run` in the lab, end to end: healthy, broken in every way the lab can break, cut off,
resumed, replayed."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults, files
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

SHORT = str(Path(__file__).with_name("short.yaml"))
LIMIT_S = 400.0


@dataclass(frozen=True)
class Ended:
    """A finished `busbw` command."""

    exit_status: int
    out: str
    err: str
    run: Path

    @property
    def result(self) -> Any:
        """run.json."""
        return json.loads((self.run / "run.json").read_text())

    @property
    def first(self) -> Any:
        """The leading finding."""
        return self.result["findings"][0]


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "busbw", *words]


def latest(out: Path) -> Path:
    return (out / "latest").resolve()


def busbw(out: Path, *words: str, timeout_s: float = LIMIT_S) -> Ended:
    done = subprocess.run(
        argv(*words),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Ended(done.returncode, done.stdout, done.stderr, latest(out))


def run_in(lab: LabState, out: Path, *words: str) -> Ended:
    return busbw(out, "run", SHORT, "-i", f"lab:{lab.name}", "--out", str(out), *words)


def run_detached(lab: LabState, out: Path, *words: str) -> subprocess.Popen[str]:
    """A run in the background; the caller ends it."""
    return subprocess.Popen(
        argv("run", SHORT, "-i", f"lab:{lab.name}", "--out", str(out), *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(path: Callable[[], bool], deadline_s: float = 180.0) -> None:
    """Poll until it is so."""
    end = time.monotonic() + deadline_s
    while not path():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def started(out: Path, case: str) -> bool:
    """The launch of that case was told to the user."""
    events = out / "latest" / "raw" / "events.jsonl"
    return events.exists() and f'"step": "{case}"' in events.read_text()


@pytest.fixture
def healed(shaped4: LabState) -> Iterator[LabState]:
    """The shaped lab, with every fault taken away afterwards."""
    yield shaped4
    faults.clear(shaped4)


@pytest.fixture(scope="module")
def healthy_run(shaped4: LabState, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run of the lab without a fault, made once: read it, and copy it before changing it."""
    out = tmp_path_factory.mktemp("healthy")
    return run_in(shaped4, out, "--junit", str(out / "junit.xml"))


@pytest.fixture(scope="module")
def slowed_run(shaped4: LabState, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run with one node's link slowed, made once: read it."""
    fault(shaped4, "slow", "node3", "60mbit")
    try:
        return run_in(shaped4, tmp_path_factory.mktemp("slowed"))
    finally:
        faults.clear(shaped4)


def fault(lab: LabState, *words: str) -> None:
    done = subprocess.run(
        argv("lab", "fault", "--name", lab.name, *words),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done


def faulted(lab: LabState, out: Path, *words: str) -> tuple[int, Any, str]:
    """A run in which a fault begins while the first collective is measured: exit status, result,
    output. The ranks of that launch may take a moment to be there."""
    inject = argv("lab", "fault", "--name", lab.name, *words)
    job = run_detached(lab, out)
    try:
        wait_for(lambda: started(out, "all-reduce"))
        wait_for(
            lambda: (
                subprocess.run(inject, capture_output=True, check=False, timeout=400).returncode
                == 0
            )
        )
        printed, _ = job.communicate(timeout=LIMIT_S)
    finally:
        job.kill()
        job.wait()
    assert (latest(out) / "run.json").exists(), printed
    return job.returncode, json.loads((latest(out) / "run.json").read_text()), printed


def leftovers(lab: LabState) -> dict[str, list[str]]:
    """What busbw left on the nodes besides its build: job folders, ranks, keys."""
    found: dict[str, list[str]] = {}
    for node in lab.nodes:
        home = files.node_directory(lab, node) / "home"
        jobs = (
            [str(p.relative_to(home)) for p in (home / ".cache/busbw/jobs").rglob("*")]
            if (home / ".cache/busbw/jobs").is_dir()
            else []
        )
        keys = [
            line
            for line in (home / ".ssh/authorized_keys").read_text().splitlines()
            if "busbw-" in line
        ]
        if jobs or keys:
            found[node.name] = jobs + keys
    marked = [pid for pid in os.listdir("/proc") if pid.isdigit() and _marked(pid, lab)]
    if marked:
        found["processes"] = marked
    return found


def _marked(pid: str, lab: LabState) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(item.startswith(b"BUSBW_JOB=") for item in environment) and str(
        lab.directory
    ).encode() in b"".join(environment)


def test_a_healthy_cluster_passes_and_leaves_nothing_behind(
    healthy_run: Ended, healed: LabState
) -> None:
    ended = healthy_run
    assert (ended.exit_status, ended.result["verdict"]) == (0, "PASS"), ended
    assert ended.result["emulated"].startswith("Emulated: host memory over MPI")
    # Noise may make it measure a pair once more before it acquits it.
    assert {c["status"] for c in ended.result["cases"]} == {"PASS"}
    assert len(ended.result["cases"]) >= 5
    assert ended.result["blame"] == []
    assert {
        tuple(sorted(c["nodes"]))
        for c in ended.result["comparisons"]
        if c["case_id"].startswith("survey-")
    } == {(f"node{a}", f"node{b}") for a in range(1, 5) for b in range(a + 1, 5)}
    assert leftovers(healed) == {}
    assert ended.out.splitlines()[-1].startswith("busbw: PASS ")
    assert (ended.run.parent / "junit.xml").read_bytes() == (ended.run / "junit.xml").read_bytes()


def test_a_slow_link_fails_and_the_first_finding_names_its_node_with_the_measurement(
    slowed_run: Ended,
) -> None:
    ended = slowed_run
    assert ended.exit_status == 1, ended
    assert (ended.first["id"], ended.first["where"]) == ("slow-node", ["node3"])
    assert ended.first["evidence"][0]["artefact"].startswith("raw/cases/survey-pairs-")
    assert "node3" in ended.first["evidence"][0]["text"]
    assert [b["component"]["names"] for b in ended.result["blame"]] == [["node3"]]
    assert "node3" in (ended.run / "report.html").read_text()


def test_every_command_of_a_finding_runs_as_it_is_printed(
    slowed_run: Ended, healed: LabState, tmp_path: Path
) -> None:
    first = slowed_run.first
    commands = [command for fix in first["fixes"] for command in fix["commands"]]
    commands += first["verify"] + first["would_settle"]
    program = f"{sys.executable} -m busbw"
    tried = []
    for command in commands:
        words = command.replace("busbw ", f"{program} ", 1)
        if command.startswith("busbw run "):
            words += " --dry-run"
        elif not command.startswith("busbw "):
            assert not command.startswith("ssh "), command
            continue
        done = subprocess.run(
            ["bash", "-c", words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        # 1: a check that fails, or grep that sees nothing. 2 is the exit status of wrong usage.
        assert done.returncode in (0, 1, 3), (command, done)
        tried.append(command)
    for kind in ("busbw run", "busbw check", "busbw lab exec"):
        assert any(command.startswith(kind) for command in tried), (kind, tried)


def test_a_report_is_the_same_bytes_every_time_and_a_replay_needs_no_node(
    healthy_run: Ended, tmp_path: Path
) -> None:
    ended = healthy_run
    before = {
        name: (ended.run / name).read_bytes()
        for name in ("run.json", "report.html", "summary.md", "commands.sh")
    }
    for name in before:
        (ended.run / name).unlink()
    assert busbw(tmp_path, "report", str(ended.run)).exit_status == ended.exit_status
    assert {name: (ended.run / name).read_bytes() for name in before} == before
    replayed = busbw(
        tmp_path / "replayed",
        "run",
        "--replay",
        str(ended.run),
        "--out",
        str(tmp_path / "replayed"),
    )
    assert replayed.exit_status == ended.exit_status, replayed
    assert {k: v for k, v in replayed.result.items() if k != "finished"} == {
        k: v for k, v in ended.result.items() if k != "finished"
    }


def test_a_redacted_report_has_no_name_or_address_of_the_run_and_the_same_verdict(
    slowed_run: Ended, tmp_path: Path
) -> None:
    ended = slowed_run
    assert busbw(tmp_path, "report", str(ended.run), "--redact").exit_status == ended.exit_status
    told = {path.name: path.read_text() for path in (ended.run / "redacted").iterdir()}
    assert set(told) == {
        "run.json",
        "report.html",
        "summary.md",
        "junit.xml",
        "metrics.prom",
        "commands.sh",
    }
    cluster = json.loads((ended.run / "raw/plan.json").read_text())["cluster"]
    names = [word for node in cluster["nodes"] for word in (node["name"], node["address"]) if word]
    assert {"node3", "10.77.0.3"} <= set(names)
    left = {
        (name, word)
        for name, text in told.items()
        for word in names
        if re.search(rf"(?<![A-Za-z0-9.]){re.escape(word)}(?![0-9])", text)
    }
    assert left == set()
    redacted = json.loads(told["run.json"])
    assert (redacted["verdict"], redacted["findings"][0]["where"]) == ("FAIL", ["node-003"])
    assert [c["ratio"] for c in redacted["comparisons"]] == [
        c["ratio"] for c in ended.result["comparisons"]
    ]


@pytest.mark.browser
@pytest.mark.skipif(
    not shutil.which("chromium"), reason="no Chromium on this machine: apt-get install chromium"
)
def test_the_reports_of_both_runs_open_without_a_request_and_print(
    healthy_run: Ended, slowed_run: Ended
) -> None:
    browser = runpy.run_path(str(Path(__file__).parents[1] / "browser" / "devtools.py"))[
        "Browser"
    ]()
    try:
        for ended, verdict in ((healthy_run, "PASS"), (slowed_run, "FAIL")):
            address = (ended.run / "report.html").as_uri()
            page = browser.open(address)
            asked = {
                e["request"]["url"]
                for e in page.said("Network.requestWillBeSent")
                if not e["request"]["url"].startswith("data:")
            }
            assert asked == {address}
            assert (
                page.said(
                    "Runtime.consoleAPICalled",
                    "Runtime.exceptionThrown",
                    "Log.entryAdded",
                    "Page.windowOpen",
                )
                == []
            )
            assert page.evaluate("document.title").startswith(f"{verdict} – ")
            headings = page.evaluate(
                "[...document.querySelectorAll('h2')].map((h) => h.textContent)"
            )
            # A finding that decided the verdict is at the head of the page.
            assert ("Findings" in headings) is (verdict == "PASS")
            assert {
                "What was measured",
                "Who is slow: groups of nodes",
                "What was not checked",
            } <= set(headings)
            assert 1 <= len(re.findall(rb"/Type\s*/Page\b", page.pdf())) <= 8
            assert (ended.run / "report.html").stat().st_size < 150_000
            if kept := os.environ.get("BUSBW_ARTEFACTS"):
                page.screenshot(Path(kept) / f"report-lab-{verdict.lower()}.png")
    finally:
        browser.close()


def test_an_output_cut_in_the_middle_of_a_row_after_the_run_is_named_as_damage(
    healthy_run: Ended, tmp_path: Path
) -> None:
    ended = replace(healthy_run, run=tmp_path / healthy_run.run.name)
    shutil.copytree(healthy_run.run, ended.run)
    stdout = ended.run / "raw/cases/all-reduce/stdout.txt"
    whole = stdout.read_text()
    rows = [
        line
        for line in whole.splitlines()
        if line.strip().startswith(("524288", "1048576", "2097152"))
    ]
    stdout.write_text(whole[: whole.index(rows[2]) + 40])
    judged = busbw(tmp_path, "report", str(ended.run))
    assert judged.exit_status == 3, judged
    case = json.loads((ended.run / "run.json").read_text())["cases"][1]
    assert (case["status"], case["results"]) == ("UNKNOWN", [])
    assert "raw/cases/all-reduce/stdout.txt" in (ended.run / "summary.md").read_text()


def test_a_link_that_goes_down_in_mid_run_is_named_within_the_stated_limits(
    healed: LabState, tmp_path: Path
) -> None:
    status, result, out = faulted(healed, tmp_path, "link-down", "node2")
    assert status in (1, 3), out
    first = result["findings"][0]
    assert first["id"] == "stall-link-down", out
    assert first["where"] == ["node2 eth0"]
    assert leftovers(healed) == {}


def test_a_stopped_rank_is_found_before_the_job_is_ended(healed: LabState, tmp_path: Path) -> None:
    status, result, out = faulted(healed, tmp_path, "stall", "node4")
    assert (status, result["findings"][0]["id"], result["findings"][0]["where"]) == (
        1,
        "stall-rank-stopped",
        ["node4"],
    ), out
    (course,) = result["stalls"]
    assert (course["case_id"], course["ended"]) == ("all-reduce", "stalled")
    assert [rank["rank"] for rank in course["ranks"]] == list(range(8))
    flagged = [rank for rank in course["ranks"] if rank["flagged"]]
    assert {(rank["node"], rank["state"], rank["cpu_s"]) for rank in flagged} == {
        ("node4", "stopped", 0.0)
    }
    assert any(
        event["who"] == "busbw" and event["text"].startswith("no output for ")
        for event in course["events"]
    )
    assert {event["who"] for event in course["events"]} >= {
        "busbw",
        "node4",
    }, "what the nodes said is in the same order of time"
    assert "Timeline of the stall" in (latest(tmp_path) / "report.html").read_text()
    assert leftovers(healed) == {}


def test_a_killed_rank_loses_nothing_that_was_measured(healed: LabState, tmp_path: Path) -> None:
    status, result, out = faulted(healed, tmp_path, "kill", "node2")
    assert status == 3, out
    assert [c["status"] for c in result["cases"]] == ["PASS", "UNKNOWN"]
    first = result["findings"][0]
    # A neighbour that notices the dead rank can end before mpirun hears of it: then the launch says
    # what was not measured, and still where. Seldom mpirun itself hangs once all ranks are gone.
    ends = ("dead-process", "nothing-measured", "sizes-missing", "stall-no-job")
    assert first["id"] in ends, first
    assert first["status"] == "UNKNOWN", first
    # One launch in twenty, Open MPI 4.1 ends without its last message, the one with the node.
    printed = "".join(
        (latest(tmp_path) / f"raw/cases/all-reduce/{stream}.txt").read_text()
        for stream in ("stdout", "stderr")
    )
    was_named = "on node node2" in printed or "node2 on eth0" in printed
    assert first["where"] == (["node2"] if was_named else []), first
    said = " ".join(e["text"] for f in result["findings"] for e in f["evidence"])
    assert "node2" in said or not was_named, "who says on which node the process died"
    assert first["fixes"], "the catalogue's steps are with it"


def test_killing_busbw_itself_and_resuming_ends_in_the_same_verdict(
    healed: LabState, tmp_path: Path
) -> None:
    job = run_detached(healed, tmp_path)
    try:
        wait_for(lambda: started(tmp_path, "survey-pairs-1"))
    finally:
        job.send_signal(signal.SIGKILL)
        job.communicate()
    cut_off = latest(tmp_path)
    measured = {p: p.read_bytes() for p in cut_off.glob("raw/cases/*/outcome.json")}
    assert len(measured) >= 2
    ended = busbw(tmp_path, "run", "--resume", str(cut_off))
    # A machine that is busy with other things makes a group slow now and then; then it goes on, and
    # may not come to an end of it.
    doubtful = "suspected, and not measured often enough" in ended.out
    assert ended.exit_status == (3 if doubtful else 0), ended
    assert {p: p.read_bytes() for p in measured} == measured, (
        "what was measured is not measured again"
    )
    result = json.loads((cut_off / "run.json").read_text())
    ids = [c["case"]["id"] for c in result["cases"]]
    assert ids[:5] == [
        "proof",
        "all-reduce",
        "survey-pairs-1",
        "survey-pairs-2",
        "survey-pairs-3",
    ], ids
    assert result["blame"] == []
    assert leftovers(healed) == {}


def test_ctrl_c_cleans_the_nodes_and_says_how_to_go_on(healed: LabState, tmp_path: Path) -> None:
    job = run_detached(healed, tmp_path)
    try:
        wait_for(lambda: started(tmp_path, "all-reduce"))
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=400)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 130, out
    assert "--resume" in out
    assert (latest(tmp_path) / "report.html").exists()
    assert leftovers(healed) == {}


def test_a_node_that_never_answers_and_one_with_another_host_key_are_named_and_the_others_measured(
    healed: LabState, tmp_path: Path
) -> None:
    faults.hang_ssh(healed, "node3")
    faults.host_key(healed, "node2")
    ended = run_in(healed, tmp_path, "--connect-timeout", "3")
    assert ended.exit_status == 3, ended
    refused, silent = sorted(ended.result["unreachable"], key=lambda missing: missing["node"])
    assert (refused["node"], refused["host_key_mismatch"]) == ("node2", True)
    assert refused["reason"].count("SHA256:") == 2, "both keys are named"
    assert (silent["node"], silent["host_key_mismatch"]) == ("node3", False)
    assert ended.result["cases"][1]["nodes"] == ["node1", "node4"]
    assert ended.result["cases"][1]["status"] == "PASS"


def test_a_node_without_mpirun_takes_no_part_and_is_named(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=3, rate_bit_s=150e6)
    shim = files.node_directory(lab, lab.nodes[1]) / "bin" / "mpirun"
    shim.write_text("#!/bin/sh\necho 'mpirun: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    ended = run_in(lab, tmp_path)
    assert ended.exit_status == 1, ended
    missing = next(f for f in ended.result["findings"] if f["id"] == "sw.mpirun")
    assert (missing["where"], missing["status"]) == (["node2"], "FAIL")
    assert ended.result["cases"][1]["nodes"] == ["node1", "node3"]


def test_a_compile_error_is_reported_in_the_compilers_own_words(
    healed: LabState, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "Makefile").write_text("all: all_reduce_perf\nall_reduce_perf:\n\tgcc -c broken.c\n")
    (broken / "broken.c").write_text("int main(void) { return oops; }\n")
    ended = run_in(healed, tmp_path / "runs", "--nccl-tests", str(broken))
    assert ended.exit_status == 3, ended
    assert ended.first["id"] == "build-failed"
    assert "oops" in ended.first["evidence"][0]["text"]


def test_a_compile_error_that_the_table_knows_gets_its_name_and_the_compilers_line(
    healed: LabState, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "Makefile").write_text("all: all_reduce_perf\nall_reduce_perf:\n\tgcc -c broken.c\n")
    (broken / "broken.c").write_text("#include <stdio.h>\n#include <nccl.h>\n")
    ended = run_in(healed, tmp_path / "runs", "--nccl-tests", str(broken))
    assert (ended.exit_status, ended.first["id"], ended.first["confidence"]) == (
        3,
        "build-nccl-missing",
        "certain",
    ), ended.first
    evidence = ended.first["evidence"][0]
    lines = (ended.run / evidence["artefact"]).read_text().splitlines()
    assert "nccl.h" in lines[evidence["line_no"] - 1]


def test_without_ssh_between_nodes_a_temporary_key_is_used_only_with_consent(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=3, rate_bit_s=150e6, node_ssh=False)
    before = {
        node.name: (files.node_directory(lab, node) / "home/.ssh/authorized_keys").read_text()
        for node in lab.nodes
    }
    refused = run_in(lab, tmp_path)
    assert refused.exit_status == 3, refused
    assert "--temporary-keys" in refused.first["would_settle"][0]
    allowed = run_in(lab, tmp_path, "--temporary-keys")
    assert allowed.exit_status == 0, allowed
    assert {
        node.name: (files.node_directory(lab, node) / "home/.ssh/authorized_keys").read_text()
        for node in lab.nodes
    } == before
    assert leftovers(lab) == {}


def test_a_dry_run_contacts_no_node_and_is_valid_shell(healed: LabState, tmp_path: Path) -> None:
    ended = run_in(healed, tmp_path, "--dry-run")
    assert ended.exit_status == 0, ended
    checked = subprocess.run(
        ["bash", "-n"], input=ended.out, text=True, capture_output=True, timeout=400, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "btl_tcp_if_include" in ended.out
    assert not (tmp_path / "latest").exists()
