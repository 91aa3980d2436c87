"""Trap: the launches use four of eight GPUs of every node, consistently. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, proof_lines, table


def test_fewer_ranks_a_node_than_gpus(run: Recording, tmp_path: Path) -> None:
    for case in run.book().cases:
        text = table(case, per_node=4)
        head = proof_lines(run) if case.purpose == "proof" else ""
        run.table(case.id, head + text)
        run.outcome(case.id, ranks_per_node=4)
    caught(run.judged(tmp_path), "4 of 8 GPUs")
