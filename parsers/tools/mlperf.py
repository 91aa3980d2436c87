"""What training benchmarks log by MLPerf's rules (mlperf_logging 0.7 to 5.1): when the run began and
ended, how, and what accuracy it reached."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.logs.json_values import integer, mapping, text_of
from busbw.parsers.tools import Tool

_LINE = re.compile(r":::MLLOG (\{[^\n]{0,4000})")
_WANTED = re.compile(r'"key": ?"(?:submission_benchmark|run_start|run_stop|eval_accuracy)"')
_MOST_RUNS = 1024


@dataclass(frozen=True, slots=True)
class MlperfRun:
    """One run of a benchmark."""

    benchmark: str | None
    started_ms: int | None
    ended_ms: int | None
    """None = the text ends before."""
    status: str
    """`success`, `aborted`…; "" = it did not end."""
    accuracy: str
    """The last one evaluated; "" = none."""


def parse(text: str) -> tuple[MlperfRun, ...]:
    """The runs in a text.

    >>> parse(':::MLLOG {"time_ms": 5, "key": "run_stop", "value": null, "metadata": {"status": "aborted"}}')[0].status
    'aborted'
    """
    runs: list[MlperfRun] = []
    benchmark, started, accuracy, ended = None, None, "", False
    for match in _LINE.finditer(text):
        if not _WANTED.search(match[1]):
            continue
        entry = _entry(match[1])
        key, time_ms = text_of(entry, "key"), integer(entry, "time_ms")
        if key == "submission_benchmark":
            benchmark = text_of(entry, "value")
        elif key == "run_start" and started is None:
            # Each process may log its own; one start is the run's.
            started, ended = time_ms, False
        elif key == "eval_accuracy":
            accuracy = str(entry.get("value"))[:40]
        elif key == "run_stop" and not ended and len(runs) < _MOST_RUNS:
            status = text_of(mapping(entry.get("metadata")), "status") or "not known"
            runs.append(MlperfRun(benchmark, started, time_ms, status, accuracy))
            started, accuracy, ended = None, "", True
    if started is not None or _is_torn(text):
        runs.append(MlperfRun(benchmark, started, None, "", accuracy))
    return tuple(runs)


def _is_torn(text: str) -> bool:
    """Whether the last line is cut off."""
    begin = text.rfind(":::MLLOG ")
    end = text.find("\n", begin)
    return end < 0 and begin >= 0 and not _entry(text[begin + len(":::MLLOG ") :])


def _entry(text: str) -> dict[str, object]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return mapping(value)


def _lines(run: MlperfRun) -> Iterator[str]:
    name = run.benchmark or "a run"
    took = ""
    if run.started_ms is not None and run.ended_ms is not None:
        took = f" in {(run.ended_ms - run.started_ms) / 60000:.3g} minutes"
    reached = f", accuracy {run.accuracy}" if run.accuracy else ""
    yield f"{name}: {run.status or 'no end'}{took}{reached}"


def _errors(run: MlperfRun) -> Iterator[str]:
    if run.status not in ("", "success"):
        yield f"MLPerf: {run.benchmark or 'a run'}: run_stop with status {run.status}"


def _gaps(run: MlperfRun) -> Iterator[str]:
    if run.ended_ms is None:
        yield f"MLPerf: {run.benchmark or 'a run'} has no run_stop"


TOOL = Tool(
    name="MLPerf log",
    marks=(":::MLLOG ",),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
    needs=('"run_st(?:art|op)"', '"key"'),
)
