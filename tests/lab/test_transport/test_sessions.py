"""Commands on real sshd processes, over paramiko, over fabric and over the OpenSSH program: the
same promises for all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import GROWING_S, HANG_S, PATIENCE_S, not_held_up, wait_until

from busbw.model import Command, CommandResult, Node
from busbw.transport import Transport
from busbw.transport.choose import make
from busbw.transport.head import with_head
from busbw.transport.openssh import OpenSshSession
from busbw.transport.ssh_session import SshSession

if TYPE_CHECKING:
    from .conftest import Site

pytestmark = pytest.mark.lab

RealSession = SshSession | OpenSshSession
Opener = Callable[..., RealSession]


KINDS = ("ssh", "openssh", "fabric")


@pytest.fixture(params=KINDS)
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens a session on a host of a site, over paramiko, OpenSSH and, as the head, fabric."""
    opened: list[RealSession] = []
    transports = []

    def connect(site: Site, host: str) -> RealSession:
        transport = transport_of(request.param, site.config, host)
        transports.append(transport)
        session = transport.connect(Node(host), 20)
        assert isinstance(session, RealSession), session
        opened.append(session)
        return session

    yield connect
    for session in opened:
        session.close()
    for transport in transports:
        transport.close()


def transport_of(kind: str, config: Path, host: str) -> Transport:
    if kind == "fabric":
        return with_head(make("ssh", ssh_config=str(config)), host)
    return make(kind, ssh_config=str(config))


def sh(script: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Command:
    return Command(("sh", "-c", script), stdin=stdin, timeout_s=timeout_s)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie: here the nodes are this machine."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def in_background(
    session: RealSession, command: Command
) -> tuple[threading.Thread, list[CommandResult]]:
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(session.run(command)))
    thread.start()
    return thread, results


def pid_in(path: Path) -> int:
    """The process id that a command writes first."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), "the process id")
    return int(path.read_text())


def test_a_command_leaves_both_streams_its_status_and_its_time(
    shared: Site, opener: Opener
) -> None:
    result = opener(shared, "good").run(sh("cat; echo err >&2; exit 3", stdin=b"in\n"))

    assert result == CommandResult(
        "good", ("sh", "-c", "cat; echo err >&2; exit 3"), 3, b"in\n", b"err\n", result.seconds
    )
    assert result.seconds > 0


def test_every_word_arrives_as_it_was_given(shared: Site, opener: Opener) -> None:
    words = ("a b", "it's", "$(reboot)", "`id`", "x\ny", "*", '"', "\\n", "", "é", "!", "~", ";")

    result = opener(shared, "good").run(Command(("printf", "%s|", *words)))

    assert result.out() == "|".join(words) + "|"


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 255", 255), ("exit 1", 1), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_a_status_is_the_commands_own_and_255_is_one(
    shared: Site, opener: Opener, script: str, status: int
) -> None:
    result = opener(shared, "good").run(sh(script))

    assert (result.exit_status, result.problem) == (status, None)


def test_a_missing_program_is_a_result(shared: Site, opener: Opener) -> None:
    result = opener(shared, "good").run(Command(("ibstat-nowhere",)))

    assert (result.exit_status, result.stdout, result.problem) == (127, b"", None)
    assert b"ibstat-nowhere: not found" in result.stderr


def test_a_megabyte_goes_in_and_out_unchanged(shared: Site, opener: Opener) -> None:
    data = os.urandom(1 << 20)

    assert opener(shared, "good").run(Command(("cat",), stdin=data)).stdout == data


def test_a_command_that_does_not_read_its_input_ends_all_the_same(
    shared: Site, opener: Opener
) -> None:
    result = opener(shared, "good").run(Command(("true",), stdin=bytes(8 << 20)))

    assert (result.exit_status, result.problem) == (0, None)


def test_megabytes_come_out_on_both_streams_at_once(shared: Site, opener: Opener) -> None:
    result = opener(shared, "good").run(
        sh("yes out | head -c 20000000 & yes err | head -c 20000000 >&2; wait")
    )

    assert result.stdout == b"out\n" * 5_000_000
    assert result.stderr == b"err\n" * 5_000_000


def test_output_without_end_is_cut_at_the_limit_reported_as_cut_and_stopped(
    shared: Site, opener: Opener, tmp_path: Path
) -> None:
    session = opener(shared, "good")
    session._limit_bytes = 1 << 20

    result = session.run(sh(f"echo $$ > {tmp_path}/pid; exec yes"))

    assert (result.exit_status, result.problem, result.ok) == (
        None,
        "output over 1 MiB, cut",
        False,
    )
    assert (1 << 20) - 100 < len(result.stdout) <= 1 << 20
    wait_until(lambda: not alive(pid_in(tmp_path / "pid")))


@pytest.mark.parametrize("ignoring", ["", "trap '' TERM; "])
def test_a_timeout_keeps_the_output_and_ends_what_runs_on_the_node(
    shared: Site, opener: Opener, ignoring: str
) -> None:
    session = opener(shared, "good")
    script = f"{ignoring}sleep {HANG_S} & echo $!; echo half >&2; sleep {HANG_S}"
    for timeout_s in GROWING_S[1:]:
        with not_held_up():
            result = session.run(sh(script, timeout_s=timeout_s))
        if result.stderr:
            break

    assert (result.exit_status, result.stderr, result.problem) == (
        None,
        b"half\n",
        f"timed out after {timeout_s:g} s",
    )
    wait_until(lambda: not alive(int(result.stdout)), "the end of the command")


def test_a_process_left_behind_that_holds_the_streams_does_not_hold_the_result(
    shared: Site, opener: Opener
) -> None:
    result = opener(shared, "good").run(sh(f"sleep {HANG_S} & echo $!"))

    assert (result.exit_status, result.problem) == (0, None)
    assert alive(int(result.stdout))
    os.kill(int(result.stdout), signal.SIGKILL)


def test_a_login_shell_that_talks_spoils_nothing_and_is_noted(site: Site, opener: Opener) -> None:
    server = site.start("noisy")
    (server.directory / "home" / ".bashrc").write_text(
        "echo Welcome to node 7; echo tip of the day >&2\n"
    )
    session = opener(site, "noisy")

    result = session.run(sh("echo out; echo err >&2; exit 4"))

    assert (result.exit_status, result.stdout, result.stderr, result.problem) == (
        4,
        b"out\n",
        b"err\n",
        None,
    )
    assert session.notes == (
        "the login shell writes 18 bytes before every command: b'Welcome to node 7\\n'",
    )


def test_a_login_shell_that_starts_nothing_is_not_taken_for_the_command(
    site: Site, opener: Opener
) -> None:
    site.start("closed", options="ForceCommand echo This account is not available.; exit 1")

    result = opener(site, "closed").run(Command(("true",)))

    assert (result.exit_status, result.stdout) == (None, b"This account is not available.\n")
    assert result.problem == "the login shell ended with status 1 before the command began"


def test_many_commands_at_once_share_the_connection(shared: Site, opener: Opener) -> None:
    session = opener(shared, "good")
    jobs = [in_background(session, sh(f"sleep 0.2; echo {number}")) for number in range(20)]
    for thread, _ in jobs:
        thread.join(PATIENCE_S)

    assert [results[0].out() for _, results in jobs] == [f"{number}\n" for number in range(20)]


def test_a_node_that_allows_two_sessions_gets_no_more_than_two_at_once(
    site: Site, opener: Opener
) -> None:
    site.start("narrow", options="MaxSessions 2")
    session = opener(site, "narrow")
    if isinstance(session, OpenSshSession):
        pytest.skip("the OpenSSH client does not tell a refused session from a lost one")
    jobs = [in_background(session, sh(f"sleep 0.1; echo {number}")) for number in range(6)]
    for thread, _ in jobs:
        thread.join(PATIENCE_S)

    assert [(results[0].out(), results[0].problem) for _, results in jobs] == [
        (f"{number}\n", None) for number in range(6)
    ]


def test_a_connection_that_dies_under_a_command_keeps_what_was_written(
    site: Site, opener: Opener
) -> None:
    server = site.start("dying")
    session = opener(site, "dying")
    thread, results = in_background(
        session, sh(f"echo half; sleep 3; echo $$ > {site.directory}/pid; sleep 30")
    )  # what was written needs its time to arrive
    remote = pid_in(site.directory / "pid")
    server.signal_connections(signal.SIGKILL)
    thread.join(PATIENCE_S)

    assert [(result.exit_status, result.stdout) for result in results] == [(None, b"half\n")]
    assert (results[0].problem or "").startswith("connection lost: ")
    again = session.run(Command(("true",)))
    assert again.exit_status is None
    assert (again.problem or "").startswith("connection lost: ")
    os.kill(remote, signal.SIGKILL)


def test_a_node_that_stops_answering_costs_no_more_than_the_time_limit(
    site: Site, opener: Opener
) -> None:
    server = site.start("frozen")
    session = opener(site, "frozen")
    server.signal_connections(signal.SIGSTOP)

    with not_held_up():
        result = session.run(Command(("true",), timeout_s=0.5))

    assert result.exit_status is None
    assert (result.problem or "").startswith("timed out after 0.5 s")
    server.signal_connections(signal.SIGCONT)


def test_closing_a_session_ends_what_runs_in_it(
    shared: Site, opener: Opener, tmp_path: Path
) -> None:
    session = opener(shared, "good")
    thread, results = in_background(session, sh(f"echo $$ > {tmp_path}/pid; exec sleep 60"))
    remote = pid_in(tmp_path / "pid")

    session.close()
    thread.join(PATIENCE_S)

    wait_until(lambda: not alive(remote))
    assert len(results) == 1
    session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_what_runs_on_the_node(shared: Site, tmp_path: Path, kind: str) -> None:
    code = f"""
from busbw.model import Command, Node
from busbw.transport.choose import make
from busbw.transport.head import with_head
transport = make({kind.replace("fabric", "ssh")!r}, ssh_config={str(shared.config)!r})
if {kind == "fabric"}:
    transport = with_head(transport, "good")
session = transport.connect(Node("good"), 20)
session.run(Command(("sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 60")))
"""
    process = subprocess.Popen(
        (sys.executable, "-c", code),
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    remote = pid_in(tmp_path / "pid")

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=400)

    assert b"KeyboardInterrupt" in errors
    wait_until(lambda: not alive(remote))
    assert list(tmp_path.iterdir()) == [tmp_path / "pid"]
    wait_until(lambda: not shared.servers["good"].children())


def test_sudo_stands_in_front_of_the_command(site: Site, opener: Opener) -> None:
    server = site.start("sudo")
    programs = server.directory / "home" / "bin"
    programs.mkdir()
    (programs / "sudo").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (programs / "sudo").chmod(0o755)
    (server.directory / "home" / ".bashrc").write_text(f"PATH={programs}:$PATH\n")

    result = opener(site, "sudo").run(Command(("dmesg", "-T", "a b"), sudo=True))

    assert (result.stdout, result.argv) == (b"-n|--|dmesg|-T|a b|", ("dmesg", "-T", "a b"))
