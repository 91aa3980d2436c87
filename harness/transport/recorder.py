"""Keeps every command of every node, and what came back, in the run directory.

`raw/nodes/NODE/NNNN-LABEL.json` holds argv, exit status, seconds and where the streams are; the
streams stand beside it as `.out` and `.err`, or where `Command.store` says (standard error then
with `.err` added). `busbw.transport.replay` answers from these files without any node.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from busbw.errors import RunDirError
from busbw.model import Command, CommandResult
from busbw.store.run_directory import RunDir
from busbw.transport import Session, Transport
from busbw.transport.wrapped import Run, WrappedTransport

_LOG = logging.getLogger("busbw.commands")
"""For people who want to watch (-v): every command when it starts, and at the level DEBUG what it
printed."""
_MOST_LINES = 40
CLEANING = frozenset(("end", "sweep", "remove", "forget"))
"""Labels of commands that take away what a run left on nodes: a full disk here keeps none of them
from being done."""


def key_of(command: Command) -> str:
    """What makes two commands the same for a replay: argv, sudo and standard input."""
    text = json.dumps([list(command.argv), command.sudo, hashlib.sha256(command.stdin).hexdigest()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def recording(
    transport: Transport, run: RunDir, clock: Callable[[], float] = time.time
) -> Transport:
    """The transport, of which every command is kept in the run. `clock`: seconds since 1970."""

    def run_of(session: Session) -> Run:
        numbers = itertools.count(_next_number(run, session.node))
        lock = threading.Lock()

        def recorded(command: Command) -> CommandResult:
            with lock:
                number = next(numbers)
            return _recorded(session, command, run, number, clock)

        return recorded

    return WrappedTransport(transport, run_of)


def _recorded(
    session: Session, command: Command, run: RunDir, number: int, clock: Callable[[], float]
) -> CommandResult:
    _LOG.info("%s$ %s", session.node, _typed(command))
    result = session.run(command)
    if result.answered_s is None:
        # A replayed answer says when it was one.
        result = replace(result, answered_s=round(clock(), 3))
    if _LOG.isEnabledFor(logging.DEBUG):
        _LOG.debug("%s", "\n".join(_output_lines(result)))
    try:
        keep(run, number, command, result)
    except RunDirError:
        if command.label not in CLEANING:
            raise
        _LOG.warning("%s: its clean-up (%s) was done and not recorded", session.node, command.label)
    return result


def keep(run: RunDir, number: int, command: Command, result: CommandResult) -> None:
    """Write one command and its result. A command that failed without a word leaves no output file:
    none is not an empty one."""
    stem = f"nodes/{result.node}/{number:04d}-{command.label}"
    out: str | None = None
    err: str | None = None
    if result.stdout or result.ok:
        out = command.store or f"{stem}.out"
        run.write_raw(out, result.stdout)
    if result.stderr:
        err = f"{command.store or stem}.err"
        run.write_raw(err, result.stderr)
    meta = {
        "label": command.label,
        "argv": list(command.argv),
        "sudo": command.sudo,
        "stdin_bytes": len(command.stdin),
        "timeout_s": command.timeout_s,
        "exit_status": result.exit_status,
        "problem": result.problem,
        "seconds": round(result.seconds, 6),
        "answered_s": result.answered_s,
        "stdout": out,
        "stderr": err,
        "key": key_of(command),
    }
    # Last: a record that exists has its streams.
    run.write_raw(f"{stem}.json", json.dumps(meta, indent=2, ensure_ascii=False) + "\n")


def _typed(command: Command) -> str:
    """As a person would type it, on one line; how much it is given on standard input is told, not
    shown."""
    stdin = f" < {len(command.stdin):,} bytes" if command.stdin else ""
    first, *more = shlex.join(command.argv).splitlines() or [""]
    cut = f" … {len(more)} more lines" if more else ""
    return f"{'sudo ' if command.sudo else ''}{first}{cut}{stdin}"


def _output_lines(result: CommandResult) -> list[str]:
    """What came back, each stream cut."""
    ended = result.problem or f"exit status {result.exit_status}"
    lines = [f"{result.node}: {ended} after {result.seconds:.2f} s"]
    for name, stream in (("out", result.stdout), ("err", result.stderr)):
        shown = stream.decode("utf-8", "replace").splitlines()
        lines += [f"{result.node} {name}: {line}" for line in shown[:_MOST_LINES]]
        if len(shown) > _MOST_LINES:
            lines.append(
                f"{result.node} {name}: … {len(shown) - _MOST_LINES} more lines, whole in"
                f" raw/nodes/{result.node}/"
            )
    return lines


def _next_number(run: RunDir, node: str) -> int:
    matches = [re.search(r"/(\d{4,})-", name) for name in run.raw_names(f"nodes/{node}")]
    return max((int(match[1]) for match in matches if match), default=0) + 1
