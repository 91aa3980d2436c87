"""The line that carries a command, run by the real shells that a login shell may be."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from waiting import HANG_S, PATIENCE_S

from busbw.transport.framing import Framed, group_in, kill_line, remote_line, unframe, words

ARGV = (
    "printf",
    "%s|",
    "a b",
    "it's",
    "$(reboot)",
    "`id`",
    "x\ny",
    "*",
    '"',
    "\\n",
    "\\\\",
    "\\'",
    "x\\",
    "",
    "é",
    "!",
    "a!b",
    "~",
    "100%",
    "-n",
)


def login(shell: str, line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """As sshd does it: the user's shell with -c, in a session of its own."""
    return subprocess.run(
        (shell, "-c", line), input=stdin, capture_output=True, start_new_session=True, check=False
    )


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh"])
def test_every_word_arrives_as_it_was_given(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    done = login(shell, remote_line(ARGV, sudo=False, mark="M"))

    framed = unframe(done.stdout, done.stderr, "M")

    assert (framed.started, framed.exit_status, framed.stdout, framed.stderr, framed.noise) == (
        True,
        0,
        ("|".join(ARGV[2:]) + "|").encode(),
        b"",
        b"",
    )


def test_both_streams_the_input_and_the_status_come_through() -> None:
    done = login(
        "bash",
        remote_line(("sh", "-c", "cat; echo err >&2; exit 255"), sudo=False, mark="M"),
        b"in\n",
    )

    framed = unframe(done.stdout, done.stderr, "M")

    assert framed == Framed(True, framed.group, b"in\n", b"err\n", 255, b"")
    assert done.returncode == 255


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [(("nope-nope",), 127, b"nope-nope: not found"), (("/etc/passwd",), 126, b"ermission denied")],
)
def test_a_program_that_cannot_be_run_is_a_result(
    argv: tuple[str, ...], status: int, message: bytes
) -> None:
    done = login("bash", remote_line(argv, sudo=False, mark="M"))

    framed = unframe(done.stdout, done.stderr, "M")

    assert (framed.exit_status, framed.stdout) == (status, b"")
    assert message in framed.stderr


def test_a_command_ended_by_a_signal_has_the_status_a_shell_gives_it() -> None:
    done = login("bash", remote_line(("sh", "-c", "kill -9 $$"), sudo=False, mark="M"))

    assert unframe(done.stdout, done.stderr, "M").exit_status == 137


def test_what_a_login_shell_says_first_is_kept_apart() -> None:
    done = login(
        "bash", f"echo Welcome; echo tip >&2; {remote_line(('echo', 'out'), sudo=False, mark='M')}"
    )

    framed = unframe(done.stdout, done.stderr, "M")

    assert framed == Framed(True, framed.group, b"out\n", b"", 0, b"Welcome\n")


def test_a_shell_that_starts_nothing_is_not_taken_for_the_command() -> None:
    assert unframe(b"This account is currently not available.\n", b"", "M") == Framed(
        False, None, b"This account is currently not available.\n", b"", None, b""
    )


def test_words_of_the_ssh_client_after_the_end_do_not_hide_the_status() -> None:
    framed = unframe(b"\nM 7\n", b"\nM 7\nerr\nM end 4\nConnection to n closed.\n", "M")

    assert framed == Framed(True, 7, b"", b"errConnection to n closed.\n", 4, b"")


def test_an_output_that_looks_like_the_end_is_only_output() -> None:
    done = login("bash", remote_line(("printf", "\\nM end 0\\n"), sudo=False, mark="M"))

    assert unframe(done.stdout, done.stderr, "M").stdout == b"\nM end 0\n"


def test_sudo_stands_in_front_and_never_asks() -> None:
    assert words(("dmesg",), True) == ("sudo", "-n", "--", "dmesg")
    assert remote_line(("dmesg", "-T"), sudo=True, mark="M").endswith(" sh M 'sudo -n -- dmesg -T'")


@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh"])
@pytest.mark.parametrize("ignoring", ["", "trap '' TERM; "])
def test_the_kill_line_ends_the_whole_group_even_one_that_ignores_term(
    ignoring: str, shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    line = remote_line(
        ("sh", "-c", f"{ignoring}sleep {HANG_S} & sleep {HANG_S} & echo up; wait; wait"),
        sudo=False,
        mark="M",
    )
    process = subprocess.Popen(
        (shell, "-c", line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    seen = b""
    while b"up\n" not in seen:
        seen += process.stdout.readline()
    group = group_in(seen, "M")
    assert group == process.pid

    kill = subprocess.Popen((shell, "-c", kill_line((group,), sudo=False)), start_new_session=True)
    # Both streams end with the last process of the group.
    process.communicate(timeout=PATIENCE_S)
    assert kill.wait() == 0


def test_a_group_that_may_not_be_killed_is_not_reported_as_gone() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to have a process of somebody else")
    process = subprocess.Popen(("sleep", "60"), start_new_session=True)
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

    killed = subprocess.run(
        (*other, "sh", "-c", kill_line((process.pid,), sudo=False)), check=False, timeout=10
    )

    assert process.poll() is None
    process.kill()
    process.wait()
    assert killed.returncode == 1


def test_the_group_is_unknown_until_the_first_mark_is_whole() -> None:
    assert group_in(b"noise\n\nM 12", "M") is None
    assert group_in(b"noise\n\nM 12\n", "M") == 12
