"""`busbw export`: runs as tables that other tools read: cases, rows, groups, nodes, findings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from busbw.cli import write_message
from busbw.units import counted


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw export`."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directories, or a pattern such as 'runs/*'"
    )
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", dest="csv_folder", type=Path, metavar="DIR", help="as DIR/NAME.csv")
    form.add_argument(
        "--parquet",
        dest="parquet_folder",
        type=Path,
        metavar="DIR",
        help="as DIR/NAME.parquet, with pyarrow installed",
    )


def run(args: argparse.Namespace) -> int:
    """Write them. 0 = every run is in the tables, 3 = some could not be read; those are named."""
    from busbw.compare import frames
    from busbw.reports.safe import one_line

    folder = args.csv_folder or args.parquet_folder
    suffix = ".csv" if args.csv_folder else ".parquet"
    contents = frames.save(frames.load(*args.runs), folder, suffix)
    for table in contents.tables:
        sys.stdout.write(f"{folder / table.file}  {counted(table.rows, 'row')}\n")
    sys.stdout.write(f"{folder / 'frames.json'}  {contents.schema}\n")
    for each in contents.unreadable:
        write_message(one_line(f"busbw: not read: {each.path}: {each.reason}") + "\n")
    return 3 if contents.unreadable else 0
