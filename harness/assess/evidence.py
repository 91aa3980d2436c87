"""Is the evidence of a run there, and whole? What a run promises to leave in `raw/`, and what its
list of files says of each."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.assess.launches import Launch
from busbw.inventory.hostlist import fold
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.store.artefacts import Participants, PreflightArtefact, ReachArtefact
from busbw.store.run_directory import Damage

_NAMED = 6
"""Damaged files that a title names."""


def findings(
    damage: tuple[Damage, ...],
    launches: tuple[Launch, ...],
    reach: ReachArtefact | None,
    preflight: PreflightArtefact | None,
    participants: Participants | None,
) -> tuple[Finding, ...]:
    """What is missing or damaged; a run that did not come to a step does not promise its record."""
    return (*_damaged(damage), *_missing(launches, reach, preflight, participants))


def _missing(
    launches: tuple[Launch, ...],
    reach: ReachArtefact | None,
    preflight: PreflightArtefact | None,
    participants: Participants | None,
) -> Iterator[Finding]:
    if not launches:
        return
    for name, record, what in (
        ("reach", reach, "which nodes were reached"),
        ("preflight", preflight, "what the nodes answered to the checks"),
        ("participants", participants, "which nodes take part"),
    ):
        if record is None:
            title = f"raw/{name}.json is missing: it is not known {what}"
            yield _finding("evidence-missing", title, f"raw/{name}.json")
    if preflight is None or participants is None:
        return
    answered = {entry.node for entry in preflight.entries}
    silent = [node for node in participants.nodes if node not in answered]
    if silent:
        title = f"the answers of {fold(silent)} to the checks are missing"
        yield _finding("evidence-missing", title, "raw/preflight.json", tuple(silent))


def _damaged(damage: tuple[Damage, ...]) -> Iterator[Finding]:
    if not damage:
        return
    named = ", ".join(f"raw/{each.name} ({each.why})" for each in damage[:_NAMED])
    more = f" and {len(damage) - _NAMED} more" if len(damage) > _NAMED else ""
    title = f"files of this run are not as they were written: {named}{more}"
    evidence = tuple(Evidence(f"raw/{each.name}", None, each.why) for each in damage)
    yield filled(
        Finding(
            id="evidence-damaged",
            status=Status.UNKNOWN,
            title=title,
            where=(),
            evidence=evidence,
            confidence=Confidence.CERTAIN,
            effect=1.0,
        )
    )


def _finding(name: str, title: str, artefact: str, where: tuple[str, ...] = ()) -> Finding:
    return filled(
        Finding(
            id=name,
            status=Status.UNKNOWN,
            title=title,
            where=where,
            evidence=(Evidence(artefact, None, title),),
            confidence=Confidence.CERTAIN,
        )
    )
