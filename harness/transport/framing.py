"""How a command travels in one line of shell, and how its own bytes are told from everybody else's.

A login shell may talk before the command starts (`.bashrc`, `/etc/profile.d`), a client may add its
own words (`Connection to … closed`), and exit status 255 of `ssh` means two things. So the command
is started by `sh` between two marks that no output has by chance: the first, on both streams,
carries the id of the remote process group, which is what a time-out kills; the second, on stderr,
carries the exit status.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from busbw.model import Command, CommandResult
from busbw.text import whole_number
from busbw.transport import remaining_s

# `exec` in front of it makes this shell the leader of the process group that sshd makes for a
# session, whatever the login shell is. The scripts hold no quote, exclamation mark or line break,
# so that single quotes are enough for them in every shell.
_SCRIPT = (
    'm=$1; eval "set -- $(printf "$2")"; printf "\\n%s %s\\n" "$m" "$$"; printf "\\n%s %s\\n" "$m"'
    ' "$$" >&2; "$@"; s=$?; printf "\\n%s end %s\\n" "$m" "$s" >&2; exit "$s"'
)
# TERM first, so that what has something to clean up can; KILL after a second. Exit status 0 =
# nothing of the groups is left. A zombie is nothing; what sits in the kernel (a dead GPU's
# nvidia-smi) is something, and only `ps` can tell: without one that lists its own session, a signal
# 0 has to do. (`-s NAME --`: dash's own kill takes no other order.)
_KILL = (
    'g="$*"; list=$(IFS=,; echo "$*"); send() { r=1; for i in $g; do $k kill -s "$1" -- "-$i"'
    " 2>/dev/null && r=0; done; return $r; }; some() { own=; set -- $(ps -o sess= -o stat= -s"
    ' "$list,$$" 2>/dev/null); while [ $# -gt 1 ]; do case "$1 $2" in "$$ "*) own=1 ;; *" Z"*) ;;'
    ' *) return 0 ;; esac; shift 2; done; [ -n "$own" ] && return 1; send 0; }; wait_for() { n=0;'
    " while some; do [ $n -ge $1 ] && return 1; sleep 0.1; n=$((n+1)); done; }; send TERM; wait_for"
    " 10 && exit 0; send KILL; wait_for 5"
)
_UNSAFE = re.compile(rb"[^A-Za-z0-9 _./=:,@+-]")
_DIGITS = 20
"""Of a process group or an exit status, at most."""
KILL_S = 5.0
"""The longest that the remote kill line takes, in seconds, its connection included."""


@dataclass(frozen=True, slots=True)
class Framed:
    """The two streams of one command, without what others wrote into them."""

    started: bool
    """False = the first mark never came: the login shell did not start the command, and the streams
    are what it left instead."""
    group: int | None
    """Process group on the node."""
    stdout: bytes
    stderr: bytes
    exit_status: int | None
    """128 + n for a command ended by signal n; None = the second mark never came."""
    noise: bytes
    """What the login shell wrote to stdout before the command began."""


def words(argv: tuple[str, ...], sudo: bool) -> tuple[str, ...]:
    """The command with `sudo -n --` in front where it is asked for."""
    return ("sudo", "-n", "--", *argv) if sudo else argv


def remote_line(argv: tuple[str, ...], *, sudo: bool, mark: str) -> str:
    """The line for the login shell of the node: the command quoted, once, for `sh`, and out of
    reach of what else may read it.

    A login shell need not be a POSIX one (tcsh expands `!` and fish reads backslashes inside single
    quotes), so what is not harmless to all of them travels as octal.

    >>> remote_line(("dmesg", "-T"), sudo=False, mark="M").endswith("sh M 'dmesg -T'")
    True
    """
    plain = shlex.join(words(argv, sudo)).encode()
    return f"exec sh -c '{_SCRIPT}' sh {mark} '{_UNSAFE.sub(_octal, plain).decode()}'"


def kill_line(groups: tuple[int, ...], *, sudo: bool) -> str:
    """The line that ends these process groups; its exit status is 0 when nothing of them is
    left."""
    prefix = 'k="sudo -n --"; ' if sudo else "k=; "
    return f"exec sh -c '{prefix}{_KILL}' sh {' '.join(str(group) for group in groups)}"


def _octal(match: re.Match[bytes]) -> bytes:
    return b"\\%03o" % match[0][0]


def group_in(stdout: bytes, mark: str) -> int | None:
    """The process group, once the first mark has arrived."""
    number = _number_after(f"\n{mark} ", stdout)
    return number[0] if number else None


def unframe(stdout: bytes, stderr: bytes, mark: str) -> Framed:
    """Split what came back on both streams.

    >>> unframe(b"Welcome!\\n\\nM 41\\nout", b"\\nM 41\\nerr\\nM end 3\\n", "M")
    Framed(started=True, group=41, stdout=b'out', stderr=b'err', exit_status=3, noise=b'Welcome!\\n')
    >>> unframe(b"This account is currently not available.\\n", b"", "M").started
    False
    """
    out = _number_after(f"\n{mark} ", stdout)
    if out is None:
        return Framed(False, None, stdout, stderr, None, b"")
    group, begin, end = out
    err = _number_after(f"\n{mark} ", stderr)
    if err is not None:
        stderr = stderr[err[2] :]
    last = _number_after(f"\n{mark} end ", stderr)
    if last is not None:
        stderr = stderr[: last[1]] + stderr[last[2] :]
    return Framed(
        True, group, stdout[end:], stderr, last[0] if last is not None else None, stdout[:begin]
    )


def _number_after(sign: str, stream: bytes) -> tuple[int, int, int] | None:
    """The number between `sign` and the end of its line, and where the whole begins and ends; None
    = not there, or not whole.

    Without a regular expression: the mark is another one for every command, so that compiling would
    cost more than all the rest."""
    begin = stream.find(sign.encode())
    end = stream.find(b"\n", begin + len(sign))
    number = None
    if begin >= 0 and 0 < end - begin - len(sign) < _DIGITS:
        number = whole_number(stream[begin + len(sign) : end].decode("ascii", "replace"))
    return None if number is None else (number, begin, end + 1)


# What every transport does with the streams of a command: how much is kept, how it may stop, and
# the record made of it.

LIMIT_BYTES = 64 << 20
"""Largest output kept per stream, in bytes."""
BEGIN_S = 1.0
"""How long a command that must be ended may take to show which process group it is, in seconds."""
QUIET_S = 2.0
"""How long the streams of a command that has ended may stay open and silent (a process it left
behind holds them), in seconds."""


class Stop(StrEnum):
    """Why reading stopped."""

    ENDED = "ended"
    LATE = "late"
    CUT = "cut"

    def problem(
        self, command: Command, limit_bytes: int, framed: Framed | None, *, killed: bool
    ) -> str | None:
        """The `CommandResult.problem` of it; None = the command ended by itself."""
        if self is Stop.ENDED:
            return None
        if self is Stop.CUT:
            text = f"output over {limit_bytes >> 20} MiB, cut"
        else:
            text = f"timed out after {command.timeout_s:g} s"
        if killed:
            return text
        if framed is not None and not framed.started:
            return f"{text}; it had not begun"
        return f"{text}; it may still be running on the node"


def result(
    node: str, command: Command, started: float, framed: Framed | None, problem: str | None
) -> CommandResult:
    """The record of a command that was begun at `started` (of `time.monotonic`)."""
    return CommandResult(
        node=node,
        argv=command.argv,
        exit_status=framed.exit_status if framed is not None and problem is None else None,
        stdout=framed.stdout if framed is not None else b"",
        stderr=framed.stderr if framed is not None else b"",
        seconds=time.monotonic() - started,
        problem=problem,
    )


def ended_early(framed: Framed, status: int | None) -> str:
    """The problem of a command whose second mark never came, though the connection lives; `status`
    = of the shell that carried it."""
    how = "without a status (killed)" if status is None else f"with status {status}"
    if framed.started:
        return f"the shell around the command ended early, {how}"
    return f"the login shell ended {how} before the command began"


def noise_note(framed: Framed) -> str | None:
    """What to tell the user of a login shell that talks: it breaks other programs that run over
    ssh."""
    if not framed.noise:
        return None
    return (
        f"the login shell writes {len(framed.noise)} bytes before every command:"
        f" {framed.noise[:80]!r}"
    )


def cut(stream: bytearray, limit_bytes: int) -> bool:
    """Whether there is more than `limit_bytes` in it; what is more is dropped."""
    if len(stream) <= limit_bytes:
        return False
    del stream[limit_bytes:]
    return True


def groups_of(running: Sequence[tuple[bytearray, str]]) -> tuple[int, ...]:
    """The process groups of commands under way, from their standard output and mark; one that has
    just been started is waited for."""
    until = time.monotonic() + BEGIN_S
    while True:
        groups = [group_in(bytes(stdout[:65536]), mark) for stdout, mark in running]
        if None not in groups or time.monotonic() >= until:
            return tuple(group for group in groups if group is not None)
        time.sleep(0.02)


class Pump:
    """Feeds a local process its standard input and reads both its streams, bounded in time and in
    bytes."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._limit_bytes = limit_bytes
        self._stdin = memoryview(stdin)
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe, sink in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, sink)
        self._input = process.stdin
        if stdin:
            os.set_blocking(self._input.fileno(), False)
            self._selector.register(self._input, selectors.EVENT_WRITE)
        else:
            self._input.close()

    def run(self, deadline: float, over: Callable[[], bool]) -> Stop:
        """Go on until all streams are closed and the process has ended, or `over` says so and they
        are silent. May be called again."""
        quiet_since = time.monotonic()
        while self._selector.get_map():
            ready = self._selector.select(min(remaining_s(deadline), 0.2))
            moved = [self._move(key) for key, _ in ready]
            now = time.monotonic()
            if cut(self.stdout, self._limit_bytes) or cut(self.stderr, self._limit_bytes):
                return Stop.CUT
            if now >= deadline:
                return Stop.LATE
            if any(moved) or not over():
                quiet_since = now
            elif now - quiet_since > QUIET_S:
                return Stop.ENDED
        try:
            self._process.wait(remaining_s(deadline))
        except subprocess.TimeoutExpired:
            return Stop.LATE
        return Stop.ENDED

    def close(self) -> None:
        """Give the pipes back."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _move(self, key: selectors.SelectorKey) -> bool:
        if key.data is None:
            return self._send()
        data = os.read(key.fd, 1 << 16)
        key.data.extend(data)
        if not data:
            self._selector.unregister(key.fileobj)
        return True

    def _send(self) -> bool:
        try:
            self._stdin = self._stdin[os.write(self._input.fileno(), self._stdin[: 1 << 16]) :]
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._selector.unregister(self._input)
            self._input.close()
        return True
