"""`busbw site`: the runs of a folder as pages that need no server."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from busbw.cli import write_message
from busbw.errors import RunDirError, UsageError


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw site`."""
    parser.add_argument(
        "runs",
        type=Path,
        nargs="?",
        default=Path("runs"),
        metavar="RUNS",
        help="folder of the run directories (default runs)",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("site"),
        metavar="DIR",
        help="where the pages go (default site): index.html, trends.html, nodes.html, RUN.html",
    )


def run(args: argparse.Namespace) -> int:
    """Write the pages. 0 = written; runs that cannot be read are named and left out."""
    from busbw.compare import frames, history
    from busbw.reports import index, phrases, trend
    from busbw.reports.safe import one_line
    from busbw.store.run_directory import write_atomically

    if not args.runs.is_dir():
        raise UsageError(
            f"no folder {args.runs}",
            seen="no such directory",
            next_step="give the folder of the run directories: busbw site RUNS",
        )
    results, unreadable = frames.results(args.runs / "*")
    pages = {}
    for directory, _ in results:
        with contextlib.suppress(FileNotFoundError, RunDirError):
            # By the folder's name: what a result says of itself is no name of a file.
            pages[f"{directory.run_id}.html"] = directory.read_derived("report.html")
    rows = tuple((directory.run_id, result) for directory, result in results)
    pages["index.html"] = index.render(rows, frozenset(pages)).encode()
    every = frames.tables(results, unreadable)
    known = history.History(args.runs)
    known.refresh()
    of_nodes = history.of_nodes(every.cases, every.groups)
    for name, table in (("trends", known.table()), ("nodes", of_nodes)):
        numbers = history.with_rolling(history.select(table))
        page = trend.render(f"busbw {name}", history.trends(numbers))
        pages[f"{name}.html"] = page.encode()
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{args.out}: {error.strerror or error}",
            next_step="give a folder that can be written to: -o DIR",
        ) from error
    for name, content in pages.items():
        write_atomically((args.out / name).absolute(), content, mode=0o644)
    sys.stdout.write(f"{args.out / 'index.html'}  {phrases.count(len(results), 'run')}\n")
    for each in unreadable:
        write_message(one_line(f"busbw: not read: {each.path}: {each.reason}") + "\n")
    return 0
