"""Runs over time: an index in SQLite beside the run directories. They are the truth; the index can
be deleted at any time and is made anew.

Safe with several runs at once and after `kill -9`: every use is one transaction that has the index
for itself from its first statement on, and what is missing is read again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.compare import accepted, comparable
from busbw.errors import BusbwError, RunDirError
from busbw.files import why_irregular
from busbw.inventory.hostlist import expand
from busbw.model.history import ComparableRun
from busbw.store.concluded import result_of
from busbw.store.run_directory import RunDir

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from busbw.parsers.nccl_tests.groups import GroupSample

FILE = "history.sqlite"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, run TEXT UNIQUE NOT NULL, stamp INTEGER NOT NULL, started TEXT NOT NULL, verdict TEXT NOT NULL, accepted INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS kinds (
  id INTEGER PRIMARY KEY, collective TEXT NOT NULL, size_bytes INTEGER NOT NULL, options TEXT NOT NULL, regime TEXT NOT NULL,
  UNIQUE (collective, size_bytes, options, regime)
);
CREATE TABLE IF NOT EXISTS numbers (
  kind INTEGER NOT NULL, run INTEGER NOT NULL, busbw_gb_s REAL NOT NULL, launches INTEGER NOT NULL, PRIMARY KEY (kind, run)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS numbers_of_a_run ON numbers (run);
"""
_VERSION = 1
_BUSY_S = 120.0
"""How long one command waits for another that reads many new runs."""

ROLLING = 7
"""Runs before a run that give its rolling median."""
_FEWEST = 3
DEVIATIONS = 4.0
"""Robust deviations from the rolling median from which a run is an outlier."""
FLOOR = 0.03
"""A smaller change is no outlier."""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One number of one run."""

    run_id: str
    started: str
    verdict: str
    accepted: bool
    busbw_gb_s: float
    """Median of its launches."""
    launches: int
    rolling_median_gb_s: float | None
    """Of the `ROLLING` runs before it; None = fewer than three."""
    outlier: bool
    """Differs from the runs before it by more than their scatter and the floor."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One number over all runs, oldest first."""

    collective: str
    size_bytes: int
    options: str
    regime: str
    points: tuple[TrendPoint, ...]


class History:
    """The index of one folder of run directories."""

    def __init__(self, root: Path) -> None:
        """`root`: where the run directories are."""
        self.root = root

    def refresh(self) -> tuple[str, ...]:
        """Read what is new or changed, forget what is gone; returns what could not be read, in
        words.

        Raises:
            RunDirError: the index cannot be written.
        """
        problems = []
        with self._open() as index:
            known = dict(index.execute("SELECT run, stamp FROM runs"))
            there = _stamps(self.root)
            for gone in set(known) - set(there):
                _forget(index, gone)
            for name, stamp in there.items():
                if known.get(name) == stamp:
                    continue
                if not _is_text(name):
                    problems.append(f"{name}: its name is no UTF-8")
                    continue
                try:
                    _store(index, RunDir(self.root / name), stamp)
                except BusbwError as error:
                    problems.append(f"{name}: {error.what.splitlines()[0]}")
                    _forget(index, name)
        return tuple(problems)

    def table(self) -> pd.DataFrame:
        """A row per number of every run: the most measured number first, its runs by time."""
        import pandas as pd

        query = (
            "SELECT runs.run, started, verdict, accepted, collective, size_bytes, options, regime,"
            " busbw_gb_s, launches FROM numbers JOIN kinds ON kind = kinds.id"
            " JOIN runs ON runs.id = numbers.run"
        )
        with self._open() as index:
            frame = pd.DataFrame(index.execute(query).fetchall(), columns=list(_COLUMNS))
        runs = frame.groupby(_KIND)["run"].transform("size")
        return (
            frame.assign(accepted=frame["accepted"].astype(bool), runs=runs)
            .sort_values(list(_ORDER), ascending=list(_ORDER.values()), ignore_index=True)
            .drop(columns="runs")
        )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction; never in a file that a link leads to."""
        for name in (FILE, f"{FILE}-journal", f"{FILE}-wal", f"{FILE}-shm"):
            with contextlib.suppress(FileNotFoundError):
                if why := why_irregular((self.root / name).lstat(), None):
                    raise self._refused(f"{name} is {why}, not a regular file")
        try:
            index = sqlite3.connect(self.root / FILE, timeout=_BUSY_S, isolation_level=None)
        except sqlite3.Error as error:
            raise self._refused(error) from error
        try:
            with index:
                # A transaction that begins with reading and then writes does not wait for another
                # writer: SQLite ends it at once with "database is locked".
                index.execute("BEGIN IMMEDIATE")
                _prepare(index)
                yield index
        except sqlite3.Error as error:
            raise self._refused(error) from error
        finally:
            index.close()

    def _refused(self, error: sqlite3.Error | str) -> RunDirError:
        return RunDirError(
            f"the index {self.root / FILE} cannot be used",
            seen=str(error),
            next_step=f"rm {self.root / FILE}: it is made anew from the run directories",
        )


def _prepare(index: sqlite3.Connection) -> None:
    """The tables of this version; those of another one are dropped, for they can be made anew."""
    if index.execute("PRAGMA user_version").fetchone()[0] not in (0, _VERSION):
        for name in ("runs", "kinds", "numbers"):
            index.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _SCHEMA.split(";"):
        index.execute(statement)
    index.execute(f"PRAGMA user_version={_VERSION}")


def _stamps(root: Path) -> dict[str, int]:
    """Every run directory with a result, and a stamp that changes when the result or the decision
    about it does; by name.

    Plain texts and no `Path`s: they take three quarters of the time that ten thousand directories
    cost.
    """
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(root) as entries:
        for entry in entries:
            stamp = _stamp(entry.path) if entry.is_dir(follow_symlinks=False) else None
            if stamp is not None:
                found[entry.name] = stamp
    return dict(sorted(found.items()))


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _stamp(run: str) -> int | None:
    """None = it is no run directory, or there is no result yet; 0 = it may not be looked into."""
    try:
        result = os.stat(f"{run}/run.json").st_mtime_ns
        os.stat(f"{run}/raw/plan.json")
    except PermissionError:
        return 0
    except OSError:
        return None
    with contextlib.suppress(OSError):
        result = max(result, os.stat(f"{run}/accepted.json").st_mtime_ns)
    return result


def _store(index: sqlite3.Connection, run: RunDir, stamp: int) -> None:
    result = result_of(run)
    seen = comparable.of_result(result, accepted.standing(run))
    _forget(index, run.run_id)
    row = (run.run_id, stamp, seen.started, seen.verdict, seen.accepted is not None)
    number = index.execute(
        "INSERT INTO runs (run, stamp, started, verdict, accepted) VALUES (?, ?, ?, ?, ?)", row
    ).lastrowid
    regime = regime_text(seen)
    for each in seen.numbers:
        kind = (each.collective, each.size_bytes, each.options, regime)
        index.execute(
            "INSERT OR IGNORE INTO kinds (collective, size_bytes, options, regime) VALUES (?, ?,"
            " ?, ?)",
            kind,
        )
        index.execute(
            "INSERT OR REPLACE INTO numbers SELECT id, ?, ?, ? FROM kinds WHERE collective = ? AND"
            " size_bytes = ? AND options = ? AND regime = ?",
            (number, statistics.median(each.busbw_gb_s), len(each.busbw_gb_s), *kind),
        )


def _forget(index: sqlite3.Connection, run: str) -> None:
    index.execute("DELETE FROM numbers WHERE run = (SELECT id FROM runs WHERE run = ?)", (run,))
    index.execute("DELETE FROM runs WHERE run = ?", (run,))


def regime_text(seen: ComparableRun) -> str:
    """The regime in words: equal where two runs may be compared."""
    regime = seen.regime
    parts = (
        regime.profile,
        f"{regime.nodes} nodes",
        f"{regime.ranks} ranks",
        regime.gpus,
        *(("emulated",) if regime.emulated else ()),
    )
    return ", ".join(parts)


_COLUMNS = (
    *("run", "started", "verdict", "accepted"),
    *("collective", "size_bytes", "options", "regime"),
    *("busbw_gb_s", "launches"),
)
_ORDER = {
    "runs": False,
    "regime": True,
    "collective": True,
    "size_bytes": False,
    "options": True,
    "started": True,
    "run": True,
}
"""Columns by which the table is sorted: is it ascending?"""
_KIND = ["collective", "size_bytes", "options", "regime"]


def with_rolling(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of `History.table` with `rolling_median_gb_s`, `rolling_deviation_gb_s` (robust) and
    `outlier`; missing = fewer than three runs of that number before it."""
    import numpy as np

    def deviation(window: np.ndarray) -> float:
        return float(1.4826 * np.median(np.abs(window - np.median(window))))

    numbers = frame.groupby(_KIND, sort=False)["busbw_gb_s"]
    middle = numbers.transform(lambda s: s.rolling(ROLLING, _FEWEST).median().shift())
    spread = numbers.transform(
        lambda s: s.rolling(ROLLING, _FEWEST).apply(deviation, raw=True).shift()
    )
    limit = np.maximum(DEVIATIONS * spread, FLOOR * middle)
    return frame.assign(
        rolling_median_gb_s=middle,
        rolling_deviation_gb_s=spread,
        outlier=(frame["busbw_gb_s"] - middle).abs() > limit,
    )


def select(
    frame: pd.DataFrame, collective: str | None = None, size_bytes: int | None = None
) -> pd.DataFrame:
    """The numbers of one collective and size; without a size the largest of each collective and
    regime."""
    if collective is not None:
        frame = frame[frame["collective"] == collective]
    if size_bytes is not None:
        return frame[frame["size_bytes"] == size_bytes]
    largest = frame.groupby(["regime", "collective"])["size_bytes"].transform("max")
    return frame[frame["size_bytes"] == largest]


def of_nodes(cases: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """A table as of `History.table` with a number per run and node: the best of its pairs in the
    survey. A slow node has no good pair; the partner of one has another.

    Args:
        cases: of `Frames`, for what a run may be compared with.
        groups: of `Frames`.
    """
    pairs = groups[groups["survey"] & (groups["node_count"] == 2)].dropna(subset=["busbw_gb_s"])
    pairs = pairs.assign(part=pairs["nodes"].map(lambda nodes: list(expand(nodes)))).explode("part")
    pairs["medium"] = pairs["medium"].fillna("network")
    return _best_pairs(cases, pairs)


def of_rails(cases: pd.DataFrame, samples: Mapping[str, Sequence[GroupSample]]) -> pd.DataFrame:
    """The same with a number per run, node and rail, of surveys that measured rail by rail.

    Args:
        samples: run → the groups that it measured.
    """
    import pandas as pd

    started = cases.drop_duplicates("run").set_index("run")["started"]
    rows = []
    for run, measured in samples.items():
        for sample in measured:
            if sample.rail is None or len(sample.nodes) != 2 or not sample.over_network:
                continue
            for node in sample.nodes:
                row = (f"{node} rail {sample.rail}", sample.size_bytes, sample.median_gb_s)
                rows.append((run, started[run], *row, 1, "network"))
    columns = ("run", "started", "part", "size_bytes", "busbw_gb_s", "launches", "medium")
    return _best_pairs(cases, pd.DataFrame(rows, columns=list(columns)))


def _best_pairs(cases: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The best pair of each part (`part`: a node, or a rail of one)."""
    runs = cases.drop_duplicates("run").set_index("run")
    best = (
        pairs.groupby(["run", "started", "part", "size_bytes", "medium"])
        .agg(busbw_gb_s=("busbw_gb_s", "max"), launches=("launches", "max"))
        .reset_index()
    )
    emulated = best["run"].map(runs["emulated"]).map({True: ", emulated", False: ""})
    regime = best["run"].map(runs["profile"]) + ", over " + best["medium"] + emulated
    table = best.assign(
        verdict=best["run"].map(runs["verdict"]),
        accepted=best["run"].map(runs["accepted"]),
        collective=best["part"] + ", best pair:",
        options="survey",
        regime=regime,
    )
    table = table.astype({"size_bytes": int, "launches": int, "busbw_gb_s": float})
    return table.sort_values([*_KIND, "started", "run"], ignore_index=True)[list(_COLUMNS)]


def trends(frame: pd.DataFrame) -> tuple[Trend, ...]:
    """A table of `with_rolling` as records, one per number, in the order of the table."""
    groups = (group for _, group in frame.groupby(_KIND, sort=False))
    return tuple(_trend(group) for group in groups)


def _trend(group: pd.DataFrame) -> Trend:
    collective, size_bytes, options, regime = (group[name].tolist()[0] for name in _KIND)
    return Trend(collective, size_bytes, options, regime, _points(group))


def _points(group: pd.DataFrame) -> tuple[TrendPoint, ...]:
    middle = group["rolling_median_gb_s"].astype(object)
    columns = (
        group["run"],
        group["started"],
        group["verdict"],
        group["accepted"],
        group["busbw_gb_s"],
        group["launches"],
        middle.where(middle.notna(), None),
        group["outlier"],
    )
    values = (column.tolist() for column in columns)
    return tuple(TrendPoint(*row) for row in zip(*values, strict=True))
