"""Fuzzes run directories: one healthy run after one to three changes of its files, given to report,
redact, diff, accept and history. Nothing but documented errors may come out, no control character,
and no better verdict than the whole run's.

usage: python tests/fuzz/runs.py [--runs 200] [--seed 1]

Prints each internal error with the seed that repeats it, and how many mutated runs were tried.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "traps"))
sys.path.insert(0, str(Path(__file__).parent))

import mutate
from planted import BOOK, healthy

from busbw import playbook
from busbw.cli import main as busbw

_Change = Callable[[random.Random, Path], None]


def _mutated(rng: random.Random, path: Path) -> None:
    path.write_bytes(mutate.mutated(rng, (path.read_bytes(),)))


def _text(rng: random.Random, path: Path) -> None:
    words = (
        b"\x1b[2J\x1b]0;x\x07",
        b"\0",
        b"n" * 300,
        b"-1",
        b"9" * 5000,
        b"../../x",
        b"node99",
        b"null",
    )
    content = path.read_bytes()
    at = rng.randrange(len(content) + 1)
    path.write_bytes(content[:at] + rng.choice(words) + content[at:])


def _field(rng: random.Random, path: Path) -> None:
    """Another value in one field of a JSON record, however deep."""
    if path.suffix != ".json":
        _text(rng, path)
        return
    tree: object = json.loads(path.read_bytes())
    values = (
        None,
        -1,
        1e308,
        "",
        "node99",
        "n" * 300,
        "\x1b[2J",
        "../x",
        [],
        {},
        "²",
        True,
        "raw/no",
    )
    here = tree
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = rng.choice(keys)
        below = here[key]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.2:
            here[key] = rng.choice(values)
            break
        here = below
    path.write_text(json.dumps(tree))


def _odd(rng: random.Random, path: Path) -> None:
    path.unlink()
    kind = rng.randrange(6)
    if kind == 0:
        path.symlink_to(path.name)
    elif kind == 1:
        path.symlink_to("/etc/hostname")
    elif kind == 2:
        os.mkfifo(path)
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        with path.open("wb") as stream:
            stream.truncate(60 << 30)


def _other(rng: random.Random, path: Path) -> None:
    """The content of another file of the run."""
    others = [
        each for each in sorted(path.parent.rglob("*")) if each.is_file() and not each.is_symlink()
    ]
    if others and path.is_file():
        chosen = rng.choice(others)
        if chosen.stat().st_size < 1 << 30:
            path.write_bytes(chosen.read_bytes())


def _named(rng: random.Random, path: Path) -> None:
    """A file whose name is hostile."""
    names = ("n" * 255, "\x1b[2J", "a b", "-x", "..x", "n\nn", "\udcff")
    (path.parent / rng.choice(names)).write_bytes(path.read_bytes())


def _relisted(run: Path) -> None:
    """The list of files empty: what is damaged is no longer seen by its hash."""
    listed = run / "raw" / "files.jsonl"
    if listed.is_file() and not listed.is_symlink() and listed.stat().st_size < 1 << 30:
        listed.write_bytes(b"")


_CHANGES: tuple[_Change, ...] = (_mutated, _text, _field, _field, _field, _odd, _other, _named)


def change(rng: random.Random, run: Path) -> None:
    """One to three changes below `raw/`, and now and then of a derived file."""
    for _ in range(rng.randrange(1, 4)):
        files = [
            each for each in sorted(run.rglob("*")) if each.is_file() and not each.is_symlink()
        ]
        files = [each for each in files if each.stat().st_size < 1 << 30]
        records = [each for each in files if each.suffix == ".json"]
        path = rng.choice(records if rng.random() < 0.6 else files)
        with contextlib.suppress(ValueError, UnicodeEncodeError):
            rng.choice(_CHANGES)(rng, path)
        if rng.random() < 0.3:
            _relisted(run)


def faults(run: Path, argv: tuple[str, ...]) -> str:
    """What is wrong with a command on this run; empty = nothing."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = busbw(list(argv))
    text = out.getvalue()
    bad = {c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"}
    if "internal error" in text:
        return text[text.index("internal error") :]
    if bad:
        return f"control characters {sorted(bad)!r}"
    return "" if status in (0, 1, 2, 3) else f"exit status {status}"


def tried(seed: int, whole: Path, folder: Path) -> list[str]:
    """The faults that one mutated run shows."""
    rng = random.Random(seed)
    runs = folder / "runs"
    run, other = runs / "20261123-034057-day-one", runs / "20261122-034057-day-one"
    shutil.copytree(whole, run)
    shutil.copytree(whole, other)
    change(rng, run)
    commands = [
        ("report", str(run)),
        ("report", str(run), "--redact"),
        ("diff", str(run), str(other)),
        ("baseline", "accept", str(run), "--note", "x"),
        ("history", "-o", str(runs)),
    ]
    found = [(argv[0], faults(run, argv)) for argv in (commands[0], rng.choice(commands[1:]))]
    shutil.rmtree(folder)
    return [f"seed {seed}: {name}: {told}" for name, told in found if told]


def fuzz(first: int, runs: int) -> list[str]:
    """The faults of so many mutated runs."""
    with tempfile.TemporaryDirectory() as place:
        whole = (
            healthy(playbook.parse(BOOK, "plan.yaml", "day-one"))
            .written(Path(place) / "whole")
            .path
        )
        busbw_quiet(whole)
        found = []
        for seed in range(first, first + runs):
            found += tried(seed, whole, Path(place) / str(seed))
        return found


def busbw_quiet(whole: Path) -> None:
    """The derived files of the whole run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        busbw(["report", str(whole)])


def main() -> int:
    """Runs the command; 1 = some run broke a command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = fuzz(arguments.seed, arguments.runs)
    print("\n".join(found))
    print(f"{arguments.runs} mutated runs, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
