"""Inputs that mean harm, through the whole program: refused, or read as the plain text they are,
and nothing of them runs.

`tests/bench/hostile.py` does it with lines of 1 GB and bombs in every compression, and prints what
they cost.
"""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.parsers.nccl_tests import table
from busbw.store import run_directory, whole_files


class Busbw:
    """The whole program, in an empty folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        """(exit status, all that it said)."""
        status = main(list(words))
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def contents(self) -> list[str]:
        """What lies in the folder."""
        return sorted(p.name for p in self.folder.iterdir())


@pytest.fixture
def busbw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Busbw:
    monkeypatch.chdir(tmp_path)
    return Busbw(tmp_path, capsys)


_MEASURED = """
import sys
from busbw.cli import main
status = main(sys.argv[1:])
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(status)
"""


def peak_mib(command: str, line: bytes) -> int:
    """The most memory that a process of its own took to read a line from a pipe."""
    done = subprocess.run(
        (sys.executable, "-c", _MEASURED, command, "-"),
        input=line,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    return int(done.stderr.split()[-1]) >> 10


@pytest.mark.parametrize("command", ["read", "why"])
def test_a_line_without_end_takes_no_memory_by_its_length(command: str) -> None:
    begin, more = b"node1:1:2 [0] NCCL INFO ", b"Channel 00/0 : 0[0] -> 1[0] via P2P "
    short, long = (
        peak_mib(command, begin + more * (size // len(more))) for size in (1_000_000, 40_000_000)
    )
    assert long < short + 20


def test_a_row_of_digits_without_end_takes_time_by_its_length_alone() -> None:
    took = []
    for size in (1_000_000, 8_000_000):
        text = b"         8             2     float     sum      -1    " + b"9" * size
        began = time.process_time()
        table.read([text[at : at + 100_000] for at in range(0, len(text), 100_000)])
        took.append(time.process_time() - began)
    assert took[1] < 24 * took[0] + 1, "64 times as long is by its square"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("check", "-i", "{file}"), f"{BOMB}nodes: *i\n"),
        (("run", "{file}", "-w", "n1", "--dry-run"), f"{BOMB}cases: *i\n"),
        (("check", "-i", "{file}"), "nodes: !!python/object/apply:os.system ['touch owned']\n"),
        (
            ("run", "{file}", "-w", "n1", "--dry-run"),
            "cases: !!python/object/new:os.system ['touch owned']\n",
        ),
        (("check", "-i", "{file}"), "nodes:\n  - {name: n1, password: hunter2}\n"),
        (("check", "-i", "{file}"), "nodes:\n  - {name: n1, ssh_password: hunter2}\n"),
        (
            ("run", "{file}", "-w", "n1", "--dry-run"),
            "password: hunter2\ncases: [{id: a, collective: all_reduce, sizes: 64K}]\n",
        ),
        (
            ("run", "{file}", "-w", "n1", "--dry-run"),
            "cases: [{id: ../../owned, collective: all_reduce, sizes: 64K}]\n",
        ),
        (
            ("run", "{file}", "-w", "n1", "--dry-run"),
            "cases: [{id: $(touch owned), collective: all_reduce, sizes: 64K}]\n",
        ),
    ],
    ids=[
        "bomb-inventory",
        "bomb-playbook",
        "code-inventory",
        "code-playbook",
        "password",
        "ssh-password",
        "password-book",
        "id-up",
        "id-shell",
    ],
)
def test_yaml_that_means_harm_is_refused_at_once(
    busbw: Busbw, words: tuple[str, ...], text: str
) -> None:
    Path("given.yaml").write_text(text)
    status, captured = busbw(*(word.format(file="./given.yaml") for word in words))
    assert status == 2, captured
    assert "error: " in captured
    assert "hunter2" not in captured
    assert busbw.contents() == ["given.yaml"]


@pytest.mark.parametrize(
    "name",
    [
        "$(touch owned)",
        "`touch owned`",
        "-oProxyCommand=touch owned",
        "a\nb;touch owned",
        "../../owned",
        "\x1b[2Jn1",
    ],
)
def test_a_host_name_that_means_harm_is_refused_by_every_way_in(busbw: Busbw, name: str) -> None:
    Path("nodes.yaml").write_text(f"nodes:\n  - {{name: {json.dumps(name)}}}\n")
    Path("hostfile").write_text(f"{name} slots=8\n")
    for words in (("-w", name), (f"--nodes={name}",), ("-i", "nodes.yaml"), ("-i", "hostfile")):
        try:
            status, captured = busbw(
                "check", "--transport", "openssh", "--connect-timeout", "1", *words
            )
        except SystemExit as stop:  # the parser of the command line itself: `-w` without a value
            status, captured = stop.code, ""
        assert status == 2, (words, captured)
        assert "\x1b" not in captured
    assert busbw.contents() == ["hostfile", "nodes.yaml"]


class Owned:
    """What a pickle of somebody else may hold."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch owned",)


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_with_code_in_the_place_of_a_dump_runs_nothing(
    busbw: Busbw, command: str, protocol: int
) -> None:
    dump = Path("nccl_trace_rank_0")
    dump.write_bytes(
        pickle.dumps({"version": "2.10", "entries": [Owned()], "pg_config": {}}, protocol=protocol)
    )
    status, captured = busbw(command, str(dump))
    assert status in (0, 2, 3), captured
    assert busbw.contents() == ["nccl_trace_rank_0"]


def test_archives_are_not_unpacked_by_a_reader_and_lead_nowhere(busbw: Busbw) -> None:
    with zipfile.ZipFile("logs.zip", "w") as packed:
        packed.writestr("../../owned", "x")
        packed.writestr("/tmp/owned-by-busbw-test", "x")
    status, captured = busbw("read", "logs.zip")
    assert (status, busbw.contents()) == (3, ["logs.zip"]), captured
    assert not Path("/tmp/owned-by-busbw-test").exists()


@pytest.mark.parametrize("command", ["read", "why"])
def test_terminal_sequences_of_a_text_never_reach_the_terminal(busbw: Busbw, command: str) -> None:
    text = Path("a\x1b]0;owned\x07.log")
    text.write_text(
        "\x1b]0;owned\x07\x1b[2J\x9b31mnode1:1:2 [0] misc/socket.cc:58 NCCL WARN Connect to"
        " 10.0.0.1\x1b[8m<1> failed\n" * 3
    )
    _, shown = busbw(command, str(text))
    assert shown
    assert not {c for c in shown if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"}


def test_of_a_run_directory_nothing_is_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        run = run_directory.create(tmp_path / "runs", "2026-11-21T12:00:00Z", "test")
        run.write_raw("nodes/node1/0001-preflight.out", b"serial 1234\n")
        run.event("2026-11-21T12:00:00Z", "reach", "note", text="x")
        run.write_derived("redacted/report.html", "<html>")
        run.set_aside("nodes")
        with run_directory.locked(run):
            pass
        whole_files.write_atomically(run.path / "redacted-names.csv", b"alias,name\n", mode=0o600)
    finally:
        os.umask(before)
    modes = {
        p.relative_to(run.path).as_posix(): stat.S_IMODE(p.stat().st_mode)
        for p in (run.path, *run.path.rglob("*"))
    }
    assert {name: oct(mode) for name, mode in modes.items() if mode not in (0o750, 0o640)} == {
        "redacted-names.csv": "0o600"
    }
