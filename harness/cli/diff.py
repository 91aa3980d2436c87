"""`busbw diff`: did it get slower since the accepted runs, beyond the noise, and what else
changed?"""

from __future__ import annotations

import argparse
import filecmp
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, UsageError

if TYPE_CHECKING:
    from busbw.compare.accepted import Accepted
    from busbw.model.history import ComparableRun, RunDiff


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw diff`."""
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        default=Path("runs/latest"),
        metavar="A",
        help="the run in question, or a saved output of nccl-tests (default runs/latest)",
    )
    parser.add_argument(
        "against",
        type=Path,
        nargs="*",
        metavar="B",
        help="runs or outputs to compare it with (default: the accepted runs in its folder, of the same regime)",
    )
    parser.add_argument(
        "--before",
        type=Path,
        nargs="+",
        default=[],
        metavar="B",
        help="saved outputs of several launches each: busbw diff after*.out --before before*.out",
    )
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="the last line only")


def run(args: argparse.Namespace) -> int:
    """Compare. 0 = nothing is slower, 1 = something is, 3 = it is inconclusive."""
    from busbw.compare.comparable import diff
    from busbw.store import run_directory

    if args.before or (args.run.is_file() and len(args.against) > 1):
        return _show(diff(*_both_sides(args)), args, "")
    now = _past(args.run)
    if not now.numbers and not _measured(args.run) and not args.run.is_file():
        raise _without_numbers(now.run_id, args.run.resolve().parent)
    earlier = _earlier(args, now)
    place = "" if args.run.is_file() else run_directory.shown_path(args.run.resolve())
    return _show(diff(now, earlier), args, place)


def _show(difference: RunDiff, args: argparse.Namespace, place: str) -> int:
    from busbw.codec import dump_json
    from busbw.parsers.verdict import EXIT_STATUS
    from busbw.reports import compare

    if args.json:
        sys.stdout.write(dump_json(difference))
    else:
        lines = compare.lines(difference, place)
        sys.stdout.write("".join(f"{line}\n" for line in (lines[-1:] if args.quiet else lines)))
    return EXIT_STATUS[difference.status]


def _both_sides(args: argparse.Namespace) -> tuple[ComparableRun, tuple[ComparableRun, ...]]:
    """The outputs of both sides, each side one run: every table of its files is a launch.

    Files with several launches each, of `--before`, are runs of their own: they show the drift from
    day to day.

    Raises:
        UsageError: which outputs are those from before is not said, or one of them is a run directory, or
        stands on both sides.
    """
    now, before = [args.run, *args.against], args.before
    for path in (*now, *before):
        if not path.is_file():
            raise UsageError(
                f"{path} is no saved output: --before compares files that hold tables of nccl-tests",
                seen="a directory" if path.is_dir() else "no such file",
                next_step="of run directories: busbw diff NOW BEFORE...",
            )
    if not before:
        raise UsageError(
            f"{len(now)} saved outputs: which of them are those from before?",
            seen=", ".join(map(str, now[:6])) + (" …" if len(now) > 6 else ""),
            next_step="busbw diff after*.out --before before*.out: each table is one launch",
        )
    earlier = tuple(map(_saved, before))
    if all(_most_launches(each) == 1 for each in earlier):
        earlier = (_saved(*before),)
    seen = _saved(*now)
    if any(_is_copy(each, seen) for each in earlier):
        raise UsageError(
            f"{seen.run_id} cannot be compared with itself",
            seen="the same numbers on both sides",
            next_step="name the outputs from before: --before B...",
        )
    for path, other in itertools.product(now, before):
        if filecmp.cmp(path, other, shallow=False):
            raise UsageError(
                f"{path} is on both sides: its launches would hide what changed",
                seen=f"{other}, of --before, is the same file"
                if path != other
                else "it is given twice",
                next_step="each output on one side: busbw diff after*.out --before before*.out",
            )
    return seen, earlier


def _most_launches(run: ComparableRun) -> int:
    return max((len(number.busbw_gb_s) for number in run.numbers), default=0)


def _measured(run: Path) -> bool:
    return (run / "raw" / "cases").is_dir()


def _without_numbers(run_id: str, root: Path) -> UsageError:
    """The error for a check, or for a run that ended before its first case."""
    from busbw.store import run_directory

    measured = sorted(path for path in root.iterdir() if not path.is_symlink() and _measured(path))
    step = "busbw run, then busbw diff"
    if measured:
        step = f"the last run that measured: busbw diff {run_directory.shown_path(measured[-1])}"
    return UsageError(
        f"{run_id} measured nothing: there is nothing to compare",
        seen="a check, or a run that ended before its first case",
        next_step=step,
    )


def _earlier(args: argparse.Namespace, now: ComparableRun) -> tuple[ComparableRun, ...]:
    from busbw.compare import accepted

    if args.against:
        found = tuple(_past(path) for path in args.against)
        if any(each.run_id == now.run_id or _is_copy(each, now) for each in found):
            raise UsageError(
                f"{now.run_id} cannot be compared with itself",
                seen=f"{args.run} and {now.run_id}",
                next_step="name an earlier run",
            )
        return found
    root = args.run.resolve().parent
    known = accepted.accepted_runs(root)
    found = others_of(now, known)
    if known and not found:
        raise UsageError(
            f"{now.run_id} is the only accepted run: there is no later one to compare with it",
            seen=f"no other run is accepted in {root}",
            next_step="measure again, then busbw diff; or name two runs: busbw diff A B",
        )
    if not found:
        raise UsageError(
            f"nothing to compare {now.run_id} with",
            seen=f"no accepted run in {root}",
            next_step=(
                "busbw baseline accept RUN for a run that was good, or name one: busbw diff A B"
            ),
        )
    return found


def _is_copy(one: ComparableRun, other: ComparableRun) -> bool:
    """Two saved outputs with the same number in every launch, on the same machine. A run of busbw has
    an id of its own."""
    if one.started or other.started or not one.numbers:
        return False
    return (one.numbers, one.regime, one.nodes) == (other.numbers, other.regime, other.nodes)


def others_of(now: ComparableRun, known: Sequence[Accepted]) -> tuple[ComparableRun, ...]:
    """The accepted runs without this one, whatever its folder is called now."""
    from busbw.compare.comparable import without_copies

    runs = without_copies(map(_read, known))
    return tuple(each for each in runs if each.run_id != now.run_id)


def _read(each: Accepted) -> ComparableRun:
    """An accepted run; one that cannot be read is named with the reason, and the others still
    count."""
    from busbw.compare import comparable

    if each.problem:
        return comparable.unreadable(each.run.run_id, each.problem)
    try:
        return _past(each.run.path)
    except BusbwError as error:
        why = error.what.splitlines()[0]
        return comparable.unreadable(
            each.run.run_id,
            f"{why}; busbw baseline revoke {each.run.path}, and accept another",
            each.decision,
        )


def _past(path: Path) -> ComparableRun:
    if path.is_file():
        return _saved(path)
    from busbw import assess
    from busbw.compare import accepted, comparable
    from busbw.store import run_directory

    directory = run_directory.open_existing(path)
    directory.require_undamaged()
    return comparable.of_result(assess.derive(directory), accepted.standing(directory))


def _saved(*paths: Path) -> ComparableRun:
    """Outputs of nccl-tests that somebody kept, as one run."""
    from busbw import intake
    from busbw.cli.read_texts import read_one
    from busbw.compare import saved
    from busbw.model.benchmark import BenchmarkResult
    from busbw.parsers.nccl_tests.table import KIND

    tables: list[BenchmarkResult] = []
    failures: list[tuple[Path, str]] = []
    for path in paths:
        for source in intake.expand([str(path)]):
            text = read_one(source)
            failures += [(path, line.text) for line in text.failures]
            for document in text.documents:
                tables += [each for each in document.records if isinstance(each, BenchmarkResult)]
                if document.kind != KIND:  # which launch is bad, and why, `of_tables` says
                    failures += [(path, fault) for fault in document.faults]
    name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
    run = saved.of_tables(name, tables)
    for path, failure in failures[:1]:
        raise UsageError(
            f"{path} reports a failure: a launch of it may be missing",
            seen=failure,
            next_step=f"busbw why {path}",
        )
    return run
