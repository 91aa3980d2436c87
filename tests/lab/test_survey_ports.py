"""A survey in the lab whose nodes' InfiniBand ports count what they send and how long they wait for
credits. Emulated: the links are shaped for real, what the ports count is composed of what the links
carried."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.lab import enter, faults, files, persona
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

PLAYBOOK = Path(__file__).parents[1] / "bench" / "fault_matrix.yaml"
PROFILE = """\
title: Embedded lab, as if its ports carried the data
applies_to: emulated hosts whose invented InfiniBand ports count
inherits: lab
family: {name: ib, data_path: verbs}
"""
MARK = "busbw-test-ports"
COUNTING = """\
cd /sys/class/infiniband/mlx5_0/ports/1/counters || exit
put() { echo "$2" >.next && mv .next "$1"; }
while :; do
  bytes=0
  while read -r name _ _ _ _ _ _ _ _ sent _; do
    case $name in eth*) bytes=$((bytes + sent)) ;; esac
  done </proc/net/dev
  put port_xmit_data $((bytes / 4))
  put port_xmit_packets $((bytes / 4096))
  put port_xmit_wait $((bytes / 4 * WAITS / 100))
  sleep 0.3
done
"""
"""What a port counts: words of four bytes and packets of 4 KiB sent; ticks of waiting, WAITS for a
hundred words."""


def count(lab: LabState, node: str, waits: int) -> None:
    """Let the first adapter of the node count, until the lab ends."""
    loop = COUNTING.replace("WAITS", str(waits))
    script = f"setsid sh -c {shlex.quote(loop)} {MARK} </dev/null >/dev/null 2>&1 &"
    words = ("ssh", "-F", str(files.ssh_config(lab)), node, script)
    subprocess.run(enter.reexec_argv(lab, words), check=True, timeout=60)


def surveyed(lab: LabState, out: Path) -> tuple[set[str], str]:
    """(the suspects, the whole text of the findings)."""
    profile = out / "ports.yaml"
    profile.write_text(PROFILE)
    words = [sys.executable, "-m", "busbw", "run", str(PLAYBOOK), "-i", f"lab:{lab.name}"]
    words += ["-p", str(profile), "--out", str(out), "-q", "--budget", "150s"]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode in (0, 1, 3), done
    run = json.loads((out / "latest" / "run.json").read_text())
    named = {" ".join(each["component"]["names"]) for each in run["blame"]}
    return named, json.dumps(run["findings"])


def test_both_nodes_of_a_leaf_are_named_by_what_their_ports_count(
    lab_factory: Callable[..., LabState], tmp_path: Path
) -> None:
    lab = lab_factory(
        built=True,
        nodes=4,
        rails=2,
        leaves=2,
        rate_bit_s=60e6,
        uplink_rate_bit_s=240e6,
        gpus=2,
        persona=persona.load("h100"),
    )
    for node in ("node3", "node4"):
        faults.slow(lab, node, 30e6)
        count(lab, node, waits=0)
    for node in ("node1", "node2"):
        count(lab, node, waits=50)
    named, findings = surveyed(lab, tmp_path)
    assert named == {"node3", "node4"}
    assert (
        "waited for credits for 0.0% of what it sent, its partners on other leaves 50.0%"
        in findings
    )
