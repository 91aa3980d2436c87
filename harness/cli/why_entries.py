"""Entries of the catalogue as text: `busbw why ID` and `busbw why --list`."""

from __future__ import annotations

import os

from busbw import codec
from busbw.errors import UsageError
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import STAGES, Catalogue, Entry, Role, Weight
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.units import counted


def entry(symptom: Entry, known: Catalogue) -> str:
    """One entry of the catalogue, explained; of a check also the entries that it is evidence for."""
    stages = ", ".join((symptom.stage, *symptom.also_stages))
    severity = f"{symptom.severity.value}; " if symptom.severity else ""
    signs = []
    for signal in symptom.signals:
        if signal.weight is not Weight.EXCLUDES:
            expression = f"{signal.source}: {signal.expr}"
            signs.append(signal.matches[0] if signal.matches else expression)
    source = f"preflight:{symptom.id}"
    causes = []
    for each in known.entries:
        if any(signal.source == source for signal in each.signals):
            causes.append(f"{each.id}  {each.title}")
    out = [
        f"{symptom.id}  {symptom.title}",
        *phrases.labelled("cause", [symptom.cause]),
        *phrases.labelled("costs", [f"{severity}shows at {stages}"]),
        *phrases.labelled("why", [symptom.explanation]),
        *phrases.labelled("signs", dict.fromkeys(signs)),
        *phrases.labelled("causes", causes),
        *phrases.labelled("reasons", _reasons(symptom)),
        *phrases.steps(tuple(step.fix() for step in symptom.fix)),
        *phrases.labelled("verify", symptom.verify),
        *phrases.labelled("settle", symptom.settle),
        *phrases.labelled_text("trust", symptom.trust),
        *phrases.labelled("see", [f"{title}, {address}" for title, address in symptom.references]),
    ]
    return "\n".join(one_line(line) for line in out) + "\n"


def _reasons(symptom: Entry) -> list[str]:
    """What the message may come from, the most frequent first, with the numbers behind it."""
    share_of = catalogue.shares(symptom)
    ordered = sorted(symptom.reasons, key=lambda reason: -share_of[reason.id])
    return [
        f"{share_of[each.id]:.0%}  {each.id} ({counted(each.cases, 'case')}): {each.why}"
        for each in ordered
    ]


def listing(known: Catalogue) -> str:
    """One line per entry, by stage."""
    out = []
    for stage in STAGES:
        out.append(stage)
        for symptom in known.entries:
            if symptom.stage == stage and symptom.role is not Role.NOTE:
                out.append(f"  {symptom.id:<32}  {symptom.title}")
    return "\n".join(out) + "\n"


def unknown_id(name: str, known: Catalogue) -> UsageError:
    """The error for what is neither a path nor an id."""
    if os.sep in name or "." in name:
        what = f"{name}: no such file"
        return UsageError(what, next_step="to look up an id: busbw why --list")
    near = [each for each in known.by_id if name.casefold() in each]
    hint = f"; ids with that word: {', '.join(near)}"
    if not near:
        # Not the list of all ids: it is long, and the next step prints it.
        hint = "".join(codec.unknown("id", name, known.by_id).partition("; did you mean")[1:])
    return UsageError(
        f"{name!r} is neither a path nor an id{hint}",
        next_step="busbw why --list shows all ids; a path must exist",
    )
