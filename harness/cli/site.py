"""`busbw site`: the runs of a folder as pages that need no server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_message
from busbw.errors import BusbwError, UsageError
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.store.run_directory import RunDir

_OWN = ("index.html", "trends.html", "nodes.html")


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
    """Write the pages. 0 = written; runs that cannot be read are named and left out, and so are
    reports that cannot be had."""
    from busbw.compare import frames, history
    from busbw.reports import index, trend
    from busbw.reports.safe import one_line

    if not args.runs.is_dir():
        raise UsageError(
            f"no folder {args.runs}",
            seen="no such directory",
            next_step="give the folder of the run directories: busbw site RUNS",
        )
    results, unreadable = frames.results(args.runs / "*")
    problems = [f"not read: {each.path}: {each.reason}" for each in unreadable]
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{args.out}: {error.strerror or error}",
            next_step="give a folder that can be written to: -o DIR",
        ) from error
    known = history.History(args.runs)
    known.refresh()
    every = frames.tables(results, unreadable)
    of_nodes = history.of_nodes(every.cases, every.groups)
    for name, table in (("trends", known.table()), ("nodes", of_nodes)):
        numbers = history.with_rolling(history.select(table))
        text = trend.render(f"busbw {name}", history.trends(numbers))
        _write(args.out, f"{name}.html", text.encode())
    pages = set()
    for directory, _ in results:
        # By the folder's name: what a result says of itself is no name of a file.
        name = f"{directory.run_id}.html"
        if why := _report(directory, args.out, name):
            problems.append(f"no page: {directory.path}: {why}")
        else:
            pages.add(name)
    rows = tuple((directory.run_id, result) for directory, result in results)
    _write(args.out, "index.html", index.render(rows, pages).encode())
    sys.stdout.write(f"{args.out / 'index.html'}  {counted(len(results), 'run')}\n")
    for each in problems:
        write_message(one_line(f"busbw: {each}") + "\n")
    return 0


def _report(directory: RunDir, out: Path, name: str) -> str:
    """Write the page of a run; why there is none, empty = it is there."""
    from busbw.run import publish

    if name in _OWN:
        return "the site has a page of that name"
    try:
        _write(out, name, publish.page(directory))
    except BusbwError as error:
        return error.what.splitlines()[0]
    return ""


def _write(out: Path, name: str, content: bytes) -> None:
    from busbw.store.whole_files import write_atomically

    write_atomically((out / name).absolute(), content, mode=0o644)
