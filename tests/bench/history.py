"""How fast the index of runs answers with 10,000 runs in it: `python tests/bench/history.py [RUNS]`.

The rows are put straight into the index; reading a run directory into it is timed apart, per run.
"""

from __future__ import annotations

import runpy
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from busbw.codec import dump_json
from busbw.compare.history import FILE, History, select, trends, with_rolling
from busbw.store.run_directory import RunDir

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
RUN_COUNT, SIZES = 10_000, 31


def milliseconds(work: Callable[[], object]) -> str:
    """Median of five, of CPU and of wall time."""
    spent = []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        spent.append(((time.process_time() - cpu) * 1000, (time.perf_counter() - wall) * 1000))
    cpus, walls = zip(*spent, strict=True)
    return f"{statistics.median(cpus):.0f} ms of CPU, {statistics.median(walls):.0f} ms"


def main(count: int) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        name = "20261101-000000-day-one"
        (root / name / "raw").mkdir(parents=True)
        RunDir(root / name).write_raw("plan.json", "{}")
        (root / name / "run.json").write_text(dump_json(RUNS.healthy().result))
        history = History(root)
        begun = time.process_time()
        history.refresh()
        print(
            "reading one run directory of 16 nodes into the index:"
            f" {(time.process_time() - begun) * 1000:.0f} ms of CPU"
        )
        with sqlite3.connect(root / FILE) as index:
            runs = [
                (n, f"run-{n}", 0, f"2026-01-01T{n:08d}", "PASS", 0) for n in range(10, count + 10)
            ]
            index.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", runs)
            kinds = [
                (1000 + size, "all_reduce", 8 << size, "-n 20", "infiniband, 16 nodes, 128 ranks")
                for size in range(SIZES)
            ]
            index.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?)", kinds)
            rows = [(kind[0], run[0], 300.0 + run[0] % 7, 5) for run in runs for kind in kinds]
            index.executemany("INSERT INTO numbers VALUES (?, ?, ?, ?)", rows)
        print(
            f"{count:,} runs, {count * SIZES:,} numbers:"
            f" {(root / FILE).stat().st_size / 1e6:.0f} MB"
        )
        table = history.table()
        print(f"  the table of all numbers: {milliseconds(history.table)}")
        largest = select(table, "all_reduce")
        print(f"  one number over all runs: {milliseconds(lambda: trends(with_rolling(largest)))}")
        _directories(root, count)
        print(
            f"  looking for new or changed runs among {count:,} directories:"
            f" {milliseconds(history.refresh)}"
        )


def _directories(root: Path, count: int) -> None:
    """A directory for every run of the index, as the index knows it."""
    with sqlite3.connect(root / FILE) as index:
        for number in range(10, count + 10):
            run = root / f"run-{number}"
            (run / "raw").mkdir(parents=True)
            (run / "raw" / "plan.json").touch()
            (run / "run.json").touch()
            index.execute(
                "UPDATE runs SET stamp = ? WHERE run = ?",
                ((run / "run.json").stat().st_mtime_ns, run.name),
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUN_COUNT)
