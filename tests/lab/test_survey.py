"""The survey in the lab: a rail, a node and a path are told from each other, and a healthy lab is left alone. The whole matrix is a command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

PLAYBOOK = str(Path(__file__).parents[1] / "bench" / "fault_matrix.yaml")


@pytest.fixture
def rails(lab_factory: Callable[..., LabState]) -> LabState:
    """Four nodes with two rails each on two leaves, every link shaped."""
    return lab_factory(nodes=4, rails=2, leaves=2, rate_bit_s=60e6, uplink_rate_bit_s=240e6, gpus=2)


def survey(lab: LabState, out: Path) -> Any:
    words = [sys.executable, "-m", "busbw", "run", PLAYBOOK, "-i", f"lab:{lab.name}", "--budget", "60s", "--out", str(out), "-q"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1, 3), done
    return json.loads((out / "latest" / "run.json").read_text())


def named_within(lab: LabState, out: Path, wanted: tuple[str, str], tries: int = 3) -> Any:
    """The first survey that names somebody. On a busy machine one may find nothing; none may name anything else."""
    run: Any = None
    for number in range(tries):
        run = survey(lab, out / str(number))
        assert {(b["kind"], b["component"]) for b in run["blame"]} <= {wanted}, run["findings"]
        if run["blame"]:
            break
    assert run["blame"], run["headline"]
    return run


def test_half_a_rail_is_named_with_both_numbers_of_its_confirmation(rails: LabState, tmp_path: Path) -> None:
    faults.slow(rails, "node3", 20e6, "eth1")
    run = named_within(rails, tmp_path, ("rail", "node3 rail 1"))
    assert [b["state"] for b in run["blame"]] == ["slow"]
    first = run["findings"][0]
    assert (first["id"], first["where"], run["verdict"]) == ("slow-rail", ["node3 rail 1"], "FAIL")
    texts = [e["text"] for e in first["evidence"]]
    assert any(text.startswith("all 4 nodes in one ring: ") for text in texts), texts
    assert any(text.startswith("without what is accused, 3 nodes in one ring: ") for text in texts), texts
    splits = {c["case"]["split"] for c in run["cases"] if c["case"]["id"].startswith("survey-pairs-")}
    assert splits == {"DIV 2"}, "two ranks of the same rail are a group"


def test_a_slow_path_is_named_as_a_path_and_its_ends_are_cleared(rails: LabState, tmp_path: Path) -> None:
    faults.slow(rails, "node1", 15e6, toward="node4")
    run = named_within(rails, tmp_path, ("link", "node1 – node4"))
    assert run["findings"][0]["id"] == "slow-path"
