"""How a command travels in one line of shell, and how its own bytes are told from everybody else's.

A login shell may talk before the command starts (`.bashrc`, `/etc/profile.d`), a client may add its
own words (`Connection to … closed`), and exit status 255 of `ssh` means two things. So the command
is started by `sh` between two marks that no output has by chance: the first, on both streams,
carries the id of the remote process group, which is what a time-out kills; the second, on stderr,
carries the exit status.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from busbw.text import whole_number

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
