"""`busbw check` in the lab: healthy nodes, one node after another with a tool that misbehaves, and
hardware that differs.

The GPUs are invented: a shim prints composed `nvidia-smi` output in the documented format.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import files
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

HEAD = (
    "index, uuid, name, driver_version, persistence_mode, mig.mode.current, power.limit [W],"
    " power.default_limit [W], pcie.link.width.current, pcie.link.width.max, memory.used [MiB],"
    " vbios_version, ecc.errors.uncorrected.volatile.total, clocks.current.sm [MHz], clocks.max.sm"
    " [MHz], utilization.gpu [%], clocks_event_reasons.active"
)
SHIM = """#!/bin/sh
driver={driver}
gpus="{gpus}"
case "$*" in
-L) for i in $gpus; do echo "GPU $i: NVIDIA H100 80GB HBM3 (UUID: GPU-$i)"; done ;;
*--query-gpu=*) echo "{head}"
  for i in $gpus; do
    echo "$i, GPU-$i, NVIDIA H100 80GB HBM3, $driver, Enabled, Disabled, 700.00, 700.00, 16, 16, 4, 96.00.74.00.01, 0, 345, 1980, 0, 0x1"
  done ;;
*--query-remapped-rows=*) echo "gpu_uuid, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure"
  for i in $gpus; do echo "GPU-$i, 0, 0, 0, 0"; done ;;
*--query-compute-apps=*) echo "gpu_uuid, pid, used_gpu_memory [MiB]" ;;
*) exit 3 ;;
esac
"""
HEALTHY = SHIM.format(driver="550.54.14", gpus="0 1", head=HEAD)


@dataclass(frozen=True)
class Ended:
    """A finished `busbw check`."""

    exit_status: int
    out: str
    err: str
    report: Any
    """check.json."""

    def of(self, check_id: str) -> dict[str, tuple[str, str, str]]:
        """{node: (status, found, reason)} of one check."""
        return {
            c["node"]: (c["status"], c["seen"], c["reason"])
            for c in self.report["checks"]
            if c["check_id"] == check_id
        }

    @property
    def failed(self) -> set[tuple[str, str]]:
        """(check, node) of everything that failed."""
        return {(c["check_id"], c["node"]) for c in self.report["checks"] if c["status"] == "FAIL"}


def check(lab: LabState, out: Path, *words: str) -> Ended:
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "check",
        "-i",
        f"lab:{lab.name}",
        "-p",
        "tcp",
        "--out",
        str(out),
        *words,
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    kept = (out / "latest").resolve() / "check.json"
    return Ended(
        done.returncode,
        done.stdout,
        done.stderr,
        json.loads(kept.read_text()) if kept.exists() else None,
    )


def shim(lab: LabState, position: int, name: str, text: str) -> None:
    """A program of the node's own, first on its PATH."""
    path = files.node_directory(lab, lab.nodes[position]) / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def gpus(lab4: LabState) -> Iterator[LabState]:
    """Four nodes with two H100 each; afterwards they have none again."""
    for position in range(4):
        shim(lab4, position, "nvidia-smi", HEALTHY)
    yield lab4
    for node in lab4.nodes:
        for name in ("nvidia-smi", "mpirun", "dmesg"):
            (files.node_directory(lab4, node) / "bin" / name).unlink(missing_ok=True)
        for name in (".bashrc", ".profile"):
            (files.node_directory(lab4, node) / "home" / name).unlink(missing_ok=True)


def test_healthy_nodes_pass_and_nothing_fails(gpus: LabState, tmp_path: Path) -> None:
    ended = check(gpus, tmp_path)
    # A kernel that lets nobody raise the limit of locked memory leaves the nodes a small one: a real,
    # advisory failure of these nodes.
    small = {("os.limits.memlock", node.name) for node in gpus.nodes}
    assert (ended.exit_status, ended.report["verdict"], ended.failed) in (
        (0, "PASS", set()),
        (0, "WARN", small),
    ), ended
    assert ended.of("gpu.count") == {
        f"node{i}": ("PASS", "2 x NVIDIA H100 80GB HBM3", "") for i in range(1, 5)
    }
    assert ended.of("cross.driver") == {
        f"node{i}": ("PASS", "2 x 550.54.14", "") for i in range(1, 5)
    }
    assert ended.out.splitlines()[-1].startswith(f"busbw: CHECK {ended.report['verdict']} ")


def test_a_missing_gpu_and_an_odd_driver_are_named_with_their_nodes(
    gpus: LabState, tmp_path: Path
) -> None:
    shim(gpus, 1, "nvidia-smi", SHIM.format(driver="550.54.14", gpus="0", head=HEAD))
    shim(gpus, 2, "nvidia-smi", SHIM.format(driver="535.161.08", gpus="0 1", head=HEAD))
    ended = check(gpus, tmp_path)
    assert ended.exit_status == 1
    assert ended.failed - {("os.limits.memlock", n.name) for n in gpus.nodes} == {
        ("gpu.count", "node2"),
        ("cross.gpu_model", "node2"),
        # node2 has the driver of the others, on one GPU fewer: no odd driver.
        ("cross.driver", "node3"),
    }
    assert "✖ fail  gpu.count  node2" in ended.out


def test_a_tool_that_hangs_costs_its_own_limit_once_and_its_node_says_so(
    gpus: LabState, tmp_path: Path
) -> None:
    shim(gpus, 2, "nvidia-smi", "#!/bin/sh\nexec sleep 300\n")
    ended = check(gpus, tmp_path)
    assert ended.exit_status == 3, ended
    assert ended.of("gpu.count") == {
        "node1": ("PASS", "2 x NVIDIA H100 80GB HBM3", ""),
        "node2": ("PASS", "2 x NVIDIA H100 80GB HBM3", ""),
        "node3": ("UNKNOWN", "timed out", "nvidia-smi -L did not end within its time limit"),
        "node4": ("PASS", "2 x NVIDIA H100 80GB HBM3", ""),
    }
    # Everything after the hanging tool was still asked.
    assert {status for status, _, _ in ended.of("sw.mpirun").values()} == {"PASS"}
    (index,) = tmp_path.glob("latest/raw/preflight.json")
    seconds = {e["node"]: e["seconds"] for e in json.loads(index.read_text())["entries"]}
    assert seconds["node3"] < 60, "nvidia-smi is asked nine times; it hangs once"


def test_a_tool_that_prints_megabytes_is_cut_and_the_node_is_otherwise_complete(
    gpus: LabState, tmp_path: Path
) -> None:
    shim(gpus, 0, "nvidia-smi", "#!/bin/sh\nexec yes 'all work and no play'\n")
    ended = check(gpus, tmp_path)
    assert ended.of("gpu.count")["node1"] == (
        "UNKNOWN",
        "output truncated",
        "nvidia-smi -L printed more than 256 KiB; the rest was not read",
    )
    assert {status for status, _, _ in ended.of("sw.mpirun").values()} == {"PASS"}
    assert ended.of("gpu.count")["node2"][0] == "PASS"


def test_noise_of_a_login_shell_changes_no_answer(gpus: LabState, tmp_path: Path) -> None:
    home = files.node_directory(gpus, gpus.nodes[3]) / "home"
    for name in (".bashrc", ".profile"):
        (home / name).write_text("echo 'Welcome! Quota: 93 %'; echo 'module: not found' >&2\n")
    ended = check(gpus, tmp_path)
    assert (
        ended.exit_status,
        ended.of("gpu.count")["node4"][0],
        ended.of("sw.mpirun")["node4"][0],
    ) == (0, "PASS", "PASS"), ended


def test_a_node_that_dies_half_way_keeps_its_output_and_the_others_are_complete(
    gpus: LabState, tmp_path: Path
) -> None:
    # The shell that runs the script ends, as it does when the node goes down: everything from here
    # on is missing.
    shim(gpus, 1, "dmesg", KILL_SCRIPT)
    ended = check(gpus, tmp_path)
    assert ended.exit_status == 3, ended
    assert ended.of("gpu.count")["node2"] == ("PASS", "2 x NVIDIA H100 80GB HBM3", "")
    status, found, reason = ended.of("sw.mpirun")["node2"]
    assert (status, found) == ("UNKNOWN", "no answer")
    assert reason, "it says what happened"
    assert {ended.of("sw.mpirun")[name][0] for name in ("node1", "node3", "node4")} == {"PASS"}


KILL_SCRIPT = """#!/bin/sh
p=$PPID
while [ "$p" -gt 1 ]; do
  case $(tr '\\0' ' ' </proc/$p/cmdline) in "sh -s "*) kill -9 "$p"; break;; esac
  p=$(awk '/^PPid:/ {print $2}' /proc/$p/status)
done
"""
