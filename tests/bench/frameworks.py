"""What `busbw why` answers to composed texts of training and serving frameworks, in two parts.

    python tests/bench/frameworks.py developed [--misses]
    python tests/bench/frameworks.py held_out

The texts are in tests/fixtures/composed_frameworks, written before the entries that read them. A
fixed seed draws three fifths that were developed on, and two fifths of which only the counts were
seen.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import composed

from busbw import codec

FILE = Path(__file__).parents[1] / "fixtures" / "composed_frameworks" / "texts.yaml"
SEED = 22
PARTS = ("developed", "held_out")


def load() -> tuple[composed.Composed, ...]:
    """All texts."""
    text = FILE.read_text(encoding="utf-8")
    return codec.load_yaml(text, FILE.name, tuple[composed.Composed, ...], error=ValueError)


def draw(part: str) -> list[composed.Composed]:
    """The texts of a part: of failures and of healthy texts three fifths, or two fifths."""
    drawn: list[composed.Composed] = []
    cases = load()
    for healthy in (False, True):
        kind = [case for case in cases if healthy is (not case.accept and not case.unknown)]
        kind.sort(key=lambda case: case.id)
        random.Random(SEED).shuffle(kind)
        cut = len(kind) * 3 // 5
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
