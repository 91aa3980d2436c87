"""Trap: every port of every node trained at 200 Gb/s, 400 are specified. It must come to FAIL, and
the limit stays that of 400 Gb/s."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, on_every_node, specified


def test_all_nics_at_half_rate(run: Recording, tmp_path: Path) -> None:
    limits = _limits(run, tmp_path / "healthy")
    specified(run, nics="8", nic_rate="400")
    on_every_node(run, "rate 400 Gb/sec (4X NDR)", "rate 200 Gb/sec (4X HDR)")
    caught(run.judged(tmp_path), "spec.nic", "nic_rate", "200 Gb/s", "mlx5_[0-7]", "400 Gb/s")
    assert limits
    assert _limits(run, tmp_path / "half") == limits


def _limits(run: Recording, out: Path) -> list[float]:
    out.mkdir()
    comparisons = run.judged(out).comparisons
    return [each.limit.value_gb_s for each in comparisons if each.limit is not None]
