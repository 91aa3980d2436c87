"""`busbw why`: the cause of what went wrong, from logs, tables, dumps, directories of them or a
run, without a cluster; and the explanation of an id."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from busbw.cli.pool import rarely_collected
from busbw.cli.why_before import with_line_before
from busbw.cli.why_document import document
from busbw.cli.why_end import with_missing_ends
from busbw.cli.why_entries import entry, listing, unknown_id
from busbw.cli.why_nodes import with_nodes
from busbw.cli.why_reading import read, with_unfinished_starts
from busbw.cli.why_records import with_recorded_places
from busbw.cli.why_runs import is_part_of_run
from busbw.cli.why_text import answer, broken
from busbw.cli.why_verdict import exit_status, with_findings, worth_showing
from busbw.errors import ReadError, UsageError
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Context


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw why`."""
    from busbw.cli.why_options import register_live

    parser.usage = (
        "busbw why PATH… | RUN | ID [--json] [--all] [--fabric NAME]\n"
        "       busbw why --list\n"
        "       busbw why --live [-w NODES | -i FILE | --job SLURM_ID | --pid PID]"
        " [--watch 10s] [--stacks] [--json]"
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PATH | RUN | ID",
        help="logs, directories, a run, `-` for standard input; or one id to explain",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON, best first")
    parser.add_argument(
        "--all", action="store_true", help="every explanation that is possible, not only the best"
    )
    parser.add_argument("--list", action="store_true", dest="list_entries", help="list all ids")
    parser.add_argument(
        "--fabric",
        metavar="NAME",
        help="the fabric it was meant to run on: a profile, or a family such as ib or roce"
        " (default: what the logs show)",
    )
    register_live(parser)


def run(args: argparse.Namespace) -> int:
    """Diagnose, or explain an entry. 0 = nothing found, 1 = a cause or a condition is named, 3 =
    something failed and no cause is named, no line reports the failure of a possible cause, a result is incomplete, no text is of a known kind, or a
    file that was named is empty."""
    if args.live or args.print_script:
        from busbw.cli.why_live import run_live

        return run_live(args)
    if args.list_entries:
        sys.stdout.write(listing(catalogue.load()))
        return 0
    if not args.what and args.job is not None:
        raise UsageError("--job needs --live", next_step=f"busbw why --live --job {args.job}")
    if not args.what:
        raise UsageError(
            "why needs a path, a run or an id", next_step="busbw why nccl.log, or busbw why --list"
        )
    name = args.what[0]
    if len(args.what) == 1 and name != "-" and not os.path.exists(name):
        return _explain(name)
    with rarely_collected():
        return _diagnose(args)


def _explain(name: str) -> int:
    """Print the entry of an id."""
    known = catalogue.load()
    if name not in known.by_id:
        raise unknown_id(name, known)
    sys.stdout.write(entry(known.by_id[name], known))
    return 0


def _diagnose(args: argparse.Namespace) -> int:
    if len(args.what) == 1 and Path(args.what[0]).is_dir():
        from busbw.triage.offline import is_collection

        if is_collection(Path(args.what[0])) and not is_part_of_run(Path(args.what[0])):
            from busbw.cli.why_live import offline

            return offline(args, args.what[0])
    if args.redact:
        raise UsageError(
            "--redact is for --live and for collected answers",
            seen=args.what[0],
            next_step="busbw report RUN --redact for a run",
        )
    family = None
    if args.fabric is not None:
        from busbw.fabrics import profiles

        family = profiles.family(args.fabric)
    reading = read(args.what)
    texts = reading.evidence.texts
    if not texts and not reading.evidence.facts:
        raise ReadError(
            f"nothing to read in {', '.join(args.what)}",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    if not reading.evidence.facts and reading.is_blank:
        verb = "is" if len(args.what) == 1 else "are"
        raise ReadError(
            f"{', '.join(args.what)} {verb} empty: nothing to diagnose",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    diagnosis = diagnose(reading.evidence, Context(family or reading.family))
    diagnosis = with_line_before(diagnosis, reading.sources)
    diagnosis = with_recorded_places(diagnosis, reading.sources)
    diagnosis = with_nodes(with_findings(diagnosis, reading.findings))
    if exit_status(diagnosis, reading) == 0 and not diagnosis.healthy:
        reading = with_missing_ends(with_unfinished_starts(reading))
    if reading.gaps:
        diagnosis = replace(diagnosis, healthy=False)
    shown = diagnosis.findings if args.all else worth_showing(diagnosis)
    if args.json:
        text = json.dumps(document(diagnosis, shown, reading), indent=2) + "\n"
    else:
        text = answer(diagnosis, shown, reading)
        if sys.stdout.isatty():
            text = broken(text, shutil.get_terminal_size().columns)
    sys.stdout.write(text)
    is_partial = bool(reading.gaps) or not reading.is_known or any(map(_is_empty, args.what))
    return exit_status(diagnosis, reading) or (3 if is_partial else 0)


def _is_empty(name: str) -> bool:
    """A file that was named and holds nothing: no pass can rest on it."""
    path = Path(name)
    return path.is_file() and path.stat().st_size == 0
