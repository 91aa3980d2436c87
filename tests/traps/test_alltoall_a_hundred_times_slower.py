"""Trap: alltoall gives 0.5 GB/s, everything else is healthy. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, summary, table

from busbw.model import Status


def test_alltoall_a_hundred_times_slower(run: Recording, tmp_path: Path) -> None:
    run.table("alltoall", table(case_of(run, "alltoall"), share=0.01))
    result = run.judged(tmp_path)
    caught(result, "alltoall")
    assert result.verdict is Status.FAIL, summary(result)
