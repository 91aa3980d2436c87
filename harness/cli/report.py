"""`busbw report RUN`: rebuild everything derived from a run's raw evidence."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from busbw.cli.command import CliCommand


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw report`."""
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/latest"), metavar="RUN", help="run directory (default runs/latest)")
    parser.add_argument("--json", action="store_true", help="print run.json instead of the verdict")
    parser.add_argument("-q", "--quiet", action="store_true", help="the verdict's last line only")


def run(args: argparse.Namespace) -> int:
    """Rebuild it; the exit status is the verdict's, as it was when the run ended."""
    from busbw import rundir
    from busbw.reports import terminal
    from busbw.stages.publish import publish

    directory = rundir.open_existing(args.run)
    result = publish(directory)
    if args.json:
        sys.stdout.write((directory.path / "run.json").read_text(encoding="utf-8"))
        return result.exit_status
    lines = terminal.verdict_lines(result, os.path.relpath(directory.path))
    sys.stdout.write("".join(f"{line}\n" for line in (lines[-1:] if args.quiet else lines)))
    return result.exit_status


COMMAND = CliCommand("report", "rebuild a run's report from its raw evidence", register, run)
