"""What a person sees while busbw works. The only place that uses rich.

A terminal gets one line per finished step and, below them, the step at work with its latest text
and its time. Anything else gets one line per event with a timestamp, and a heartbeat after a
silence: CI systems end jobs that are silent. Text from nodes is never markup: control
characters are shown as visible marks.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from busbw.cli import write_message
from busbw.reports.safe import one_line, visible
from busbw.reports.terminal import Line, printed
from busbw.units import format_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from busbw.cli.launch_progress import LaunchProgress

_STEP_WIDTH = 14
HEARTBEAT_S = 30.0
"""Silence after which a log gets a line."""
COMMANDS = "busbw.commands"
"""Name of the log that the transport writes every command of every node to."""
_TICK_S = 0.5
_INSTANT = frozenset({"note", "run", "command", "output"})
"""Steps that end as soon as they are printed."""


def register(group: argparse._ArgumentGroup) -> None:
    """-q and -v, equal for every command that works for a while."""
    loud = group.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="the verdict's last line only")
    loud.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="every command of every node as it runs; -vv: what it printed, too",
    )


def now() -> str:
    """RFC 3339, UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def steady() -> Callable[[], str]:
    """A clock that begins with the machine's and does not follow when that one is set: times
    of one process are in order."""
    at_s, began_s = time.time(), time.monotonic()
    return lambda: time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s + time.monotonic() - began_s)
    )


def width() -> int | None:
    """Columns of the terminal that standard output is; None = it is none, and a line stays a line
    for grep."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def colour(stream: TextIO | None = None) -> bool:
    """Whether a stream (default: standard error) may be coloured: a terminal, and nobody forbade it
    (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        (stream or sys.stderr).isatty() and os.environ.get("TERM") != "dumb"
    )


_COLOURS = {"PASS": 32, "✓": 32, "WARN": 33, "▲": 33, "FAIL": 31, "✖": 31, "UNKNOWN": 35, "?": 35}
_STATE = re.compile(
    r"^(?:ALSO  |NOTE  )?(PASS|WARN|FAIL|UNKNOWN|[✓▲✖?] [a-z]+)(?=  | \()", re.MULTILINE
)


def shown(lines: Iterable[Line]) -> str:
    """Lines for standard output: broken at the edge of a terminal, with the states in colour where
    that is wanted."""
    text = printed(lines, width())
    if not colour(sys.stdout):
        return text

    def painted(match: re.Match[str]) -> str:
        state = match[1]
        code = _COLOURS[state.partition(" ")[0]]
        return match[0].replace(state, f"\x1b[1;{code}m{state}\x1b[0m")

    return _STATE.sub(painted, text)


_TOOK = re.compile(r"(?:, |^)ended after [^,]*$")


class Console:
    """Progress on standard error; `quiet` = none at all. Used with `with`, it lives; without, it
    only writes lines."""

    def __init__(self, *, quiet: bool, verbose: int = 0, heartbeat_s: float = HEARTBEAT_S) -> None:
        """`verbose`: 1 = the nodes' commands too, 2 = and what they printed; `heartbeat_s`: silence
        after which a log gets a line."""
        self._quiet = quiet
        self._commands = _Commands(self, verbose) if verbose and not quiet else None
        self._heartbeat_s = heartbeat_s
        self._lock = threading.RLock()
        self._step, self._text, self._done = "", "", False
        self._launch: LaunchProgress | None = None
        """The newest row of the launch at work."""
        self._began = self._reported = self._written = time.monotonic()
        """When the step began, when it last reported, when a line was last written."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Start the live line, or the heartbeat."""
        if self._quiet:
            return self
        if self._commands is not None:
            self._commands.attach()
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._live = _live(self)
            self._live.start()
        else:
            self._thread = threading.Thread(target=self._beat, name="busbw-heartbeat", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last step's line behind and stop."""
        if self._commands is not None:
            self._commands.detach()
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._live is not None:
            with self._lock:
                self._leave()
            self._live.stop()
            self._live = None

    def progress(self, step: str, text: str) -> None:
        """One event of a step. A line break inside `text` is shown as a mark, not made."""
        if self._quiet:
            return
        with self._lock:
            text, done = self._put(step, text)
            if self._live is None:
                from busbw.run.context import Awaited

                if not isinstance(text, Awaited):
                    self._reported = self._written = time.monotonic()
                    self._write(step, text)
                if step not in _INSTANT:
                    self._step, self._text = step, text
                return
            self._reported = self._written = time.monotonic()
            if step in _INSTANT:
                self._leave()
                if text != "ended":
                    self._live.console.print(_line(step, text, cut=False))
                return
            if step != self._step:
                self._leave()
                self._step, self._began = step, time.monotonic()
            # How long it took stands in a column of its own.
            self._text, self._done = _TOOK.sub("", text) if done else text, done

    def _put(self, step: str, text: str) -> tuple[str, bool]:
        """The text for people, and whether a launch ended well: of a row what it says."""
        from busbw.cli import launch_progress
        from busbw.run.context import Done, Row

        if isinstance(text, Row):
            before = self._launch if step == self._step else None
            self._launch = launch_progress.after(before, text, time.monotonic())
            return self._launch.line(), False
        last = self._launch
        if isinstance(text, Done) and last is not None:
            self._launch = None
            return f"{last.text}, {text}", True
        if step != self._step:
            self._launch = None
        return text, isinstance(text, Done)

    def current(self) -> Text:
        """The line of the step at work."""
        # Without the lock: the thread that draws holds rich's own, for which whoever writes a line
        # waits with this one in hand.
        step, text, began = self._step, self._text, self._began
        if not step:
            return _line("", "")
        return _line(step, text, format_duration(time.monotonic() - began))

    def _leave(self) -> None:
        """The step at work is over: its last word stays."""
        if self._step and self._live is not None:
            took = format_duration(time.monotonic() - self._began)
            line = _line(self._step, self._text, took, cut=False, done=self._done)
            self._live.console.print(line)
        self._step, self._text, self._done = "", "", False

    def _write(self, step: str, text: str) -> None:
        line = f"{step:<{_STEP_WIDTH}} {visible(text)}"
        write_message(f"  {line}\n" if sys.stderr.isatty() else f"{now()} {line}\n")

    def _beat(self) -> None:
        while not self._ended.wait(min(_TICK_S, self._heartbeat_s / 4)):
            with self._lock:
                at = time.monotonic()
                if self._step and at - self._written >= self._heartbeat_s:
                    self._write(
                        self._step,
                        f"still running, no output for {format_duration(at - self._reported)}; last: {self._text}",
                    )
                    self._written = at


class _Commands(logging.Handler):
    """The nodes' commands as the transport logs them, line by line on the console."""

    def __init__(self, console: Console, verbose: int) -> None:
        super().__init__(logging.INFO if verbose == 1 else logging.DEBUG)
        self._console = console
        self._log = logging.getLogger(COMMANDS)

    def attach(self) -> None:
        """From now on."""
        self._log.setLevel(self.level)
        self._log.addHandler(self)

    def detach(self) -> None:
        """No longer."""
        self._log.removeHandler(self)
        self._log.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """A command is one line, its output a line each."""
        step = "command" if record.levelno >= logging.INFO else "output"
        for line in record.getMessage().splitlines():
            self._console.progress(step, line)


class _Current:
    """What rich draws again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __rich__(self) -> Text:
        """The line of the step at work."""
        return self._console.current()


def _live(console: Console) -> Live:
    from rich.console import Console as RichConsole
    from rich.live import Live

    # Nothing that a node printed is ever read as markup, as an emoji or as something to be highlighted.
    screen = RichConsole(
        file=sys.stderr, markup=False, emoji=False, highlight=False, no_color=not colour()
    )
    return Live(
        _Current(console),
        console=screen,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _line(step: str, text: str, took: str = "", *, cut: bool = True, done: bool = False) -> Text:
    """`step  text  time`, behind a check mark where a launch ended well; the line at work is cut at
    the edge, for a line that wraps cannot be redrawn in place."""
    from rich.text import Text

    line = Text(no_wrap=cut, overflow="ellipsis" if cut else "fold")
    line.append("✓ " if done else "  ", style="green")
    line.append(f"{one_line(step):<{_STEP_WIDTH}} ", style="bold")
    line.append(one_line(text))
    if took:
        line.append(f"  {took}", style="dim")
    return line
