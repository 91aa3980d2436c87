"""`busbw run` in turn, in the lab: a setting that gains and one that does not, changed nodes and
the fabric's drift, a soak with a flap."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

PLAYBOOK = Path(__file__).with_name("interleaved.yaml")
LIMIT_S = 400.0


def argv(lab: LabState, out: Path, *words: str, playbook: str = str(PLAYBOOK)) -> list[str]:
    return [
        sys.executable,
        "-m",
        "busbw",
        "run",
        playbook,
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(out),
        *words,
    ]


def busbw(*words: str, within_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def result(out: Path) -> Any:
    return json.loads((out / "latest" / "run.json").read_text())


@pytest.mark.long
def test_a_second_rail_gains_beyond_the_noise_and_the_other_rail_alone_does_not(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    # Links that stay the narrow place on a machine with other work, and one round more than quiet
    # machines need.
    lab = lab_factory(built=True, nodes=2, rails=2, rate_bit_s=50e6)
    patient = tmp_path / "patient.yaml"
    patient.write_text(PLAYBOOK.read_text().replace("most: 4", "most: 5"))
    done = busbw(
        *argv(
            lab,
            tmp_path,
            "--env",
            "LAB_RAILS=eth0",
            "--sweep",
            r"LAB_RAILS=eth0\,eth1,eth1",
            playbook=str(patient),
        )
    )
    assert done.returncode == 0, done
    told = {each["setting"]: each["shift"] for each in result(tmp_path)["sweep"]}
    assert set(told) == {"LAB_RAILS=eth0,eth1", "LAB_RAILS=eth1"}
    assert told["LAB_RAILS=eth0,eth1"]["change"] == "faster", told
    assert 1.1 < told["LAB_RAILS=eth0,eth1"]["ratio"] < 2.5
    assert told["LAB_RAILS=eth1"]["change"] in ("same", "inconclusive"), told
    assert "a gain that repeats: LAB_RAILS=eth0,eth1" in done.stdout
    page = (tmp_path / "latest" / "report.html").read_text()
    assert "Interleaved measurements" in page


@pytest.mark.long
def test_a_grid_names_the_one_setting_that_gains_and_a_grid_of_equals_names_none(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=2, rails=2, rate_bit_s=50e6)
    patient = tmp_path / "patient.yaml"
    repeat = PLAYBOOK.read_text().replace("most: 4", "most: 6").replace("budget: 5m", "budget: 4m")
    patient.write_text(repeat)

    def swept(out: Path, variable: str) -> tuple[dict[tuple[str, str], str], str]:
        grid = (variable, "aggregate=2", "collective=all_reduce,alltoall")
        words = [word for each in grid for word in ("--sweep", each)]
        run = argv(lab, out, "--env", "LAB_RAILS=eth0", *words, playbook=str(patient))
        # Eight launches a round: on a busy machine the last round ends late.
        done = busbw(*run, within_s=3 * LIMIT_S)
        assert done.returncode == 0, done
        told = {
            (each["setting"], each["collective"]): each["shift"]["change"]
            for each in result(out)["sweep"]
        }
        assert len(told) == 6, "two axes make three settings besides unset, on two collectives"
        return told, done.stdout

    told, said = swept(tmp_path / "planted", r"LAB_RAILS=eth0\,eth1")
    gains = {setting for (setting, _), change in told.items() if change == "faster"}
    assert gains, said
    assert all("LAB_RAILS=eth0,eth1" in setting for setting in gains), said
    assert "a gain that repeats: LAB_RAILS=eth0,eth1" in said
    for collective in ("all_reduce", "alltoall"):
        assert f"best at {collective} 1 MiB: LAB_RAILS=eth0,eth1" in said, said
    told, said = swept(tmp_path / "equal", "LAB_UNUSED=1")
    assert set(told.values()) <= {"same", "inconclusive"}, said
    assert "a gain that repeats" not in said
    for collective in ("all_reduce", "alltoall"):
        assert f"best at {collective} 1 MiB: unset" in said, said


def test_an_unsafe_setting_is_refused_before_any_node_is_asked(tmp_path: Path) -> None:
    words = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        str(PLAYBOOK),
        "-w",
        "nowhere[1-2]",
        "-p",
        "infiniband",
        "--sweep",
        "NCCL_PROTO=LL128",
    )
    done = busbw(*words, "--nccl-tests", "/nowhere", "--out", str(tmp_path))
    assert (done.returncode, "corrupts data" in done.stderr) == (2, True), done
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_changed_node_that_got_slower_is_named_and_drift_of_all_nodes_is_not_blamed_on_the_change(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=4, gpus=1, rate_bit_s=60e6)
    short = tmp_path / "short.yaml"
    short.write_text(PLAYBOOK.read_text().replace("most: 4", "most: 3"))
    run = argv(lab, tmp_path / "runs", "--treatment", "node4", playbook=str(short))
    before = busbw(*run)
    assert before.returncode in (0, 3), before
    assert (
        busbw(
            sys.executable,
            "-m",
            "busbw",
            "baseline",
            "accept",
            str(tmp_path / "runs/latest"),
            "--anyway",
        ).returncode
        == 0
    )
    for node in ("node1", "node2", "node3", "node4"):
        faults.slow(lab, node, 36e6)
    drifted = busbw(*run)
    found = {finding["id"]: finding for finding in result(tmp_path / "runs")["findings"]}
    assert "treatment-nodes-slower" not in found, drifted
    assert found["control-nodes-slower"]["status"] == "WARN", drifted
    faults.clear(lab)
    faults.slow(lab, "node4", 30e6)
    # As many rounds as this machine's noise needs: three have two degrees of freedom, so that one
    # disturbed launch leaves even a half undecided.
    patient = tmp_path / "patient.yaml"
    patient.write_text(PLAYBOOK.read_text().replace("most: 4", "most: 12"))
    changed = busbw(*argv(lab, tmp_path / "runs", "--treatment", "node4", playbook=str(patient)))
    first = result(tmp_path / "runs")["findings"][0]
    assert (changed.returncode, first["id"], first["where"]) == (
        1,
        "treatment-nodes-slower",
        ["node4"],
    ), changed
    assert (
        "busbw: SLOWER"
        in busbw(sys.executable, "-m", "busbw", "diff", str(tmp_path / "runs/latest")).stdout
    )


def test_a_soak_names_a_link_that_flapped_with_its_time_stops_and_goes_on(
    lab_factory: Callable[..., LabState], on_node: Callable[..., Any], tmp_path: Path
) -> None:
    lab = lab_factory(built=True, nodes=2, gpus=1, rate_bit_s=100e6)
    job = subprocess.Popen(
        argv(lab, tmp_path, "--duration", "8s", playbook="soak"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    events = tmp_path / "latest" / "raw" / "events.jsonl"

    def said(text: str) -> bool:
        return job.poll() is not None or (events.exists() and text in events.read_text())

    try:
        wait_for(lambda: said('"soak-002-all-reduce"'))
        faults.link_down(lab, "node2")
        wait_for(lambda: "down" in on_node(lab, "node2", "cat /sys/class/net/eth0/operstate").out)
        faults.clear(lab)
        wait_for(lambda: said("lost its link"))
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=LIMIT_S)
    finally:
        job.kill()
        job.wait()
    if job.returncode == 130:
        assert "--resume" in out
        assert (
            busbw(
                sys.executable,
                "-m",
                "busbw",
                "run",
                "--resume",
                str((tmp_path / "latest").resolve()),
            ).returncode
            == 1
        )
    told = result(tmp_path)
    assert told["soak"]["done_s"] >= told["soak"]["planned_s"] == 8.0
    (flap,) = [event for event in told["soak"]["events"] if event["kind"] == "link-down"]
    assert flap["where"] == ["node2 eth0"]
    assert flap["began"].startswith(told["started"][:10])
    assert (told["verdict"], told["findings"][0]["id"]) == ("FAIL", "soak-link-down")
    assert flap["began"] in told["findings"][0]["title"]
    assert " of 8.0 s: all" in out, "the summary goes with it"


def wait_for(there: Callable[[], bool]) -> None:
    """Poll until it is so."""
    end = time.monotonic() + LIMIT_S
    while not there():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
