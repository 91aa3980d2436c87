"""`busbw check --links` in the lab: a healthy one, a slow rail, a late rail, a limit that shows only
while all rails are busy, a node without the tool, a server that is killed midway, a replay. Shaped
TCP links between emulated nodes; iperf3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, faults, files, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

LAB: dict[str, Any] = {"nodes": 4, "rails": 2, "rate_bit_s": 60e6, "gpus": 1}


def start(lab: LabState, out: Path, *words: str) -> subprocess.Popen[str]:
    argv = ["check", "--links", "-i", f"lab:{lab.name}", "--out", str(out), *words]
    return subprocess.Popen(
        [sys.executable, "-m", "busbw", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=600)
    assert process.returncode in (0, 1, 3), (process.returncode, out, err)
    return process.returncode, out


def report(out: Path) -> tuple[Path, Any]:
    (folder,) = (path for path in out.iterdir() if "-links-" in path.name)
    return folder, json.loads((folder / "links.json").read_text())


def rows(out: Path) -> dict[tuple[str, str], Any]:
    return {(row["node"], row["interface"]): row for row in report(out)[1]["links"]["rows"]}


@dataclass(frozen=True, slots=True)
class Measured:
    """One `busbw check --links` of a lab."""

    status: int
    printed: str
    out: Path


@pytest.fixture
def lab(lab_factory: Callable[..., LabState]) -> LabState:
    return lab_factory(**LAB)


@pytest.fixture(scope="module")
def measured(
    needs_lab: None,
    make_labs: Callable[..., AbstractContextManager[Callable[..., LabState]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Measured]:
    """{lab: what was measured there}. All side by side: they wait for their links, not for the
    CPUs."""
    place = tmp_path_factory.mktemp("links")
    with make_labs(place / "labs") as up:
        labs = {name: up(name=name, **LAB) for name in ("healthy", "slow", "late", "lacking")}
        faults.slow(labs["slow"], "node3", rate_bit_s=20e6, rail="eth1")
        shared_by_rails(labs["late"], "node2", "7700 kbytes/second")
        without_iperf3(labs["lacking"], "node4")
        with late(labs["late"], "node4", "eth1", 0.02):
            words = {"late": ("--budget", "90s")}
            started = {
                name: start(each, place / name, *words.get(name, ())) for name, each in labs.items()
            }
            kill_one_server(labs["lacking"])
            return {name: Measured(*ended(job), place / name) for name, job in started.items()}


def test_a_healthy_lab_names_nobody(measured: dict[str, Measured]) -> None:
    healthy = measured["healthy"]
    judged = rows(healthy.out)
    assert healthy.status == 0, healthy.printed
    assert {row["status"] for row in judged.values()} == {"PASS"}
    assert all(row["latency_us"] > 0 for row in judged.values())


def test_a_slow_rail_is_found_on_its_node(measured: dict[str, Measured]) -> None:
    slow = measured["slow"]
    bad = {key: row["why"] for key, row in rows(slow.out).items() if row["status"] != "PASS"}
    assert bad == {("node3", "eth1"): "node3 rail 1 is slow"}, slow.printed
    assert slow.status == 1
    folder, _ = report(slow.out)
    words = (sys.executable, "-m", "busbw", "report", str(folder))
    subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
    assert "Slow: node3 eth1." in (folder / "report.html").read_text()


def test_a_late_rail_and_a_limit_of_all_rails_are_named_and_a_replay_says_the_same(
    measured: dict[str, Measured], tmp_path: Path
) -> None:
    status, out = measured["late"].status, measured["late"].printed
    judged = {key: (row["status"], row["why"]) for key, row in rows(measured["late"].out).items()}
    limited = [judged["node2", rail] for rail in ("eth0", "eth1")]
    # TCP need not share the limit evenly: one rail may keep nearly all of its rate. On a busy machine
    # others lose as well: then it is a warning.
    named = [why for state, why in limited if state in ("FAIL", "WARN")]
    assert named, out
    assert all("of its rate with all rails busy" in why for why in named), out
    kept = [rows(measured["late"].out)["node2", rail]["together"] for rail in ("eth0", "eth1")]
    assert sum(kept) < 1.5, (kept, out)
    assert judged["node4", "eth1"][0] != "PASS", out
    assert "answers late to every partner: " in judged["node4", "eth1"][1], out
    others = [each for (node, _), each in judged.items() if node in ("node1", "node3")]
    # A pair with node2 loses on both ends.
    alone = [(state, why) for state, why in others if "node2" not in why]
    assert not any(state == "FAIL" or "late" in why for state, why in alone), out
    folder, recorded = report(measured["late"].out)
    words = ("check", "--links", "--replay", str(folder), "--out", str(tmp_path / "again"))
    again = subprocess.run(
        (sys.executable, "-m", "busbw", *words), capture_output=True, text=True, check=False
    )
    assert again.returncode == status, (again.stdout, again.stderr)
    replayed = json.loads((tmp_path / "again" / "latest" / "links.json").read_text())
    assert replayed["links"]["rows"] == recorded["links"]["rows"]


def shared_by_rails(lab: LabState, node: str, rate: str) -> None:
    """What all rails of a node send together, and what they receive, is no more than that."""
    rules = f"""
    table inet shared {{
      limit sent {{ rate over {rate} burst 256 kbytes }}
      limit received {{ rate over {rate} burst 256 kbytes }}
      chain out {{ type filter hook output priority 0; oifname "eth*" limit name "sent" drop; }}
      chain in {{ type filter hook input priority 0; iifname "eth*" limit name "received" drop; }}
    }}
    """
    argv = enter.node_argv(lab, lab.node(node), ("nft", "-f", "-"))
    subprocess.run(argv, input=rules, text=True, check=True, capture_output=True)


@contextmanager
def late(lab: LabState, node: str, rail: str, seconds: float) -> Iterator[None]:
    """All frames of that rail pass its switch so much later, both ways."""
    port = next(each.port for each in lab.node(node).rails if each.interface == rail)
    show = enter.switch_argv(lab, ("ip", "-o", "-j", "link", "show", port))
    known = json.loads(subprocess.run(show, capture_output=True, check=True).stdout)[0]
    bridge, mtu = known["master"], known["mtu"]
    joined = (
        f"link set {port} nomaster\nlink add late0 mtu {mtu} type veth peer name late1 mtu {mtu}\n"
        f"link set late1 master {bridge}\nlink set late0 up\nlink set late1 up\n"
    )
    ip = enter.switch_argv(lab, ("ip", "-batch", "-"))
    subprocess.run(ip, input=joined, text=True, check=True, capture_output=True)
    script = str(Path(__file__).with_name("late_link.py"))
    argv = enter.switch_argv(lab, (sys.executable, script, port, "late0", str(seconds)))
    relay = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        assert relay.stdout.readline() == "ready\n"
        yield
    finally:
        relay.communicate("", timeout=60)


def test_a_node_without_iperf3_is_unknown_and_a_killed_server_flags_nobody(
    measured: dict[str, Measured],
) -> None:
    lacking = measured["lacking"]
    assert lacking.status == 3, lacking.printed
    judged = rows(lacking.out)
    unknown = {key: row["why"] for key, row in judged.items() if row["status"] == "UNKNOWN"}
    assert all("node4: no iperf3" in unknown["node4", rail] for rail in ("eth0", "eth1")), unknown
    assert "FAIL" not in {row["status"] for row in judged.values()}
    gaps = report(lacking.out)[1]["uncovered"]
    assert any("between nodes" in gap["what"] for gap in gaps)


def without_iperf3(lab: LabState, node: str) -> None:
    """The node answers as if the tool were not installed."""
    tool = files.node_directory(lab, lab.node(node)) / "bin" / "iperf3"
    tool.write_text("#!/bin/sh\necho 'iperf3: not found' >&2\nexit 127\n")
    tool.chmod(0o755)


@pytest.mark.long
def test_a_node_that_vanishes_in_mid_test_is_named_and_the_others_are_measured(
    lab: LabState, tmp_path: Path
) -> None:
    process = start(lab, tmp_path)
    serving(lab)
    faults.link_down(lab, "node3", rail="mgmt")
    for rail in ("eth0", "eth1"):
        faults.link_down(lab, "node3", rail=rail)
    status, out = ended(process)
    judged = {key: (row["status"], row["why"]) for key, row in rows(tmp_path).items()}
    gone = "not measured: node3: no longer answered during the test"
    for rail in ("eth0", "eth1"):
        assert judged.pop(("node3", rail)) == ("UNKNOWN", gone), out
    assert {state for state, _ in judged.values()} == {"PASS"}, out
    assert status == 3, out
    assert out.startswith("UNKNOWN  node3: not measured: no longer answered during the test"), out


def kill_one_server(lab: LabState) -> None:
    """End an iperf3 server of node1, node2 or node3 once a client is at it; by its process id."""
    pid = serving(lab)
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)


def serving(lab: LabState) -> int:
    """The process id of an iperf3 server of node1, node2 or node3, once there is one."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        for node in lab.nodes[:3]:
            for pid in processes.of_node(lab, node):
                if processes.command_line(pid).startswith("iperf3 -s"):
                    return pid
        time.sleep(0.05)
    raise AssertionError("no server was started")
