"""How often the first finding stays right when a line of a consequence is added to a text.

    python tests/bench/consequences.py [--lines N] [--misses]

The texts are half A of all composed ones whose first finding is accepted and says what failed; the
lines are the catalogue's examples of secondary errors and general failures that, asked alone, lead
to nothing else. N of them (drawn by a fixed seed) are put behind and N before each text.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from busbw.cli import why_reading
from busbw.model import Confidence, Finding
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Role
from busbw.parsers.findings.diagnose import diagnose

sys.path.insert(0, str(Path(__file__).parent))
import composed

_CAUSES_TOO = {
    "gpu-driver-not-visible",
    "gpu-missing",
    "invalid-device-ordinal",
    "nccl-api-misuse",
    "node-unreachable",
    "orted-not-found",
    "retry-exceeded-at-start",
}
"""General failures whose lines may well be the cause, whatever stands beside them."""


def asked(text: str, file: Path) -> tuple[Finding, ...]:
    """The findings of a text, best first."""
    file.write_text(text)
    return diagnose(why_reading.read([str(file)]).evidence).findings


def consequences(file: Path) -> list[str]:
    """The lines that lead to nothing but a consequence."""
    known = catalogue.load()
    names = {e.id for e in known.entries if e.role is Role.SECONDARY} | known.general
    names -= _CAUSES_TOO
    lines = []
    for entry in known.entries:
        for line in (line for signal in entry.signals for line in signal.matches):
            findings = asked(line + "\n", file) if entry.id in names else ()
            stated = {each.id for each in findings if each.confidence is not Confidence.POSSIBLE}
            if findings and findings[0].id in names and stated <= names:
                lines.append(line)
    return lines


def main() -> None:
    """Print the shares by the certainty that the text has without the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=4)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    draw = random.Random(7)
    number: Counter[str] = Counter()
    right: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.txt"
        lines = consequences(file)
        general = catalogue.load().general
        for case in (case for name in composed.SETS for case in composed.load(name)):
            first = next(iter(asked(case.text, file)), None) if case.half() == "A" else None
            if first is None or first.id not in case.accept or first.id in general:
                continue
            for line in draw.sample(lines, options.lines):
                for text in (f"{case.text.rstrip()}\n{line}\n", f"{line}\n{case.text}"):
                    got = asked(text, file)[0]
                    number[first.confidence] += 1
                    right[first.confidence] += got.id in case.accept
                    if options.misses and got.id not in case.accept:
                        print(f"{case.id}: {first.id} -> {got.id}({got.confidence}): {line[:90]}")
    for level in number:
        print(f"{level:9} {right[level]} of {number[level]} stay right")


if __name__ == "__main__":
    main()
