"""`busbw read FILE…`: say what each text is, and print it as tables, as one JSON document, or as
CSV.

Exit status, the worst of all texts (1 before 3 before 0):

- 0: read, complete and good
- 1: bad: wrong data (`#wrong`, Out of bounds … FAILED), one-rank communicators, several processes'
  tables in one text, numbers that contradict each other or physics, errors that the text reports
- 3: incomplete (truncated, rows or sizes missing, no column names), in no known layout, or with a
  line of general failure words; the JSON document says so too
- 2: a file that is not there, or options that do not go together

An error decides wherever it stands in the text; whether the text is complete, the main kind alone:
nccl-tests before all others.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import intake
from busbw.cli import write_message
from busbw.cli.pool import rarely_collected, read_each
from busbw.cli.read_forms import as_csv, as_json, as_text, columns_of_terminal, results_of
from busbw.cli.read_texts import ReadText, exit_status, read_all, read_one, status_of, worst
from busbw.errors import UsageError
from busbw.model.logs import NcclLog
from busbw.parsers.nccl_tests.shape import Level, level, low_between
from busbw.reports.safe import one_line

_NEXT_LINE = "busbw: next: busbw why FILE looks for failures in any text; docs/read.md lists what busbw reads\n"


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw read`."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="file, directory, glob, or - for standard input; .gz .zst .xz .bz2 too",
    )
    parser.add_argument(
        "--contract",
        type=Path,
        metavar="FILE",
        help="compare the tables with the numbers of a contract, each table a launch",
    )
    parser.add_argument(
        "--fabric",
        metavar="NAME",
        help="with --contract: the fabric that was bought, a profile or a family such as tcp"
        " (default: one with RDMA)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument(
        "--csv", action="store_true", help="one line per row of the nccl-tests tables"
    )


def run(args: argparse.Namespace) -> int:
    """Read them all and print."""
    sources = intake.expand(args.files)
    if args.contract is not None and (args.json or args.csv):
        raise UsageError("--contract prints for people: leave --json and --csv out")
    if args.fabric is not None and args.contract is None:
        raise UsageError("--fabric says what a contract is about", next_step="add --contract FILE")
    with rarely_collected():
        if args.json or args.csv:
            texts = read_all(sources)
            sys.stdout.write(as_json(texts) if args.json else as_csv(texts))
            write_message(_with_next_step("".join(map(_unread, texts))))
            return exit_status(texts)
        # Written where they are read: the records of a thousand logs are not carried from process
        # to process, nor kept.
        if args.contract is not None:
            return _with_contract(read_all(sources), args.contract, args.fabric)
        shown = read_each(functools.partial(_show, columns=columns_of_terminal()), sources)
        sys.stdout.write("\n".join(each.text for each in shown))
        if any(each.is_unread for each in shown):  # which and why stands on standard output
            write_message(_NEXT_LINE)
        for text in low_between([each.levels for each in shown]):
            sys.stdout.write(f"\nremark  {text}\n")
        return worst(each.status for each in shown)


def _with_contract(texts: Sequence[ReadText], contract: Path, fabric_name: str | None) -> int:
    """The texts, then the numbers of the contract. A text that is bad decides as without one."""
    from busbw.cli import read_contract
    from busbw.fabrics import profiles
    from busbw.fabrics.profile import DataPath
    from busbw.reports import terminal

    may_be_sockets = (
        fabric_name is not None and profiles.family(fabric_name).data_path is DataPath.SOCKETS
    )
    over_sockets = () if may_be_sockets else tuple(t.name for t in texts if _is_over_sockets(t))

    tables = [table for text in texts for each in text.documents for table in results_of(each)]
    texts_status = exit_status(texts)
    headline, lines, status = read_contract.lines(
        contract,
        tables,
        not_whole=[text.name for text in texts if status_of(text) != 0],
        over_sockets=over_sockets,
    )
    columns = columns_of_terminal()
    sys.stdout.write(f"{headline}{as_text(texts, columns)}\n{terminal.printed(lines, columns)}")
    if not all(text.documents for text in texts):
        write_message(_NEXT_LINE)
    return worst((texts_status, status))


def _is_over_sockets(text: ReadText) -> bool:
    """NCCL's log in it names the network Socket, of any process."""
    logs = [each for document in text.documents for each in document.records]
    return any(
        "Socket" in process.networks
        or any(connection.network == "Socket" for connection in process.connections)
        for log in logs
        if isinstance(log, NcclLog)
        for process in log.processes
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is printed of one text."""

    text: str
    is_unread: bool
    """Nothing in it is known."""
    status: int
    levels: tuple[Level, ...]
    """Of its tables of all_reduce and alltoall."""


def _show(source: intake.Source, columns: int) -> _Shown:
    text = read_one(source)
    tables = [table for each in text.documents for table in results_of(each)]
    levels = tuple(filter(None, map(level, tables)))
    return _Shown(as_text((text,), columns), not text.documents, status_of(text), levels)


def _unread(text: ReadText) -> str:
    if text.documents:
        return ""
    return f"busbw: {one_line(text.name)}: {one_line(text.problem)}\n"


def _with_next_step(messages: str) -> str:
    """What was not read, a line a text, and behind all of them what to do."""
    return f"{messages}{_NEXT_LINE}" if messages else ""
