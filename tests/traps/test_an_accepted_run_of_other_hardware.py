"""Trap: the accepted run is of the same node names with A100 and 200 Gb/s. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, accepted_only, caught


def test_an_accepted_run_of_other_hardware(run: Recording, tmp_path: Path) -> None:
    accepted_only(run, gpus="8 x NVIDIA A100-SXM4-80GB on 4", nics="8 x 200", gb_s=150.0)
    caught(run.judged(tmp_path), "accepted")
