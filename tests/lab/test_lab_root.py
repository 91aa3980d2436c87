"""Labs made by root: what nodes are, that labs do not meet, that nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import InventoryError, LabError, UsageError
from busbw.inventory import lab as inventory
from busbw.lab import bringup, cgroups, enter, faults, files, processes
from busbw.lab.state import LabState, load, marker, names
from busbw.model import Node

pytestmark = pytest.mark.lab

Run = Callable[..., Any]
BUSBW = (sys.executable, "-m", "busbw")


@dataclass(frozen=True, slots=True)
class Traces:
    """What a lab leaves on the machine while it is up; other labs may come and go meanwhile."""

    processes: int
    """All of them see the lab's mounts, or name its directory."""
    namespaces: int
    mounts: int
    """In the namespace of this test."""
    cgroups: int
    directory: bool


NOTHING = Traces(0, 0, 0, 0, False)


def traces(directory: Path) -> Traces:
    def mentions(pid: int) -> bool:
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            return False
        return str(directory) in mounts or str(directory) in processes.command_line(pid)

    found = tuple(
        pid
        for pid in processes.pids()
        if pid != os.getpid() and processes.start_ticks(pid) is not None and mentions(pid)
    )
    here = Path("/proc/self/mountinfo").read_text().count(str(directory))
    own = processes.netns(os.getpid())
    groups = tuple(cgroups.ROOT.glob(f"**/busbw-*-{marker(directory)}*"))
    return Traces(
        len(found),
        len({processes.netns(pid) for pid in found} - {own, None}),
        here,
        len(groups),
        directory.exists(),
    )


def test_every_node_has_its_own_name_home_and_process_table(lab4: LabState, on_node: Run) -> None:
    for node in lab4.nodes:
        seen = on_node(
            lab4,
            node.name,
            "hostname; uname -n; pwd; ls -A /tmp; cat /proc/1/comm; ls /sys/class/net; echo"
            " $LAB_NGPU; command -v ssh",
        )
        assert seen.exit_status == 0, seen
        assert seen.out.split() == [
            node.name,
            node.name,
            "/run/node/home",
            "sshd",
            "eth0",
            "lo",
            "mgmt0",
            "2",
            "/usr/bin/ssh",
        ]


def test_nodes_have_different_host_keys_and_the_head_verifies_them(
    lab4: LabState, in_head: Run
) -> None:
    keys = {
        (files.node_directory(lab4, node) / "host_key.pub").read_text().split()[1]
        for node in lab4.nodes
    }
    assert len(keys) == 4
    stranger = lab4.path / "other_known_hosts"
    stranger.write_text(
        (lab4.path / "known_hosts").read_text().replace("node1,10.77.0.1", "node2,10.77.0.2")
    )
    options = ("-o", f"UserKnownHostsFile={stranger}")
    refused = in_head(lab4, "ssh", "-F", str(files.ssh_config(lab4)), *options, "node1", "true")
    assert refused.exit_status == 255
    assert "Host key verification failed" in refused.err


def test_locked_memory_is_unlimited_or_the_lab_says_that_it_is_not(
    lab4: LabState, on_node: Run
) -> None:
    refused = any("locked memory" in what for what in lab4.cannot)
    assert (on_node(lab4, "node1", "ulimit -l").out == "unlimited\n") is not refused


def test_a_change_below_etc_stays_on_its_node_or_the_lab_says_that_it_does_not(
    lab4: LabState, on_node: Run
) -> None:
    own = Path("/etc/busbw-lab-trial")
    if any("/etc" in what for what in lab4.cannot):
        return
    on_node(lab4, "node1", f"touch {own}")
    seen = [on_node(lab4, name, f"ls {own} || true").out for name in ("node1", "node2")]
    assert seen == [f"{own}\n", ""]
    assert not own.exists()


def test_nodes_log_in_to_each_other_without_questions(lab4: LabState, on_node: Run) -> None:
    seen = on_node(lab4, "node1", "for i in 2 3 4; do ssh node$i hostname; done")
    assert (seen.exit_status, seen.out) == (0, "node2\nnode3\nnode4\n")


def test_what_a_session_leaves_behind_is_collected_when_it_ends(
    lab4: LabState, on_node: Run
) -> None:
    on_node(lab4, "node1", "setsid sh -c 'sleep 0.2; exit 3' >/dev/null 2>&1 &")
    processes.wait_until(
        lambda: on_node(lab4, "node1", "pgrep -c sleep").out == "0\n",
        10,
        "the end of what was left",
    )
    assert on_node(lab4, "node1", "ps -eo stat= | grep -c Z").out == "0\n"


def test_without_node_ssh_nodes_cannot_log_in_to_each_other(lab_factory: Run, on_node: Run) -> None:
    state = lab_factory(nodes=2, node_ssh=False)
    assert on_node(state, "node1", "true").exit_status == 0
    refused = on_node(
        state,
        "node1",
        "ls -A ~/.ssh; ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR node2"
        " true",
    )
    assert refused.out == "authorized_keys\n"
    assert refused.exit_status == 255


def test_no_route_leads_out_of_the_lab(lab4: LabState, on_node: Run, in_head: Run) -> None:
    for ran in (
        on_node(lab4, "node1", "ip route get 1.1.1.1"),
        in_head(lab4, "ip", "route", "get", "1.1.1.1"),
    ):
        assert ran.exit_status == 2
        assert "Network is unreachable" in ran.err


def test_the_head_resolves_nodes_and_knows_that_it_is_inside(lab4: LabState, in_head: Run) -> None:
    seen = in_head(lab4, "sh", "-c", f"getent hosts node3; echo ${enter.INSIDE}; id -u")
    assert seen.out.split() == ["10.77.0.3", "node3", lab4.directory, "0"]


def test_the_maker_of_a_lab_enters_a_node_as_it_is(lab4: LabState, on_node: Run) -> None:
    script = (
        "hostname; ip -o -4 address show mgmt0 | grep -o 10.77.0.3; mount -t tmpfs laid-over /mnt;"
        " touch /mnt/seen-on-the-node"
    )
    argv = enter.node_argv(lab4, lab4.node("node3"), ("sh", "-c", script))
    assert (
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        == "node3\n10.77.0.3\n"
    )
    assert on_node(lab4, "node3", "ls /mnt; umount /mnt").out == "seen-on-the-node\n"


def test_files_are_copied_to_a_node_by_sftp(lab4: LabState, in_head: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("carried\n")
    ran = in_head(
        lab4, "scp", "-q", "-F", str(files.ssh_config(lab4)), str(tmp_path / "text"), "node2:copied"
    )
    assert ran.exit_status == 0, ran
    assert (
        files.node_directory(lab4, lab4.node("node2")) / "home/copied"
    ).read_text() == "carried\n"


def test_the_inventory_names_every_node_and_that_it_is_emulated(
    lab4: LabState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_LAB_DIR", str(lab4.path.parent))
    cluster = inventory.load()
    assert (cluster.head, cluster.source, cluster.emulated, len(cluster.nodes)) == (
        "node1",
        "lab lab (emulated)",
        True,
        4,
    )
    assert cluster.ssh_config == str(files.ssh_config(lab4))
    assert cluster.node("node3") == Node(
        name="node3",
        address="10.77.0.3",
        user="root",
        port=22,
        identity_file=str(files.identity(lab4)),
        gpus=2,
        rails=("eth0",),
        labels=(("leaf", "leaf1"), ("oversubscription", "1"), ("rack", "rack1")),
    )


def test_inside_a_lab_the_inventory_is_that_lab_whatever_else_runs(
    lab4: LabState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path))
    monkeypatch.setenv(enter.INSIDE, lab4.directory)
    assert enter.inside_lab()
    assert len(inventory.load().nodes) == 4


def test_no_lab_is_an_inventory_error_that_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path))
    monkeypatch.delenv(enter.INSIDE, raising=False)
    with pytest.raises(InventoryError) as caught:
        inventory.load()
    assert caught.value.lines() == (
        "error: there is no lab 'lab'",
        f"seen: no lab is recorded in {tmp_path}",
        "next: busbw lab up -n 4",
    )


def test_a_lab_that_lost_its_processes_is_reported_to_be_down_and_can_be_replaced(
    lab_factory: Run,
) -> None:
    state = lab_factory(nodes=2)
    processes.send(state.holder, signal.SIGKILL)
    processes.wait_until(lambda: not processes.alive(state.init), 10, "the end of the lab")
    with pytest.raises(InventoryError, match="does not run"):
        inventory.load()
    with pytest.raises(LabError, match="does not run"):
        enter.reexec_argv(state, ("true",))
    again = lab_factory(nodes=2)
    assert bringup.is_up(again)
    assert again.holder != state.holder


def test_a_second_lab_of_the_same_name_is_refused_and_the_first_stays(
    lab_factory: Run, on_node: Run
) -> None:
    state = lab_factory(nodes=1)
    with pytest.raises(LabError, match="is up already"):
        lab_factory(nodes=1)
    assert on_node(state, "node1", "hostname").out == "node1\n"


def test_two_labs_live_side_by_side_and_do_not_meet(lab_factory: Run, on_node: Run) -> None:
    one, two = lab_factory(nodes=2, name="one"), lab_factory(nodes=3, name="two")
    assert names() == ("one", "two")
    assert on_node(one, "node2", "echo 1 > /tmp/mark; ls /tmp").out == "mark\n"
    assert (
        on_node(two, "node2", "ls /tmp; ping -c 1 -W 2 10.77.0.3 > /dev/null && echo three").out
        == "three\n"
    )
    assert on_node(one, "node2", "ping -c 1 -W 1 10.77.0.3").exit_status == 1
    bringup.down("one")
    assert names() == ("two",)
    assert on_node(two, "node3", "hostname").out == "node3\n"
    assert load("two") == two


def test_down_leaves_no_namespace_process_mount_cgroup_or_directory(
    lab_factory: Run, on_node: Run
) -> None:
    state = lab_factory(nodes=4, rails=2, leaves=2, rate_bit_s=1e9)
    # What a job may leave behind: a detached process that ignores every polite signal.
    on_node(
        state,
        "node2",
        "setsid sh -c 'trap \"\" HUP INT TERM; while :; do sleep 60; done' >/dev/null 2>&1 &",
    )
    during = traces(state.path)
    # holder and first process, two per node, the one left behind and its sleep
    assert during.processes >= 2 + 4 * 2 + 2
    # four nodes and the switches; nothing runs in the head's
    assert (during.namespaces, during.mounts, during.directory) == (5, 0, True)
    assert during.cgroups == (4 if state.cgroup is not None else 0)
    links = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
    assert "node1-" not in links
    bringup.down(None)
    assert traces(state.path) == NOTHING


@pytest.mark.parametrize(
    "moment", ["lab.json", "ssh_config", "wiring/head", "holder.pid", "nodes/node9/sshd.pid"]
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_up_that_is_stopped_half_way_leaves_nothing_after_down(
    moment: str, how: signal.Signals, lab_factory: Run, tmp_path: Path
) -> None:
    directory = tmp_path / "labs/lab"
    maker = subprocess.Popen(
        (*BUSBW, "lab", "up", "-n", "32"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        processes.wait_until((directory / moment).exists, 20, moment)
        maker.send_signal(how)
        status = maker.wait(30)
    finally:
        maker.kill()
        maker.wait()
    if how is signal.SIGKILL:
        assert status == -signal.SIGKILL
        assert directory.exists()
        assert (
            subprocess.run(
                (*BUSBW, "lab", "down"), capture_output=True, timeout=400, check=False
            ).returncode
            == 0
        )
    else:
        assert status == 130
    # Where the maker was killed, the lab may still be ending by itself.
    processes.wait_until(
        lambda: traces(directory) == NOTHING, 60, "the end of everything that was made"
    )


def test_down_twice_and_down_without_a_lab_are_no_error(lab_factory: Run) -> None:
    lab_factory(nodes=1)
    said = [
        subprocess.run(
            (*BUSBW, "lab", "down"), capture_output=True, text=True, timeout=400, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["lab lab is down\n", ""]


def test_exec_passes_words_and_exit_status_through(lab_factory: Run) -> None:
    lab_factory(nodes=2)
    words = ("sh", "-c", 'echo "$1"; hostname; exit 7', "sh", "two  words")
    node = subprocess.run(
        (*BUSBW, "lab", "exec", "node2", "--", *words),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (node.returncode, node.stdout) == (7, "two  words\nnode2\n")
    head = subprocess.run(
        (*BUSBW, "lab", "exec", "--", *words),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (head.returncode, head.stdout) == (7, f"two  words\n{os.uname().nodename}\n")
    wrong = subprocess.run(
        (*BUSBW, "lab", "exec", "node9", "--", "true"),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert wrong.returncode == 2
    assert "has no node 'node9'" in wrong.stderr


def test_status_as_json_is_the_record_and_what_is_seen(lab_factory: Run) -> None:
    state = lab_factory(nodes=2)
    told = subprocess.run(
        (*BUSBW, "lab", "status", "--json"), capture_output=True, text=True, timeout=400, check=True
    ).stdout
    status = json.loads(told)
    assert (status["running"], status["without_sshd"]) == (True, [])
    assert [node["name"] for node in status["state"]["nodes"]] == ["node1", "node2"]
    processes.send(state.nodes[1].init, signal.SIGKILL)
    processes.wait_until(lambda: not processes.alive(state.nodes[1].init), 10, "the end of node2")
    text = subprocess.run(
        (*BUSBW, "lab", "status"), capture_output=True, text=True, timeout=400, check=True
    ).stdout
    assert "no sshd    node2" in text


def test_each_node_has_a_cpu_group_of_its_own(lab_factory: Run, on_node: Run) -> None:
    state = lab_factory(nodes=2, cpus_per_node=0.5)
    if state.cgroup is None:
        pytest.skip(f"the lab cannot {state.cannot[0]}")
    group = cgroups.of(state, "node2")
    # Beside everything else: in a group of groups, ranks that wait have starved the whole machine
    # (tests/bench/lab_starved.py).
    assert not any(
        (group.parent.parent / name).exists() for name in ("cpu.shares", "cgroup.controllers")
    )
    assert f"/{group.name}\n" in on_node(state, "node2", "cat /proc/self/cgroup").out
    limit = group / "cpu.max"
    quota = (
        limit.read_text().split()[0]
        if limit.exists()
        else (group / "cpu.cfs_quota_us").read_text().strip()
    )
    assert quota == "50000"


def cpu_ticks(state: LabState, name: str) -> int:
    """CPU time that the node's processes have used, in clock ticks."""
    used = 0
    for pid in processes.of_node(state, state.node(name)):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        used += int(fields[11]) + int(fields[12])
    return used


def test_the_load_of_one_node_takes_nothing_from_the_others(lab_factory: Run) -> None:
    state = lab_factory(nodes=3)
    if state.cgroup is None:
        pytest.skip(f"the lab cannot {state.cannot[0]}")
    for name, loops in (("node1", 1), ("node2", 8), ("node3", 1)):
        faults.cpu_load(state, name, 60, loops)
    before = {node.name: cpu_ticks(state, node.name) for node in state.nodes}
    used = dict(before)

    def enough() -> bool:
        used.update({name: cpu_ticks(state, name) - before[name] for name in before})
        return sum(used.values()) > 300

    processes.wait_until(enough, 30, "three seconds of CPU time")
    # Eight loops of ten would take four fifths.
    assert used["node2"] / sum(used.values()) < 0.6


def test_rails_and_leaves_are_wired_as_asked(lab_factory: Run, on_node: Run, in_head: Run) -> None:
    state = lab_factory(nodes=5, rails=3, leaves=2)
    assert [node.leaf for node in state.nodes] == ["leaf1", "leaf1", "leaf1", "leaf2", "leaf2"]
    addresses = " ".join(rail.address for rail in state.nodes[4].rails)
    reached = on_node(
        state, "node1", f"for a in {addresses}; do ping -c 1 -W 2 $a > /dev/null && echo $a; done"
    )
    assert reached.out.split() == addresses.split()
    switches = subprocess.run(
        enter.switch_argv(state, ("ip", "-o", "link", "show", "type", "bridge")),
        capture_output=True,
        text=True,
        check=True,
    )
    found = sorted(line.split(": ")[1] for line in switches.stdout.splitlines())
    assert found == [
        "leaf1-rail0",
        "leaf1-rail1",
        "leaf1-rail2",
        "leaf2-rail0",
        "leaf2-rail1",
        "leaf2-rail2",
        "mgmt0",
        "spine-rail0",
        "spine-rail1",
        "spine-rail2",
    ]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"nodes": 0}, "-n 0 makes no lab"),
        ({"nodes": 501}, "-n 501 makes no lab"),
        ({"rails": 17}, "--rails 17 makes no lab"),
        ({"nodes": 2, "leaves": 3}, "--leaves 3 makes no lab"),
        ({"uplink_rate_bit_s": 1e9}, "one leaf has no uplinks"),
    ],
)
def test_options_that_make_no_lab_are_refused(
    options: dict[str, float], what: str, lab_factory: Run
) -> None:
    with pytest.raises(UsageError) as caught:
        lab_factory(**options)
    assert caught.value.what == what
    assert names() == ()
