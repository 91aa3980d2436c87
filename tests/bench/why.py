"""How good the diagnosis is on labelled cases, and how well its confidence is calibrated.

    python tests/bench/why.py [INDEX.yaml] [--half even|odd] [-v]

Cases come from an index of labelled texts (default `../shared/corpus/index.yaml` beside the
checkout). A finding counts as right when its id is one that the label accepts or allows. `--half`
takes the cases with an even or odd number only: rules are developed on one half and judged on both.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from busbw.model import Confidence, Finding
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner

INDEX = Path(__file__).parents[3] / "shared" / "corpus" / "index.yaml"
HEADLINE = ("yes", "partly")


@dataclass(frozen=True)
class Graded:
    """One case with what was found."""

    case: str
    kind: str
    """labelled, unknown or healthy."""
    visible: str
    findings: tuple[Finding, ...]
    top1: bool
    top3: bool
    forbidden: tuple[str, ...]
    stated_wrong: tuple[str, ...]
    """Findings above possible that the label neither accepts nor allows."""
    right: tuple[bool, ...]
    """Per finding."""


def load(index: Path, half: str | None = None) -> list[dict[str, Any]]:
    """The labelled rows of the index."""
    rows = [
        row
        for row in yaml.safe_load(index.read_text(encoding="utf-8"))
        if row["kind"] == "nccl-debug" and "accept" in row["expected"]
    ]
    parity = {"even": 0, "odd": 1}.get(half or "")
    return [
        row for row in rows if parity is None or int(re.sub(r"\D", "", row["id"])) % 2 == parity
    ]


def grade(row: dict[str, Any], text: bytes, scanner: Scanner) -> Graded:
    """Diagnose one text and compare with its label."""
    findings = diagnose(EvidenceSet((Text(row["id"], scanner.scan([text]).hits),))).findings
    label = row["expected"]
    accept, also, never = (
        {name.removeprefix("NEW:") for name in label.get(key) or []}
        for key in ("accept", "also_ok", "must_not")
    )
    pattern = label.get("accept_text")

    def accepted(finding: Finding) -> bool:
        if finding.id in accept:
            return True
        return (
            bool(pattern)
            and finding.id not in also | never
            and any(re.search(pattern, t, re.I) for t in (finding.id, finding.title, finding.cause))
        )

    hits = [accepted(finding) for finding in findings]
    stated = [finding for finding in findings if finding.confidence is not Confidence.POSSIBLE]
    return Graded(
        row["id"],
        (
            "unknown"
            if label.get("expect_unknown")
            else "healthy"
            if label.get("expect_healthy")
            else "labelled"
        ),
        str(label.get("visible")),
        findings,
        bool(hits) and hits[0],
        any(hits[:3]),
        tuple(f.id for f in findings[:1] if f.id in never)
        + tuple(f.id for f in stated if f.id in never and f.id not in also),
        tuple(
            f.id
            for f, hit in zip(findings, hits, strict=True)
            if f in stated and not hit and f.id not in also
        ),
        tuple(hit or finding.id in also for finding, hit in zip(findings, hits, strict=True)),
    )


def evaluate(index: Path, half: str | None = None) -> list[Graded]:
    """All cases of an index."""
    scanner = Scanner(search_patterns())
    return [
        grade(row, (index.parent / row["file"]).read_bytes(), scanner) for row in load(index, half)
    ]


def calibration(cases: list[Graded]) -> dict[Confidence, tuple[int, int]]:
    """(right, all) of the findings per confidence."""
    counted = Counter(
        (finding.confidence, right)
        for case in cases
        for finding, right in zip(case.findings, case.right, strict=True)
    )
    return {
        level: (counted[level, True], counted[level, True] + counted[level, False])
        for level in Confidence
    }


def share(cases: list[Graded], name: str) -> float:
    """Share of labelled, visible cases that are right at `top1` or `top3`."""
    judged = [case for case in cases if case.kind == "labelled" and case.visible in HEADLINE]
    return sum(getattr(case, name) for case in judged) / max(1, len(judged))


def report(cases: list[Graded], *, verbose: bool) -> str:
    """The figures as text."""
    out = []
    for case in cases:
        wrong = case.forbidden or case.stated_wrong or (case.kind == "labelled" and not case.top1)
        if wrong or verbose:
            got = " ".join(
                f"{finding.id}({finding.confidence.value})" for finding in case.findings[:4]
            )
            out.append(
                f"{'✖' if wrong else '✓'} {case.case} {case.kind} {case.visible}: {got or '-'}"
                f" {' '.join(case.forbidden)}"
            )
    labelled = [case for case in cases if case.kind == "labelled" and case.visible in HEADLINE]
    out.append(f"{len(cases)} cases, {len(labelled)} labelled with a visible cause")
    out.append(
        f"top1 {share(cases, 'top1'):.2f}  top3 {share(cases, 'top3'):.2f}  must_not"
        f" {sum(bool(case.forbidden) for case in cases)}"
    )
    quiet = [case for case in cases if case.kind in ("unknown", "healthy")]
    out.append(
        f"unknown or healthy: {sum(not case.stated_wrong for case in quiet)} of {len(quiet)}"
        " without a wrong statement"
    )
    for level, (right, every) in calibration(cases).items():
        out.append(
            f"{level.value:9} {right} of {every} right"
            + (f" ({right / every:.0%})" if every else "")
        )
    return "\n".join(out)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Grade the diagnosis on labelled cases.")
    parser.add_argument("index", type=Path, nargs="?", default=INDEX)
    parser.add_argument("--half", choices=("even", "odd"))
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    if not args.index.is_file():
        print(f"no cases at {args.index}", file=sys.stderr)
        return 3
    print(report(evaluate(args.index, args.half), verbose=args.verbose))
    return 0


if __name__ == "__main__":
    sys.exit(main())
