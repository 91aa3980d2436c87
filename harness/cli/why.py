"""`busbw why`: the cause of what went wrong, from logs, tables, dumps, directories of them or a run, without a cluster."""

from __future__ import annotations

import argparse
import json
import sys

from busbw.cli import why_live
from busbw.cli.command import CliCommand
from busbw.errors import ReadError, UsageError

_FABRICS = ("ib", "roce", "spectrum-x", "tcp", "efa", "gcp")


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw why`."""
    parser.usage = (
        "busbw why PATH… | RUN | SYMPTOM-ID [--json] [--all] [--fabric NAME]\n       busbw why --list [--markdown]\n"
        "       busbw why --live [-w NODES | -i FILE | --job SLURM_ID | --pid PID] [--watch 10s] [--stacks] [--json]"
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PATH | RUN | SYMPTOM-ID",
        help="logs, directories, a run, `-` for standard input; or one symptom to explain",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON, best first")
    parser.add_argument("--all", action="store_true", help="every explanation that is possible, not only the best")
    parser.add_argument("--list", action="store_true", dest="list_entries", help="list what can be found")
    parser.add_argument("--markdown", action="store_true", help="with --list: the whole table as the document docs/symptoms.md")
    parser.add_argument("--fabric", choices=_FABRICS, help="the fabric it was meant to run on (default: what the logs show)")
    why_live.register(parser)


def run(args: argparse.Namespace) -> int:
    """Diagnose, or explain an entry. 0 = nothing found, 1 = findings, 3 = something failed and the evidence does not say why."""
    if args.live or args.print_script:
        return why_live.run(args)
    from busbw.cli import why_text
    from busbw.parsers.symptoms import table

    if args.list_entries:
        sys.stdout.write(_document() if args.markdown else why_text.listing(table.load()))
        return 0
    if not args.what:
        raise UsageError("why needs a path, a run or a symptom", next_step="busbw why nccl.log, or busbw why --list")
    entries = _entries(args.what)
    if entries is not None:
        sys.stdout.write(entries)
        return 0
    return _diagnose(args)


def _document() -> str:
    from busbw.parsers.judge.diagnose import all_rules
    from busbw.parsers.judge.diagnose_document import markdown
    from busbw.parsers.symptoms import table

    return markdown(table.load(), all_rules())


def _entries(words: list[str]) -> str | None:
    """The explanation where the one word is an id of the table or of a check and no file of that name is there; None = diagnose."""
    import os

    from busbw.cli import why_text
    from busbw.parsers.symptoms import table

    if len(words) != 1 or os.path.exists(words[0]) or os.sep in words[0] or words[0] == "-":
        return None
    symptoms = table.load()
    if words[0] in symptoms.by_id:
        return why_text.entry(symptoms.by_id[words[0]])
    fed = [symptom for symptom in symptoms.symptoms if any(signal.source == f"preflight:{words[0]}" for signal in symptom.signals)]
    if fed:
        return "\n".join(why_text.entry(symptom) for symptom in fed)
    raise UsageError(why_text.unknown_word(words[0], symptoms), next_step="busbw why --list shows what is known; a path must exist")


def _diagnose(args: argparse.Namespace) -> int:
    from pathlib import Path

    from busbw.cli import why_read, why_text
    from busbw.parsers.judge.diagnose import Context, diagnose
    from busbw.triage.offline import is_collection

    if len(args.what) == 1 and is_collection(Path(args.what[0])):
        return why_live.offline(args, args.what[0])
    if args.redact:
        raise UsageError(
            "--redact is for --live and for collected answers", seen=args.what[0], next_step="busbw report RUN --redact for a run"
        )
    reading = why_read.read(args.what)
    if not reading.evidence.texts and not reading.evidence.facts:
        raise ReadError(
            f"nothing to read in {', '.join(args.what)}",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    diagnosis = why_text.with_own(diagnose(reading.evidence, Context(fabric=args.fabric)), reading.findings)
    shown = diagnosis.findings if args.all else why_text.worth_showing(diagnosis)
    if args.json:
        sys.stdout.write(json.dumps(why_text.document(diagnosis, shown, reading), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write(why_text.answer(diagnosis, shown, reading))
    return why_text.exit_status(diagnosis)


COMMAND = CliCommand("why", "the cause of what went wrong, from logs and results, with the line that proves it and the fix", register, run)
