"""`busbw diff`: did it get slower since the accepted runs, beyond the noise, and what else
changed?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, UsageError

if TYPE_CHECKING:
    from busbw.compare.accepted import Accepted
    from busbw.model.history import ComparableRun


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
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="the last line only")


def run(args: argparse.Namespace) -> int:
    """Compare. 0 = nothing is slower, 1 = something is, 3 = it is inconclusive."""
    from busbw.codec import dump_json
    from busbw.compare.comparable import diff
    from busbw.parsers.verdict import EXIT_STATUS
    from busbw.reports import compare
    from busbw.store import run_directory

    now = _past(args.run)
    if not now.numbers and not _measured(args.run) and not args.run.is_file():
        raise _without_numbers(now.run_id, args.run.resolve().parent)
    earlier = _earlier(args, now)
    if args.run.is_file():
        _require_all(now, earlier)
    found = diff(now, earlier)
    if args.json:
        sys.stdout.write(dump_json(found))
    else:
        place = "" if args.run.is_file() else run_directory.shown_path(args.run.resolve())
        lines = compare.lines(found, place)
        sys.stdout.write("".join(f"{line}\n" for line in (lines[-1:] if args.quiet else lines)))
    return EXIT_STATUS[found.status]


def _require_all(now: ComparableRun, earlier: tuple[ComparableRun, ...]) -> None:
    """A saved output has no plan that says which sizes belong to it: what was measured before must be
    in it."""
    from busbw.units import format_size

    known = {number.key for number in now.numbers}
    for run in earlier:
        for number in run.numbers:
            if number.key not in known:
                size = format_size(number.size_bytes)
                raise UsageError(
                    f"{now.run_id} does not hold all that {run.run_id} holds",
                    seen=f"no {number.collective} of {size} with {number.options}",
                    next_step="measure the same collectives and sizes with the same options",
                )


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
    found = tuple(_read(each) for each in known if each.run.run_id != now.run_id)
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


def _saved(path: Path) -> ComparableRun:
    """An output of nccl-tests that somebody kept."""
    from busbw import intake
    from busbw.cli.read import read_one
    from busbw.compare import saved
    from busbw.model.benchmark import BenchmarkResult
    from busbw.parsers.nccl_tests.table import KIND

    tables: list[BenchmarkResult] = []
    failures: list[str] = []
    for source in intake.expand([str(path)]):
        text = read_one(source)
        failures += [line.text for line in text.failures]
        for document in text.documents:
            tables += [each for each in document.records if isinstance(each, BenchmarkResult)]
            if document.kind != KIND:  # which launch is bad, and why, `of_tables` says
                failures += document.faults
    run = saved.of_tables(str(path), tables)
    if failures:
        raise UsageError(
            f"{path} reports a failure: a launch of it may be missing",
            seen=failures[0],
            next_step=f"busbw why {path}",
        )
    return run
