"""Fuzzes every reader: nothing but the documented errors may come out, and each text must be read
in bounded time.

usage: python tests/fuzz [--minutes 60] [--seed 1] [--only PART-OF-A-NAME] [--keep DIR] [--again
FILE]

Prints, for each reader: texts, megabytes, how often it refused with a documented error, the slowest
text in seconds. A text that breaks a reader is kept below `--keep`; `--again FILE` reads it once
more. Exit status 1 = some reader broke.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import mutate
from entries import DOCUMENTED, Entry, entries

LIMIT_S = 5.0
"""CPU seconds for one text of at most 200 kB."""


MOST_GROWN, MOST_GROWN_BYTES = 40, 20_000


class TooSlow(BaseException):
    """Not an `Exception`: a reader that catches too much must not catch this."""


@dataclass(slots=True)
class Tally:
    """What happened to one reader."""

    texts: int = 0
    size_bytes: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    broken: list[str] = field(default_factory=list)
    grown: tuple[bytes, ...] = ()
    """Texts of this run in which it found something: random texts are mostly none of its own."""


def _too_slow(signal_number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {LIMIT_S} s")


def tried(entry: Entry, data: bytes, tally: Tally) -> str:
    """Gives the traceback; empty = it was read, or refused as documented. A text in which the
    reader found something is kept to mutate again."""
    tally.texts += 1
    tally.size_bytes += len(data)
    started = time.process_time()
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        result = entry.call(data)
        if result and len(data) < MOST_GROWN_BYTES:
            tally.grown = (*tally.grown[-MOST_GROWN:], data)
    except DOCUMENTED:
        tally.refused += 1
    # Whatever else comes out is what is looked for.
    except (Exception, TooSlow, SystemExit):  # noqa: BLE001
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        tally.slowest_s = max(tally.slowest_s, time.process_time() - started)
    return ""


def fuzz(
    seed: int,
    *,
    texts: int | None = None,
    minutes: float | None = None,
    only: str = "",
    keep: Path | None = None,
) -> dict[str, Tally]:
    """Try mutated texts, as many as given or for as long as given; the same seed tries the same
    texts."""

    chosen = [entry for entry in entries() if only in entry.name]
    weighted = [entry for entry in chosen for _ in range(entry.weight)]
    tallies = {entry.name: Tally() for entry in chosen}
    rng, sources = random.Random(seed), mutate.seeds()
    own = {entry.name: mutate.seeds_for(entry.word) if entry.word else () for entry in chosen}
    end = time.monotonic() + 60 * (minutes if minutes is not None else 1e6)
    tries = 0
    for entry in chosen:
        # The first call of some loads tables that all later ones find there: how long that takes is
        # no text's doing.
        told = tried(entry, b"", Tally())
        tallies[entry.name].broken += [told] if told and "TooSlow" not in told else []
    while time.monotonic() < end and (texts is None or tries < texts):
        tries += 1
        entry = rng.choice(weighted)
        grown = tallies[entry.name].grown
        known = (
            grown if grown and rng.random() < 0.6 else own[entry.name] if rng.random() < 0.7 else ()
        )
        data = mutate.mutated(rng, known or sources)
        told = tried(entry, data, tallies[entry.name])
        if told:
            place = ""
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                file = keep / f"{entry.name.replace('/', '-').replace(' ', '_')}-{seed}-{tries}"
                file.write_bytes(data)
                place = f"{file}\n"
            tallies[entry.name].broken.append(place + told)
    return tallies


def again(name: str, file: Path) -> int:
    """Read one kept text once more."""
    for entry in entries():
        if name == entry.name:
            print(entry.call(file.read_bytes()))
            return 0
    print(f"no reader is named {name}", file=sys.stderr)
    return 2


def main() -> int:
    """Runs the command; 1 = some reader broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, default=Path("artefacts/fuzz"))
    parser.add_argument(
        "--again", type=Path, help="a kept text; with --only the whole name of its reader"
    )
    arguments = parser.parse_args()
    if arguments.again:
        return again(arguments.only, arguments.again)
    tallies = fuzz(
        arguments.seed, minutes=arguments.minutes, only=arguments.only, keep=arguments.keep
    )
    for name, tally in tallies.items():
        print(
            f"{name:50s} {tally.texts:7d} texts {tally.size_bytes / 1e6:8.1f} MB  refused"
            f" {tally.refused:6d}  slowest {tally.slowest_s:5.2f} s"
        )
    broken = [(name, told) for name, tally in tallies.items() for told in tally.broken]
    seen: set[str] = set()
    for name, told in broken:
        where = name + "".join(told.splitlines(keepends=True)[-4:-1])
        if where not in seen:
            print(f"\n{name} broke:\n{told}")
        seen.add(where)
    texts = sum(tally.texts for tally in tallies.values())
    print(
        f"{texts} texts, {sum(t.size_bytes for t in tallies.values()) / 1e6:.0f} MB, {len(tallies)}"
        f" readers, {len(broken)} broken"
    )
    return 1 if broken else 0
