"""`make bench-smoke`: every bench has a smallest form, and a bad end is seen as one."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tests/bench"
SMOKE = SimpleNamespace(**runpy.run_path(str(BENCH / "smoke.py")))


def test_every_bench_has_a_smallest_form_in_the_table_and_nothing_else_has() -> None:
    benches = {path.name for path in BENCH.glob("*.py")} - {"smoke.py"}
    assert set(SMOKE.BENCHES) == benches


def test_make_bench_smoke_runs_the_table() -> None:
    assert "bench-smoke:" in (ROOT / "Makefile").read_text()
    assert "tests/bench/smoke.py" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize(
    ("program", "status", "figure", "well"),
    [
        ("print('no figure'); print('took  3 s')", "0", "took 3 s", True),
        ("print('1 s'); raise SystemExit(1)", "1", "1 s", True),
        ("print('1 s'); raise SystemExit(3)", "3 BAD", "1 s", False),
        ("print('1 s'); raise KeyError('gone')", "1 BAD", "KeyError: 'gone'", False),
        ("print('nothing')", "0 BAD", "printed no figure", False),
        ("import time; print('1 s', flush=True); time.sleep(60)", "LIMIT", "", False),
    ],
    ids=["good", "goal missed", "another status", "traceback", "no figure", "hangs"],
)
def test_a_bench_ends_well_only_with_a_good_status_and_a_figure(
    tmp_path: Path, program: str, status: str, figure: str, well: bool
) -> None:
    bench = tmp_path / "bench.py"
    bench.write_text(program)
    limit_s = 3.0 if status == "LIMIT" else 60.0

    ended = SMOKE.outcome(str(bench), SMOKE.Small(limit_s=limit_s, good=(0, 1)))

    assert (ended.status, ended.well) == (status, well)
    assert figure in ended.figure


def test_a_bench_without_its_input_is_skipped_and_says_so() -> None:
    ended = SMOKE.outcome("why.py", SMOKE.Small(needs="no/such/index.yaml"))

    assert (ended.status, ended.figure) == ("skipped", "no/such/index.yaml is not here")


def test_one_bad_end_ends_the_whole_with_1() -> None:
    done = subprocess.run(
        (sys.executable, "-c", CASE, str(BENCH / "smoke.py")),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout.rstrip().endswith("did not end well: gone.py")


CASE = """
import runpy, sys
smoke = runpy.run_path(sys.argv[1])
smoke["BENCHES"]["gone.py"] = smoke["Small"](limit_s=10)
sys.exit(smoke["main"](("gone.py",)))
"""
"""A bench whose file is not there."""
