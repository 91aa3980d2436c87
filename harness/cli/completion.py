"""`busbw completion`: a static script for the shell. shtab makes it from the parser itself, so it
never lags behind the options."""

from __future__ import annotations

import argparse
import sys

_SHELLS = ("bash", "zsh", "fish", "tcsh")


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw completion`."""
    parser.add_argument(
        "shell",
        choices=_SHELLS,
        metavar="|".join(_SHELLS),
        help='bash: eval "$(busbw completion bash)"; for the others see their manuals',
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from busbw.cli import build_parser

    sys.stdout.write(script(build_parser(), args.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a parser. Arguments that take a path complete file names."""
    import shtab

    _mark_paths(parser, shtab.FILE)
    return f"{shtab.complete(parser, shell)}\n"


def _mark_paths(parser: argparse.ArgumentParser, files: object) -> None:
    for action in parser._actions:  # argparse has no public way to read a parser back
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                _mark_paths(subparser, files)
        elif action.choices is None and action.nargs != 0:
            action.complete = files  # type: ignore[attr-defined]  # shtab's own protocol
