"""Run directories as pandas DataFrames, for notebooks and for files that other tools read.

Column names carry their units (`time_us`, `busbw_gb_s`, `size_bytes`); a missing value was not
measured. Names and types of the columns are the schema: what changes them changes `SCHEMA`.
"""

from __future__ import annotations

import glob
import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.codec import dump_json
from busbw.compare import accepted
from busbw.errors import BusbwError, RunDirError, UsageError
from busbw.inventory import fold
from busbw.model import RunResult, Status
from busbw.reports import csv, lead
from busbw.reports.groups import measured_groups
from busbw.reports.safe import csv_cell
from busbw.store.concluded import result_of
from busbw.store.run_directory import RunDir

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "busbw.frames/1"
_TEXT, _WHOLE, _NUMBER, _YES_NO = "string", "Int64", "float64", "boolean"
_RUN = {"run": _TEXT, "started": _TEXT}
CASES = _RUN | {
    "playbook": _TEXT,
    "profile": _TEXT,
    "emulated": _YES_NO,
    "verdict": _TEXT,
    "accepted": _YES_NO,
    "case": _TEXT,
    "purpose": _TEXT,
    "collective": _TEXT,
    "required": _YES_NO,
    "state": _TEXT,
    "reason": _TEXT,
    "exit_status": _WHOLE,
    "duration_s": _NUMBER,
    "nodes": _WHOLE,
}
_TYPES_OF_ROWS = {
    "nodes": _WHOLE,
    "ranks": _WHOLE,
    "repetition": _WHOLE,
    "size_bytes": _WHOLE,
    "root": _WHOLE,
    "out_of_place_wrong": _WHOLE,
    "in_place_wrong": _WHOLE,
    "ratio": _NUMBER,
}
ROWS = {
    name: _NUMBER if name.endswith(("_us", "_gb_s")) else _TYPES_OF_ROWS.get(name, _TEXT)
    for name in csv.COLUMNS
}
GROUPS = _RUN | {
    "case": _TEXT,
    "survey": _YES_NO,
    "medium": _TEXT,
    "nodes": _TEXT,
    "node_count": _WHOLE,
    "size_bytes": _WHOLE,
    "busbw_gb_s": _NUMBER,
    "half_interval_gb_s": _NUMBER,
    "launches": _WHOLE,
    "launches_below": _WHOLE,
    "reference": _TEXT,
    "reference_busbw_gb_s": _NUMBER,
    "limit_gb_s": _NUMBER,
    "ratio": _NUMBER,
    "state": _TEXT,
    "reason": _TEXT,
}
NODES = _RUN | {
    "node": _TEXT,
    "reached": _YES_NO,
    "measured": _YES_NO,
    "reason": _TEXT,
    "checks_pass": _WHOLE,
    "checks_warn": _WHOLE,
    "checks_fail": _WHOLE,
    "checks_unknown": _WHOLE,
    "blame": _TEXT,
    "capacity_gb_s": _NUMBER,
    "expected_gb_s": _NUMBER,
    "findings": _TEXT,
}
FINDINGS = _RUN | {
    "id": _TEXT,
    "state": _TEXT,
    "confidence": _TEXT,
    "required": _YES_NO,
    "effect_ratio": _NUMBER,
    "where": _TEXT,
    "title": _TEXT,
    "cause": _TEXT,
}
TABLES = {"cases": CASES, "rows": ROWS, "groups": GROUPS, "nodes": NODES, "findings": FINDINGS}
"""Table → its columns in order, each with its pandas type."""
_COUNTED = (Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A run directory that is in none of the tables."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Frames:
    """What some runs measured and found. Every table also has `schema` in its `attrs`."""

    cases: pd.DataFrame
    """One row per case of a run: `CASES`."""
    rows: pd.DataFrame
    """One row per size of every table: `ROWS`, the columns of `busbw report --csv`."""
    groups: pd.DataFrame
    """One row per group of nodes and size with the reference it was compared with, if any: `GROUPS`;
    `survey` = it was measured to find who is slow."""
    nodes: pd.DataFrame
    """One row per node of a run, unreachable and excluded ones included: `NODES`. `blame` is the
    state of what is blamed on that node, `capacity_gb_s` what that was seen to carry."""
    findings: pd.DataFrame
    """One row per finding: `FINDINGS`; `where` joins its nodes, ranks and links with commas."""
    unreadable: tuple[Unreadable, ...] = ()
    """Runs that could not be read, each with the reason; () = all are in the tables."""
    schema: str = field(default=SCHEMA)


def load(*patterns: str | Path) -> Frames:
    """The runs that paths or globs name (`runs/*`), oldest first. A run that did not end, is
    damaged, or was written by another version is listed in `unreadable`.

    Raises:
        UsageError: they name no run directory.
        RunDirError: not one of the runs is readable.
    """
    return tables(*results(*patterns))


def results(
    *patterns: str | Path,
) -> tuple[tuple[tuple[RunDir, RunResult], ...], tuple[Unreadable, ...]]:
    """The runs of `load`, each with what it concluded, and those that could not be read.

    Raises:
        UsageError, RunDirError: as `load`.
    """
    paths = [Path(path) for pattern in patterns for path in glob.glob(str(pattern))]
    runs = sorted({path.resolve() for path in paths if _is_run(path)})
    if not runs:
        raise UsageError(
            f"{' '.join(map(str, patterns))}: no run directory",
            seen=f"{len(paths)} paths",
            next_step="name the folders that busbw run made, such as 'runs/*'; saved outputs: busbw read --csv FILE",
        )
    readable, unreadable = [], []
    for run in map(RunDir, runs):
        try:
            readable.append((run, _result(run)))
        except BusbwError as error:
            unreadable.append(Unreadable(str(run.path), error.what.splitlines()[0]))
    if not readable:
        raise RunDirError(
            f"none of {len(runs)} runs can be read: {unreadable[0].reason}",
            seen=unreadable[0].path,
            next_step=f"busbw report {unreadable[0].path}",
        )
    readable.sort(key=lambda each: (each[1].started, each[1].run_id))
    return tuple(readable), tuple(unreadable)


def tables(
    results: tuple[tuple[RunDir, RunResult], ...], unreadable: tuple[Unreadable, ...]
) -> Frames:
    """The tables of `results`."""
    frames = (
        _frame(CASES, (row for run, result in results for row in _cases(run, result))),
        _frame(ROWS, (row for _, result in results for row in csv.records(result))),
        _frame(GROUPS, (row for _, result in results for row in _groups(result))),
        _frame(NODES, (row for _, result in results for row in _nodes(result))),
        _frame(FINDINGS, (row for _, result in results for row in _findings(result))),
    )
    return Frames(*frames, unreadable=unreadable)


def _is_run(path: Path) -> bool:
    """Not the folder of a check (`check.json`, `links.json` …) or of a sampled job, which stand
    beside runs."""
    if (path / "run.json").is_file():
        return True
    if not (path / "raw").is_dir() or (path / "raw" / "live.json").is_file():
        return False
    return not any(path.glob("*.json"))


def _result(run: RunDir) -> RunResult:
    """What the run concluded.

    Raises:
        RunDirError: it has no `run.json`, or one that is not readable.
    """
    try:
        return result_of(run, f"{run.path}/run.json")
    except FileNotFoundError as error:
        raise RunDirError("no run.json: the run did not end") from error


def _frame(columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> pd.DataFrame:
    """A table with the types of its columns, also where it has no row."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object).astype(dict(columns))
    frame.attrs["schema"] = SCHEMA
    return frame


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


def _groups(result: RunResult) -> Iterator[tuple[object, ...]]:
    for comparison in result.comparisons:
        limit, medium, reference = comparison.limit, comparison.medium, comparison.reference
        yield (
            *(result.run_id, result.started, comparison.case_id),
            lead.is_survey(lead.outcome_of(result, comparison.case_id)),
            medium.value if medium is not None else None,
            *(fold(comparison.nodes), len(comparison.nodes), comparison.size_bytes),
            *(comparison.measured_gb_s, comparison.half_interval_gb_s),
            *(comparison.launches, comparison.launches_below),
            *(reference.kind, reference.busbw_gb_s, limit.value_gb_s if limit else None),
            *(comparison.ratio, comparison.status.value, comparison.reason),
        )
    compared = {comparison.case_id for comparison in result.comparisons}
    for group in measured_groups(result):
        # A pair that is alone in its launch, as each is of three nodes, has nothing beside it.
        if group.case_id not in compared:
            yield (
                *(result.run_id, result.started, group.case_id, True),
                group.medium.value if group.medium is not None else None,
                *(fold(group.nodes), len(group.nodes), group.size_bytes, group.busbw_gb_s),
                *(None, 1, None, None, None, None, None, None),
                "alone in its launch",
            )


def _nodes(result: RunResult) -> Iterator[tuple[object, ...]]:
    gone = {each.node: each.reason for each in result.unreachable}
    answers: dict[str, Counter[Status]] = {}
    for check in result.checks:
        answers.setdefault(check.node, Counter())[check.status] += 1
    known = {*result.nodes, *gone, *answers} - {""}
    blamed = {name: each for each in result.blame for name in each.component.nodes}
    for node in sorted(known):
        blame, count = blamed.get(node), answers.get(node, Counter())
        named = [f.id for f in result.findings if node in _names(f.where)]
        yield (
            *(result.run_id, result.started, node, node not in gone),
            *(node in result.nodes and node not in gone, gone.get(node)),
            *(count[status] for status in _COUNTED),
            blame.state.value if blame else None,
            blame.capacity_gb_s if blame else None,
            blame.expected_gb_s if blame else None,
            ", ".join(dict.fromkeys(named)) or None,
        )


def _names(where: tuple[str, ...]) -> set[str]:
    """The nodes of the places that a finding names: `node3 rail 2` is of node3."""
    return {place.partition(" ")[0] for place in where}


def _findings(result: RunResult) -> Iterator[tuple[object, ...]]:
    for finding in result.findings:
        yield (
            *(result.run_id, result.started, finding.id, finding.status.value),
            *(finding.confidence.value, finding.required, finding.effect or None),
            *(", ".join(finding.where), finding.title, finding.cause),
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    """pandas' name of it: `string`, `Int64`, `float64`, `boolean`."""


@dataclass(frozen=True, slots=True)
class Table:
    """One file of an export."""

    file: str
    rows: int
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """`frames.json`: what lies beside it."""

    schema: str
    tables: tuple[Table, ...]
    unreadable: tuple[Unreadable, ...]


def save(frames: Frames, folder: Path, suffix: str) -> Contents:
    """Write every table as `folder/NAME.SUFFIX`, and `folder/frames.json` with schema, columns and
    what could not be read. Files of these names are replaced.

    Raises:
        UsageError: pyarrow is missing, or the disk refused a file.
    """
    tables = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error
    for name, columns in TABLES.items():
        frame: pd.DataFrame = getattr(frames, name)
        file = f"{name}{suffix}"
        write(frame, folder / file)
        kinds = tuple(Column(column, kind) for column, kind in columns.items())
        tables.append(Table(file, len(frame), kinds))
    contents = Contents(frames.schema, tuple(tables), frames.unreadable)
    try:
        (folder / "frames.json").write_text(dump_json(contents), encoding="utf-8")
    except OSError as error:
        raise _refused(folder / "frames.json", error) from error
    return contents


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
            next_step=f"pip install pyarrow, or write {path.with_suffix('.csv').name}",
        )
    try:
        if path.suffix == ".csv":
            # A spreadsheet must not run a cell that begins like a formula.
            texts = frame.select_dtypes(["object", "string"]).columns
            cells = {name: frame[name].map(csv_cell, na_action="ignore") for name in texts}
            frame.assign(**cells).to_csv(path, index=False, lineterminator="\r\n")
        else:
            frame.to_parquet(path, index=False)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path}: {error.strerror or error}",
        next_step="give a place that can be written to",
    )
