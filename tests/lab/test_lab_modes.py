"""Labs made by a plain user: in a user namespace, and without namespaces at all."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import busbw
from busbw.errors import LabError
from busbw.lab import persona, processes
from busbw.lab.state import LabState, Mode, load_directory

pytestmark = pytest.mark.lab

UID = 12345
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class User:
    """A plain user with a name, who can reach this Python and this project even where they lie in
    root's home."""

    home: Path

    def run(self, *argv: str, timeout_s: float = 90.0) -> subprocess.CompletedProcess[str]:
        own = (
            "setpriv",
            f"--reuid={UID}",
            f"--regid={UID}",
            "--clear-groups",
            "env",
            f"HOME={self.home}",
            f"BUSBW_LAB_DIR={self.home}/labs",
        )
        script = f'set -e\n{self._reachable()}\nexec {shlex.join(own)} "$@"'
        whole = ("unshare", "--mount", "sh", "-c", script, "sh", *argv)
        return subprocess.run(
            whole,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"]},
        )

    def busbw(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "busbw", *words)

    def lab(self, name: str = "lab") -> LabState:
        return load_directory(self.home / "labs" / name)

    def _reachable(self) -> str:
        """In a mount namespace of its own: a name for the user, and root's home with nothing in it
        but what Python needs."""
        root_home = Path.home()
        needed = sorted(
            {Path(sys.base_prefix), Path(sys.prefix), Path(busbw.__file__).resolve().parents[1]}
        )
        inside = [path for path in needed if path.is_relative_to(root_home)]
        lines = [f"mount --bind {self.home}/passwd /etc/passwd"]
        for number, path in enumerate(inside):
            lines += [
                f"mkdir -p {self.home}/kept{number}",
                f"mount --rbind {shlex.quote(str(path))} {self.home}/kept{number}",
            ]
        lines += [f"mount -t tmpfs -o mode=755 tmpfs {root_home}"] if inside else []
        for number, path in enumerate(inside):
            lines += [
                f"mkdir -p {shlex.quote(str(path))}",
                f"mount --rbind {self.home}/kept{number} {shlex.quote(str(path))}",
            ]
        return "\n".join(lines)


@pytest.fixture
def user(needs_lab: None) -> Iterator[User]:
    home = Path(tempfile.mkdtemp(prefix="busbw-user-"))
    (home / "passwd").write_text(
        f"{Path('/etc/passwd').read_text()}tester:x:{UID}:{UID}::{home}:/bin/sh\n"
    )
    os.chown(home, UID, UID)
    person = User(home)
    try:
        yield person
    finally:
        down = person.busbw("lab", "down", "--all")
        assert down.returncode == 0, down
        shutil.rmtree(home)


def owned() -> tuple[int, ...]:
    """Processes of the plain user that still run."""
    found = []
    for pid in processes.pids():
        try:
            own = os.stat(f"/proc/{pid}").st_uid == UID
        except FileNotFoundError:
            continue
        if own and processes.start_ticks(pid) is not None:
            found.append(pid)
    return tuple(found)


def ring(state: LabState, program: Path, rail: str, control: str, seconds: float) -> str:
    """mpirun's line for all nodes of the lab, one rank each."""
    for node in state.nodes:
        shutil.copy(program, state.path / "nodes" / node.name / "home/ring_perf")
    there = (
        "/run/node/home" if state.mode.value == "userns" else str(state.path / "nodes/node1/home")
    )
    hosts = ",".join(node.name for node in state.nodes)
    options = (
        f"--mca btl tcp,self --mca btl_tcp_if_include {rail} --mca oob_tcp_if_include {control}"
        " --mca mpi_yield_when_idle 1"
    )
    return (
        f"mpirun {options} -H {hosts} -np {len(state.nodes)} --map-by node {there}/ring_perf"
        f" 4194304 {seconds}"
    )


def best(text: str) -> float:
    return max(float(line.split()[1]) for line in text.splitlines() if line.startswith("busbw "))


def test_a_plain_user_gets_a_lab_in_a_user_namespace_with_all_its_faults(
    user: User, ring_perf: Path
) -> None:
    up = user.busbw("lab", "up", "-n", "3", "--rails", "2", "--rate", "800mbit")
    if "loopback" in up.stderr:
        pytest.skip(f"this machine refuses user namespaces: {up.stderr}")
    assert up.returncode == 0, up
    assert "this lab cannot run in root mode: not root" in up.stderr
    assert "this lab cannot raise a node's limit of locked memory" in up.stderr
    assert user.lab().mode.value == "userns"

    node = user.busbw(
        "lab",
        "exec",
        "node2",
        "--",
        "sh",
        "-c",
        "hostname; id -un; pwd; ls /sys/class/net; ssh node3 hostname",
    )
    assert node.stdout.split() == [
        "node2",
        "tester",
        "/run/node/home",
        "eth0",
        "eth1",
        "lo",
        "mgmt0",
        "node3",
    ], node
    head = user.busbw(
        "lab", "exec", "--", "sh", "-c", "id -un; getent hosts node3; ip route get 1.1.1.1"
    )
    assert head.stdout.split() == ["tester", "10.77.0.3", "node3"]
    assert "Network is unreachable" in head.stderr

    line = ring(user.lab(), ring_perf, "eth0", "mgmt0", 1)
    healthy = user.busbw("lab", "exec", "node1", "--", "sh", "-c", line)
    assert healthy.returncode == 0, healthy
    slow = user.busbw("lab", "fault", "slow", "node2", "10%", "--rail", "0")
    assert (slow.returncode, slow.stdout) == (0, "node2: slow 80 Mb/s both ways on eth0\n"), slow
    slowed = user.busbw("lab", "exec", "node1", "--", "sh", "-c", line)
    assert best(slowed.stdout) < 0.012 < best(healthy.stdout)
    for words in (
        ("loss", "node2", "1"),
        ("link-down", "node3"),
        ("hang-ssh", "node3"),
        ("cpu-load", "node1"),
        ("clear",),
        ("host-key", "node2"),
        ("clear",),
    ):
        ran = user.busbw("lab", "fault", *words)
        assert ran.returncode == 0, ran
    assert ran.stdout == "lab lab: no fault is on\n"
    assert user.busbw("lab", "exec", "node3", "--", "hostname").stdout == "node3\n"

    assert user.busbw("lab", "down").returncode == 0
    assert owned() == ()
    assert not (user.home / "labs").exists()


def test_without_namespaces_nodes_are_sshds_on_loopback_addresses(
    user: User, ring_perf: Path
) -> None:
    up = user.busbw("lab", "up", "-n", "3", "--mode", "loopback")
    assert up.returncode == 0, up
    assert "this lab cannot slow, lose or cut traffic" in up.stderr

    node = user.busbw(
        "lab",
        "exec",
        "node2",
        "--",
        "sh",
        "-c",
        "hostname; id -un; echo $LAB_NODE $LAB_NGPU; pwd; ssh node3 hostname",
    )
    home = f"{user.home}/labs/lab/nodes/node2/home"
    assert node.stdout.split() == ["node2", "tester", "node2", "2", home, "node3"], node
    (user.home / "text").write_text("carried\n")
    config = f"{user.home}/labs/lab/ssh_config"
    assert (
        user.busbw(
            "lab", "exec", "--", "scp", "-q", "-F", config, f"{user.home}/text", "node2:copied"
        ).returncode
        == 0
    )
    assert Path(home, "copied").read_text() == "carried\n"

    ran = user.busbw(
        "lab", "exec", "node1", "--", "sh", "-c", ring(user.lab(), ring_perf, "lo", "lo", 0.5)
    )
    assert ran.returncode == 0, ran
    assert best(ran.stdout) > 0

    slow = user.busbw("lab", "fault", "slow", "node2", "80mbit")
    assert slow.returncode == 3
    assert "nodes in loopback mode have no links to break" in slow.stderr
    assert user.busbw("lab", "fault", "cpu-load", "node2").returncode == 0
    assert user.busbw("lab", "fault", "host-key", "node3").returncode == 0
    assert (
        "HOST IDENTIFICATION HAS CHANGED" in user.busbw("lab", "exec", "node3", "--", "true").stderr
    )
    assert user.busbw("lab", "fault", "clear").returncode == 0
    assert user.busbw("lab", "exec", "node3", "--", "hostname").stdout == "node3\n"

    # What a job may leave behind.
    user.busbw("lab", "exec", "node1", "--", "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &")
    assert len(owned()) >= 4
    assert user.busbw("lab", "down").returncode == 0
    assert owned() == ()
    assert not (user.home / "labs").exists()


def test_rates_and_rails_are_refused_where_nodes_have_no_links(user: User) -> None:
    refused = user.busbw("lab", "up", "--mode", "loopback", "--rails", "2")
    assert refused.returncode == 3
    assert "no links to give a number, a switch or a rate" in refused.stderr
    assert not (user.home / "labs").exists()


def test_root_mode_asked_for_by_a_plain_user_says_why_not(user: User) -> None:
    refused = user.busbw("lab", "up", "--mode", "root")
    assert refused.returncode == 3
    assert (
        refused.stderr
        == "busbw: error: no lab in root mode can be made here\nbusbw: seen: not root\nbusbw: next:"
        " busbw lab up --mode auto\n"
    )


def test_a_user_namespace_asked_for_by_root_says_why_not(lab_factory: Run) -> None:
    refused = subprocess.run(
        (sys.executable, "-m", "busbw", "lab", "up", "--mode", "userns"),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert refused.returncode == 3
    assert "cannot separate privileges" in refused.stderr


def test_a_plain_users_nodes_show_invented_hardware_too(user: User) -> None:
    assert user.busbw("lab", "up", "-n", "3", "--persona", "h100").returncode == 0
    whole = user.busbw("check", "-i", "lab", "--out", f"{user.home}/runs", "--json")
    assert (
        whole.returncode,
        [c for c in json.loads(whole.stdout)["checks"] if c["status"] == "FAIL"],
    ) == (0, []), whole
    assert user.busbw("lab", "fault", "hw", "memlock-small", "node2").returncode == 0
    assert user.busbw("lab", "fault", "hw", "port-down", "node3").returncode == 0
    broken = user.busbw("check", "-i", "lab", "--out", f"{user.home}/runs", "--json")
    failed = {
        (c["check_id"], c["node"])
        for c in json.loads(broken.stdout)["checks"]
        if c["status"] == "FAIL" and c["required"]
    }
    assert failed == {
        ("os.limits.memlock", "node2"),
        ("cross.active_ports", "node3"),
        ("cross.rate", "node3"),
        ("rdma.port_state", "node3"),
    }


def test_nodes_that_share_this_machines_devices_show_no_others(
    lab_factory: Callable[..., LabState],
) -> None:
    with pytest.raises(LabError) as caught:
        lab_factory(nodes=1, mode=Mode.LOOPBACK, persona=persona.load("h100"))
    assert caught.value.lines() == (
        "error: nodes in loopback mode cannot show the hardware of h100",
        "seen: they share this machine's /sys",
        "next: busbw lab up --mode auto, where namespaces are allowed",
    )
