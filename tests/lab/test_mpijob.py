"""`busbw run --launcher mpijob` with a stand-in for kubectl whose pods are nodes of a lab: no real
cluster, but real ssh, mpirun and ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, files, processes
from busbw.lab.state import LabState
from busbw.launch.mpijob import MpiJob
from busbw.run import kubernetes

pytestmark = pytest.mark.lab
BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))
KILLED = str(Path(__file__).with_name("pods.yaml"))
FAKE = Path(__file__).parents[1] / "fixtures/kubernetes/kubectl"


@dataclass(frozen=True)
class Pods:
    """A lab whose nodes are the workers, and the environment in which kubectl is the stand-in."""

    lab: LabState
    scratch: Path
    environment: dict[str, str]

    @property
    def run(self) -> Path:
        """The newest run directory."""
        return (self.scratch / "runs/latest").resolve()

    @property
    def kube(self) -> Path:
        """What the stand-in remembers."""
        return self.scratch / "kube"

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`busbw run …` inside the lab."""
        argv = enter.reexec_argv(self.lab, (sys.executable, "-m", "busbw", "run", *words))
        return subprocess.Popen(
            argv,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def new(self, book: str) -> subprocess.Popen[str]:
        """A run of its own in an MPIJob of two workers."""
        words = (
            book,
            "--launcher",
            "mpijob",
            "--image",
            "registry/nccl:1",
            "--node-count",
            "2",
            "--pod-gpus",
            "2",
            "-p",
            "lab",
        )
        where = (
            "--namespace",
            "bench",
            "--nccl-tests",
            "/run/node/home/tests",
            "--out",
            str(self.scratch / "runs"),
        )
        return self.start(*words, *where)

    def case(self, name: str) -> Any:
        """A case's outcome.json."""
        return json.loads((self.run / f"raw/cases/{name}/outcome.json").read_text())


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The payload, built as an image would have it."""
    folder, home = tmp_path_factory.mktemp("image") / "build", "/usr/lib/x86_64-linux-gnu/openmpi"
    sources = str(resources.files("busbw.lab") / "payload")
    build = (
        "make",
        "-C",
        sources,
        "MPI=1",
        f"BUILDDIR={folder}",
        "BIN_FILES_LIST=all_reduce all_gather",
    )
    subprocess.run(
        (*build, *((f"MPI_HOME={home}",) if Path(home).is_dir() else ())),
        check=True,
        capture_output=True,
        timeout=400,
    )
    return folder


@pytest.fixture
def pods(lab_factory: Callable, binaries: Path, tmp_path: Path) -> Pods:  # type: ignore[type-arg]
    """Two workers with the payload's binaries in them."""
    lab = lab_factory(nodes=2)
    for node in lab.nodes:
        shutil.copytree(binaries, lab.path / "nodes" / node.name / "home/tests")
    (tmp_path / "bin").mkdir()
    shutil.copy(FAKE, tmp_path / "bin/kubectl")
    (tmp_path / "kube").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "FAKE_KUBE": str(tmp_path / "kube"),
        "FAKE_SSH": str(files.ssh_config(lab)),
        "FAKE_HOSTS": str(lab.path / "hosts"),
    }
    return Pods(lab, tmp_path, environment)


def test_a_run_in_the_pods_of_an_mpijob_keeps_their_logs_and_deletes_it(pods: Pods) -> None:
    said, _ = pods.new(BOOK).communicate(timeout=400)
    assert pods.run.exists(), said
    case = pods.case("all-reduce")
    assert (case["state"], case["exit_status"]) == ("ended", 0), said
    name = json.loads((pods.kube / "manifest.json").read_text())["metadata"]["name"]
    assert case["nodes"] == [f"{name}-worker-0.{name}", f"{name}-worker-1.{name}"], said
    assert "StrictHostKeyChecking=accept-new" in " ".join(case["invocation"]["argv"])
    checks = json.loads((pods.run / "run.json").read_text())["checks"]
    assert [check["node"] for check in checks if check["check_id"] == "sw.mpirun"] == case["nodes"]
    assert (
        pods.run / f"raw/kubernetes/{name}-worker-1.log"
    ).read_text() == "Server listening on 0.0.0.0 port 22.\n"
    assert "Started container" in (pods.run / "raw/kubernetes/events.txt").read_text()
    assert name in (pods.kube / "deleted").read_text()


def steps(run: Path) -> list[str]:
    try:
        lines = (run / "raw/events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [str(json.loads(line)["step"]) for line in lines if line.endswith("}")]


def test_a_run_that_is_killed_among_its_pods_goes_on_there_and_picks_up_the_benchmark(
    pods: Pods,
) -> None:
    first = pods.new(KILLED)
    try:
        processes.wait_until(
            lambda: (
                first.poll() is not None
                or ("first" in steps(pods.run) and bool(processes.ranks(pods.lab, pods.lab.nodes)))
            ),
            300,
            "the first case",
        )
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
        # Shown where the wait was in vain.
        print(first.communicate()[0])
    run = pods.run
    assert not (pods.kube / "deleted").exists(), "nobody was left to delete the job"
    assert not (run / "raw/cases/first/outcome.json").exists()
    said, _ = pods.start("--resume", str(run)).communicate(timeout=400)
    assert (run / "raw/cases/second/outcome.json").exists(), said
    assert pods.run == run
    assert [
        (pods.case(name)["state"], pods.case(name)["exit_status"]) for name in ("first", "second")
    ] == [("ended", 0)] * 2, said
    head = pods.case("first")["nodes"][0]
    started = [
        (meta["stdout"], (run / "raw" / meta["stdout"]).read_text())
        for meta in commands(run, head, "start", "cases/first")
        if meta["stdout"]
    ]
    assert len({pid for _, pid in started}) == 1, "one benchmark, found again by the second"
    assert len(started) == 2, started
    assert (run / "raw/cases/first/stdout.txt").read_text().count("# Avg bus bandwidth") == 1
    asked = (pods.kube / "asked").read_text()
    manifest = json.loads((pods.kube / "manifest.json").read_text())
    assert manifest["metadata"]["name"] in (pods.kube / "deleted").read_text()
    assert asked.count("apply") == 2
    assert asked.count("delete") == 1


def commands(run: Path, node: str, label: str, about: str) -> list[Any]:
    """What a node was asked under that label for one case, in order."""
    found = [
        json.loads(path.read_text())
        for path in sorted((run / "raw/nodes" / node).glob(f"*-{label}.json"))
    ]
    case = about.rpartition("/")[2]
    return [meta for meta in found if any(word.endswith(f"/{case}") for word in meta["argv"])]


def test_a_job_that_ended_while_nobody_watched_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_, kube = tmp_path / "bin", tmp_path / "kube"
    bin_.mkdir()
    kube.mkdir()
    shutil.copy(FAKE, bin_ / "kubectl")
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_KUBE", str(kube))
    monkeypatch.setenv("FAKE_HOSTS", str(tmp_path / "hosts"))
    job = MpiJob("busbw-1", "registry/nccl:1", 1, 0)
    told: list[str] = []
    for ended in (False, True):
        if ended:
            (kube / "deleted").unlink()
            (kube / "ended").touch()
        with kubernetes.running(job, None, lambda step, text: told.append(text)):
            assert not (kube / "ended").exists()
    made = "MPIJob busbw-1: waiting for 1 worker"
    assert told == [
        made,
        "MPIJob busbw-1 deleted",
        "MPIJob busbw-1 has ended: made anew",
        made,
        "MPIJob busbw-1 deleted",
    ]
