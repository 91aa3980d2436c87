"""A latency compared with the accepted runs is shown as a time."""

from __future__ import annotations

from types import SimpleNamespace

from busbw.model.history import Change, Number, NumberShift, Shift
from busbw.reports.sections import compared


def test_latency_since_the_accepted_runs_is_in_microseconds_and_bandwidth_in_gb_s() -> None:
    shift = Shift(Change.INCONCLUSIVE, None, None, None, (1, 1), 1, "one launch")
    small = Number("latency", "all_reduce", "latency", 8, "", (0.000001,), (16300.0,))
    large = Number("all-reduce", "all_reduce", "bandwidth", 1 << 30, "", (370.0,), (5000.0,))
    shifts = (
        NumberShift(small, 0.000001, 0.000001, shift, 7700.0, 16300.0),
        NumberShift(large, 372.0, 370.0, shift, 4900.0, 5000.0),
    )
    diff = SimpleNamespace(against=(), shifts=shifts, machine=(), excluded=())
    shown = compared.view(SimpleNamespace(result=SimpleNamespace(compared=diff)))  # type: ignore[arg-type]
    assert shown is not None
    assert [(row.before, row.now) for row in shown.rows] == [
        ("7.7 ms", "16.3 ms"),
        ("372.0 GB/s", "370.0 GB/s"),
    ]
