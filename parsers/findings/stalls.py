"""The stall engine's readings of RAS answers and flight recorder dumps as facts for the catalogue:
who is behind, who is ahead, who does something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from busbw.model import Evidence, RasFinding, RasReport
from busbw.parsers.findings.evidence import Fact
from busbw.parsers.findings.expr import Value
from busbw.parsers.stall import ras, recorders
from busbw.parsers.stall.ras import Member, Split, member_of
from busbw.parsers.stall.recorders import GroupWait, Progress

_MOST_RANKS = 32
"""Named in one stall."""


def from_dumps(ranks: Iterable[Progress]) -> tuple[Fact, ...]:
    """The facts in all dumps together, group by group. One rank's dump only shows what that rank
    waits in."""
    return tuple(fact for wait in recorders.waits_of_ended_job(ranks) for fact in _of_group(wait))


def _of_group(wait: GroupWait) -> list[Fact]:
    ranks = [(each, f"this rank launched {each.launched}") for each in wait.behind]
    if wait.mute:
        ahead = len(wait.ranks) - len(wait.behind)
        values: tuple[tuple[str, Value], ...] = (("launched_less", float(len(wait.behind))),)
        text = f"{ahead} ranks launched operation {wait.sequence}"
    else:
        values = (
            ("pending_operations", float(wait.pending_operations)),
            ("missing_ranks", float(len(wait.behind))),
            ("operations_at_once", float(wait.operations_at_once)),
            ("sizes_at_once", float(wait.sizes_at_once)),
            ("started_everywhere", wait.started_everywhere),
        )
        text = f"{len(wait.waiting)} ranks wait in operation {wait.sequence}"
        for each, operation in () if wait.behind else wait.odd:
            ranks.append((each, f"{operation.name} of {operation.elements} elements"))
    facts = []
    for each, detail in ranks[:_MOST_RANKS]:
        evidence = Evidence(each.artefact, None, f"process group {wait.group}: {text}; {detail}")
        where = () if each.rank is None else (f"rank {each.rank}",)
        facts.append(Fact("flight-recorder", values, evidence, where))
    return facts


def from_reports(reports: Sequence[tuple[str, RasReport]]) -> tuple[Fact, ...]:
    """The facts in RAS's JSON answers: its text form states the same in lines. Two answers of one
    job also show whether it moved."""
    facts = [fact for artefact, report in reports for fact in _of_report(artefact, report)]
    for index, communicator, ranks in ras.unmoved([report for _, report in reports]):
        text = (
            f"communicator {communicator}: all {ranks} ranks launched the same, and nothing since"
            " the report before"
        )
        evidence = Evidence(reports[index][0], None, text)
        facts.append(Fact("ras", (("counts_frozen", True),), evidence))
    return tuple(facts)


_ABSENCES = {"DEAD": "dead_ranks", "INCOMPLETE": "unheard_ranks"}


def _of_report(artefact: str, report: RasReport) -> list[Fact]:
    facts = []
    for finding in report.findings:
        if finding.line_no is None and finding.kind in _ABSENCES:
            values = ((_ABSENCES[finding.kind], float(len(finding.ranks))),)
            facts.append(_fact(artefact, finding, values, map(member_of, finding.ranks)))
    splits = ras.splits(report)
    crossed = ras.wait_for_each_other(splits)
    for split in splits:
        if split.finding.line_no is None:
            facts += _of_split(artefact, split, crossed=crossed)
    return facts


def _of_split(artefact: str, split: Split, *, crossed: bool) -> tuple[Fact, Fact]:
    """One fact on those behind and one on those ahead: whom to name depends on which are fewer."""
    behind: tuple[tuple[str, Value], ...] = (
        ("ranks_behind", float(split.ranks_behind)),
        ("others_ahead", float(split.ranks_ahead)),
        ("wait_for_each_other", crossed),
    )
    ahead: tuple[tuple[str, Value], ...] = (
        ("ranks_ahead", float(split.ranks_ahead)),
        ("others_behind", float(split.ranks_behind)),
        ("distinct_counts", float(len(split.counts))),
    )
    return (
        _fact(artefact, split.finding, behind, split.behind),
        _fact(artefact, split.finding, ahead, split.ahead),
    )


def _fact(
    artefact: str,
    finding: RasFinding,
    values: tuple[tuple[str, Value], ...],
    members: Iterable[Member],
) -> Fact:
    text = f"communicator {finding.communicator}: {finding.text}"
    where: dict[str, None] = {}
    for member in members:
        if member.rank is not None:
            where[f"rank {member.rank}"] = None
        if member.node is not None:
            where[member.node] = None
    return Fact("ras", values, Evidence(artefact, None, text), tuple(where)[: 2 * _MOST_RANKS])
