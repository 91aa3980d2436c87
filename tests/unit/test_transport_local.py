"""Commands on this machine: what every transport promises, without a network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import GROWING_S, HANG_S, PATIENCE_S, not_held_up, wait_until

from busbw.model import Command, CommandResult, Node
from busbw.transport import choose, streams
from busbw.transport.local import LocalSession, LocalTransport


def sh(script: str, **more: object) -> Command:
    return Command(("sh", "-c", script), **more)  # type: ignore[arg-type]  # any field of Command


def run_until_it_writes(script: str) -> tuple[CommandResult, float]:
    """The result under the first time limit that leaves the script time to write, and the limit."""
    for timeout_s in GROWING_S:
        result = LocalSession("n1").run(sh(script, timeout_s=timeout_s))
        if result.stdout:
            break
    return result, timeout_s


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_leaves_both_streams_its_status_and_its_time() -> None:
    result = LocalSession("n1").run(sh("cat; echo err >&2; exit 3", stdin=b"in\n"))

    assert result == CommandResult(
        "n1", ("sh", "-c", "cat; echo err >&2; exit 3"), 3, b"in\n", b"err\n", result.seconds
    )
    assert result.seconds > 0


def test_a_megabyte_goes_in_and_out() -> None:
    data = os.urandom(1 << 20)

    assert LocalSession("n1").run(Command(("cat",), stdin=data)).stdout == data


def test_a_command_that_does_not_read_its_input_ends_all_the_same() -> None:
    result = LocalSession("n1").run(Command(("true",), stdin=bytes(1 << 20)))

    assert (result.exit_status, result.problem) == (0, None)


@pytest.mark.parametrize(("argv", "status"), [(("/nonexistent/x",), 127), (("/etc/passwd",), 126)])
def test_a_program_that_cannot_be_started_is_a_result(argv: tuple[str, ...], status: int) -> None:
    result = LocalSession("n1").run(Command(argv))

    assert (result.exit_status, result.stdout, result.problem) == (status, b"", None)
    assert argv[0].encode() in result.stderr


def test_a_command_ended_by_a_signal_has_the_status_a_shell_gives_it() -> None:
    assert LocalSession("n1").run(sh("kill -9 $$")).exit_status == 137


def test_a_timeout_keeps_the_output_and_ends_the_whole_group() -> None:
    script = f"sleep {HANG_S} & echo $!; sleep {HANG_S}"
    with not_held_up():
        result, timeout_s = run_until_it_writes(script)

    assert (result.exit_status, result.problem) == (None, f"timed out after {timeout_s:g} s")
    wait_until(lambda: not alive(int(result.stdout)), "the end of the group")


def test_a_command_that_ignores_term_is_killed_and_its_last_output_is_kept() -> None:
    script = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
    result, timeout_s = run_until_it_writes(script)

    assert (result.exit_status, result.problem) == (None, f"timed out after {timeout_s:g} s")
    assert result.stdout.startswith(b"up\nasked\n")


def test_a_process_left_behind_that_holds_the_streams_does_not_hold_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "QUIET_S", 0.3)

    result = LocalSession("n1").run(sh(f"sleep {HANG_S} & echo $!"))

    assert (result.exit_status, result.problem) == (0, None)
    assert alive(int(result.stdout))
    os.kill(int(result.stdout), signal.SIGKILL)


@pytest.mark.parametrize("where", ["", " >&2"])
def test_output_without_end_is_cut_at_the_limit_and_that_is_reported(where: str) -> None:
    result = LocalSession("n1", limit_bytes=1 << 20).run(sh(f"yes{where}"))

    assert (result.exit_status, result.problem, result.ok) == (
        None,
        "output over 1 MiB, cut",
        False,
    )
    assert len(result.stdout + result.stderr) == 1 << 20


def test_closing_the_session_ends_what_runs_in_it() -> None:
    session = LocalSession("n1")
    results: list[CommandResult] = []
    thread = threading.Thread(
        target=lambda: results.append(session.run(sh(f"exec sleep {HANG_S}")))
    )
    thread.start()
    wait_until(lambda: bool(session._running))
    session.close()
    thread.join(PATIENCE_S)

    assert [result.exit_status for result in results] == [137]


def test_the_transport_is_found_by_its_name() -> None:
    transport = choose.make("local")
    session = transport.connect(Node("any"), 1.0)

    assert isinstance(transport, LocalTransport)
    assert isinstance(session, LocalSession)
    assert session.node == "any"


def test_an_unknown_transport_lists_the_known_ones() -> None:
    with pytest.raises(choose.UsageError) as error:
        choose.make("telnet")

    assert error.value.lines() == (
        "error: transport 'telnet' is not known",
        "seen: --transport telnet",
        "next: use one of: kubectl, local, openssh, ssh",
    )


def test_importing_the_package_imports_neither_paramiko_nor_fabric() -> None:
    code = (
        "import sys, busbw.transport, busbw.transport.fanout, busbw.transport.choose;"
        " print({'paramiko', 'fabric'} & set(sys.modules))"
    )

    assert (
        subprocess.run(
            (sys.executable, "-c", code), capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


def test_a_signal_to_a_group_that_is_gone_is_no_error() -> None:
    from busbw.transport.local import _signal

    process = subprocess.Popen(("true",), start_new_session=True)
    process.wait()
    _signal(process, signal.SIGTERM)
