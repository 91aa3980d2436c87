"""Leases of nodes: the scripts themselves, run here; and which leases count no more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import wait_until

from busbw.checks import NodeAnswer, SectionOutput
from busbw.checks import leases as lease_check
from busbw.checks.leases import STALE_S, Lease
from busbw.model import CheckResult, Command, CommandResult, Node, Status
from busbw.run import controller, job, leases

CONTROLLER = "by=ana@login1,pid=4711,at=0123456789ab.77"


@dataclass(frozen=True)
class Place:
    """A node whose leases are seen by nobody else on this machine."""

    name: str

    @property
    def own(self) -> Path:
        """Where this account's lease is."""
        return Path(f"/tmp/busbw-lease-{self.name}.{os.getuid()}")

    def run(self, file: str, *arguments: str) -> str:
        return self.command(job.lease_script(file), *arguments)

    def command(self, script: str, *arguments: str) -> str:
        done = subprocess.run(
            ("sh", "-c", script, "test", *arguments),
            env={**os.environ, "BUSBW_LAB": self.name, "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout

    def take(self, run: str, ended: str = "", force: str = "") -> str:
        return self.run("take_lease.sh", run, CONTROLLER, ended, force)

    def release(self, run: str) -> str:
        return self.command(job.lease_script() + 'free_lease "$1"\n:', run)


@pytest.fixture
def place() -> Iterator[Place]:
    here = Place(f"test{uuid.uuid4().hex[:12]}")
    yield here
    for path in Path("/tmp").glob(f"busbw-lease-{here.name}.*"):
        path.unlink() if path.is_symlink() or not path.is_dir() else path.rmdir()


def test_one_run_has_the_node_until_it_gives_it_back(place: Place) -> None:
    assert place.take("r1") == ""
    text = os.readlink(place.own)
    assert text.startswith(f"run=r1,{CONTROLLER},since=")
    (lease,) = lease_check.parse("n1", place.take("r2"))
    assert (lease.run_id, lease.by, lease.pid, lease.running) == ("r1", "ana@login1", 4711, False)
    assert lease.path == str(place.own)
    assert lease.since is not None
    assert abs(lease.since - time.time()) < 120
    assert os.readlink(place.own) == text
    assert place.release("r2") == ""
    assert place.take("r1") == "", "a run that goes on finds its own"
    assert place.release("r1") == f"removed {place.own}\n"
    assert place.take("r2") == ""


def test_cleanup_gives_the_node_back(place: Place) -> None:
    place.take("r1")
    for run, removed in (("r2", ""), ("r1", f"removed {place.own}\n")):
        *_, script, _, _ = job.clean(run).argv
        assert place.command(script, run) == f"killed 0\n{removed}"


def test_of_many_that_take_a_node_at_once_one_has_it(place: Place) -> None:
    runs = [f"r{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(place.take, runs))
    (winner,) = [run for run, answer in zip(runs, answers, strict=True) if answer == ""]
    assert os.readlink(place.own).startswith(f"run={winner},")


def test_of_many_that_take_over_an_ended_runs_node_one_has_it(place: Place) -> None:
    place.take("gone")
    runs = [f"r{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda run: place.take(run, "other gone"), runs))
    (winner,) = [run for run, answer in zip(runs, answers, strict=True) if answer == ""]
    assert os.readlink(place.own).startswith(f"run={winner},")


def test_a_process_of_the_run_on_the_node_shows(place: Place) -> None:
    run = f"2026-{place.name}"
    place.take(run)
    (before,) = lease_check.parse("n1", place.take("r2"))
    rank = subprocess.Popen(["sleep", "60"], env={"BUSBW_JOB": f"{run}/first"})
    try:
        wait_until(lambda: lease_check.parse("n1", place.take("r2"))[0].running, "the rank's mark")
    finally:
        rank.kill()
        rank.wait()
    assert not before.running
    daemon = subprocess.Popen(
        [sys.executable, "-c", "input()", "-mca", "busbw_job", f"{run}/first"],
        stdin=subprocess.PIPE,
    )
    try:
        wait_until(
            lambda: lease_check.parse("n1", place.take("r2"))[0].running, "the daemon's mark"
        )
    finally:
        daemon.kill()
        daemon.communicate()


@pytest.mark.parametrize("plant", ["fifo", "folder", "file", "link", "text"])
def test_what_another_account_planted_is_named_and_never_waited_for(
    place: Place, plant: str
) -> None:
    other = Path(f"/tmp/busbw-lease-{place.name}.4242")
    if plant == "fifo":
        os.mkfifo(other)
    elif plant == "folder":
        other.mkdir()
    elif plant == "file":
        other.write_text("run=r9,by=x@y")
    elif plant == "link":
        other.symlink_to("/dev/zero")
    else:
        other.symlink_to("run=$(reboot)\nlease root 1 1 no /tmp/x run=r7,`id`")
    (lease,) = lease_check.parse("n1", place.take("r1"))
    assert lease.path == str(other)
    assert lease.running is False
    if plant != "text":
        assert lease.holder.endswith(", which is no lease")
    assert not place.own.is_symlink(), "a run that is refused keeps nothing"
    place.take("r1", force="force")
    assert place.own.is_symlink()


def test_a_lease_is_never_written_through_a_link(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("mine")
    place.own.symlink_to(target)
    (lease,) = lease_check.parse("n1", place.take("r1"))
    assert lease.run_id == ""
    assert target.read_text() == "mine"


@pytest.mark.parametrize("planted", ["link", "folder", "next link", "next folder"])
def test_a_lease_is_never_written_into_a_folder_that_has_its_name(
    place: Place, tmp_path: Path, planted: str
) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    name = place.own
    if planted.startswith("next"):
        place.own.symlink_to("run=r0,by=x@y,pid=1,at=z.1,since=1")
        name = Path(f"{place.own}.next")
    if planted.endswith("link"):
        name.symlink_to(target)
    else:
        name.mkdir()
    for force in ("", "force"):
        held = {lease.path for lease in lease_check.parse("n1", place.take("r1", "r0", force))}
        assert str(name) in held
        assert not list(target.iterdir())
        assert name.is_symlink() or not list(name.iterdir())


def test_a_lease_is_renewed_by_its_own_run_alone(place: Place) -> None:
    place.take("r1")
    os.utime(place.own, (1000, 1000), follow_symlinks=False)
    for run, renewed in (("r2", False), ("r1", True)):
        place.run("keep_lease.sh", run)
        assert (place.own.lstat().st_mtime > 1000) is renewed


LEASE = Lease(
    "n1", "ana", "/tmp/busbw-lease.7", "r1", "ana@login1", 41, "ab.9", 90, 60, running=False
)


@pytest.mark.parametrize(
    ("others", "process_ended", "expected"),
    [
        ((LEASE,), False, {}),
        ((LEASE,), True, {"r1": "process 41 has ended"}),
        ((LEASE, replace(LEASE, node="n2", running=True)), True, {}),
        ((replace(LEASE, age_s=STALE_S),), False, {}),
        ((replace(LEASE, age_s=7200),), False, {"r1": "not renewed for 2 h 00 m"}),
        ((replace(LEASE, age_s=7200), LEASE), False, {}),
        ((replace(LEASE, age_s=7200, running=True),), False, {}),
        ((replace(LEASE, run_id="", pid=None, age_s=7200),), True, {}),
    ],
)
def test_a_lease_counts_until_its_run_is_known_to_have_ended(
    others: tuple[Lease, ...], process_ended: bool, expected: dict[str, str]
) -> None:
    assert leases.ended(others, lambda pid, at: process_ended) == expected


def test_a_process_is_known_by_its_start_and_only_on_its_own_machine() -> None:
    fields = dict(part.split("=") for part in controller.identity().split(","))
    pid, at = int(fields["pid"]), fields["at"]
    assert not controller.ended(pid, at)
    assert controller.ended(pid, f"{at.partition('.')[0]}.1"), "another process of that number"
    assert not controller.ended(pid, "ffffffffffff.1"), "another machine"
    assert not controller.ended(4194305, "")


def check(text: str, exit_status: int = 0) -> CheckResult:
    output = SectionOutput("leases", text, "", exit_status, 1)
    (result,) = lease_check.CHECK.judge(
        NodeAnswer(Node("n1"), {"leases": output}, "raw/n1.txt", None)
    )
    return result


def listed(text: str, renewed_s: int = 100, running: str = "no", account: str = "ana") -> str:
    return f"lease {account} {renewed_s} 7400 {running} /tmp/busbw-lease.7 {text}\n"


OF_RUN = "run=r1,by=ana@login1,pid=41,at=ab.9,since=3600"
HOLDER = "run r1 of ana@login1 (process 41) since 1970-01-01 01:00 UTC"


@pytest.mark.parametrize(
    ("text", "status", "seen"),
    [
        ("", Status.PASS, "free"),
        (
            listed(OF_RUN, 7170, "yes"),
            Status.WARN,
            f"{HOLDER}, renewed at most 4 min ago; its processes are there",
        ),
        (
            listed(OF_RUN, 7390, account="eva"),
            Status.WARN,
            f"{HOLDER}, account eva on the node, renewed at most 1 min ago;"
            " none of its processes is there",
        ),
        (listed(OF_RUN), Status.PASS, f"{HOLDER}: not renewed for 2 h 01 m, it has ended"),
        (
            listed(OF_RUN, running="yes"),
            Status.WARN,
            f"{HOLDER}, renewed at most 122 min ago; its processes are there",
        ),
        (listed("?"), Status.WARN, "/tmp/busbw-lease.7 of ana, which is no lease"),
    ],
)
def test_a_check_says_who_holds_the_node(text: str, status: Status, seen: str) -> None:
    result = check(text)
    assert (result.check_id, result.status, result.seen) == ("sw.lease", status, seen)


def test_a_check_that_cannot_read_the_leases_does_not_call_the_node_free() -> None:
    assert check("", exit_status=1).status is Status.UNKNOWN


@pytest.mark.parametrize("since", ["9" * 12, "9" * 19, "9" * 40, "0", "-1", "\u00b2"])
def test_a_planted_start_in_no_year_is_unknown(since: str) -> None:
    result = check(listed(f"run=r1,by=ana@login1,pid=41,at=ab.9,since={since}", 7390))
    assert "(process 41) since ?, renewed" in result.seen


def test_the_probe_of_a_check_lists_the_leases_and_takes_none(place: Place) -> None:
    (section,) = lease_check.CHECK.sections
    assert place.command(section.shell) == ""
    assert not place.own.is_symlink()
    place.take("r1")
    (lease,) = lease_check.parse("n1", place.command(section.shell))
    assert (lease.run_id, lease.running) == ("r1", False)
    assert os.readlink(place.own).startswith("run=r1,")


def test_a_node_on_which_no_lease_can_be_made_is_measured_and_reported() -> None:
    def answered(commands: dict[str, Command], deadline_s: float) -> tuple[CommandResult, ...]:
        out = b"unleased ln: /tmp/busbw-lease.0: Read-only file system\n"
        return tuple(
            CommandResult(node, command.argv, 0, out if node == "n2" else b"", b"", 0.1)
            for node, command in commands.items()
        )

    messages: list[tuple[str, str]] = []
    context = SimpleNamespace(
        plan=SimpleNamespace(run_id="r1", controller=CONTROLLER, force=False),
        run=SimpleNamespace(run_id="r1"),
        fleet=SimpleNamespace(sessions=("n1", "n2"), run=answered),
        progress=lambda step, text: messages.append((step, text)),
    )
    assert leases.take(context, ("n1", "n2")) == {}  # type: ignore[arg-type]
    why = "ln: /tmp/busbw-lease.0: Read-only file system"
    assert messages == [("check", f"n2: other runs cannot see that it is in use: {why}")]
