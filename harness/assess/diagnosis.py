"""What the symptom table and its rules say of a run: its outputs searched, its checks, tables and
comparisons as facts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping

from busbw.assess import counters, proof
from busbw.assess.launches import Launch
from busbw.checks import NodeAnswer, SectionOutput
from busbw.model import CheckResult, Comparison, Evidence, Finding, Status
from busbw.parsers.findings import facts as diagnose_counters
from busbw.parsers.findings import facts as diagnose_facts
from busbw.parsers.findings import table
from busbw.parsers.findings.diagnose import diagnose, search_patterns
from busbw.parsers.findings.evidence import Context, EvidenceSet, Fact, Text
from busbw.parsers.findings.explain import explain
from busbw.parsers.findings.facts import NodeChanges
from busbw.parsers.logs.scan import Hit, Scanner
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.text import decoded

_WRONG = (Status.FAIL, Status.WARN)
_KERNEL_LOG = "kernel_log"
_JUDGED = "bandwidth"


def with_causes(
    run: RunDir,
    plan: RunPlan,
    made: tuple[Launch, ...],
    asked: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    comparisons: tuple[Comparison, ...],
    own: tuple[Finding, ...],
) -> tuple[Finding, ...]:
    """The run's own findings with causes and fixes from the symptom table, and what only the table
    knows."""
    if not made and not any(
        finding.status in (Status.FAIL, Status.UNKNOWN, Status.WARN) for finding in own
    ):
        return own
    told = diagnose(
        evidence(run, plan, made, asked, checks, comparisons), Context(plan.profile.family)
    )
    answers = {answer.artefact for answer in asked}
    return explain(own, told.findings, _feeds(), lambda artefact: artefact in answers)


def evidence(
    run: RunDir,
    plan: RunPlan,
    made: tuple[Launch, ...],
    asked: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    comparisons: tuple[Comparison, ...],
) -> EvidenceSet:
    """All texts and facts of a run, as the engine takes them.

    Of the nodes' answers only those are read again whose checks found something: the answers of
    good nodes hold no cause.
    """
    paths = {path: until for launch in made for path, until in _said(launch.artefact)}
    paths |= {
        path: None
        for launch in made
        for path, _ in proof.rank_texts(run, launch)
        if path not in paths
    }
    paths |= {} if made else dict.fromkeys(build_outputs(run))
    texts = [
        text for path, until in paths.items() if (text := _searched(run, path, until)) is not None
    ]
    suspect = {check.node for check in checks if check.status in _WRONG}
    facts: list[Fact] = []
    for answer in asked:
        if answer.node.name in suspect:
            texts += _kernel_log(answer)
            facts += _node_facts(answer)
    rails = {answer.node.name: answer.node.rails for answer in asked}
    for launch in made:
        facts += _counters(run, launch, rails)
        # The other purposes have few and small sizes by intent, and so have all of an emulated
        # cluster.
        if (
            launch.artefact.case.purpose == _JUDGED
            and not launch.artefact.groups
            and not plan.cluster.emulated
        ):
            facts += diagnose_facts.from_records(launch.artefact.stdout or "", launch.results)
    return EvidenceSet(
        tuple(texts),
        (
            *facts,
            *diagnose_facts.from_checks(c for c in checks if c.node in suspect),
            *_ratios(comparisons),
        ),
    )


def build_outputs(run: RunDir) -> list[str]:
    """Where the compiler's output is kept."""
    names = run.raw_names("nodes") if (run.raw / "nodes").is_dir() else []
    return [f"raw/{name}" for name in names if name.endswith(("-build.out", "-build.err"))]


def build_line(run: RunDir, seen: str) -> Evidence | None:
    """Where the compiler said that; None = in no recorded output."""
    first = next(iter(seen.splitlines()), "").strip()
    for path in build_outputs(run) if first else ():
        lines = decoded(run.read_raw(path.removeprefix("raw/"))).splitlines()
        number = next((n for n, line in enumerate(lines, 1) if first in line), None)
        if number is not None:
            return Evidence(path, number, seen)
    return None


@functools.cache
def _scanner() -> Scanner:
    return Scanner(search_patterns())


@functools.cache
def _feeds() -> dict[str, frozenset[str]]:
    """Symptom → ids of the checks that speak for it."""
    return {
        symptom.id: frozenset(
            s.source.removeprefix("preflight:")
            for s in symptom.signals
            if s.source.startswith("preflight:")
        )
        for symptom in table.load().symptoms
    }


def _said(artefact: CaseArtefact) -> tuple[tuple[str, int | None], ...]:
    """A launch's outputs, each with how many of its bytes count: what processes say while busbw
    ends them is no cause of anything."""
    until = artefact.said_before or (None, None)
    return tuple(
        (path, end)
        for path, end in zip((artefact.stdout, artefact.stderr), until, strict=True)
        if path is not None
    )


def _searched(run: RunDir, path: str, until: int | None = None) -> Text | None:
    content = (run.read_raw(path.removeprefix("raw/")) or b"")[:until]
    if not content:
        return None
    scan = _scanner().scan([content])
    return Text(path, scan.hits, scan.lines)


def _kernel_log(answer: NodeAnswer) -> tuple[Text, ...]:
    """The kernel log inside a node's answer, its lines numbered as in the whole answer."""
    section = answer.section(_KERNEL_LOG)
    if section is None or not section.stdout.strip():
        return ()
    scan = _scanner().scan([section.stdout.encode()])
    return (
        Text(
            answer.artefact,
            tuple(_moved(hit, section.line_no - 1) for hit in scan.hits),
            scan.lines,
        ),
    )


def _moved(hit: Hit, by: int) -> Hit:
    return dataclasses.replace(
        hit,
        examples=tuple(
            dataclasses.replace(line, line_no=line.line_no + by) for line in hit.examples
        ),
    )


def _node_facts(answer: NodeAnswer) -> list[Fact]:
    found = []
    for section in answer.sections.values():
        facts = diagnose_facts.from_tools(answer.artefact, section.stdout)
        found += [_on_node(fact, answer.node.name, section) for fact in facts]
    return found


def _on_node(fact: Fact, node: str, section: SectionOutput) -> Fact:
    line_no = None if fact.evidence.line_no is None else fact.evidence.line_no + section.line_no - 1
    where = tuple(f"{node} {name}" for name in fact.where) or (node,)
    return dataclasses.replace(
        fact, evidence=dataclasses.replace(fact.evidence, line_no=line_no), where=where
    )


def _counters(
    run: RunDir, launch: Launch, rails: Mapping[str, tuple[str, ...]]
) -> tuple[Fact, ...]:
    taken = counters.load(run, launch.artefact.case.id)
    return diagnose_counters.from_counters(
        [
            NodeChanges(
                each.after.node,
                each.deltas,
                each.after.ports,
                each.after.artefact,
                rails.get(each.after.node, ()),
            )
            for each in (taken.nodes if taken is not None else ())
        ]
    )


def _ratios(comparisons: Iterable[Comparison]) -> tuple[Fact, ...]:
    return diagnose_facts.from_comparisons(c for c in comparisons if c.status in _WRONG)
