"""What `busbw why` answers to composed texts of launchers and schedulers, in two parts.

    python tests/bench/launchers.py developed [--misses]
    python tests/bench/launchers.py held_out

The texts are in tests/fixtures/composed_launchers, written before the entries that read them. A
fixed seed draws two thirds that were developed on, and a third of which only the counts were seen.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import composed

from busbw import codec

FILE = Path(__file__).parents[1] / "fixtures" / "composed_launchers" / "texts.yaml"
SEED = 22
PARTS = ("developed", "held_out")


def load() -> tuple[composed.Composed, ...]:
    """All texts."""
    text = FILE.read_text(encoding="utf-8")
    return codec.load_yaml(text, FILE.name, tuple[composed.Composed, ...], error=ValueError)


def draw(part: str) -> list[composed.Composed]:
    """The texts of a part: of failures and of healthy texts two thirds, or one third."""
    drawn: list[composed.Composed] = []
    cases = load()
    for healthy in (False, True):
        kind = [case for case in cases if healthy is (not case.accept and not case.unknown)]
        kind.sort(key=lambda case: case.id)
        random.Random(SEED).shuffle(kind)
        cut = len(kind) * 2 // 3
        drawn += kind[:cut] if part == "developed" else kind[cut:]
    return drawn


def main() -> None:
    """Ask the texts of a part and print the shares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    print(options.part, composed.table(draw(options.part), options.misses))


if __name__ == "__main__":
    main()
