"""`busbw history`: how the numbers of these runs went over time."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import console, options
from busbw.errors import BusbwError, UsageError
from busbw.reports.terminal import Line, table

if TYPE_CHECKING:
    from busbw.compare.history import Trend
    from busbw.model import RunResult
    from busbw.parsers.nccl_tests.groups import GroupSample
    from busbw.store.run_directory import RunDir

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24
"""Newest runs of a number that are drawn."""
_MOST_OUTLIERS = 3
_NEXT = "busbw run; of saved outputs: busbw diff AFTER BEFORE, busbw read --csv FILE"


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw history`."""
    options.add_out(parser)
    parser.add_argument("--collective", metavar="NAME", help="only this one, such as all_reduce")
    parser.add_argument(
        "--size",
        metavar="SIZE",
        help="only this size, such as 8G (default: the largest of each collective)",
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument(
        "--by-node",
        action="store_true",
        help="instead, each node's best pair in the surveys: which node gets slower",
    )
    parts.add_argument(
        "--by-rail",
        action="store_true",
        help="the same for each rail of each node, from surveys that measured rail by rail",
    )
    parser.add_argument("--json", action="store_true", help="every point as JSON")
    parser.add_argument(
        "--frame",
        type=Path,
        metavar="FILE",
        help="write the numbers as a table, too: FILE.csv, or FILE.parquet with pyarrow",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="the trend pictures as a page, too"
    )


def run(args: argparse.Namespace) -> int:
    """Print it. 0 = printed, 2 = there are no runs."""
    from busbw.codec import dump_json
    from busbw.compare import frames, history
    from busbw.reports.safe import one_line
    from busbw.units import parse_size

    if not args.out.is_dir():
        raise UsageError(
            f"no folder {args.out}",
            seen="no such directory",
            next_step="give the folder of the run directories: -o DIR",
        )
    if args.by_node or args.by_rail:
        read, unreadable = frames.results(args.out / "*")
        every = frames.tables(read, unreadable)
        problems = tuple(f"{each.path}: {each.reason}" for each in unreadable)
        if args.by_node:
            table = history.of_nodes(every.cases, every.groups)
        else:
            samples, unread = _samples(read)
            problems += unread
            table = history.of_rails(every.cases, samples)
    else:
        index = history.History(args.out)
        problems = index.refresh()
        table = index.table()
    size_bytes = parse_size(args.size) if args.size else None
    numbers = history.select(table, args.collective, size_bytes)
    if numbers.empty:
        what = "measured rail by rail" if args.by_rail else "has such a number"
        raise UsageError(
            f"no run in {args.out} {what}",
            seen="; ".join(problems) or f"{len(table)} numbers of {table['run'].nunique()} runs",
            next_step="busbw run --survey" if args.by_rail else _NEXT,
        )
    numbers = history.with_rolling(numbers)
    if args.frame is not None:
        frames.write(numbers, args.frame)
    trends = history.trends(numbers)
    if args.json:
        sys.stdout.write(dump_json(trends))
        return 0
    if args.html is not None:
        _write(args.html, trends)
    lines = [line for regime in _regimes(trends) for line in _lines(regime)]
    lines += [Line(f"not read: {problem}") for problem in problems]
    plain = [replace(line, text=one_line(line.text)) for line in lines]
    sys.stdout.write(console.shown(plain))
    return 0


def _samples(
    runs: tuple[tuple[RunDir, RunResult], ...],
) -> tuple[dict[str, tuple[GroupSample, ...]], tuple[str, ...]]:
    """Run → the groups that it measured itself; and the runs whose evidence cannot be read."""
    from busbw.survey import earlier

    samples, problems = {}, []
    for run, result in runs:
        try:
            own = earlier.measured_by(run)
        except BusbwError as error:
            problems.append(f"{run.path}: {error.what.splitlines()[0]}")
        else:
            samples[result.run_id] = own
    return samples, tuple(problems)


def _write(path: Path, trends: tuple[Trend, ...]) -> None:
    from busbw.reports import trend

    try:
        path.write_text(trend.render("busbw history", trends), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}",
            next_step="give a file in a folder that can be written to",
        ) from error


def _regimes(trends: tuple[Trend, ...]) -> list[tuple[Trend, ...]]:
    """Numbers measured in the same way together, in the order of the first of each."""
    same: dict[tuple[str, str], list[Trend]] = {}
    for trend in trends:
        same.setdefault((trend.regime, trend.options), []).append(trend)
    return [tuple(each) for each in same.values()]


def _lines(regime: tuple[Trend, ...]) -> list[Line]:
    """What they have in common, a table of them, and what stands out."""
    from busbw.reports.trend import ROW, view

    views = [(trend, view(trend)) for trend in regime]
    points = [point for trend in regime for point in trend.points]
    started = sorted(point.started[:10] for point in points)
    since = f"{started[0]} to {started[-1]}"
    rows = []
    for trend, shown in views:
        values = [point.busbw_gb_s for point in trend.points]
        rows.append((*shown.row, bars(values[-_WIDTH:])))
    lines = [Line(f"{regime[0].regime}, {regime[0].options}, {since}", indent=2)]
    lines += table((*ROW, "TREND"), rows, right=ROW[1:])
    for _, shown in views:
        for run, value, change in shown.outliers[:_MOST_OUTLIERS]:
            text = f"{shown.row[0]} {value}, {change} against the runs before it"
            lines.append(Line(f"  outlier: {run}  {text}"))
    accepted = dict.fromkeys(point.run_id for point in points if point.accepted)
    if accepted:
        lines.append(Line(f"  accepted: {', '.join(list(accepted)[-3:])}"))
    return lines


def bars(values: list[float]) -> str:
    """Bars from the lowest to the highest value; a flat history is a line in the middle.

    >>> bars([1.0, 2.0, 3.0]), bars([5.0, 5.0])
    ('▁▅█', '▄▄')
    """
    low, high = min(values), max(values)
    if high <= low * 1.0001:
        return _BARS[3] * len(values)
    return "".join(
        _BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values
    )
