"""`busbw report RUN`: rebuild everything derived from a run's raw evidence."""

from __future__ import annotations

import argparse
import errno
import sys
from typing import TYPE_CHECKING

from busbw.cli import console, options, outputs, write_message
from busbw.codec import dump_json
from busbw.errors import RunDirError

if TYPE_CHECKING:
    from busbw.model import RunResult
    from busbw.reports.terminal import Line
    from busbw.store.run_directory import RunDir


_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw report`."""
    options.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print run.json instead of the verdict")
    parser.add_argument("-q", "--quiet", action="store_true", help="the verdict's last line only")
    parser.add_argument(
        "--redact",
        action="store_true",
        help=(
            "write RUN/redacted/ with aliases for hosts, addresses, GUIDs, serials and users;"
            " RUN/redacted-names.csv stays at home"
        ),
    )
    outputs.register(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild it; the exit status is the verdict's, as it was when the run ended."""
    from busbw.reports.redact import names_file
    from busbw.run import publish
    from busbw.store import run_directory, whole_files

    outputs.check(args)
    directory = run_directory.open_existing(args.run)
    shown = directory.shown
    folder = directory.path
    if args.redact:
        result, redactor = publish.publish_redacted(directory)
        whole_files.write_atomically(
            folder / "redacted-names.csv", names_file(redactor), mode=0o600
        )
        folder, shown = folder / "redacted", f"{shown}/redacted"
    else:
        result = _published(directory)
    lines = lines_of(directory, result, shown, redacted=args.redact)
    if args.json:
        sys.stdout.write(dump_json(result))
    else:
        shown_lines = lines[-1:] if args.quiet else lines
        sys.stdout.write(console.shown(shown_lines))
    return outputs.deliver(args, folder, result, lines[-1].text)


def _published(directory: RunDir) -> RunResult:
    """Judge the run and write its files; of a run that goes on, or lies where nothing may be written,
    an archive, the verdict alone."""
    from busbw import assess
    from busbw.run import publish
    from busbw.store.run_directory import worker

    if at_work := worker(directory):
        write_message(
            f"busbw: note: {at_work} still works on {directory.shown}: this is what is there so far,"
            " no file of it was written; there is nothing to resume\n"
        )
        return assess.derive(directory)
    try:
        return publish.publish(directory)
    except RunDirError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in _READ_ONLY:
            raise
        write_message(
            f"busbw: note: {directory.shown} may not be written to: its files are as they were;"
            " cp -r it elsewhere to have them made anew\n"
        )
        return assess.derive(directory)


def lines_of(
    directory: RunDir, result: RunResult, shown: str, *, redacted: bool = False
) -> tuple[Line, ...]:
    """The lines to print for a run, `shown` being its folder as the user types it: a check's own
    where it was one. Its names stay as they are, so that `redacted` has those of a run."""
    from busbw.assess import load_plan
    from busbw.cli.check_text import check_lines
    from busbw.reports import terminal
    from busbw.reports.sections import interleaved
    from busbw.run import checking

    if not result.cases and not redacted:
        check = checking.conclude_check(directory)
        if check is not None:
            return check_lines(check, shown, load_plan(directory))
    compared = tuple(terminal.Line(text) for text in interleaved.lines(result))
    return (*compared, *terminal.verdict_lines(result, shown))
