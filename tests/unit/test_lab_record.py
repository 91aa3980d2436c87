"""The record of a lab, what it needs of the machine, and what is refused before anything is
made."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli import lab as command
from busbw.errors import BusbwError, LabError, UsageError
from busbw.lab import bringup, cgroups, faults, files, network, processes, requirements, state
from busbw.lab.state import Fault, LabState, Mode, Process


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabState:
    """A lab that exists on paper only."""
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path))
    directory = tmp_path / "lab"
    directory.mkdir()
    lab = LabState(
        name="lab",
        directory=str(directory),
        mode=Mode.USERNS,
        up=False,
        nodes=network.plan_nodes(2, 2, 2),
        gpus=4,
        user="tester",
        node_ssh=False,
        rate_bit_s=1e9,
        uplink_rate_bit_s=None,
        leaves=2,
        cpus_per_node=0.5,
        cgroup=None,
        holder=Process(12, 3456),
        faults=(
            Fault(
                "slow",
                "node1",
                "200 Mb/s both ways on eth0",
                ("eth0",),
                rate_bit_s=2e8,
                processes=(Process(1, 2),),
            ),
        ),
        cannot=("run in root mode: not root",),
    )
    state.save(lab)
    return lab


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser)
    return command.run(parser.parse_args(words))


def test_a_record_is_read_as_it_was_written(recorded: LabState) -> None:
    assert state.load() == recorded
    assert state.load("lab") == recorded
    assert state.load_directory(recorded.path) == recorded
    assert state.names() == ("lab",)


def test_a_record_cut_short_is_an_error_that_names_the_file(recorded: LabState) -> None:
    path = recorded.path / "lab.json"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(LabError, match="not JSON, or cut short") as caught:
        state.load()
    assert str(path) in "\n".join(caught.value.lines())


def test_a_name_that_is_not_there_lists_those_that_are(recorded: LabState) -> None:
    with pytest.raises(LabError) as caught:
        state.load("demo")
    assert caught.value.lines() == (
        "error: there is no lab 'demo'",
        f"seen: labs in {recorded.path.parent}: lab",
        "next: name one of them, or: busbw lab up -n 4 --name demo",
    )


def test_beside_other_labs_a_lab_is_named_in_the_next_step(recorded: LabState) -> None:
    assert recorded.option == ""
    with pytest.raises(LabError) as caught:
        replace(recorded, name="demo").node("node9")
    assert caught.value.lines()[-1] == "next: busbw lab status --name demo"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("name", ["", "../lab", "Lab", "a b", "x" * 33, "-lab"])
def test_names_that_could_leave_the_directory_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="cannot name a lab"):
        state.directory_of(name)


def test_the_directory_of_labs_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("BUSBW_LAB_DIR", "/srv/labs")
    assert state.base_directory() == Path("/srv/labs")
    monkeypatch.delenv("BUSBW_LAB_DIR")
    assert state.base_directory() == Path("/run/user/7/busbw-lab")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.base_directory() == Path("/run/busbw-lab")
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    monkeypatch.setenv("HOME", "/home/seven")
    assert state.base_directory() == Path("/home/seven/.local/state/busbw-lab")


def test_missing_programs_end_in_the_exact_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = {"sshd", "nft", "mpicc"}
    monkeypatch.setattr(
        requirements, "find", lambda program: None if program in lacking else f"/usr/bin/{program}"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert requirements.missing() == ("libopenmpi-dev", "nftables", "openssh-server")
    assert requirements.missing(Mode.LOOPBACK) == ("openssh-server",)
    with pytest.raises(LabError) as caught:
        requirements.demand(Mode.ROOT)
    assert caught.value.lines() == (
        "error: the lab needs programs that are not installed",
        "seen: missing packages: nftables, openssh-server",
        (
            "next: sudo apt-get update && sudo env DEBIAN_FRONTEND=noninteractive apt-get install"
            " -y --no-install-recommends libopenmpi-dev nftables openssh-server"
        ),
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (
        requirements.apt_command(("nftables",))
        == "apt-get update && env DEBIAN_FRONTEND=noninteractive apt-get install -y"
        " --no-install-recommends nftables"
    )


def test_the_requirements_module_prints_nothing_or_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requirements, "find", lambda program: "/usr/bin/it")
    assert requirements.main() == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(
        requirements, "find", lambda program: None if program == "nft" else "/usr/bin/it"
    )
    assert requirements.main() == 1
    assert capsys.readouterr().out.endswith("apt-get install -y --no-install-recommends nftables\n")


def test_missing_programs_are_not_a_reason_for_a_lesser_mode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path / "labs"))
    monkeypatch.setattr(
        requirements, "find", lambda program: None if program == "nft" else f"/usr/bin/{program}"
    )
    with pytest.raises(LabError, match="programs that are not installed"):
        run("up")
    assert not (tmp_path / "labs").exists()


def test_a_directory_with_a_space_or_with_other_things_in_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(requirements, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path / "my labs"))
    with pytest.raises(LabError, match="may have no space in its path"):
        run("up", "--mode", "loopback")
    monkeypatch.setenv("BUSBW_LAB_DIR", str(tmp_path))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/precious").touch()
    with pytest.raises(LabError, match="taken by something else"):
        run("up", "--mode", "loopback", "--name", "demo")
    assert (tmp_path / "demo/precious").exists()


def fake_groups(root: Path, **contents: str) -> Path:
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_control_groups_of_version_1_stand_below_the_cpu_controller(tmp_path: Path) -> None:
    root = fake_groups(tmp_path, cpu__cpu_dot_shares="1024\n", cpu__cgroup_dot_procs="")
    assert cgroups.choose("0123abcd", "lab", root) == (root / "cpu/busbw-lab-0123abcd", False, "")


def test_control_groups_of_version_2_need_the_cpu_controller_switched_on(tmp_path: Path) -> None:
    files_of = {"cgroup_dot_controllers": "cpuset cpu io\n", "cgroup_dot_procs": ""}
    ready = fake_groups(
        tmp_path / "ready",
        cgroup_dot_subtree_control="cpu io\n",
        cgroup_dot_type="domain\n",
        **files_of,
    )
    assert cgroups.choose("0123abcd", "lab", ready) == (ready / "busbw-lab-0123abcd", False, "")
    real_root = fake_groups(tmp_path / "root", cgroup_dot_subtree_control="io\n", **files_of)
    assert cgroups.choose("0123abcd", "lab", real_root) == (
        real_root / "busbw-lab-0123abcd",
        True,
        "",
    )
    container = fake_groups(
        tmp_path / "container",
        cgroup_dot_subtree_control="io\n",
        cgroup_dot_type="domain\n",
        **files_of,
    )
    assert cgroups.choose("0123abcd", "lab", container) == (
        None,
        False,
        f"the cpu controller is not switched on in {container}/cgroup.subtree_control",
    )
    without = fake_groups(tmp_path / "without", cgroup_dot_controllers="io\n")
    assert cgroups.choose("0123abcd", "lab", without) == (
        None,
        False,
        f"{without} offers no cpu controller",
    )


def test_no_control_groups_at_all_is_reported(tmp_path: Path) -> None:
    assert cgroups.choose("0123abcd", "lab", tmp_path) == (
        None,
        False,
        f"no cpu control group is mounted below {tmp_path}",
    )


def test_a_signal_goes_to_the_process_that_was_recorded_and_to_no_later_one() -> None:
    sleeper = subprocess.Popen(("sleep", "60"))
    try:
        known = processes.identify(sleeper.pid)
        assert known is not None
        assert processes.alive(known)
        assert processes.children(os.getpid()).count(sleeper.pid) == 1
        # For a moment within exec a process has no command line.
        processes.wait_until(
            lambda: processes.command_line(sleeper.pid) == "sleep 60", 10, "the command line"
        )
        later = replace(known, start_ticks=known.start_ticks - 1)
        assert not processes.alive(later)
        assert not processes.send(later, signal.SIGKILL)
        assert sleeper.poll() is None
        assert processes.send(known, signal.SIGSTOP)
        processes.wait_until(lambda: processes.stopped(known), 10, "the stop")
        assert processes.send(known, signal.SIGKILL)
        assert sleeper.wait(10) == -signal.SIGKILL
        assert processes.gone(known)
        assert not processes.send(known, signal.SIGKILL)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_waiting_in_vain_says_what_for() -> None:
    with pytest.raises(LabError, match=r"waited 0\.01 s in vain for the moon"):
        processes.wait_until(lambda: False, 0.01, "the moon")


def test_every_session_of_a_node_gets_its_environment(recorded: LabState) -> None:
    text = files.sshd_config(recorded, recorded.nodes[1]).splitlines()
    assert "HostKey /run/node/host_key" in text
    assert "PermitRootLogin prohibit-password" in text
    assert (
        text[-1] == "SetEnv"
        ' PATH="/run/node/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"'
        f' BUSBW_LAB="{recorded.marker}" LAB_NODE="node2" LAB_NGPU="4"'
    )


def test_without_namespaces_a_node_has_its_files_where_the_lab_is(recorded: LabState) -> None:
    loopback = replace(recorded, mode=Mode.LOOPBACK)
    text = files.sshd_config(loopback, loopback.nodes[1])
    assert f"HostKey {recorded.directory}/nodes/node2/host_key\n" in text
    assert f"ForceCommand {recorded.directory}/nodes/node2/bin/login\n" in text
    assert f'HOME="{recorded.directory}/nodes/node2/home"' in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fault", "slow", "node1", "10"), "RATE '10' is no rate"),
        (("fault", "slow", "node9", "10mbit"), "the lab 'lab' has no node 'node9'"),
        (("fault", "slow", "node1", "1gbit", "--rail", "2"), "node1 has no rail '2'"),
        (("fault", "slow", "node1", "1gbit", "--rail", "mgmt"), "node1 has no rail 'mgmt'"),
        (("fault", "slow", "node1", "1gbit", "--to", "node1"), "a node has no link to itself"),
        (("fault", "slow", "node1", "1gbit", "--to", "node7"), "the lab 'lab' has no node 'node7'"),
        (("fault", "loss", "node1", "0"), "0 % is no loss"),
        (("fault", "loss", "node1", "101%"), "101 % is no loss"),
        (("fault", "loss", "node1", "much"), "'much' is no share"),
        (("fault", "uplink", "leaf1", "50%"), "50% of what?"),
        (("fault", "uplink", "leaf3", "1gbit"), "the lab 'lab' has no uplink of 'leaf3'"),
        (("fault", "clear", "node3"), "the lab 'lab' has no node 'node3'"),
        (("fault", "stall", "node1"), "no benchmark process on node1"),
        (("fault", "hang-ssh", "node1"), "the sshd of node1 does not run"),
        (("exec", "node1", "true"), "nothing to run"),
        (("exec", "node1", "--"), "nothing to run"),
        (("exec", "--"), "nothing to run"),
        (("exec", "--", "true"), "the lab 'lab' does not run"),
        (("up", "--rate", "fast"), "--rate 'fast' is no rate"),
        (("up", "--rate", "0mbit"), "--rate '0mbit' is no rate"),
        (("up", "--cpus-per-node", "0"), "--cpus-per-node 0 makes no lab"),
        (
            ("up", "--name", "new", "--mode", "loopback", "--cpus-per-node", "1"),
            "the CPU time of nodes cannot be limited",
        ),
        (("fault", "slow", "node1", "0%"), "RATE '0bit' is no rate"),
    ],
)
def test_what_cannot_be_done_is_reported_and_changes_nothing(
    words: tuple[str, ...], message: str, recorded: LabState
) -> None:
    with pytest.raises(BusbwError) as caught:
        run(*words)
    assert caught.value.what == message
    assert caught.value.next_step
    assert (" has no " in message) <= (caught.value.exit_status == 2)
    assert state.load() == recorded


def test_a_share_of_the_rate_is_a_rate(recorded: LabState) -> None:
    assert command._share("50%", recorded.rate_bit_s, "--rate") == 5e8
    assert command._share("200mbit", None, "--rate") == 2e8


@pytest.mark.parametrize(
    ("mode", "nodes", "rails", "mbit_s"),
    [
        (Mode.ROOT, 4, 1, 200),
        (Mode.USERNS, 3, 2, 130),
        (Mode.ROOT, 100, 1, 25),  # at a share of 8 Mb/s no case would end in time
        (Mode.LOOPBACK, 4, 1, None),
    ],
)
def test_by_default_all_links_together_have_the_rate_that_the_cpus_can_push(
    mode: Mode, nodes: int, rails: int, mbit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    rate_bit_s = bringup.auto_rate(mode, network.plan_nodes(nodes, rails, 1))
    assert rate_bit_s == (None if mbit_s is None else mbit_s * 1e6)


@pytest.mark.parametrize(
    ("option", "rate_bit_s", "text"),
    [
        (
            "auto",
            2e8,
            "2 per node, 200 Mb/s each way: slow enough for this machine's CPUs"
            " (--rate none: not shaped)",
        ),
        ("1gbit", 1e9, "2 per node, 1 Gb/s each way"),
        ("none", None, "2 per node, not shaped: a benchmark measures this machine's CPUs"),
    ],
)
def test_bringing_a_lab_up_says_what_holds_a_benchmark_up(
    option: str, rate_bit_s: float | None, text: str, recorded: LabState
) -> None:
    assert command._links_text(replace(recorded, rate_bit_s=rate_bit_s), option) == text


def test_status_says_what_is_broken_and_what_cannot_be_done(
    recorded: LabState, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status") == 3
    assert (
        capsys.readouterr().out
        == f"lab lab: NOT RUNNING, 2 nodes, userns mode, in {recorded.directory}\n"
        "  nodes      node1 (10.77.0.1) to node2 (10.77.0.2), 4 emulated GPUs each\n"
        "  rails      eth0, eth1: 1 Gb/s each way\n"
        "  leaves     2, uplinks: not shaped\n"
        f"  ssh        busbw lab exec -- ssh -F {recorded.directory}/ssh_config node1\n"
        "  no sshd    node1, node2\n"
        "  fault      node1: slow 200 Mb/s both ways on eth0\n"
        "  cannot     run in root mode: not root\n"
        "  next       busbw lab down --name lab\n"
    )


def test_links_of_a_lab_without_namespaces_cannot_be_broken(recorded: LabState) -> None:
    with pytest.raises(LabError, match="nodes in loopback mode have no links to break"):
        faults.link_down(replace(recorded, mode=Mode.LOOPBACK), "node1")


def test_importing_the_command_imports_nothing_heavy() -> None:
    script = (
        "import sys, busbw.cli.lab; print([m for m in ('pydantic', 'yaml', 'subprocess',"
        " 'busbw.lab.bringup') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            (sys.executable, "-c", script), capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("fault", "--name", "demo", "clear"),
        ("fault", "clear", "--name", "demo"),
        ("fault", "clear", "node1", "--name", "demo"),
    ],
)
def test_the_lab_of_a_fault_may_be_named_before_or_after_its_kind(
    words: tuple[str, ...], recorded: LabState
) -> None:
    with pytest.raises(LabError, match="there is no lab 'demo'"):
        run(*words)


def test_an_unknown_mode_is_refused_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("up", "--mode", "docker")
    assert caught.value.code == 2
    assert "invalid choice: 'docker'" in capsys.readouterr().err


def test_usage_errors_are_usage_errors() -> None:
    with pytest.raises(UsageError):
        run("up", "--uplink-rate", "1gb")
