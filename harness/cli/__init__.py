"""The command line: one file per command, found by walking this package.

Exit status: 0 pass · 1 measured and failed · 2 usage, configuration, inventory · 3 could not
measure · 130 interrupted, resumable.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

import busbw
from busbw import plugins
from busbw.cli import environment
from busbw.cli.command import CliCommand
from busbw.errors import BusbwError

_ORDER = (
    "init",
    "check",
    "run",
    "cleanup",
    "why",
    "diff",
    "baseline",
    "read",
    "report",
    "expect",
    "cost",
    "lab",
)
"""Commands in the order people need them; others follow by name."""


def commands() -> tuple[CliCommand, ...]:
    """All commands, in the order of the help text."""
    found = [
        thing
        for thing in plugins.discover(sys.modules[__name__], "COMMAND").values()
        if isinstance(thing, CliCommand)
    ]
    rank = {name: position for position, name in enumerate(_ORDER)}
    return tuple(
        sorted(found, key=lambda command: (rank.get(command.name, len(rank)), command.name))
    )


def build_parser(available: Sequence[CliCommand]) -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="busbw",
        description=(
            "Measures the collective bandwidth of a GPU cluster, says whether it is what the"
            " hardware should give, and names the node, link, rail, rank or setting to blame when"
            " it is not."
        ),
        epilog=(
            "exit status: 0 pass · 1 measured and failed · 2 usage or inventory · 3 could not"
            " measure · 130 interrupted. Many options can be set as BUSBW_NAME in the environment:"
            " flag, then environment, then busbw.yaml."
        ),
    )
    parser.add_argument("--version", action="version", version=f"busbw {busbw.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in available:
        command.register(
            subparsers.add_parser(command.name, help=command.help, description=command.help)
        )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script: every error ends as its lines on standard error and its
    exit status, none as a stack trace."""
    available = commands()
    parser = build_parser(available)
    by_name = {command.name: command for command in available}
    typed = sys.argv[1:] if argv is None else argv
    verbose = 0
    try:
        args = _parsed(parser, typed)
        verbose = getattr(args, "verbose", 0)
        status = by_name[args.command].run(args)
        sys.stdout.flush()
        return status
    except BusbwError as error:
        sys.stdout.flush()
        error.next_step = error.next_step or f"busbw {typed[0]} --help"
        sys.stderr.write("".join(f"busbw: {line}\n" for line in error.lines()))
        return error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write("busbw: interrupted\n")
        return 130
    except BrokenPipeError:
        # The reader went away (`busbw read … | head`): not an error of ours, but what was asked for
        # was not delivered whole.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001  # the last floor: a defect of busbw is told as one, with what to report
        if verbose >= 2 or os.environ.get("BUSBW_TRACEBACK"):
            traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        sys.stderr.write(
            f"busbw: error: internal error, a defect of busbw {busbw.__version__}\nbusbw: seen:"
            f" {type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno}"
            f" in {where.name})\nbusbw: next: run again with BUSBW_TRACEBACK=1 set and report what"
            " it prints\n"
        )
        return 3


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The words of the command line, with the environment where they are silent."""
    below = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    named = below.choices.get(argv[0]) if argv else None
    found = environment.apply(named, os.environ) if named is not None else {}
    args = parser.parse_args(argv)
    environment.settle(args, found)
    return args
