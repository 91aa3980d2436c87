"""Trap: the contract names all_reduce alone; alltoall gives 0.5 GB/s. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, contracted, table

from busbw.playbook.contract import Criterion


def test_a_contract_beside_a_slow_alltoall(run: Recording, tmp_path: Path) -> None:
    run.table("alltoall", table(case_of(run, "alltoall"), share=0.01))
    caught(
        contracted(run, Criterion("C1", "all-reduce", 8 << 30, busbw_gb_s=300.0, trials=1)).judged(
            tmp_path
        ),
        "alltoall",
    )
