"""The runs of busbw among what is given to `busbw why`.

A run is read by its result and by what its benchmark printed. The rest of it (plans, events, sources
of the benchmark, answers of the nodes) quotes programs and settings: searched as logs, a good run
would show causes of every kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from busbw import intake
from busbw.units import counted

_RUN_TEXTS = (".out", ".err", ".log", ".txt")
_PLAN, _LIVE, _REPORT = "/raw/plan.json", "/raw/live.json", "/report/run.json"
"""What a run has, a look at a hung job, and the archive of `busbw bundle`."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is read."""

    sources: tuple[intake.Source, ...] = ()
    runs: tuple[str, ...] = ()
    """Directories whose result counts."""
    problems: tuple[str, ...] = ()
    """Runs that are not read."""
    gaps: tuple[str, ...] = ()
    """Runs of which a part is not read."""


def inputs_of(names: Sequence[str]) -> Inputs:
    """What the names lead to. Of several runs below one folder the newest is read: the fault of an
    earlier one may be fixed.

    Raises:
        UsageError: something named is not there, or may not be read.
    """
    parts = [_inputs(name) for name in names]
    return Inputs(
        tuple(source for part in parts for source in part.sources),
        tuple(dict.fromkeys(run for part in parts for run in part.runs)),
        tuple(problem for part in parts for problem in part.problems),
        tuple(gap for part in parts for gap in part.gaps),
    )


def _inputs(name: str) -> Inputs:
    path = Path(name)
    for folder in (path, path.parent) if path.name == "raw" else (path,):
        if (folder / "raw" / "plan.json").is_file():
            return Inputs(_run_texts(str(folder)), (str(folder),))
    sources = intake.expand([name])
    if is_part_of_run(path):
        gap = f"{name}: only what the programs of this part of a run printed is read; the run has its verdict"
        printed = (each for each in sources if _is_evidence(PurePosixPath(each.path.resolve())))
        return Inputs(tuple(printed), gaps=(gap,))
    runs = {run for source in sources if (run := _run_of_record(source))}
    if not runs:
        return Inputs(sources)
    newest = max(runs, key=lambda run: (PurePosixPath(run).name.removeprefix("busbw-bundle-"), run))
    others = tuple(source for source in sources if runs.isdisjoint(_folders(source)))
    problems = _not_read(name, runs - {newest})
    if Path(newest + _PLAN).is_file():
        return Inputs((*others, *_run_texts(newest)), (newest,), problems)
    if Path(newest + _LIVE).is_file():
        gap = f"{newest}: a look at a hung job is read by itself: busbw why {shlex.quote(newest)}"
        return Inputs(others, (), problems, (gap,))
    inside = [source for source in sources if newest in _folders(source)]
    gap = f"{newest}: only the output of this run's programs is read; its report has its verdict"
    return Inputs((*others, *_evidence(inside)), (), problems, (gap,))


def is_part_of_run(path: Path) -> bool:
    """A folder inside the `raw/` of a run."""
    above = path.resolve().parents if path.is_dir() else ()
    return any(each.name == "raw" and (each / "plan.json").is_file() for each in above)


def _run_of_record(source: intake.Source) -> str:
    """The directory or archive whose record a file is; "" = it is none."""
    record = next((end for end in (_PLAN, _LIVE, _REPORT) if source.name.endswith(end)), "")
    return source.name.removesuffix(record) if record else ""


def _folders(source: intake.Source) -> set[str]:
    return {str(folder) for folder in PurePosixPath(source.name).parents}


def _not_read(name: str, runs: set[str]) -> tuple[str, ...]:
    if not runs:
        return ()
    last = max(runs)
    return (f"{name}: {counted(len(runs), 'other run')} of busbw: busbw why {shlex.quote(last)}",)


def _run_texts(run: str) -> tuple[intake.Source, ...]:
    """What the benchmark, the build and the stalled nodes printed; what busbw and its nodes said to
    each other is not evidence, and a stream that stayed empty is no lost text."""
    sources = _evidence(intake.expand([str(Path(run) / "raw")]))
    return tuple(source for source in sources if source.path.stat().st_size)


def _evidence(sources: Iterable[intake.Source]) -> list[intake.Source]:
    return [source for source in sources if _is_evidence(PurePosixPath(source.name))]


def _is_evidence(path: PurePosixPath) -> bool:
    if "raw" not in path.parts or path.suffix not in _RUN_TEXTS or "preflight" in path.parts:
        return False
    if path.stem == "exit_status":  # how busbw asked for it
        return False
    return "nodes" not in path.parts[-3:-1] or "-build." in path.name
