"""Launches that ran while others used the CPUs: recorded with the launch, reported, and waited for
before what was slow is measured again."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import shell
from busbw.assess import busy, commands, shortfalls
from busbw.compare import earlier
from busbw.model import Cluster, Command, Comparison, Confidence, Node, Reference, Status
from busbw.model.history import Change, Number, NumberShift, Shift
from busbw.reports import phrases
from busbw.run import job
from busbw.run import measure as measuring
from busbw.store.artefacts import CaseArtefact, CpuLoad

FREE = CpuLoad(running=2, cpus=2, load_1m=3.1, pressure_percent=None)
BUSY = CpuLoad(running=19, cpus=2, load_1m=12.24, pressure_percent=25.57)


def launch(case_id: str, before: CpuLoad | None, after: CpuLoad | None = None) -> SimpleNamespace:
    fields = [each.name for each in dataclasses.fields(CaseArtefact)]
    values = {**dict.fromkeys(fields), "case": SimpleNamespace(id=case_id)}
    artefact = CaseArtefact(**{**values, "load_before": before, "load_after": after})  # type: ignore[arg-type]  # the others are not read
    return SimpleNamespace(artefact=artefact)


def test_the_script_reads_this_machine() -> None:
    script = shell.load("busbw.run", "load.sh") + 'echo "load=$(load)"\n'
    done = subprocess.run(("sh", "-c", script), capture_output=True, check=True)
    load = job.parse_load(done.stdout)
    assert load is not None
    assert (load.cpus, load.running >= 1) == (os.cpu_count(), True)
    assert abs(load.load_1m - os.getloadavg()[0]) < 20


@pytest.mark.parametrize(
    "text", [b"", b"1234\n", b"load=///\n", b"load=3/0/1.0/\n", b"load=" + b"9" * 5000 + b"/2/1.0/"]
)
def test_a_node_that_cannot_tell_its_load_is_no_busy_one(text: bytes) -> None:
    assert job.parse_load(text) is None


def test_a_kernel_without_pressure_tells_the_rest() -> None:
    assert job.parse_load(b"77\nload=2/2/3.10/\n") == FREE


def test_launches_on_busy_cpus_are_reported_without_deciding_the_verdict() -> None:
    launches = (launch("proof", FREE), launch("alone", FREE, BUSY), launch("old", None))
    (finding,) = busy.findings(launches, "node1", lab=False)  # type: ignore[arg-type]  # no results are read
    assert (finding.id, finding.status, finding.required) == (
        "measured-while-busy",
        Status.WARN,
        False,
    )
    assert finding.title == (
        "1 of 2 launches ran while others used the CPUs of node1: up to 9.0 tasks for each CPU"
    )
    (seen,) = finding.evidence
    assert (seen.artefact, seen.text) == (
        "raw/cases/alone/outcome.json",
        "9.0 tasks for each of 2 CPUs, load 12.24",
    )
    assert finding.fixes


def trial(case_id: str, family: str, load: CpuLoad | None) -> SimpleNamespace:
    own = launch(case_id, load)
    case = SimpleNamespace(id=case_id, family=family)
    return SimpleNamespace(artefact=dataclasses.replace(own.artefact, case=case))


def test_a_case_was_measured_on_busy_cpus_where_half_of_its_launches_were() -> None:
    launches = (
        trial("half", "half", BUSY),
        trial("half-trial-2", "half", FREE),
        trial("few", "few", BUSY),
        trial("few-trial-2", "few", FREE),
        trial("few-trial-3", "few", FREE),
        trial("old", "old", None),
    )
    assert busy.cases(launches) == {"half"}  # type: ignore[arg-type]  # no results are read


@pytest.mark.parametrize(
    ("busy_cases", "confidence"),
    [({"all-reduce"}, Confidence.LIKELY), ({"latency"}, Confidence.CERTAIN)],
)
@pytest.mark.parametrize("name", ["gate", "accepted runs"])
def test_a_number_of_busy_cpus_is_no_more_than_likely_whatever_it_is_compared_with(
    name: str, busy_cases: set[str], confidence: Confidence
) -> None:
    cases = frozenset(busy_cases)
    reference = Reference("peers", 100.0, "a good pair of nodes in this run")
    number = Comparison("all-reduce", 1 << 30, 50.0, reference, 0.5, Status.FAIL, "50%")
    case = SimpleNamespace(required=True)
    needed = SimpleNamespace(artefact=SimpleNamespace(case=case, groups=()))
    lost = Shift(Change.SLOWER, 0.5, 0.4, 0.6, (15, 5), 3, "-50%")
    own = Number("all-reduce", "all_reduce", "bandwidth", 1 << 30, "", (50.0,))
    diff = SimpleNamespace(shifts=(NumberShift(own, 100.0, 50.0, lost),), machine=())
    if name == "gate":
        (finding,) = shortfalls.missed((number,), {"all-reduce": needed}, (), cases)  # type: ignore[dict-item]
    else:
        (finding,) = earlier.findings(diff, cases)  # type: ignore[arg-type]
    assert finding.confidence is confidence
    meanwhile = "Others used the CPUs while it was measured"
    assert (meanwhile in finding.cause) is (confidence is Confidence.LIKELY)
    expected = f"failure {confidence.value}; cause not proven"
    assert phrases.sure(finding) == expected


def test_launches_on_free_cpus_are_not_mentioned() -> None:
    assert busy.findings((launch("proof", FREE, FREE),), "node1", lab=False) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("lab", [False, True], ids=["cluster", "lab"])
def test_the_processes_are_asked_for_where_those_of_others_are_seen(lab: bool) -> None:
    (finding,) = busy.findings((launch("alone", BUSY),), "node1", lab=lab)  # type: ignore[arg-type]
    cluster = Cluster((Node("node1"),), "node1", "lab lab" if lab else "-w node1", emulated=lab)
    plan = SimpleNamespace(
        cluster=cluster, words=(), run_words=(), run_id="r", profile=SimpleNamespace(family=None)
    )
    (whole,) = commands.completed((finding,), plan)  # type: ignore[arg-type]  # the rest is not read
    reach = "" if lab else "ssh node1 "
    assert whole.fixes[0].commands == (
        f"{reach}uptime",
        f"{reach}ps -eo pid,user,pcpu,comm --sort=-pcpu",
    )
    assert ("that all nodes share" in finding.title) is lab


@pytest.mark.parametrize(("load", "waits"), [(BUSY, 1), (FREE, 0), (None, 0)])
def test_only_after_a_busy_launch_is_there_a_wait(
    load: CpuLoad | None, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(command: object) -> SimpleNamespace:
        asked.append(str(command))
        return SimpleNamespace(stdout=b"load=2/2/3.10/\n", seconds=4.0)

    monkeypatch.setattr(measuring.artefacts, "load", lambda *a: launch("alone", load).artefact)
    spoken: list[str] = []
    context = SimpleNamespace(
        run=None,
        fleet=SimpleNamespace(sessions={"node1": SimpleNamespace(run=run)}),
        progress=lambda step, text: spoken.append(text),
    )
    wait = measuring.wait_until_quiet(context, "node1", "alone")  # type: ignore[arg-type]
    assert (len(asked), wait) == (waits, measuring.Wait(4.0 * waits, free=True))
    if waits:
        assert spoken == [
            "others used the CPUs of node1, 9.0 tasks for each CPU: waited 4.0 s before measuring"
            " again; now 0.5"
        ]


@pytest.mark.parametrize(("now", "looks"), [("9/2/1.0/", 2), ("3/2/1.0/", 1)])
def test_the_wait_ends_by_itself_on_a_busy_machine(now: str, looks: int) -> None:
    fake = f"load() {{ echo . >&2; echo {now}; }}\nsleep() {{ :; }}\n"
    argv = ("sh", "-c", fake + shell.load("busbw.run", "quiet.sh"), "quiet", "1")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.count(".")) == (f"load={now}\n", looks)


def test_a_job_says_the_load_before_and_after_it(tmp_path: Path) -> None:
    def run(command: Command) -> bytes:
        return subprocess.run(
            command.argv, input=command.stdin, capture_output=True, check=True
        ).stdout

    directory = str(tmp_path / "job")
    run(job.start(directory, ("true",), ()))
    answer, end = None, time.monotonic() + 60
    while answer is None or answer.state == "running":
        assert time.monotonic() < end
        answer = job.parse_poll(run(job.poll(directory, 0)))
    assert answer.state == "ended"
    assert [load is not None and load.cpus for load in answer.loads] == [os.cpu_count()] * 2
