"""`busbw schema`: the JSON Schema of the documents that busbw writes."""

from __future__ import annotations

import argparse
import sys

_DOCUMENTS = ("run", "check", "plan")


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw schema`."""
    parser.add_argument(
        "document",
        choices=_DOCUMENTS,
        metavar="|".join(_DOCUMENTS),
        help="run.json, check.json, or raw/plan.json of a run",
    )


def run(args: argparse.Namespace) -> int:
    """Print it."""
    sys.stdout.write(text(args.document))
    return 0


def text(document: str) -> str:
    """The JSON Schema (2020-12) of that document."""
    from busbw.codec import json_schema
    from busbw.model import RunResult
    from busbw.run.checking import CheckReport
    from busbw.store.plan import RunPlan

    return json_schema({"run": RunResult, "check": CheckReport, "plan": RunPlan}[document])
