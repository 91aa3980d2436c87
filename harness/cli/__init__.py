"""The command line: a module per command, imported only when its command is named.

Exit status: 0 pass · 1 measured and failed · 2 usage, configuration, inventory · 3 could not
measure · 130 interrupted, resumable.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import errno
import importlib
import io
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn, TextIO

import busbw
from busbw.cli import environment
from busbw.errors import BusbwError, UsageError

COMMANDS = {
    "doctor": "in which ways this machine can measure, what is missing, and how to add it",
    "init": "discover the nodes and write busbw.yaml",
    "check": "check every node against its expected configuration, and against the other nodes"
    " (read-only)",
    "run": "check the nodes, build, measure, judge and report",
    "undrain": "check nodes that --on-fail took out of service, and put back those that pass",
    "cleanup": "stop and remove what an interrupted run left on the nodes",
    "why": "find the cause of a failed, slow or hung job in its logs and results, with the fix",
    "diff": "compare a run with the accepted runs: slower beyond the noise, and what else changed",
    "baseline": "accept a run as the reference for later runs; list, show, revoke",
    "read": "read nccl-tests, NCCL, RAS and launcher output of any version",
    "report": "rebuild a run's report from its raw evidence",
    "bundle": "one redacted archive for a ticket: report, raw lines, versions, text for whom it concerns",
    "expect": "what given hardware should reach: limits, NCCL's model, published figures",
    "cost": "what a slow fabric costs a training job: step time, GPU-hours, money",
    "lab": "the embedded cluster: bring it up, break it, take it down",
    "completion": "print a completion script for your shell",
    "export": "runs as tables for a notebook or a database: CSV or Parquet",
    "history": "how the numbers of these runs changed over time",
    "site": "the runs of a folder as pages that need no server: index, trends, every report",
    "schema": "the JSON Schema of run.json, check.json or plan.json",
    "version": "versions of busbw, its libraries and the programs of this machine it works with",
}
"""Every command with its line of help, in the order in which people need them. The module of the
same name has `register(parser)`, which adds its options, and `run(args)`, which returns the exit
status and raises `BusbwError` for what the user must know."""

_DESCRIPTION = (
    "Measures the collective bandwidth of a GPU cluster, says whether it is what the hardware"
    " should give, and names the node, link, rail, rank or setting to blame when it is not."
)
_EPILOG = (
    "exit status: 0 pass · 1 measured and failed · 2 usage or inventory · 3 could not measure ·"
    " 130 interrupted. Many options can be set as BUSBW_NAME in the environment: flag, then"
    " environment, then busbw.yaml."
)
_NOT_TAKEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_OF_FOLDERS = frozenset({"history", "baseline"})
"""Commands of which somebody may name the folder of runs without its option."""
_START = "Start: busbw check -w 'gpu-[001-016]'"


def build_parser(*, options: bool = True) -> argparse.ArgumentParser:
    """The parser of the whole command line.

    `options=False` leaves out the options of the commands: it imports none of their modules, and
    is all that `busbw --help` shows.
    """
    parser = argparse.ArgumentParser(prog="busbw", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"busbw {busbw.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help_line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        if options:
            _add_examples(subparser, name)
            _module(name).register(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script: every error ends as its lines on standard error and its
    exit status, none as a stack trace."""
    _open_streams()
    status = _ended(sys.argv[1:] if argv is None else argv)
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    return status


def _ended(words: Sequence[str]) -> int:
    """Exit status of a command, after what there is to tell of an error."""
    verbose = 0
    try:
        try:
            if not words:
                write_message(f"{build_parser(options=False).format_help()}\n{_START}\n")
                return UsageError.exit_status
            if words[0] not in COMMANDS:
                return _no_command(words)
            command = _module(words[0])
            args = _parse(words[0], command, words[1:])
            verbose = getattr(args, "verbose", 0)
            status: int = command.run(args)
            sys.stdout.flush()
            return status
        except BusbwError as error:
            sys.stdout.flush()
            error.next_step = error.next_step or f"busbw {words[0]} --help"
            write_message(_harmless("".join(f"busbw: {line}\n" for line in error.lines())))
            return error.exit_status
        except KeyboardInterrupt:
            write_message("busbw: interrupted\nbusbw: next: start the same command again\n")
            return 130
    except BrokenPipeError:
        # The reader went away (`busbw read … | head`): no error of ours, but the output was not
        # delivered in full.
        _discard(sys.stdout)
        return 141
    except Exception as error:  # noqa: BLE001  # the last floor: a defect of busbw is reported as one
        if _is_lost_output(error):
            _discard(sys.stdout)
            write_message(
                "busbw: error: standard output cannot be written\n"
                f"busbw: seen: {error}\n"
                "busbw: next: make room where it goes, and start the command again\n"
            )
        else:
            _report_defect(error, trace=verbose >= 2 or bool(os.environ.get("BUSBW_TRACEBACK")))
        return 3


def _open_streams() -> None:
    """/dev/null in the place of each standard stream that the caller closed: its number would go to
    the next file that is opened, and what is printed into that."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
    # A locale without UTF-8, such as en_US.ISO-8859-1 or C: `✖` becomes `?`, and the answer is
    # printed. With UTF-8 only a name's bytes that are none need `surrogateescape`.
    if isinstance(sys.stdout, io.TextIOWrapper) and (
        sys.stdout.errors == "strict" or codecs.lookup(sys.stdout.encoding).name != "utf-8"
    ):
        sys.stdout.reconfigure(errors="replace")


def _discard(stream: TextIO) -> None:
    """What is left in the stream goes nowhere: else Python fails at its end, with an exit status of
    its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_lost_output(error: Exception) -> bool:
    """Whether a stream did not take what was written: files have names, and errors of their own."""
    return isinstance(error, OSError) and error.errno in _NOT_TAKEN and error.filename is None


def write_message(text: str) -> None:
    """Prints on standard error. What cannot be printed, because the disk of its file is full or its
    reader went away, ends nothing: the run goes on, and the exit status says how it ended."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def write_text(text: str) -> None:
    """Prints a result on standard output; what nodes and strangers' files call themselves cannot
    steer the terminal."""
    sys.stdout.write(_harmless(text))


def _harmless(text: str) -> str:
    """An error repeats what it saw, also a file's control characters."""
    from busbw.reports.safe import visible

    return visible(text)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"busbw.cli.{name}")


def _no_command(words: Sequence[str]) -> int:
    """--help and --version; anything else is not a command."""
    if words[0].startswith("-"):
        build_parser(options=False).parse_args(words)
    near = _nearest(words[0], COMMANDS)
    hint = f"; did you mean '{near}'?" if near else ""
    raise UsageError(f"no command '{words[0]}'{hint}", next_step="busbw --help")


class _Parser(argparse.ArgumentParser):
    """A command's options. A beginning of an option's name is not that option: a later release may
    have another that begins so."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """A wrong word on the command line, in the form of every other error."""
        raise UsageError(
            f"{self.prog.removeprefix('busbw ')}: {message}", next_step=f"{self.prog} --help"
        )


def _parse(name: str, command: ModuleType, words: Sequence[str]) -> argparse.Namespace:
    """The options of a command, from the environment where the command line does not set them.

    Raises:
        UsageError: an option that the command does not have, or one argument too many.
    """
    parser = _Parser(prog=f"busbw {name}", description=COMMANDS[name])
    if not {"-h", "--help"}.isdisjoint(words):
        _add_examples(parser, name)
    command.register(parser)
    values = environment.apply(parser, os.environ)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        step = ""
        if name in _OF_FOLDERS and os.path.isdir(unknown[0]):
            kept = [word for word in words if word not in unknown]
            step = f"busbw {shlex.join((name, *kept, '-o', unknown[0]))}"
        raise UsageError(_unknown(name, parser, words, unknown), next_step=step)
    environment.settle(args, values)
    return args


def _add_examples(parser: argparse.ArgumentParser, name: str) -> None:
    """Only help shows them, so that no other command pays for them."""
    from busbw.cli import examples

    parser.epilog, parser.formatter_class = examples.text(name), examples.Formatter


def _unknown(
    name: str, parser: argparse.ArgumentParser, words: Sequence[str], unknown: Sequence[str]
) -> str:
    options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if not options:
        return f"{name} takes no further argument: {' '.join(unknown)}"
    known = dict(_option_names(parser, words))
    near = _nearest(options[0], known)
    if near is None:
        return f"{name} has no option {options[0]}"
    others = "".join(f" ({other})" for other in known[near] if other != near)
    return f"{name} has no option {options[0]}; did you mean {near}{others}?"


def _option_names(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Every option with all its names, those of the subcommands among `words` included."""
    for action in parser._actions:  # argparse has no public way to read a parser back
        if isinstance(action, argparse._SubParsersAction):
            for word in words:
                if word in action.choices:
                    yield from _option_names(action.choices[word], words)
        for option in action.option_strings:
            yield option, action.option_strings


def _nearest(word: str, known: Iterable[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(word, known, 1)), None)


def _report_defect(error: Exception, *, trace: bool) -> None:
    import traceback

    if trace:
        traceback.print_exc()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
    write_message(
        f"busbw: error: internal error, a defect of busbw {busbw.__version__}\n"
        f"busbw: seen: {type(error).__name__}: {_harmless(str(error))} ({place})\n"
        "busbw: next: run again with BUSBW_TRACEBACK=1 set and report what it prints\n"
    )
