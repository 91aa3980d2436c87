"""Two runs on the same nodes notice each other, whoever was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busbw.checks.leases import STALE_S
from busbw.lab import enter, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab
BOOK = str(Path(__file__).with_name("pods.yaml"))


def argv(lab: LabState, out: Path, *words: str, book: str = BOOK) -> list[str]:
    nodes = ("-i", f"lab:{lab.name}")
    return [sys.executable, "-m", "busbw", "run", book, *nodes, "--out", str(out), *words]


def endless(folder: Path) -> str:
    """The playbook with a first case that only its time limit ends."""
    book = folder / "endless.yaml"
    text = Path(BOOK).read_text()
    assert "iterations: 300," in text
    book.write_text(text.replace("iterations: 300,", "iterations: 1000000,"))
    return str(book)


def wait_for(so: Callable[[], bool], deadline_s: float = 240.0) -> None:
    end = time.monotonic() + deadline_s
    while not so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def texts(run: Path) -> list[str]:
    """What the user was told, in order."""
    lines = (run / "raw/events.jsonl").read_text().splitlines()
    return [str(json.loads(line)["text"]) for line in lines]


def leased(lab: LabState) -> dict[str, list[str]]:
    """The run that has each node."""
    found = {}
    for node in lab.nodes:
        links = (lab.path / "nodes" / node.name / "tmp").glob("busbw-lease*")
        found[node.name] = [os.readlink(link).partition(",")[0] for link in links]
    return found


def marked(run_id: str) -> list[int]:
    """The processes of this machine that say they belong to the run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if f"{run_id}/".encode() in (folder / name).read_bytes():
                    found.append(int(folder.name))
    return found


@pytest.fixture
def measuring(lab4: LabState, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run on node1 and node2 whose ranks are there; ended afterwards."""
    yield from started(lab4, tmp_path, BOOK)


@pytest.fixture
def measuring_long(lab4: LabState, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The same, and its first case goes on for minutes."""
    yield from started(lab4, tmp_path, endless(tmp_path))


def started(lab: LabState, folder: Path, book: str) -> Iterator[subprocess.Popen[bytes]]:
    words = argv(lab, folder / "first", "-w", "node[1-2]", book=book)
    with (
        (folder / "printed").open("w") as printed,
        subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT
        ) as job,
    ):
        wait_for(lambda: job.poll() is not None or bool(processes.ranks(lab, lab.nodes)))
        assert job.poll() is None, (folder / "printed").read_text()
        yield job
        job.kill()
    cleaned(first(folder))


def first(tmp_path: Path) -> Path:
    (run,) = (path for path in (tmp_path / "first").iterdir() if not path.is_symlink())
    return run


def cleaned(run: Path) -> str:
    return ran([sys.executable, "-m", "busbw", "cleanup", str(run)]).stdout


def ran(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def checked(lab: LabState, out: Path) -> dict[str, tuple[str, str]]:
    """What `busbw check` says of who holds each node."""
    words = ("check", "-i", f"lab:{lab.name}", "-w", "node[2-3]", "--json", "--out", str(out))
    done = ran([sys.executable, "-m", "busbw", *words])
    return {
        each["node"]: (each["status"], each["seen"])
        for each in json.loads(done.stdout)["checks"]
        if each["check_id"] == "sw.lease"
    }


RENEWED_OFTEN = """
import sys
from busbw.cli import main
from busbw.run import leases
leases.RENEW_S = 1.0
sys.exit(main())
"""
LONG = """
description: A case that ends long after the test.
checks: {required: [ssh.connect, sw.mpirun]}
cases: [{id: first, collective: all_reduce, sizes: 1M, iterations: 50000, timeout: 15m, stall: 14m}]
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""
OLD_S = 10 * STALE_S


def test_a_long_run_keeps_its_nodes_and_a_dead_runs_lease_ends(
    lab4: LabState, tmp_path: Path
) -> None:
    book = tmp_path / "long.yaml"
    book.write_text(LONG)
    nodes = ("-i", f"lab:{lab4.name}", "-w", "node[1-2]", "--out", str(tmp_path / "first"))
    words = (sys.executable, "-c", RENEWED_OFTEN, "run", str(book), *nodes)
    with subprocess.Popen(
        enter.reexec_argv(lab4, words), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as job:
        try:
            wait_for(lambda: job.poll() is not None or bool(processes.ranks(lab4, lab4.nodes)))
            assert job.poll() is None
            grow_old(lab4)
            wait_for(lambda: all(age_s < STALE_S for age_s in ages(lab4)))
            held = ran(argv(lab4, tmp_path / "second", "-w", "node[2-3]"))
            assert held.returncode == 2, "a run longer than a lease's time has its nodes still"
        finally:
            job.kill()
    for rank in processes.ranks(lab4, lab4.nodes):
        # mpirun ends the others as soon as it hears of the first.
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    run_id = first(tmp_path).name
    wait_for(lambda: not marked(run_id))
    status, seen = checked(lab4, tmp_path / "check")["node2"]
    assert (status, seen.partition("; ")[2]) == ("WARN", "none of its processes is there"), seen
    grow_old(lab4)
    status, seen = checked(lab4, tmp_path / "check")["node2"]
    assert (status, seen.rpartition(": ")[2]) == ("PASS", "not renewed for 5 h 00 m, it has ended")
    assert min(ages(lab4)) > STALE_S, "nobody renews it any more"
    cleaned(first(tmp_path))
    assert leased(lab4) == {node.name: [] for node in lab4.nodes}


def links(lab: LabState) -> list[Path]:
    return list((lab.path / "nodes").glob("*/tmp/busbw-lease*"))


def grow_old(lab: LabState) -> None:
    then = time.time() - OLD_S
    for link in links(lab):
        os.utime(link, (then, then), follow_symlinks=False)


def ages(lab: LabState) -> list[float]:
    """Seconds since each lease of the lab was renewed."""
    return [time.time() - link.lstat().st_mtime for link in links(lab)]


def test_a_second_run_names_the_first_and_touches_nothing(
    lab4: LabState, measuring_long: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    run_id = first(tmp_path).name
    shown = checked(lab4, tmp_path / "check")
    assert shown["node3"] == ("PASS", "free")
    status, seen = shown["node2"]
    assert status == "WARN"
    assert seen.startswith(f"run {run_id} of "), seen
    assert f"(process {measuring_long.pid}) since " in seen
    assert seen.endswith("; its processes are there"), seen
    second = ran(argv(lab4, tmp_path / "second", "-w", "node[2-3]"))
    assert second.returncode == 2, second.stderr
    error, seen, following = second.stderr.splitlines()[-3:]
    assert error.endswith("error: 1 of 2 nodes are in use by another busbw run"), error
    assert seen.startswith(f"busbw: seen: node2: run {run_id} of "), seen
    assert f"(process {measuring_long.pid}) since " in seen
    assert "busbw cleanup" in following
    assert "-x node2" in following
    assert leased(lab4)["node3"] == [], "what is refused keeps nothing"
    assert list((tmp_path / "second").iterdir()) == [], "nothing was measured: no run, no report"
    assert leased(lab4)["node2"] == [f"run={run_id}"]
    measuring_long.send_signal(signal.SIGINT)
    assert measuring_long.wait(timeout=400) == 130
    assert leased(lab4) == {node.name: [] for node in lab4.nodes}, "Ctrl-C gives them back"


def test_a_killed_runs_nodes_are_held_by_its_ranks_and_then_taken_over(
    lab4: LabState, measuring: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    run_id = first(tmp_path).name
    measuring.kill()
    measuring.wait()
    held = ran(argv(lab4, tmp_path / "second", "-w", "node[1-2]"))
    assert held.returncode == 2, "its ranks still run there"
    assert f"node[1-2]: run {run_id} of " in held.stderr
    for rank in processes.ranks(lab4, lab4.nodes):
        # mpirun ends the others as soon as it hears of the first.
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    # mpirun and its daemons end after their ranks, and bear the run's mark as well.
    wait_for(lambda: not marked(run_id))
    over = ran(argv(lab4, tmp_path / "second", "-w", "node[1-2]"))
    took = f"took over node[1-2] of run {run_id}: process {measuring.pid} has ended"
    assert took in texts((tmp_path / "second/latest").resolve()), over.stderr
    assert leased(lab4) == {node.name: [] for node in lab4.nodes}


def test_a_killed_run_that_goes_on_has_its_nodes_still_and_gives_them_back(
    lab4: LabState, measuring: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    run = first(tmp_path)
    measuring.kill()
    measuring.wait()
    assert leased(lab4)["node1"] == [f"run={run.name}"]
    resumed = ran([sys.executable, "-m", "busbw", "run", "--resume", str(run)])
    assert texts(run)[-1] == "ended", resumed.stderr
    assert leased(lab4) == {node.name: [] for node in lab4.nodes}
