"""The payload, built once, and run over processes of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

DEBIAN_MPI_HOME = Path("/usr/lib/x86_64-linux-gnu/openmpi")
LIMIT_S = 400.0


def _launch(processes: int, program: Path, *words: str) -> tuple[str, ...]:
    options = {
        "btl": "vader,self",
        "btl_vader_single_copy_mechanism": "none",
        "mpi_yield_when_idle": "1",
    }
    settings = tuple(word for name, value in options.items() for word in ("--mca", name, value))
    return (
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        *settings,
        "-np",
        str(processes),
        str(program),
        *words,
    )


def _environment(**settings: str) -> dict[str, str]:
    """This process's environment without what would steer the payload, and with the settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NCCL_TESTS_", "LAB_", "BUSBW_", "OMPI_"))
    }
    return {**kept, **settings}


@dataclass(frozen=True)
class Ended:
    """A finished run."""

    exit_status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The data rows, cut at white space."""
        return [line.split() for line in self.out.splitlines() if re.match(r" +\d", line)]


Build = Callable[..., Path]


def _build(folder: Path, *settings: str) -> Path:
    """A copy of the sources in `folder`, built there; the folder of the binaries."""
    with resources.as_file(resources.files("busbw.lab") / "payload") as sources:
        shutil.copytree(sources, folder, ignore=shutil.ignore_patterns("build"))
    done = subprocess.run(
        ("make", "-s", "-C", str(folder), *settings),
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return folder / "build"


@pytest.fixture(scope="session")
def build() -> Build:
    """Builds a copy of the sources: `build(folder, "MPI=1")` is the folder of the binaries."""
    return _build


@pytest.fixture(scope="session")
def mpi_settings() -> tuple[str, ...]:
    """The make variables of a build for MPI, as the build stage gives them."""
    for program in ("make", "mpicc", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return ("MPI=1", f"MPI_HOME={DEBIAN_MPI_HOME}") if DEBIAN_MPI_HOME.is_dir() else ("MPI=1",)


@pytest.fixture(scope="session")
def binaries(mpi_settings: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the six binaries."""
    return _build(tmp_path_factory.mktemp("payload") / "sources", *mpi_settings)


@pytest.fixture
def run(binaries: Path, tmp_path: Path) -> Callable[..., Ended]:
    """Runs a collective's binary, or one at a path, over so many processes: `run("all_reduce", 4,
    "-b", "8", LAB_NGPU="2")`."""

    def start(collective: str | Path, processes: int, *words: str, **settings: str) -> Ended:
        program = collective if isinstance(collective, Path) else binaries / f"{collective}_perf"
        argv = _launch(processes, program, *words)
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            cwd=tmp_path,
            env=_environment(**settings),
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return start


@dataclass(frozen=True)
class Job:
    """A run under way whose output goes to a file."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text()

    def pid_of(self, rank: int) -> int:
        found = re.search(rf"#  Rank +{rank} Group +\d+ Pid +(\d+) ", self.text)
        assert found, self.text
        return int(found[1])

    def await_rows(self, count: int, deadline_s: float = 30.0) -> None:
        end = time.monotonic() + deadline_s
        while len(re.findall(r"^ +\d.*\n", self.text, re.MULTILINE)) < count:
            assert time.monotonic() < end, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.02)


@pytest.fixture
def endless(binaries: Path, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts an all_reduce of three processes that does not end by itself; ended with the test."""
    jobs: list[Job] = []

    def start(*words: str) -> Job:
        argv = _launch(
            3,
            binaries / "all_reduce_perf",
            "-b",
            "256K",
            "-e",
            "256K",
            "-n",
            "5",
            "-N",
            "0",
            *words,
        )
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(
                argv, stdout=output, stderr=output, cwd=tmp_path, env=_environment()
            )
        jobs.append(Job(process, tmp_path / "output"))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.terminate()
        try:
            job.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait(timeout=20)
