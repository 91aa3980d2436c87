"""What `busbw why` answers to composed texts of several lines, by halves.

    python tests/bench/composed.py [--set FOLDER] [--half A|B] [--misses]

The texts are in tests/fixtures/FOLDER, composed_failures if not said. What is decided on half A is
judged on half B: texts that say that they are held out, or else whose id has an odd digest.
`right` counts texts whose first finding is an accepted one; `quiet` those without a known cause of
which nothing else is stated; `wrong` other first findings that are stated as likely or certain.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from busbw import codec
from busbw.cli import why_reading
from busbw.model import Confidence, Finding
from busbw.parsers.findings.diagnose import diagnose

FIXTURES = Path(__file__).parents[1] / "fixtures"
SETS = (
    "composed_failures",
    "composed_objects",
    "composed_launchers",
    "composed_frameworks",
    "composed_jobs",
)
HALVES = ("A", "B")


@dataclass(frozen=True, slots=True)
class Composed:
    """One text and what it should be answered with."""

    id: str
    text: str
    accept: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    unknown: bool = False
    held_out: bool | None = None
    """It belongs to half B; None = the digest of the id decides."""

    def half(self) -> str:
        """A or B."""
        if self.held_out is not None:
            return HALVES[self.held_out]
        return HALVES[hashlib.sha256(self.id.encode()).digest()[0] % 2]


def load(name: str = SETS[0]) -> tuple[Composed, ...]:
    """All texts of a set."""
    file = FIXTURES / name / "texts.yaml"
    text = file.read_text(encoding="utf-8")
    return codec.load_yaml(text, file.name, tuple[Composed, ...], error=ValueError)


def answer(case: Composed, folder: Path) -> tuple[Finding, ...]:
    """The findings, best first."""
    path = folder / f"{case.id}.txt"
    path.write_text(case.text)
    return diagnose(why_reading.read([str(path)]).evidence).findings


def marks(case: Composed, findings: tuple[Finding, ...]) -> set[str]:
    """How the answer compares with what is accepted."""
    names = [each.id for each in findings]
    stated = {each.id for each in findings if each.confidence is not Confidence.POSSIBLE}
    if not case.accept:
        return {"quiet" if stated <= set(case.may) else "wrong"}
    found = set()
    if not names:
        found.add("silent")
    if names[:1] and names[0] in case.accept:
        found.add("right")
    elif names[:1] and names[0] in stated:
        found.add("wrong")
    if set(names[:3]) & set(case.accept):
        found.add("in three")
    return found


def main() -> None:
    """Ask all and print the shares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", choices=SETS, default=SETS[0])
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    for half in HALVES:
        if options.half in (None, half):
            cases = [case for case in load(options.set) if case.half() == half]
            print(half, table(cases, options.misses))


def table(cases: list[Composed], shows_misses: bool) -> str:
    """The shares of some texts, and the misses."""
    counts: Counter[str] = Counter()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            findings = answer(case, Path(folder))
            found = marks(case, findings)
            counts.update(found)
            if not found & {"right", "quiet"}:
                said = " ".join(f"{each.id}({each.confidence})" for each in findings[:3])
                lines.append(f"  {case.id}: {'|'.join(case.accept)} <- {said or '-'}")
    with_cause = sum(bool(case.accept) for case in cases)
    head = (
        f"{len(cases)} texts: right {counts['right']} of {with_cause}, in three"
        f" {counts['in three']}; silent {counts['silent']}; quiet {counts['quiet']} of"
        f" {len(cases) - with_cause}; wrong {counts['wrong']}"
    )
    return "\n".join([head, *(lines if shows_misses else ())])


if __name__ == "__main__":
    main()
