"""`busbw report RUN`: rebuild everything derived from a run's raw evidence."""

from __future__ import annotations

import argparse
import os
import sys

from busbw.cli import console, options, outputs


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
    from busbw.cli.check_text import check_lines
    from busbw.reports import terminal
    from busbw.reports.redact import names_file
    from busbw.run import checking, publish
    from busbw.store import run_directory

    outputs.check(args)
    directory = run_directory.open_existing(args.run)
    shown = os.path.relpath(directory.path)
    folder = directory.path
    if args.redact:
        result, redactor = publish.publish_redacted(directory)
        run_directory.write_atomically(
            folder / "redacted-names.csv", names_file(redactor), mode=0o600
        )
        folder, shown = folder / "redacted", f"{shown}/redacted"
    else:
        result = publish.publish(directory)
    lines = terminal.verdict_lines(result, shown)
    if (
        not result.cases
        and not args.redact
        and (check := checking.conclude_check(directory)) is not None
    ):
        lines = check_lines(check, shown)
    if args.json:
        sys.stdout.write(run_directory.RunDir(folder).read_derived("run.json").decode())
    else:
        shown_lines = lines[-1:] if args.quiet else lines
        sys.stdout.write(terminal.printed(shown_lines, console.width()))
    return outputs.deliver(args, folder, result, lines[-1].text)
