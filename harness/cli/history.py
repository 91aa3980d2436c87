"""`busbw history`: how the numbers of these runs went over time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.compare.history import Trend

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_MOST_OUTLIERS = 3


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw history`."""
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where run directories are (default runs)",
    )
    parser.add_argument("--collective", metavar="NAME", help="only this one, such as all_reduce")
    parser.add_argument(
        "--size",
        metavar="SIZE",
        help="only this size, such as 8G (default: the largest of each collective)",
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
    index = history.History(args.out)
    problems = index.refresh()
    table = index.table()
    size_bytes = parse_size(args.size) if args.size else None
    numbers = history.select(table, args.collective, size_bytes)
    if numbers.empty:
        raise UsageError(
            f"no run in {args.out} has such a number",
            seen=f"{len(table)} numbers of {table['run'].nunique()} runs",
            next_step="busbw run",
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
    lines = [line for trend in trends for line in _lines(trend)]
    lines += [f"not read: {problem}" for problem in problems]
    sys.stdout.write("".join(f"{one_line(line)}\n" for line in lines))
    return 0


def _write(path: Path, trends: tuple[Trend, ...]) -> None:
    from busbw.reports import trend

    try:
        path.write_text(trend.render("busbw history", trends), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}",
            next_step="give a file in a folder that can be written to",
        ) from error


def _lines(trend: Trend) -> list[str]:
    from busbw.reports.trend import view

    shown = view(trend)
    values = [point.busbw_gb_s for point in trend.points]
    lines = [shown.heading, f"  {bars(values[-_WIDTH:])}", f"  {shown.summary}"]
    for run, value, change in shown.outliers[:_MOST_OUTLIERS]:
        lines.append(f"  outlier: {run} {value}, {change} against the runs before it")
    accepted = [point.run_id for point in trend.points if point.accepted]
    if accepted:
        lines.append(f"  accepted: {', '.join(accepted[-3:])}")
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
