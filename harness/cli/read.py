"""`busbw read FILE…`: say what each text is, and print it as tables, as one JSON document, or as CSV.

Exit status, the worst of all texts (1 before 3 before 0):

- 0: read, and complete;
- 1: read, and bad: wrong data (`#wrong`, Out of bounds … FAILED), one-rank communicators, several processes' tables in one text, numbers
  that contradict each other, errors that the text reports;
- 3: incomplete (cut off, rows or sizes missing, no column names) or in no known layout; with --json the document says so too;
- 2: a file that is not there, or options that do not go together.

Where a text holds several kinds (a table with NCCL's log around it), the first one, nccl-tests before all others, rules the status.
"""

from __future__ import annotations

import argparse
import sys

from busbw.cli.command import CliCommand


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw read`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="file, directory, glob, or - for standard input; .gz .zst .xz .bz2 too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument("--csv", action="store_true", help="one line per row of the nccl-tests tables")


def run(args: argparse.Namespace) -> int:
    """Read them all and print."""
    from busbw import intake
    from busbw.cli import read_print, read_texts

    texts = read_texts.read_all(intake.expand(args.files))
    if args.json:
        sys.stdout.write(read_print.as_json(texts))
    elif args.csv:
        sys.stdout.write(read_print.as_csv(texts))
    else:
        sys.stdout.write(read_print.as_text(texts))
    for text in texts:
        if not text.documents:
            sys.stderr.write(f"busbw: {read_print.one_line(text.name)}: {read_print.one_line(text.problem)}\n")
    return read_texts.exit_status(texts)


COMMAND = CliCommand("read", "read nccl-tests, NCCL, RAS and launcher output of any version", register, run)
