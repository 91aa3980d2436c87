"""What happens to the files of a run: by a bad disk, a hasty hand, or somebody who means it; and
which verdict is better than another."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import bases
import mutate

from busbw.model import Status
from busbw.store.run_directory import LIST

_RANK = {Status.PASS: 2, Status.WARN: 1}
"""FAIL and UNKNOWN are alike: where the evidence of a failure is damaged, nobody knows any more."""
LARGEST = 1 << 30
"""Larger files are sparse ones of `_odd`: they are not read."""


def better(before: Status, after: Status) -> bool:
    """Does the second verdict promise more than the first?"""
    return _RANK.get(after, 0) > _RANK.get(before, 0)


def number_changed(content: bytes) -> bytes:
    """The first number of a text raised to one that begins with 9."""
    match = re.search(rb"[1-8]", content)
    return content if match is None else _at(content, match.start(), b"9")


def _at(content: bytes, place: int, digit: bytes) -> bytes:
    return content[:place] + digit + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "removed": lambda content: None,
    "emptied": lambda content: b"",
    "changed": number_changed,
}
"""None = the file is gone."""


# Changes of one file. Each takes the run's raw/ as it lies on the disk.

Change = Callable[[random.Random, Path], None]


def _mutated(rng: random.Random, path: Path) -> None:
    path.write_bytes(mutate.mutated(rng, (path.read_bytes(),)))


def _text(rng: random.Random, path: Path) -> None:
    """A hostile word somewhere."""
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


def _number(rng: random.Random, path: Path) -> None:
    """Another digit in one number."""
    content = path.read_bytes()
    places = [match.start() for match in re.finditer(rb"\d", content)]
    if places:
        path.write_bytes(_at(content, rng.choice(places), str(rng.randrange(10)).encode()))


def _field(rng: random.Random, path: Path) -> None:
    """Another value in one field of a JSON record, however deep."""
    if path.suffix != ".json":
        _text(rng, path)
        return
    tree: object = json.loads(path.read_bytes())
    values = (
        None,
        -1,
        0,
        1e308,
        "",
        "node99",
        "n" * 300,
        "\x1b[2J",
        "../x",
        "raw/plan.json",
        [],
        {},
        "²",
        True,
        False,
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


def _less(rng: random.Random, path: Path) -> None:
    """One entry less of a JSON record, or a line less of a text."""
    if path.suffix != ".json":
        lines = path.read_bytes().splitlines(True)
        if lines:
            del lines[rng.randrange(len(lines))]
        path.write_bytes(b"".join(lines))
        return
    tree: object = json.loads(path.read_bytes())
    here = tree
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = rng.choice(keys)
        if not isinstance(here[key], dict | list) or not here[key] or rng.random() < 0.3:
            del here[key]
            break
        here = here[key]
    path.write_text(json.dumps(tree))


def _simple(rng: random.Random, path: Path) -> None:
    """One of the four of `DAMAGES`."""
    content = rng.choice(list(DAMAGES.values()))(path.read_bytes())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def _odd(rng: random.Random, path: Path) -> None:
    """No regular file any more."""
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
    """The content of another file beside it."""
    others = [each for each in regular(path.parent) if each != path]
    if others:
        path.write_bytes(rng.choice(others).read_bytes())


def _named(rng: random.Random, path: Path) -> None:
    """A copy whose name is hostile."""
    names = ("n" * 255, "\x1b[2J", "a b", "-x", "..x", "n\nn", "\udcff")
    (path.parent / rng.choice(names)).write_bytes(path.read_bytes())


def _folder(rng: random.Random, path: Path) -> None:
    """The folder that it lies in is gone."""
    if path.parent.name != "raw":
        shutil.rmtree(path.parent)


_CHANGES: tuple[Change, ...] = (
    _mutated,
    _text,
    _number,
    _number,
    _field,
    _field,
    _field,
    _less,
    _less,
    _simple,
    _simple,
    _odd,
    _other,
    _named,
    _folder,
)


def regular(folder: Path) -> list[Path]:
    """The regular files below a folder that are not giants."""
    return [
        each
        for each in sorted(folder.rglob("*"))
        if each.is_file() and not each.is_symlink() and each.stat().st_size < LARGEST
    ]


def change(rng: random.Random, run: Path) -> bool:
    """One to three changes below `raw/`. True = the list of files was made to fit them: nothing
    shows any more that they are damage."""
    for _ in range(rng.randrange(1, 4)):
        files = regular(run / "raw")
        records = [each for each in files if each.suffix == ".json"]
        if not files:
            break
        path = rng.choice(records if records and rng.random() < 0.6 else files)
        with contextlib.suppress(ValueError, UnicodeEncodeError):
            rng.choice(_CHANGES)(rng, path)
    lot = rng.random()
    if lot < 0.25:
        return _forged(run)
    if lot < 0.45:
        _unlisted(rng, run)
    return False


def _forged(run: Path) -> bool:
    raw = run / "raw"
    files = {each.relative_to(raw).as_posix(): each.read_bytes() for each in regular(raw)}
    if (raw / LIST).is_file() and not (raw / LIST).is_symlink():
        (raw / LIST).write_bytes(bases.relisted(files)[LIST])
    return True


def _unlisted(rng: random.Random, run: Path) -> None:
    """The list of files gone, empty, or without its end together with the files named there: what a
    power cut can leave."""
    listed = run / "raw" / LIST
    if listed not in regular(run / "raw"):
        return
    kind = rng.randrange(3)
    if kind == 0:
        listed.unlink()
    elif kind == 1:
        listed.write_bytes(b"")
    else:
        cut_off(run, rng.random())


def cut_off(run: Path, share: float) -> None:
    """The list ends after so much of it, and the files named after that are not there."""
    listed = run / "raw" / LIST
    lines = listed.read_bytes().splitlines(True)
    kept = lines[: int(len(lines) * share)]
    for line in lines[len(kept) :]:
        with contextlib.suppress(ValueError, OSError, KeyError, TypeError):
            (run / "raw" / str(json.loads(line)["name"])).unlink()
    listed.write_bytes(b"".join(kept))
