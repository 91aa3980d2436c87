"""`busbw history`: how the numbers of these runs went over time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.compare.history import Kind, Point
    from busbw.reports.trend import Trend

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_MOST_APART = 3


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
        "--html", type=Path, metavar="FILE", help="the trend pictures as a page, too"
    )


def run(args: argparse.Namespace) -> int:
    """Print it. 0 = printed, 2 = there are no runs."""
    from busbw.codec import dump_json
    from busbw.compare.history import History
    from busbw.reports.safe import one_line

    if not args.out.is_dir():
        raise UsageError(
            f"no folder {args.out}",
            seen="no such directory",
            next_step="give the folder of the run directories: -o DIR",
        )
    history = History(args.out)
    problems = history.refresh()
    kinds = _wanted(args, history.kinds())
    if not kinds:
        raise UsageError(
            f"no run in {args.out} has such a number",
            seen=f"{len(history.kinds())} kinds of numbers",
            next_step="busbw run",
        )
    found = [(kind, history.points(kind)) for kind in kinds]
    if args.json:
        sys.stdout.write(dump_json([{"kind": kind, "points": points} for kind, points in found]))
        return 0
    trends = tuple(_trend(kind, points) for kind, points in found)
    if args.html is not None:
        _write(args.html, trends)
    lines = [line for trend in trends for line in _told(trend)]
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


def _wanted(args: argparse.Namespace, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    from busbw.units import parse_size

    size = parse_size(args.size) if args.size else None
    found = [
        kind
        for kind in kinds
        if args.collective in (None, kind.collective) and size in (None, kind.size_bytes)
    ]
    if size is not None:
        return tuple(found)
    largest = {
        (kind.regime, kind.collective): max(
            k.size_bytes
            for k in found
            if (k.regime, k.collective) == (kind.regime, kind.collective)
        )
        for kind in found
    }
    return tuple(kind for kind in found if kind.size_bytes == largest[kind.regime, kind.collective])


def _trend(kind: Kind, points: tuple[Point, ...]) -> Trend:
    from busbw.reports.trend import Trend, TrendPoint

    told = tuple(
        TrendPoint(point.run_id, point.started, point.accepted, point.busbw_gb_s)
        for point in points
    )
    return Trend(kind.collective, kind.size_bytes, kind.options, kind.regime, told)


def _told(trend: Trend) -> list[str]:
    from busbw.reports.trend import told

    found = told(trend)
    values = [point.busbw_gb_s for point in trend.points]
    lines = [found.heading, f"  {bars(values[-_WIDTH:])}", f"  {found.summary}"]
    lines += [
        f"  apart: {run} {value}, {change} against the runs before it"
        for run, value, change in found.apart[:_MOST_APART]
    ]
    good = [point.run_id for point in trend.points if point.accepted]
    lines += [f"  accepted: {', '.join(good[-3:])}"] if good else []
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
