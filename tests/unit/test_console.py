"""Progress as a log sees it and as a terminal sees it."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from waiting import PATIENCE_S, wait_until

from busbw.cli import console
from busbw.cli.console import Console
from busbw.reports.terminal import Line
from busbw.run.context import Awaited, Done, Row

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
SHOW = """
import sys, time
from busbw.cli import console
from busbw.cli.console import Console
from busbw.reports.terminal import Line
with Console(quiet=False) as console:
    console.progress("note", "[red]not markup[/red] :smile:")
    console.progress("reach", "4 nodes")
    console.progress("proof", "started")
    time.sleep(0.6)
    console.progress("proof", "[node3:12] \\x1b]0;title\\x07 done")
    console.progress("run", "ended")
"""


BUSY = """
import time
from busbw.cli import console
from busbw.cli.console import Console
from busbw.reports.terminal import Line
with Console(quiet=False) as console:
    for _ in range(2000):
        console.progress("reach", "4 nodes")
        console.progress("proof", "started")
"""


def test_a_log_gets_a_stamped_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    with Console(quiet=False) as console:
        console.progress("reach", "4 nodes: node[1-4]")
        console.progress("proof", "a\x1b[2Jb")
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(f"^{STAMP}", "T", line) for line in lines] == [
        "T reach          4 nodes: node[1-4]",
        "T proof          a␛[2Jb",
    ]


def row(size: int, busbw: float, planned: tuple[int, ...]) -> Row:
    text = f"{size:12d}  {size // 4}   float   sum   -1   437.1   19.19  {busbw:6.2f}   0"
    made = Row(f"{text}   436.0   19.20  {busbw:6.2f}   0")
    made.planned = planned
    return made


def test_rows_are_shown_as_size_and_bandwidth_and_a_launch_ends_with_its_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = (4 << 20, 8 << 20)
    with Console(quiet=False) as console:
        console.progress("all-reduce", "1 of 4: all_reduce on 4 nodes, 8 ranks")
        console.progress("all-reduce", row(4 << 20, 24.1, sizes))
        console.progress("all-reduce", row(8 << 20, 48.9, sizes))
        console.progress("all-reduce", Done("ended after 15.0 s"))
    lines = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "all-reduce     1 of 4: all_reduce on 4 nodes, 8 ranks",
        "all-reduce     4 MiB  24.10 GB/s, size 1 of 2",
        "all-reduce     8 MiB  48.90 GB/s, size 2 of 2",
        "all-reduce     8 MiB  48.90 GB/s, ended after 15.0 s",
    ]


def test_a_launch_that_ended_well_leaves_a_check_mark_in_a_terminal() -> None:
    program = """
from busbw.cli import console
from busbw.cli.console import Console
from busbw.reports.terminal import Line
from busbw.run.context import Done
with Console(quiet=False) as console:
    console.progress("proof", Done("ended after 1.2 s"))
    console.progress("all-reduce", "exit status 1 after 2.0 s")
    console.progress("run", "ended")
"""
    output = re.sub(r"\x1b\[[\d;?]*\w", "", in_a_terminal({"NO_COLOR": "1"}, program))
    assert re.search(r"✓ proof +\d", output)
    assert not re.search(r"✓ all-reduce", output)


def test_a_heartbeat_names_what_is_awaited_which_has_no_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []
    with Console(quiet=False, heartbeat_s=0.2) as console:
        console.progress("check", "checking 16 nodes")
        console.progress("check", Awaited("checking 16 nodes; no answer yet: n7"))

        def beat() -> bool:
            seen.append(capsys.readouterr().err)
            return "still running" in "".join(seen)

        wait_until(beat, "a heartbeat")
    first, second, *_ = "".join(seen).splitlines()
    assert first.endswith("checking 16 nodes")
    assert second.endswith("last: checking 16 nodes; no answer yet: n7")


def test_a_silent_step_gets_a_heartbeat_that_says_how_long_and_a_quiet_console_says_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Console(quiet=False, heartbeat_s=0.2) as console:
        console.progress("all-reduce", "16 nodes")
        seen: list[str] = []

        def two_beats() -> bool:
            seen.append(capsys.readouterr().err)
            return "".join(seen).count("still running") >= 2

        wait_until(two_beats, "two heartbeats")
    beats = [line for line in "".join(seen).splitlines() if "still running" in line]
    assert re.fullmatch(
        rf"{STAMP} all-reduce     still running, no output for [\d.]+ m?s; last: 16 nodes", beats[0]
    )
    with Console(quiet=True, heartbeat_s=0.01) as console:
        console.progress("all-reduce", "16 nodes")
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def in_a_terminal(environment: dict[str, str], program: str = SHOW) -> str:
    """What the program writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **environment}
    job = subprocess.Popen(
        [sys.executable, "-c", program], stderr=theirs, stdout=theirs, stdin=theirs, env=env
    )
    os.close(theirs)
    output, deadline = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            output += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    try:
        assert job.wait(timeout=PATIENCE_S) == 0
    finally:
        job.kill()
    return output.decode()


def test_a_terminal_keeps_one_line_for_each_step_and_nothing_from_a_node_is_markup() -> None:
    output = in_a_terminal({"NO_COLOR": "1"})
    # What was drawn and erased again is gone from the screen; lines that stay end in a line feed.
    screen = [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rpartition("\r")[2].rstrip()
        for line in output.replace("\r\n", "\n").split("\n")
    ]
    screen = [line for line in screen if line]
    assert screen[0] == "  note           [red]not markup[/red] :smile:"
    assert re.fullmatch(r"  reach          4 nodes  [\d.]+ m?s", screen[1])
    assert re.fullmatch(r"  proof          \[node3:12\] ␛\]0;title␇ done  [\d.]+ m?s", screen[2]), (
        screen
    )
    assert "\x1b]0;" not in output
    assert not re.search(r"\x1b\[[0-9;]*3\dm", output), "no colour where NO_COLOR is set"


def test_lines_and_the_line_that_is_drawn_again_and_again_never_wait_for_each_other() -> None:
    assert "proof" in in_a_terminal({}, BUSY)


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "first"),
    [
        (Terminal(), {}, "\x1b[1;31mFAIL\x1b[0m  n1 is slow"),
        (Terminal(), {"NO_COLOR": "1"}, "FAIL  n1 is slow"),
        (Terminal(), {"TERM": "dumb"}, "FAIL  n1 is slow"),
        (io.StringIO(), {}, "FAIL  n1 is slow"),
    ],
)
def test_a_verdict_has_its_colour_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, environment: dict[str, str], first: str
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    lines = (Line("FAIL  n1 is slow"), Line("busbw: FAIL n1 runs/x", unbroken=True))
    assert console.shown(lines).splitlines() == [first, "busbw: FAIL n1 runs/x"]
