"""Labs for tests: each in a private directory, always taken down. A machine that cannot make them
skips with the reason."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import bringup, enter, files, namespaces, processes, requirements
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabNode, LabState, Mode, names

LabFactory = Callable[..., LabState]


def why_no_lab() -> str:
    """Why this machine cannot make a lab in root mode; empty = it can."""
    lacking = requirements.missing()
    if lacking:
        return f"missing packages: {requirements.apt_command(lacking)}"
    refused = namespaces.refused(Mode.ROOT)
    return f"no namespaces: {refused}" if refused else ""


@contextmanager
def private_labs(directory: Path, builds: Path) -> Iterator[LabFactory]:
    """A function that brings labs up (`LabOptions` as keywords), all recorded in `directory` and
    all taken down in the end.

    With `built=True` the nodes have what such labs before them built, and leave in `builds` what they
    build: the payload takes ten seconds of both CPUs. busbw uses a build again whose hash it knows.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUSBW_LAB_DIR", str(directory))
        leaving: list[LabState] = []

        def up(*, built: bool = False, **options: object) -> LabState:
            state = bringup.up(LabOptions(**options), lambda text: None)  # type: ignore[arg-type]  # as the test's author wrote them
            if built:
                leaving.append(state)
                for node in state.nodes:
                    shutil.copytree(builds, builds_of(state, node))
            return state

        try:
            yield up
        finally:
            patch.setenv("BUSBW_LAB_DIR", str(directory))
            for state in leaving:
                keep_builds(state, builds)
            for name in names():
                bringup.down(name)


def builds_of(state: LabState, node: LabNode) -> Path:
    """Where busbw builds on a node."""
    return files.node_directory(state, node) / "home/.cache/busbw/build"


def keep_builds(state: LabState, builds: Path) -> None:
    """The head's builds that are not in `builds` yet; none that was broken off."""
    for build in builds_of(state, state.nodes[0]).glob("*"):
        if ".part." not in build.name and not (builds / build.name).exists():
            shutil.copytree(build, builds / build.name, symlinks=True)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The builds that labs hand on."""
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(scope="session")
def needs_lab() -> None:
    """Skips where no lab can be made."""
    reason = why_no_lab()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def lab_factory(needs_lab: None, tmp_path: Path, builds: Path) -> Iterator[LabFactory]:
    """Brings labs up for one test: `lab_factory(nodes=4, rails=2)`."""
    with private_labs(tmp_path / "labs", builds) as up:
        yield up


@pytest.fixture(scope="module")
def lab4(
    needs_lab: None, builds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """A lab of 4 nodes with node-to-node ssh, shared by the tests of a module: leave it as it
    was."""
    with private_labs(tmp_path_factory.mktemp("lab4") / "labs", builds) as up:
        yield up(built=True, nodes=4)


@pytest.fixture(scope="module")
def shaped4(
    needs_lab: None, builds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """A lab of 4 nodes whose links are shaped well below what the CPUs can push: what is measured
    is the links. Leave it as it was."""
    with private_labs(tmp_path_factory.mktemp("shaped4") / "labs", builds) as up:
        yield up(built=True, nodes=4, rate_bit_s=150e6)


@pytest.fixture(scope="module")
def slurm3(
    needs_lab: None, builds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """A lab of 3 nodes with a Slurm, shared by the tests of a module."""
    lacking = requirements.missing(Mode.ROOT, slurm=True)
    if lacking:
        pytest.skip(f"missing packages: {requirements.apt_command(lacking)}")
    with private_labs(tmp_path_factory.mktemp("s3") / "labs", builds) as up:
        yield up(built=True, nodes=3, slurm=True)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command in the lab left behind."""

    exit_status: int
    out: str
    err: str


def _in_head(state: LabState, *argv: str, timeout_s: float = 60.0) -> Ran:
    done = subprocess.run(
        enter.reexec_argv(state, argv),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _on_node(state: LabState, node: str, script: str, timeout_s: float = 60.0) -> Ran:
    return _in_head(
        state, "ssh", "-F", str(files.ssh_config(state)), node, script, timeout_s=timeout_s
    )


@pytest.fixture(scope="session")
def in_head() -> Callable[..., Ran]:
    """Runs a command in a lab's head namespace: `in_head(state, *argv, timeout_s=60.0)`."""
    return _in_head


@pytest.fixture(scope="session")
def on_node() -> Callable[..., Ran]:
    """Runs a shell script on a node, over ssh from the head: `on_node(state, "node1", script,
    timeout_s=60.0)`."""
    return _on_node


@pytest.fixture(scope="session")
def ring_perf(needs_lab: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small all-reduce program, built here."""
    program = tmp_path_factory.mktemp("ring") / "ring_perf"
    subprocess.run(
        ("mpicc", "-O2", "-o", str(program), str(Path(__file__).with_name("ring_perf.c"))),
        check=True,
        timeout=400,
    )
    return program


def ring_script(state: LabState, program: Path, size_bytes: int, seconds: float) -> str:
    """A shell line for node1 that runs `ring_perf` over all nodes of the lab, one rank each, over
    their first rail."""
    for node in state.nodes:
        shutil.copy(program, files.node_directory(state, node) / "home/ring_perf")
    hosts = ",".join(node.name for node in state.nodes)
    options = {
        "btl": "tcp,self",
        "btl_tcp_if_include": state.nodes[0].rails[0].interface,
        "oob_tcp_if_include": "lo" if state.mode is Mode.LOOPBACK else "mgmt0",
        "mpi_yield_when_idle": "1",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": "4",
        "orte_base_help_aggregate": "0",
    }
    words = [
        "mpirun",
        "--allow-run-as-root",
        *(word for name, value in options.items() for word in ("--mca", name, value)),
    ]
    program_path = (
        "./ring_perf"
        if state.mode is not Mode.LOOPBACK
        else str(files.node_directory(state, state.nodes[0]) / "home/ring_perf")
    )
    return shlex.join(
        [
            *words,
            "-H",
            hosts,
            "-np",
            str(len(state.nodes)),
            "--map-by",
            "node",
            program_path,
            str(size_bytes),
            str(seconds),
        ]
    )


@pytest.fixture
def measured(ring_perf: Path) -> Callable[..., float]:
    """Median busbw in GB/s of all-reduces over a lab: `measured(state, size_bytes=8 << 20,
    seconds=1.0)`."""

    def measure(state: LabState, size_bytes: int = 8 << 20, seconds: float = 1.0) -> float:
        ran = _on_node(
            state, "node1", ring_script(state, ring_perf, size_bytes, seconds), timeout_s=120
        )
        values = [
            float(line.split()[1]) for line in ran.out.splitlines() if line.startswith("busbw ")
        ]
        assert ran.exit_status == 0, ran
        assert values, ran
        return statistics.median(values)

    return measure


@pytest.fixture
def running(ring_perf: Path) -> Iterator[Callable[[LabState], subprocess.Popen[str]]]:
    """A long all-reduce job over a lab, whose lines can be read: `running(state)`. Ended with the
    test."""
    started: list[tuple[LabState, subprocess.Popen[str]]] = []

    def start(state: LabState) -> subprocess.Popen[str]:
        argv = enter.reexec_argv(
            state,
            (
                "ssh",
                "-F",
                str(files.ssh_config(state)),
                "node1",
                ring_script(state, ring_perf, 1 << 20, 120),
            ),
        )
        job = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append((state, job))
        return job

    yield start
    for state, job in started:
        _on_node(state, "node1", "pkill -KILL -x mpirun")
        processes.wait_until(partial(_all_killed, state), 20, "the end of the ranks")
        job.kill()
        job.communicate()


def _all_killed(state: LabState) -> bool:
    return not [
        rank
        for rank in processes.ranks(state, state.nodes)
        if processes.send(rank.process, signal.SIGKILL)
    ]


@dataclass(frozen=True, slots=True)
class Checked:
    """One `busbw check` of a lab."""

    exit_status: int
    report: dict[str, Any]
    """check.json."""
    err: str

    def of(self, check_id: str) -> dict[str, str]:
        """{node: status} of one check."""
        return {
            check["node"]: check["status"]
            for check in self.report["checks"]
            if check["check_id"] == check_id
        }

    def said(self, check_id: str, node: str) -> tuple[str, str, str]:
        """(status, found, reason) of one check on one node."""
        (one,) = [
            check
            for check in self.report["checks"]
            if (check["check_id"], check["node"]) == (check_id, node)
        ]
        return one["status"], one["seen"], one["reason"]

    @property
    def failed(self) -> set[tuple[str, str]]:
        """(check, node) of everything that failed."""
        return {
            (check["check_id"], check["node"])
            for check in self.report["checks"]
            if check["status"] == "FAIL"
        }


_CHECKER = """
import contextlib, io, json, sys
from busbw.cli import main
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["check", "-i", "lab", "--json", "--out", line.strip()])
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


@contextmanager
def checker(state: LabState, out: Path) -> Iterator[Callable[[], Checked]]:
    """A function that runs `busbw check -i lab`, again and again in one process inside the lab:
    without its start, a check of 4 nodes takes 1 s."""
    argv = enter.reexec_argv(state, (sys.executable, "-c", _CHECKER))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:

        def check() -> Checked:
            assert job.stdin is not None  # both are pipes
            assert job.stdout is not None
            job.stdin.write(f"{out}\n")
            job.stdin.flush()
            status, said, err = json.loads(job.stdout.readline())
            assert said, err
            return Checked(status, json.loads(said), err)

        try:
            yield check
        finally:
            job.kill()


@pytest.fixture(scope="session")
def make_labs(builds: Path) -> Callable[[Path], AbstractContextManager[LabFactory]]:
    """`with make_labs(directory) as up: up(nodes=4)`, for fixtures of any scope."""
    return partial(private_labs, builds=builds)


@pytest.fixture(scope="session")
def start_checker() -> Callable[[LabState, Path], AbstractContextManager[Callable[[], Checked]]]:
    """`with start_checker(state, out) as check: check().failed`."""
    return checker
