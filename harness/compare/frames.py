"""Run directories as pandas DataFrames, for notebooks and for files that other tools read.

Column names carry their units (`time_us`, `busbw_gb_s`, `size_bytes`); a missing value was not
measured.
"""

from __future__ import annotations

import glob
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.codec import parse_json
from busbw.compare import accepted
from busbw.errors import RunDirError, UsageError
from busbw.model import RunResult
from busbw.reports import csv
from busbw.reports.safe import csv_cell
from busbw.store.run_directory import RunDir

if TYPE_CHECKING:
    import pandas as pd

CASES = (
    *("run", "started", "playbook", "profile", "emulated", "verdict", "accepted"),
    *("case", "purpose", "collective", "required", "state", "reason"),
    *("exit_status", "duration_s", "nodes"),
)
FINDINGS = (
    *("run", "started", "id", "state", "confidence", "required", "effect_ratio"),
    *("where", "title", "cause"),
)


@dataclass(frozen=True, slots=True)
class Frames:
    """What some runs measured and found."""

    cases: pd.DataFrame
    """One row per case of a run: `CASES`."""
    rows: pd.DataFrame
    """One row per size of every table: the columns of `busbw report --csv`."""
    findings: pd.DataFrame
    """One row per finding: `FINDINGS`; `where` joins its nodes, ranks and links with commas."""


def load(pattern: str | Path) -> Frames:
    """The finished runs that a path or a glob names (`runs/*`), oldest first.

    Raises:
        UsageError: it names no run directory with a result.
        RunDirError: a `run.json` is not readable, or another version wrote it.
    """
    import pandas as pd

    paths = [Path(path) for path in glob.glob(str(pattern))]
    runs = sorted({path.resolve() for path in paths if (path / "run.json").is_file()})
    if not runs:
        raise UsageError(
            f"{pattern}: no run directory with a run.json",
            seen=f"{len(paths)} paths",
            next_step='name run directories, such as busbw.load("runs/*")',
        )
    results = [(run, _result(run)) for run in map(RunDir, runs)]
    cases = [row for run, result in results for row in _cases(run, result)]
    rows = [row for _, result in results for row in csv.records(result)]
    findings = [row for _, result in results for row in _findings(result)]
    return Frames(
        pd.DataFrame(cases, columns=list(CASES)),
        pd.DataFrame(rows, columns=list(csv.COLUMNS)),
        pd.DataFrame(findings, columns=list(FINDINGS)),
    )


def _result(run: RunDir) -> RunResult:
    content = run.read_derived("run.json")
    return parse_json(content, RunResult, f"{run.path}/run.json", error=RunDirError)


def _cases(run: RunDir, result: RunResult) -> Iterator[tuple[object, ...]]:
    is_accepted = accepted.standing(run) is not None
    for outcome in result.cases:
        case = outcome.case
        yield (
            *(result.run_id, result.started, result.playbook, result.profile),
            *(bool(result.emulated), result.verdict.value, is_accepted),
            *(case.id, case.purpose, case.collective.value, case.required),
            *(outcome.status.value, outcome.reason, outcome.exit_status, outcome.seconds),
            len(outcome.nodes),
        )


def _findings(result: RunResult) -> Iterator[tuple[object, ...]]:
    for finding in result.findings:
        yield (
            *(result.run_id, result.started, finding.id, finding.status.value),
            *(finding.confidence.value, finding.required, finding.effect or None),
            *(", ".join(finding.where), finding.title, finding.cause),
        )


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or, with pyarrow installed, as Parquet; the suffix decides.

    Raises:
        UsageError: another suffix, pyarrow is missing, or the disk refused the file.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise UsageError(
            f"{path}: expected a file that ends in .csv or .parquet",
            next_step=f"--frame {path.with_suffix('.csv')}",
        )
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"{path}: Parquet needs pyarrow, which is not installed",
            seen="no module pyarrow",
            next_step=f"pip install pyarrow, or --frame {path.with_suffix('.csv')}",
        )
    try:
        if path.suffix == ".csv":
            # A spreadsheet must not run a cell that begins like a formula.
            texts = frame.select_dtypes(["object", "string"]).columns
            safe = frame.assign(**{name: frame[name].map(csv_cell) for name in texts})
            safe.to_csv(path, index=False, lineterminator="\r\n")
        else:
            frame.to_parquet(path, index=False)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}",
            next_step="give a file in a folder that can be written to",
        ) from error
