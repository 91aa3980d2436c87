"""Trap: all_reduce failed, was resumed and passed. It must come to WARN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, warned


def test_a_retried_launch_that_passes_the_second_time(run: Recording, tmp_path: Path) -> None:
    for name in [name for name in run.files if name.startswith("cases/all-reduce/")]:
        run.files[f"earlier/1/{name}"] = run.files[name]
    run.replace("earlier/1/cases/all-reduce/outcome.json", '"exit_status": 0', '"exit_status": 1')
    warned(run.judged(tmp_path), "all-reduce", "earlier try")
