"""The bench of the lab's faults: when a fault that comes and goes is switched."""

from __future__ import annotations

import json
import random
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "bench/fault_matrix.py"), run_name="bench")
)
STEPS = (
    "survey",
    "survey-alone",
    "survey-pairs-1",
    "survey-pairs-1",
    "survey-pairs-2",
    "survey",
    "survey-whole",
    "survey-rest",
    "survey-confirm-again-1",
)


def test_each_launch_of_pairs_and_of_a_confirmation_is_one_moment_for_a_fault() -> None:
    events = "".join(json.dumps({"step": step, "kind": "note"}) + "\n" for step in STEPS)
    cut = events + '{"step": "survey-re'
    assert BENCH.launches_begun(cut) == (
        "survey-pairs-1",
        "survey-pairs-2",
        "survey-whole",
        "survey-rest",
        "survey-confirm-again-1",
    )


def test_a_rail_that_flickers_is_slow_in_every_third_launch_of_whatever_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    faults = BENCH.faults
    monkeypatch.setattr(faults, "slow", lambda *words: calls.append("slow"))
    monkeypatch.setattr(faults, "clear", lambda lab: calls.append("clear"))
    flicker = BENCH.trouble("flicker", random.Random(1), BENCH.Size(4, 2))
    launched = ("survey-pairs-1", "survey-pairs-2", "survey-pairs-3", "survey-whole", "survey-rest")
    for number, step in enumerate(launched, 1):
        flicker.at_launch(None, step, number)
    assert calls == ["slow", "clear", "clear", "slow", "clear"]


def test_a_process_is_hit_in_the_second_launch_of_pairs_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hit: list[str] = []
    struck = BENCH.trouble("kill", random.Random(1), BENCH.Size(4, 2))
    globals_of = struck.at_launch.__globals__
    monkeypatch.setitem(globals_of, "_when_running", lambda lab, step, strike: hit.append(step))
    for number, step in enumerate(("survey-pairs-1", "survey-pairs-2", "survey-whole"), 1):
        struck.at_launch(None, step, number)
    assert hit == ["survey-pairs-2"]


@pytest.mark.parametrize(
    ("where", "result"), [(["node2"], "right"), (["node1", "node2"], "nothing"), ([], "nothing")]
)
def test_a_cpu_limit_counts_as_named_by_the_counters_of_one_node(
    tmp_path: Path, where: list[str], result: str
) -> None:
    stopped = {"id": "cpu-throttled", "status": "WARN", "where": where, "evidence": []}
    run = {
        "cases": [{"case": {"role": "pairs"}}],
        "blame": [],
        "findings": [stopped] if where else [],
        "verdict": "WARN",
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    fault = BENCH.Trouble(("node2",), lambda lab: None)
    assert BENCH.judged(tmp_path / "run.json", fault)["result"] == result
    wrong = BENCH.Trouble(("node3",), lambda lab: None)
    found = BENCH.judged(tmp_path / "run.json", wrong)["result"]
    assert found == ("wrong" if where == ["node2"] else "nothing")
