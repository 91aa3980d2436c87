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


def test_half_a_rail_is_named_with_both_numbers_of_its_confirmation(rails: LabState, tmp_path: Path) -> None:
    faults.slow(rails, "node3", 20e6, "eth1")
    run = survey(rails, tmp_path)
    assert [(b["kind"], b["component"], b["state"]) for b in run["blame"]] == [("rail", "node3 rail 1", "slow")], run["findings"]
    first = run["findings"][0]
    assert (first["id"], first["where"], run["verdict"]) == ("slow-rail", ["node3 rail 1"], "FAIL")
    texts = [e["text"] for e in first["evidence"]]
    assert any(text.startswith("all 4 nodes in one ring: ") for text in texts), texts
    assert any(text.startswith("without what is accused, 3 nodes in one ring: ") for text in texts), texts
    splits = {c["case"]["split"] for c in run["cases"] if c["case"]["id"].startswith("survey-pairs-")}
    assert splits == {"DIV 2"}, "two ranks of the same rail are a group"


def test_a_slow_path_is_named_as_a_path_and_its_ends_are_cleared(rails: LabState, tmp_path: Path) -> None:
    faults.slow(rails, "node1", 15e6, toward="node4")
    run = survey(rails, tmp_path)
    # On a busy machine the path may stay among what cannot be told apart; nothing else may be named in its place.
    named = [(b["kind"], b["component"]) for b in run["blame"]]
    assert named in ([("link", "node1 – node4")], []), run["findings"]
    if named:
        assert run["findings"][0]["id"] == "slow-path"
    else:
        assert run["verdict"] != "PASS", run["headline"]
