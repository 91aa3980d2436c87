"""What else speaks for an accusation: failed checks, ports' counters and log lines, as tie-breakers, never in place of a measurement.

Nobody is accused here, and nobody is cleared. Where the measurements cannot separate parts, the one that other findings name comes first, and
says that this is why; where they can, what was found besides is quoted beside it.
"""

from __future__ import annotations

import dataclasses

from busbw.parsers.judge.blame import BlameOutcome
from busbw.records import Blame, Evidence, Finding, Status

MOST = 3
"""Other findings quoted for one accusation."""
_TELLING = (Status.FAIL, Status.WARN)


def with_priors(outcome: BlameOutcome, findings: tuple[Finding, ...]) -> BlameOutcome:
    """The outcome with its accusations ordered and supported by what was found besides. `findings`: none of a survey's own."""
    told = tuple(finding for finding in findings if finding.status in _TELLING)
    if not told or not outcome.blames:
        return outcome
    return dataclasses.replace(outcome, blames=tuple(_supported(blame, outcome, told) for blame in outcome.blames))


def _supported(blame: Blame, outcome: BlameOutcome, told: tuple[Finding, ...]) -> Blame:
    names = (blame.component, *blame.also)
    found = {name: tuple(finding for finding in told if _speaks_for(finding, name)) for name in names}
    # A finding about a whole node speaks for each of its rails alike: what speaks for all separates none of them.
    shared = [finding for finding in told if all(finding in found[name] for name in names)] if blame.also else []
    telling = {name: tuple(finding for finding in found[name] if finding not in shared) for name in names}
    best = max(len(each) for each in telling.values())
    leading = [name for name in names if best and len(telling[name]) == best]
    if blame.also and len(leading) == 1 and leading[0] != blame.component:
        kind = next((part.kind.value for each in outcome.open for part in each.alike if part.label == leading[0]), blame.kind)
        also = tuple(name for name in names if name != leading[0])
        blame = dataclasses.replace(blame, kind=kind, component=leading[0], also=also)
    why = "found besides" if not blame.also else "comes first because of what was found besides"
    quoted = (telling[blame.component] if blame.also else found[blame.component])[:MOST]
    return dataclasses.replace(blame, seen_in=(*blame.seen_in, *(_quoted(finding, why) for finding in quoted)))


def _speaks_for(finding: Finding, name: str) -> bool:
    """The finding is about the part by its own name, or about the node that a rail or an inside belongs to. Paths and leaves have no owner."""
    if name in finding.where:
        return True
    node, rail, _ = name.removeprefix("inside of ").partition(" rail ")
    return bool(rail or name.startswith("inside of ")) and " " not in node and node in finding.where


def _quoted(finding: Finding, why: str) -> Evidence:
    first = finding.evidence[0] if finding.evidence else None
    return Evidence(first.artefact if first else "run.json", first.line_no if first else None, f"{why}: {finding.title}")
