"""Run directories that somebody made to do harm, given to the commands that read one: a documented
end within its time, nothing of a file outside is shown or changed, and nothing is run."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from planted import Recording, healthy

from busbw import files
from busbw.cli import main
from busbw.compare import history

SECRET = "of-somebody-else"
LIMIT_S = 120
"""A hang has no end; a busy machine takes its time."""
DERIVED = ("run.json", "report.html", "summary.md", "commands.sh", "redacted-names.csv", ".lock")


@dataclass(frozen=True)
class Place:
    """A stranger's run, and a folder that is not theirs to read."""

    run: Path
    outside: Path

    @property
    def raw(self) -> Path:
        return self.run / "raw"

    @property
    def secret(self) -> Path:
        return self.outside / "secret"


Plant = Callable[[Recording], None]
Change = Callable[[Place], None]


def nothing(recording: Recording) -> None: ...


def moved_out(name: str) -> Change:
    def change(place: Place) -> None:
        shutil.move(place.run / name, place.outside / "moved")
        (place.run / name).symlink_to(place.outside / "moved")

    return change


def links(*names: str) -> Change:
    def change(place: Place) -> None:
        for name in names:
            (place.run / name).unlink(missing_ok=True)
            (place.run / name).symlink_to(place.secret)

    return change


def fifos(*names: str) -> Change:
    def change(place: Place) -> None:
        for name in names:
            (place.run / name).unlink(missing_ok=True)
            os.mkfifo(place.run / name)

    return change


def folders(*names: str) -> Change:
    def change(place: Place) -> None:
        for name in names:
            (place.run / name).mkdir()

    return change


def fields(name: str, **values: object) -> Plant:
    return lambda recording: recording.change(name, **values)


def content(name: str, data: bytes) -> Plant:
    def plant(recording: Recording) -> None:
        recording.files[name] = data

    return plant


def answer_outside(recording: Recording) -> None:
    record = json.loads(recording.files["preflight.json"])
    record["entries"][0]["stdout"] = "raw/../../outside/secret"
    recording.files["preflight.json"] = json.dumps(record).encode()


def node_outside(recording: Recording) -> None:
    recording.replace("plan.json", '"node2"', '"../node2"')


def case_outside(recording: Recording) -> None:
    plan = json.loads(recording.files["plan.json"])
    plan["playbook"]["cases"][0]["id"] = "../../../outside/secret"
    recording.files["plan.json"] = json.dumps(plan).encode()


def endless_number(recording: Recording) -> None:
    recording.replace("plan.json", '"forks": 64', f'"forks": {"9" * 6000}')


def hostile_list(place: Place) -> None:
    """Lines for the list of files: out of the folder, no names, nested without end."""
    lines = (
        b'{"name": "../../outside/secret", "bytes": 1, "sha256": ""}',
        b'{"name": 5}\n[]\n{"name": "/etc/passwd"}\n{"name": "a\\u0000b"}\n{"name": ""}',
        b'{"name": "x/\\ud800"}\n{"name": "' + b"y" * 100_000 + b'"}',
        b"[" * 100_000,
    )
    with (place.raw / "files.jsonl").open("ab") as stream:
        stream.write(b"\n".join(lines) + b"\n")


def odd_names(place: Place) -> None:
    for name in (b"a\nb", b"\x1b[31mred", b"\xff\xfe", b"-rf", b"$(touch was-run)", b"x" * 255):
        Path(os.fsdecode(os.fsencode(place.raw) + b"/" + name)).write_text("NCCL WARN x\n")


def deep_folders(place: Place) -> None:
    here = os.getcwd()
    os.chdir(place.raw)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(here)


def collected_outside(place: Place) -> None:
    file = {"node": "n", "path": "../../outside/secret", "exit_status": 0, "problem": None}
    file |= {"seconds": 0.0, "clock_offset_s": None, "clock_uncertain_s": None}
    record = {"schema": "busbw.live/1", "tool_version": "1", "asked_s": 1.0, "boundary": "b"}
    record |= {"source": "s", "slurm": None, "pid": None, "mark": None, "files": [file]}
    (place.raw / "live.json").write_text(json.dumps(record | {"unreachable": []}))


def index_outside(place: Place) -> None:
    """The index of the runs is somebody's own database."""
    database = sqlite3.connect(place.outside / "victim")
    with database:
        database.execute("CREATE TABLE runs (x)")
    database.close()
    (place.run.parent / history.FILE).symlink_to(place.outside / "victim")


def index_fifo(place: Place) -> None:
    os.mkfifo(place.run.parent / history.FILE)


FOLDERS: dict[str, tuple[Plant, Change]] = {
    "raw is a link": (nothing, moved_out("raw")),
    "cases is a link": (nothing, moved_out("raw/cases")),
    "derived files are links": (nothing, links(*DERIVED, "accepted.json", "redacted")),
    "derived files are FIFOs": (nothing, fifos(*DERIVED, "accepted.json")),
    "derived files are folders": (nothing, folders(*DERIVED, "accepted.json")),
    "records are links": (nothing, links("raw/files.jsonl", "raw/events.jsonl")),
    "records are FIFOs": (nothing, fifos("raw/files.jsonl", "raw/events.jsonl")),
    "a list that names files outside": (nothing, hostile_list),
    "an answer outside": (answer_outside, lambda place: None),
    "an output outside": (
        fields("cases/proof/outcome.json", stdout="/etc/passwd", stderr="raw//etc/passwd"),
        lambda place: None,
    ),
    "a node's name leads outside": (node_outside, lambda place: None),
    "a case's name leads outside": (case_outside, lambda place: None),
    "the run's name leads outside": (
        fields("plan.json", run_id="../../outside/x; touch was-run"),
        lambda place: None,
    ),
    "escapes as the beginning": (
        fields("plan.json", started="\x1b[31mx\n::error::x"),
        lambda place: None,
    ),
    "nested without end": (content("reach.json", b"[" * 200_000), lambda place: None),
    "events nested without end": (
        content("events.jsonl", b"[" * 200_000 + b"\n[]\n5\n"),
        lambda place: None,
    ),
    "a number without end": (endless_number, lambda place: None),
    "odd file names": (nothing, odd_names),
    "1,500 folders deep": (nothing, deep_folders),
    "collected answers outside": (nothing, collected_outside),
    "an index that is a link": (nothing, index_outside),
    "an index that is a FIFO": (nothing, index_fifo),
}
COMMANDS = (
    "report",
    "why",
    "diff",
    "accept",
    "cleanup",
    "resume",
    "redact",
    "expect",
    "history",
    "bundle",
    "export",
    "submit",
    "undrain",
    "site",
)
PICKED = [
    (folder, COMMANDS[(first + step) % len(COMMANDS)])
    for first, folder in enumerate(FOLDERS)
    for step in (-first, 1)
]
"""A report of each, and one command more; `history` where the index is the hostile file."""


def argv(command: str, run: str) -> list[str]:
    """The command line that gives a run to a command."""
    lines = {
        "accept": ["baseline", "accept", run],
        "resume": ["run", "--resume", run],
        "redact": ["report", "--redact", run],
        "export": ["export", run, "--csv", "tables"],
        "submit": ["expect", "--submit", run],
        "site": ["site", str(Path(run).parent), "-o", "pages"],
        "history": ["history", "--out", str(Path(run).parent)],
    }
    return lines.get(command, [command, run])


@pytest.fixture(autouse=True)
def _bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def hangs(number: int, frame: object) -> None:
        raise AssertionError(f"no end after {LIMIT_S} s")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    # Here, because pytest's own removal recurses and ends at a thousand folders.
    subprocess.run(("rm", "-rf", str(tmp_path / "runs")), check=True)


def contents(folder: Path) -> dict[str, bytes]:
    """What lies outside, by name."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("folder", "command"),
    [*PICKED, ("an index that is a link", "history"), ("an index that is a FIFO", "history")],
)
def test_a_hostile_folder_ends_a_command_in_a_documented_way(
    folder: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, change = FOLDERS[folder]
    recording = healthy()
    plant(recording)
    (tmp_path / "outside").mkdir()
    place = Place(recording.written(tmp_path / "runs").path, tmp_path / "outside")
    place.secret.write_text(f"busbw-live 1 abcdef\nNCCL WARN {SECRET}\n")
    change(place)
    before = contents(place.outside)
    status = main(argv(command, str(place.run)))
    shown = "".join(capsys.readouterr())
    assert "internal error" not in shown
    assert status in (0, 1, 2, 3)
    assert SECRET not in shown
    assert "\x1b" not in shown
    assert contents(place.outside) == before
    texts = [place.run / name for name in files.listing(place.run).files]
    assert [path for path in texts if SECRET.encode() in path.read_bytes()] == []
    for archive in tmp_path.glob("*.tar.gz"):
        assert SECRET.encode() not in gzip.decompress(archive.read_bytes())
    assert "was-run" not in {path.name for path in files.below(tmp_path)}
