"""Fuzzes run directories: recorded and composed runs (`bases`) after one to three changes of their
files (`damage`), given to report, redact, diff, accept, history, read, why,
bundle, export and site.

Nothing but documented errors may come out, no control character, no better verdict than the whole
run's, and no planted secret in redacted output. Where the list of files was rewritten to fit, no
verdict can be promised (docs/security.md): then only the rest is demanded.

usage: python tests/fuzz/stored_runs.py [--runs 200] [--seed 1] [--journal FILE]

Every run is judged as report does it, and goes through one of the commands. A journal keeps what was tried: started again
with the same file, it goes on after the last seed there. Prints each fault with the seed that
repeats it, then the counts. Exit status 1 = there was a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1] / "traps"))
sys.path.insert(0, str(Path(__file__).parent))

import bases
import damage

from busbw import assess
from busbw.cli import main as busbw
from busbw.errors import BusbwError
from busbw.model import RunResult, Status
from busbw.store.run_directory import RunDir

BATCH = 50
"""Runs of one process: what they leave in memory goes with it."""
RUN_ID, OTHER_ID = "20261123-034057-day-one", "20261122-034057-day-one"
SECRETS = tuple(
    template.format(f"Zq7{number}xK9vB2mN4pL8rT6wY3sD5fG1hJ0cQ")
    for number, template in enumerate(
        (
            "HF_TOKEN=hf_{}",
            "Authorization: Bearer {}",
            "https://{}@git.example.org/x.git",
            'password="{}"',
        )
    )
)
"""Lines as a launch prints them; the key of each is `KEY` with its number."""
KEYS = tuple(f"Zq7{number}xK9vB2mN4pL8rT6wY3sD5fG1hJ0cQ" for number in range(len(SECRETS)))


@dataclass(frozen=True, slots=True)
class Whole:
    """A run before it is changed, on the disk, and what the commands make of it."""

    name: str
    path: Path
    result: RunResult
    other: RunResult
    """Of the same run under another name, which is compared with it."""
    statuses: dict[str, int]
    """Exit status of each command."""


@dataclass(slots=True)
class Tally:
    """What was tried, from this seed on."""

    first: int
    runs: int = 0
    commands: dict[str, int] = field(default_factory=dict)
    softer: int = 0
    """FAIL became UNKNOWN."""
    faults: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """What another process tried."""
        self.runs += other.runs
        self.commands = dict(Counter(self.commands) + Counter(other.commands))
        self.softer += other.softer
        self.faults += other.faults


COMMANDS: dict[str, Callable[[Path, Path], tuple[str, ...]]] = {
    "report": lambda run, other: ("report", str(run)),
    "redact": lambda run, other: ("report", str(run), "--redact"),
    "diff": lambda run, other: ("diff", str(run), str(other)),
    "diff-against": lambda run, other: ("diff", str(other), str(run)),
    "accept": lambda run, other: ("baseline", "accept", str(run), "--note", "x"),
    "history": lambda run, other: ("history", "-o", str(run.parent)),
    "read": lambda run, other: ("read", *_texts(run)),
    "why": lambda run, other: ("why", str(run)),
    "bundle": lambda run, other: ("bundle", str(run), "--to", str(run.parent / ARCHIVE)),
    "export": lambda run, other: ("export", str(run), "--csv", str(run.parent / "tables")),
    "site": lambda run, other: ("site", str(run.parent), "-o", str(run.parent / "pages")),
}
ARCHIVE = "bundle.tar.gz"
_JUDGES = ("diff", "diff-against", "accept", "why")
"""Commands whose exit status 0 says that all is well."""


def _texts(run: Path) -> tuple[str, ...]:
    """The first outputs of the launches."""
    names = ("stdout.txt", "result.json")
    return tuple(str(each) for each in damage.regular(run) if each.name in names)[:2] or (str(run),)


def planted(base: bases.Base) -> bases.Base:
    """The run with secrets in what its launches and nodes printed, its list made to fit."""
    files = dict(base.files)
    block = "".join(f"node1: {line}\n" for line in SECRETS).encode()
    for name, content in base.files.items():
        if name.endswith(("stdout.txt", "stderr.txt")):
            files[name] = content + block
    return bases.Base(base.name, bases.relisted(files))


def renamed(base: bases.Base) -> bases.Base:
    """The same as another run, to compare with."""
    plan = json.loads(base.files["plan.json"]) | {"run_id": OTHER_ID}
    return bases.Base(
        base.name, bases.relisted({**base.files, "plan.json": json.dumps(plan).encode()})
    )


def wholes(place: Path) -> tuple[Whole, ...]:
    """All bases, written below `place`."""
    found = []
    for base in (*bases.recorded(), *bases.composed(place / "composing")):
        folder = place / base.name
        whole = planted(base)
        run = whole.written(folder / "runs" / RUN_ID)
        renamed(whole).written(folder / "runs" / OTHER_ID)
        other = RunDir(run.path.parent / OTHER_ID)
        statuses = {}
        for name in ("report", *_JUDGES):
            statuses[name], _ = ran(COMMANDS[name](run.path, other.path))
        for each in [each for each in run.path.iterdir() if each.name not in ("raw", "run.json")]:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        results = assess.derive(run), assess.derive(other)
        found.append(Whole(base.name, folder / "runs", *results, statuses))
    return tuple(found)


def ran(argv: tuple[str, ...]) -> tuple[int, str]:
    """Exit status of a command, and all it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = busbw(list(argv))
    return status, out.getvalue()


def faults(argv: tuple[str, ...]) -> tuple[int, str, str]:
    """Exit status of a command, what is wrong with it (empty = nothing), and what it printed."""
    status, text = ran(argv)
    bad = {c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"}
    if "internal error" in text:
        return status, text[text.index("internal error") :], text
    if bad:
        return status, f"control characters {sorted(bad)!r}", text
    return status, "" if status in (0, 1, 2, 3) else f"exit status {status}", text


@contextlib.contextmanager
def judged_once(kept: dict[str, RunResult]) -> Iterator[None]:
    """Every command judges a run anew and comes to the same: here it is judged once, for speed.
    `kept`: results by the name of the run, also those known before."""
    judge = assess.derive
    refused: dict[str, BusbwError] = {}

    def derive(run: RunDir) -> RunResult:
        name = run.run_id
        if name in refused:
            raise refused[name]
        if name not in kept:
            try:
                kept[name] = judge(run)
            except BusbwError as error:
                refused[name] = error
                raise
        return kept[name]

    assess.derive = derive
    try:
        yield
    finally:
        assess.derive = judge


def tried(seed: int, known: tuple[Whole, ...], folder: Path, tally: Tally) -> None:
    """One mutated run."""
    rng = random.Random(seed)
    whole = rng.choice(known)
    folder.mkdir()
    run, other = folder / RUN_ID, folder / OTHER_ID
    shutil.copytree(whole.path / RUN_ID, run)
    other.symlink_to(whole.path / OTHER_ID)
    forged = damage.change(rng, run)
    name = command_of(seed)
    tally.runs += 1
    tally.commands[name] = tally.commands.get(name, 0) + 1
    kept = {OTHER_ID: whole.other}
    with judged_once(kept):
        found = [("judge", judged(run))]
        status, fault, text = faults(COMMANDS[name](run, other))
        if name == "redact":
            fault = fault or leaked(run / "redacted", text)
        if name == "bundle":
            fault = fault or leaked(unpacked(run.parent / ARCHIVE), text)
        if name in _JUDGES and not forged and status == 0 != whole.statuses[name]:
            fault = fault or f"exit status 0, was {whole.statuses[name]}"
        found.append((name, fault))
    before, result = whole.result.verdict, kept.get(RUN_ID)
    if result is not None and not forged:
        if damage.better(before, result.verdict):
            change = f"{before.value} became {result.verdict.value}: {result.headline}"
            found.append(("better by damage", change))
        tally.softer += (before, result.verdict) == (Status.FAIL, Status.UNKNOWN)
    tally.faults += [f"seed {seed}: {whole.name}: {what}: {why}" for what, why in found if why]
    shutil.rmtree(folder)


def command_of(seed: int) -> str:
    """Each in its turn."""
    names = tuple(COMMANDS)
    return names[seed % len(names)]


def judged(run: Path) -> str:
    """The traceback of what came out of judging a run and is no documented error; empty = none."""
    try:
        assess.derive(RunDir(run))
    except BusbwError:
        pass
    except Exception:  # noqa: BLE001  # whatever else comes out is what is looked for
        return traceback.format_exc()
    return ""


def unpacked(archive: Path) -> Path:
    """The files of a bundle, in a folder beside it; a folder that is not there where it is not."""
    folder = archive.with_name("unpacked")
    if archive.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder


def leaked(folder: Path, printed: str) -> str:
    """The planted secrets that redacted output has; empty = none."""
    texts = {"the terminal": printed}
    if folder.is_dir():
        texts |= {each.name: each.read_text(errors="replace") for each in damage.regular(folder)}
    found = [f"{key} in {name}" for name, text in texts.items() for key in KEYS if key in text]
    return f"leaked: {'; '.join(found)}" if found else ""


def fuzz(first: int, runs: int, known: tuple[Whole, ...], place: Path) -> Tally:
    """So many mutated runs, in this process."""
    tally = Tally(first)
    for seed in range(first, first + runs):
        tried(seed, known, place / str(seed), tally)
    return tally


def batches(first: int, known: tuple[Whole, ...], place: Path) -> Iterator[Tally]:
    """What one process after the other tried, for ever."""
    for begin in itertools.count(first, BATCH):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _answer(begin, known, place, writing)
        os.close(writing)
        with os.fdopen(reading) as stream:
            text = stream.read()
        os.waitpid(child, 0)
        ended = {"first": begin, "faults": [f"seed {begin} to {begin + BATCH - 1}: no answer"]}
        yield Tally(**(json.loads(text) if text else ended))


def _answer(first: int, known: tuple[Whole, ...], place: Path, writing: int) -> NoReturn:
    """In a process of its own: whatever happens, nothing of its parent's is cleaned up by it."""
    try:
        with os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(asdict(fuzz(first, BATCH, known, place))))
    except BaseException:  # noqa: BLE001  # SystemExit too is a defect here
        traceback.print_exc()
    finally:
        os._exit(0)


def for_minutes(minutes: float, known: tuple[Whole, ...], place: Path) -> Tally:
    """As many mutated runs as fit."""
    started, total = time.monotonic(), Tally(1)
    for tally in batches(total.first, known, place):
        total.add(tally)
        if time.monotonic() - started > 60 * minutes:
            break
    return total


def main() -> int:
    """Runs the command; 1 = there was a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--journal", type=Path)
    arguments = parser.parse_args()
    total, journal = Tally(arguments.seed), arguments.journal or Path(os.devnull)
    for line in journal.read_text().splitlines() if journal.exists() else ():
        earlier = Tally(**json.loads(line))
        total.add(earlier)
        total.first = earlier.first + BATCH
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        os.environ["XDG_STATE_HOME"] = place
        known = wholes(Path(place) / "whole")
        for tally in batches(total.first, known, Path(place)):
            total.add(tally)
            with journal.open("a") as stream:
                stream.write(json.dumps(asdict(tally)) + "\n")
            if total.runs >= arguments.runs:
                break
    print("\n".join(total.faults))
    print(f"{total.runs} mutated runs, {dict(total.commands)}")
    print(f"{total.softer} times FAIL became UNKNOWN; {len(total.faults)} faults")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
