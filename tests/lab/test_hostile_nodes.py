"""Nodes that misbehave, all in one lab and one check: it ends within its deadline, the others are
complete, each says what happened to it.

The hardware is invented (persona h100); hanging, flooding, noise and death are real.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import files, persona, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

NOISE = """\
printf '\\033[1mWelcome to the cluster!\\033[0m  Quota: 93 %% of 100 GB\\n'
echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-from-the-banner)'
stty erase '^H'
module load nccl
"""
"""A .bashrc for people: a banner, what looks like an answer, stty without a terminal, a command
that is not there."""
WITHIN_S = 400.0
"""The tool that hangs has 15 s, one that ignores SIGTERM 2 s more, the whole script of checks a
multiple of that."""


@dataclass(frozen=True)
class Seen:
    """The one check of all nodes."""

    exit_status: int
    out: str
    report: Any

    def said(self, check_id: str, node: str) -> tuple[str, str, str]:
        """(status, found, reason)."""
        (one,) = [
            c for c in self.report["checks"] if (c["check_id"], c["node"]) == (check_id, node)
        ]
        return one["status"], one["seen"], one["reason"]

    def statuses(self, node: str, *families: str) -> dict[str, str]:
        """{check: status} of these families on a node, without those that do not apply."""
        checks = (
            c
            for c in self.report["checks"]
            if c["node"] == node and c["check_id"].startswith(families)
        )
        return {c["check_id"]: c["status"] for c in checks if c["status"] != "SKIPPED"}


def program(lab: LabState, node: str, name: str, text: str) -> None:
    """In the place of what the persona has under that name."""
    path = files.node_directory(lab, lab.node(node)) / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def wrapped(case: str, action: str) -> str:
    """An nvidia-smi that does something of its own for one question, and answers all others."""
    return (
        f'#!/bin/sh\ncase "$*" in {case}) {action} ;; esac\nPATH=/run/node/answering:$PATH exec'
        ' nvidia-smi "$@"\n'
    )


@pytest.fixture(scope="module")
def seen(
    needs_lab: None, make_labs: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    """node1 is well, node2's nvidia-smi hangs, node3's prints 50 MB, node4's shell is noisy, node5
    dies half way, node6 never accepted."""
    home = tmp_path_factory.mktemp("hostile")
    with make_labs(home / "labs") as up:
        lab = up(nodes=6, persona=persona.load("h100"))
        for node in lab.nodes:
            directory = files.node_directory(lab, node)
            (directory / "answering").mkdir()
            (directory / "answering/nvidia-smi").symlink_to("../hardware/tool.sh")
        program(
            lab,
            "node2",
            "nvidia-smi",
            wrapped('"nvlink -s"', "trap '' TERM; while :; do sleep 1; done"),
        )
        program(
            lab,
            "node3",
            "nvidia-smi",
            wrapped(
                "-q", "yes 'GPU 00000000:1B:00.0 says the same again' | head -c 50000000; exit"
            ),
        )
        for name in (".bashrc", ".profile"):
            (files.node_directory(lab, lab.node("node4")) / "home" / name).write_text(NOISE)
        reached = files.node_directory(lab, lab.node("node5")) / "home/reached"
        program(
            lab, "node5", "ibv_devices", "#!/bin/sh\ntouch /run/node/home/reached\nexec sleep 600\n"
        )
        sixth = lab.node("node6").init
        assert sixth is not None
        processes.send(sixth, signal.SIGKILL)
        yield look(lab, home, reached)


def look(lab: LabState, home: Path, reached: Path) -> Seen:
    """Check the lab, and end node5 with all its processes as soon as it is half way through the
    script."""
    fifth = lab.node("node5").init
    assert fifth is not None
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "check",
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(home / "runs"),
    ]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        processes.wait_until(reached.exists, WITHIN_S, "node5 to be half way")
        processes.send(fifth, signal.SIGKILL)
        out, _ = job.communicate(timeout=WITHIN_S)
    report = json.loads((home / "runs/latest/check.json").read_text())
    return Seen(job.returncode, out, report)


def test_the_check_ends_and_what_could_not_be_checked_decides(
    seen: Seen,
) -> None:
    assert (seen.report["verdict"], seen.exit_status) == ("UNKNOWN", 3), seen
    assert (
        seen.out.splitlines()[0]
        == "UNKNOWN  2 of 6 nodes could not be checked: node[5-6]; profile infiniband"
    )


def test_the_well_node_is_complete(seen: Seen) -> None:
    assert set(seen.statuses("node1", "gpu.", "rdma.", "pci.", "sw.").values()) == {"PASS"}
    assert {"gpu.nvlink_status", "rdma.devices", "pci.acs", "sw.mpirun", "gpu.count"} <= set(
        seen.statuses("node1", "gpu.", "rdma.", "pci.", "sw.")
    )


def test_a_tool_that_hangs_and_ignores_sigterm_is_named_and_all_else_of_its_node_is_answered(
    seen: Seen,
) -> None:
    assert seen.said("gpu.nvlink_status", "node2") == (
        "UNKNOWN",
        "timed out",
        "nvidia-smi nvlink -s did not end within its time limit",
    )
    others = seen.statuses("node2", "gpu.", "rdma.", "pci.", "sw.")
    assert {check_id for check_id, status in others.items() if status != "PASS"} == {
        "gpu.nvlink_status"
    }
    assert others.keys() == seen.statuses("node1", "gpu.", "rdma.", "pci.", "sw.").keys()


def test_megabytes_are_cut_and_reported_as_cut(seen: Seen) -> None:
    assert seen.said("gpu.temp", "node3") == (
        "UNKNOWN",
        "output truncated",
        "nvidia-smi -q printed more than 256 KiB; the rest was not read",
    )
    others = seen.statuses("node3", "gpu.", "rdma.", "pci.", "sw.")
    cut = {check_id for check_id, status in others.items() if status != "PASS"}
    assert cut <= {"gpu.temp", "gpu.fabric_state", "gpu.fabricmanager", "sw.cuda"}
    assert (others["gpu.count"], others["rdma.devices"]) == ("PASS", "PASS")


def test_noise_of_a_login_shell_changes_no_answer(seen: Seen) -> None:
    families = ("gpu.", "rdma.", "pci.", "sw.")
    assert seen.statuses("node4", *families) == seen.statuses("node1", *families)
    assert seen.said("gpu.count", "node4") == ("PASS", "8 x NVIDIA H100 80GB HBM3", "")


def test_a_node_that_dies_half_way_keeps_its_output_and_reports_that_the_rest_is_missing(
    seen: Seen,
) -> None:
    assert seen.said("gpu.count", "node5")[0] == "PASS"
    status, found, reason = seen.said("rdma.devices", "node5")
    assert (status, found) == ("UNKNOWN", "no answer")
    assert "connection" in reason
    assert seen.said("ssh.connect", "node5")[0] == "PASS"


def test_a_node_without_sshd_is_not_reached_and_the_reason_is_reported(seen: Seen) -> None:
    status, found, _ = seen.said("ssh.connect", "node6")
    assert status == "UNKNOWN"
    assert "refused" in found
    assert [item["node"] for item in seen.report["unreachable"]] == ["node6"]
