"""Trap: the NICs of all nodes have firmware 28.39.1002, 28.40 or later is specified. It must come to
FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, specified


def test_one_firmware_older_everywhere(run: Recording, tmp_path: Path) -> None:
    specified(run, nic_firmware=">= 28.40.1000")
    caught(run.judged(tmp_path), "spec.version", "nic_firmware", "28.39.1002", "28.40.1000")
