"""Faults: each is real, shows in what MPI measures, and can be taken away."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import LabError, UsageError
from busbw.lab import cgroups, enter, faults, processes
from busbw.lab.state import LabState, load_directory

pytestmark = pytest.mark.lab

Run = Callable[..., Any]

MPI_ERR_INTERN = 17


@pytest.fixture
def lab(lab4: LabState) -> Iterator[LabState]:
    """The shared lab, mended after the test."""
    yield lab4
    faults.clear(load_directory(lab4.path))


@pytest.fixture
def shaped(lab_factory: Run) -> LabState:
    """Two leaves, two rails, every link at 400 Mb/s (0.05 GB/s): well below what two busy CPUs can
    push."""
    state: LabState = lab_factory(
        nodes=4, rails=2, leaves=2, rate_bit_s=400e6, uplink_rate_bit_s=800e6
    )
    return state


def reaches(measured: Run, state: LabState, busbw_gb_s: float) -> bool:
    """True = one of three measurements gives that much: on a busy machine a healthy lab is now and
    then slow."""
    return any(measured(state) > busbw_gb_s for _ in range(3))


def lines_within(job: subprocess.Popen[str], seconds: float) -> int:
    """How many lines of figures the job prints in that time."""
    assert job.stdout is not None
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        if select.select([job.stdout], [], [], left)[0]:
            text = os.read(job.stdout.fileno(), 65536).decode()
            if not text:
                return count
            count += text.count("busbw")
    return count


def await_lines(job: subprocess.Popen[str]) -> None:
    processes.wait_until(lambda: lines_within(job, 0.2) > 0, 30, "the first figures of the job")


def state_of(process: processes.Rank) -> str:
    return Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_slowed_link_gives_its_rate_and_recovers(lab: LabState, measured: Run) -> None:
    healthy = measured(lab)
    faults.slow(lab, "node3", 200e6)
    slowed = measured(lab, size_bytes=16 << 20, seconds=2)
    assert 0.6 * 0.025 < slowed < 1.05 * 0.025
    assert healthy > 3 * slowed
    faults.clear(lab, "node3")
    assert reaches(measured, lab, 3 * slowed)
    assert load_directory(lab.path).faults == ()


def test_a_link_slowed_toward_one_node_leaves_the_others_alone(
    shaped: LabState, on_node: Run, measured: Run
) -> None:
    whole = measured(shaped)
    # The ring sends from node3 to node4 and never from node3 to node1.
    faults.slow(shaped, "node3", 40e6, toward="node1")
    assert reaches(measured, shaped, 0.7 * whole)
    faults.slow(shaped, "node3", 40e6, toward="node4")
    assert measured(shaped, seconds=2) < 0.3 * whole
    faults.clear(shaped)
    assert reaches(measured, shaped, 0.7 * whole)


def test_one_slow_rail_leaves_the_other_at_its_rate(shaped: LabState) -> None:
    faults.slow(shaped, "node2", 40e6, rail="1")
    shown = subprocess.run(
        enter.switch_argv(shaped, ("tc", "-n", "node2", "qdisc")),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "tbf" in shown
    rates = {
        line.split("dev ")[1].split()[0]: line.split("rate ")[1].split()[0]
        for line in shown.splitlines()
        if "tbf" in line
    }
    assert rates == {"eth0": "400Mbit", "eth1": "40Mbit"}


def test_lost_packets_cost_bandwidth_and_are_counted(lab: LabState, measured: Run) -> None:
    healthy = measured(lab)
    faults.loss(lab, "node2", 5)
    assert measured(lab, seconds=3) < 0.6 * healthy
    rules = subprocess.run(
        enter.switch_argv(lab, ("nft", "list", "ruleset")),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'iifname "node2-eth0"' in rules
    assert "counter packets 0 " not in rules
    faults.clear(lab, "node2")
    rules = subprocess.run(
        enter.switch_argv(lab, ("nft", "list", "ruleset")),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert rules == ""


def test_a_slow_uplink_slows_traffic_between_leaves_only(
    shaped: LabState, on_node: Run, measured: Run
) -> None:
    whole = measured(shaped)
    faults.uplink(shaped, "leaf1", 40e6)
    assert measured(shaped, seconds=2) < 0.3 * whole
    inside = on_node(shaped, "node1", "ping -c 3 -i 0.2 -W 2 node2-eth0")
    assert inside.exit_status == 0
    faults.clear(shaped, "leaf1")
    assert reaches(measured, shaped, 0.7 * whole)


def test_a_cut_link_stops_the_job_but_not_ssh_and_traffic_returns(
    lab: LabState, on_node: Run, running: Run
) -> None:
    job = running(lab)
    await_lines(job)
    faults.link_down(lab, "node2")
    lines_within(job, 1.0)
    assert lines_within(job, 2.0) == 0
    assert on_node(lab, "node2", "cat /sys/class/net/eth0/carrier").out == "0\n"
    assert on_node(lab, "node1", "ping -c 1 -W 1 node2-eth0").exit_status == 1
    faults.clear(lab, "node2")
    assert on_node(lab, "node1", "ping -c 1 -W 5 node2-eth0").exit_status == 0


def test_a_cut_management_link_makes_the_node_unreachable_by_ssh(
    lab: LabState, on_node: Run
) -> None:
    faults.link_down(lab, "node4", rail="mgmt")
    ran = on_node(lab, "node1", "ssh -o ConnectTimeout=1 node4 true")
    assert ran.exit_status == 255
    faults.clear(lab)
    assert on_node(lab, "node4", "hostname").out == "node4\n"


def test_stalled_ranks_stop_on_that_node_only_and_go_on(lab: LabState, running: Run) -> None:
    job = running(lab)
    await_lines(job)
    changed = faults.stall(lab, "node3")
    assert [(fault.kind, fault.target) for fault in changed.faults] == [("stall", "node3")]
    found = {rank.node: state_of(rank) for rank in processes.ranks(lab, lab.nodes)}
    assert found["node3"] == "T"
    assert "T" not in {found["node1"], found["node2"], found["node4"]}
    lines_within(job, 0.5)
    assert lines_within(job, 1.5) == 0
    faults.clear(lab, "node3")
    await_lines(job)


def test_one_rank_can_be_stalled_by_its_number(lab: LabState, running: Run) -> None:
    job = running(lab)
    await_lines(job)
    faults.stall(lab, "1")
    assert [
        (rank.rank, rank.node) for rank in processes.ranks(lab, lab.nodes) if state_of(rank) == "T"
    ] == [(1, "node2")]


def test_a_killed_rank_ends_the_job_which_names_its_node(lab: LabState, running: Run) -> None:
    job = running(lab)
    await_lines(job)
    killed = faults.kill(lab, "node2")
    assert [(rank.rank, rank.node, rank.executable) for rank in killed] == [
        (1, "node2", "ring_perf")
    ]
    out, _ = job.communicate(timeout=400)
    # Reports race to mpirun: that of node2, and that of a neighbour which lost its connection. It aborts
    # with Open MPI's MPI_ERR_INTERN when it reads from it, and dies of SIGPIPE when it writes to it.
    if job.returncode == MPI_ERR_INTERN:
        assert "peer process has unexpectedly disconnected" in out
    elif job.returncode == 128 + signal.SIGPIPE:
        assert re.search(r"on node node[13] exited on signal 13 \(Broken pipe\)", out), out
    else:
        assert job.returncode == 128 + signal.SIGKILL, out
        assert "on node node2 exited on signal 9 (Killed)" in out


def test_no_running_benchmark_is_reported_and_nothing_is_recorded(lab: LabState) -> None:
    with pytest.raises(LabError) as caught:
        faults.stall(lab, "node1")
    assert caught.value.what == "no benchmark process on node1"
    assert load_directory(lab.path).faults == ()


def test_cpu_load_stays_on_its_node_and_is_ended_by_clear(lab: LabState, on_node: Run) -> None:
    faults.cpu_load(lab, "node2", seconds=60, loops=2)
    busy = "ps -eo args= | grep -c '[w]hile :; do :; done busbw-lab-load'"
    processes.wait_until(
        lambda: on_node(lab, "node2", busy).out == "4\n", 10, "two loops and their time limits"
    )
    assert on_node(lab, "node3", busy).out == "0\n"
    faults.clear(lab, "node2")
    processes.wait_until(
        lambda: on_node(lab, "node2", busy).out == "0\n", 10, "the end of the loops"
    )


def test_cpu_load_ends_by_itself(lab: LabState, on_node: Run) -> None:
    faults.cpu_load(lab, "node2", seconds=0.5, loops=1)
    processes.wait_until(
        lambda: on_node(lab, "node2", "pgrep -cf busbw-lab-load").out == "0\n",
        10,
        "the end of the loop",
    )


def test_a_limited_node_gets_no_more_cpu_time_and_clear_lifts_the_limit(
    lab: LabState, on_node: Run
) -> None:
    if lab.cgroup is None:
        pytest.skip(f"the lab has no control groups: {'; '.join(lab.cannot)}")
    lap = (
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; cut -d' ' -f14,15 /proc/$$/stat | tr '"
        " ' +; cut -d' ' -f1 /proc/uptime"
    )

    def share() -> float:
        """Of one CPU, by the loop's own CPU time and the time that passed."""
        began = float(on_node(lab, "node2", "cut -d' ' -f1 /proc/uptime").out)
        ticks, ended = on_node(lab, "node2", lap).out.split()
        return sum(map(int, ticks.split("+"))) / os.sysconf("SC_CLK_TCK") / (float(ended) - began)

    faults.cpu_limit(lab, "node2", 0.5)
    state = faults.cpu_limit(lab, "node2", 0.1)
    assert [(f.kind, f.target, f.detail) for f in state.faults] == [
        ("cpu-limit", "node2", "0.1 CPUs")
    ]
    assert share() < 0.15
    group = cgroups.of(lab, "node2")
    limit = group / "cpu.max"
    faults.clear(lab, "node2")
    quota = (
        limit.read_text().split()[0]
        if limit.exists()
        else (group / "cpu.cfs_quota_us").read_text().strip()
    )
    assert quota in ("max", "-1")
    for cpus in (0.0, 1000.0):
        with pytest.raises(UsageError):
            faults.cpu_limit(lab, "node2", cpus)


def test_a_hanging_sshd_accepts_and_never_answers(
    lab: LabState, in_head: Run, on_node: Run
) -> None:
    faults.hang_ssh(lab, "node3")
    connect = (
        "import socket; s = socket.create_connection(('10.77.0.3', 22), 5); s.settimeout(1);"
        " print('accepted', flush=True); s.recv(1)"
    )
    ran = in_head(lab, "/usr/bin/env", "python3", "-c", connect)
    assert ran.out == "accepted\n"
    assert "TimeoutError" in ran.err
    faults.clear(lab, "node3")
    assert on_node(lab, "node3", "hostname").out == "node3\n"


def test_a_changed_host_key_is_refused_and_the_first_one_comes_back(
    lab: LabState, on_node: Run
) -> None:
    faults.host_key(lab, "node4")
    refused = on_node(lab, "node4", "true")
    assert refused.exit_status == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.err
    with pytest.raises(LabError, match="has a fault already"):
        faults.host_key(lab, "node4")
    faults.hang_ssh(lab, "node4")
    faults.clear(lab, "node4")
    assert on_node(lab, "node4", "hostname").out == "node4\n"


def test_faults_add_up_and_the_same_one_again_replaces_the_first(lab: LabState) -> None:
    faults.slow(lab, "node1", 100e6)
    faults.loss(lab, "node1", 1)
    faults.slow(lab, "node1", 50e6)
    faults.loss(lab, "node2", 2)
    told = [(fault.target, fault.kind, fault.detail) for fault in load_directory(lab.path).faults]
    assert told == [
        ("node1", "loss", "1 % both ways on eth0"),
        ("node1", "slow", "50 Mb/s both ways on eth0"),
        ("node2", "loss", "2 % both ways on eth0"),
    ]
    assert [fault.target for fault in faults.clear(lab, "node1").faults] == ["node2"]
