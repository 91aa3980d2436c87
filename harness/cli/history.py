"""`busbw history`: how the numbers of these runs went over time."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli.command import CliCommand
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.history import Kind, Point

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_ROLLING = 7
"""Runs in the rolling median that the last one is held against."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw history`."""
    parser.add_argument("-o", "--out", type=Path, default=Path("runs"), metavar="DIR", help="where run directories are (default runs)")
    parser.add_argument("--collective", metavar="NAME", help="only this one, such as all_reduce")
    parser.add_argument("--size", metavar="SIZE", help="only this size, such as 8G (default: the largest of each collective)")
    parser.add_argument("--json", action="store_true", help="every point as JSON")


def run(args: argparse.Namespace) -> int:
    """Print it. 0 = printed, 2 = there are no runs."""
    from busbw.codec import dump_json
    from busbw.history import History
    from busbw.reports.safe import one_line

    if not args.out.is_dir():
        raise UsageError(f"no folder {args.out}", seen="no such directory", next_step="give the folder of the run directories: -o DIR")
    history = History(args.out)
    problems = history.refresh()
    kinds = _wanted(args, history.kinds())
    if not kinds:
        raise UsageError(f"no run in {args.out} has such a number", seen=f"{len(history.kinds())} kinds of numbers", next_step="busbw run")
    found = [(kind, history.points(kind)) for kind in kinds]
    if args.json:
        sys.stdout.write(dump_json([{"kind": kind, "points": points} for kind, points in found]))
        return 0
    lines = [line for kind, points in found for line in _told(kind, points)]
    lines += [f"not read: {problem}" for problem in problems]
    sys.stdout.write("".join(f"{one_line(line)}\n" for line in lines))
    return 0


def _wanted(args: argparse.Namespace, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    from busbw.units import parse_size

    size = parse_size(args.size) if args.size else None
    found = [kind for kind in kinds if args.collective in (None, kind.collective) and size in (None, kind.size_bytes)]
    if size is not None:
        return tuple(found)
    largest = {
        (kind.regime, kind.collective): max(k.size_bytes for k in found if (k.regime, k.collective) == (kind.regime, kind.collective))
        for kind in found
    }
    return tuple(kind for kind in found if kind.size_bytes == largest[kind.regime, kind.collective])


def _told(kind: Kind, points: tuple[Point, ...]) -> list[str]:
    from busbw.units import format_bandwidth, format_size

    values = [point.busbw_gb_s for point in points]
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    lines = [f"{kind.collective} {format_size(kind.size_bytes)}  {kind.regime}  {kind.options}"]
    shown = values[-_WIDTH:]
    lines.append(f"  {bars(shown)}  {len(values)} runs, {points[0].started[:10]} to {points[-1].started[:10]}")
    lines.append(
        f"  median {format_bandwidth(middle)}, robust deviation {deviation / middle:.1%}, last {format_bandwidth(values[-1])}{_against(values)}"
    )
    good = [point for point in points if point.accepted]
    lines += [f"  accepted: {', '.join(point.run_id for point in good[-3:])}"] if good else []
    return lines


def _against(values: list[float]) -> str:
    """The last run against the rolling median before it."""
    before = values[-1 - _ROLLING : -1]
    if len(before) < 3:
        return ""
    usual = statistics.median(before)
    return f" ({values[-1] / usual - 1:+.1%} against the median of the {len(before)} runs before)"


def bars(values: list[float]) -> str:
    """Bars from the lowest to the highest value; a flat history is a line in the middle.

    >>> bars([1.0, 2.0, 3.0]), bars([5.0, 5.0])
    ('▁▅█', '▄▄')
    """
    low, high = min(values), max(values)
    if high <= low * 1.0001:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


COMMAND = CliCommand("history", "how the numbers of these runs went over time", register, run)
