"""What the catalogue and its rules say of a run: its outputs searched, its checks, tables and
comparisons as facts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from busbw.assess import counters, proof
from busbw.assess.launches import Launch
from busbw.checks import NodeAnswer, SectionOutput, read_answer
from busbw.model import CheckResult, Comparison, Evidence, Finding, Status
from busbw.parsers.findings import catalogue, facts, searching
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import Context, EvidenceSet, Fact, Text
from busbw.parsers.findings.explain import explain
from busbw.parsers.findings.facts import NodeChanges
from busbw.parsers.logs.scan import Hit
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
    launches: tuple[Launch, ...],
    answers: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    comparisons: tuple[Comparison, ...],
    run_findings: tuple[Finding, ...],
) -> tuple[Finding, ...]:
    """The run's own findings with causes and fixes from the catalogue, and what only the table
    knows."""
    statuses = {finding.status for finding in run_findings}
    if not launches and not statuses & {Status.FAIL, Status.UNKNOWN, Status.WARN}:
        return run_findings
    run_evidence = evidence(run, plan, launches, answers, checks, comparisons)
    diagnosis = diagnose(run_evidence, Context(plan.profile.family))
    artefacts = {answer.artefact for answer in answers}
    signs = () if diagnosis.by_words else diagnosis.findings
    return explain(run_findings, signs, _feeds(), lambda artefact: artefact in artefacts)


def evidence(
    run: RunDir,
    plan: RunPlan,
    launches: tuple[Launch, ...],
    answers: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    comparisons: tuple[Comparison, ...],
) -> EvidenceSet:
    """All texts and facts of a run, as the engine takes them.

    Of the nodes' answers only those are read again whose checks found something: the answers of
    good nodes hold no cause.
    """
    paths: dict[str, int | None] = {}
    for launch in launches:
        paths |= dict(_outputs(launch.artefact))
    for launch in launches:
        for path, _ in proof.rank_texts(run, launch):
            paths.setdefault(path, None)
    if not launches:
        paths = dict.fromkeys(build_outputs(run))
    searched = [_searched(run, path, end) for path, end in paths.items()]
    texts = [text for text in searched if text is not None]
    suspects = {check.node for check in checks if check.status in _WRONG}
    run_facts: list[Fact] = []
    for answer in answers:
        if answer.node.name in suspects:
            texts += read_answer(_kernel_log, answer)
            run_facts += read_answer(_node_facts, answer)
    rails = {answer.node.name: answer.node.rails for answer in answers}
    for launch in launches:
        run_facts += _counters(run, launch, rails)
        # The other purposes have few and small sizes by intent, and so have all of an emulated
        # cluster.
        is_judged = launch.artefact.case.purpose == _JUDGED and not launch.artefact.groups
        if is_judged and not plan.cluster.emulated:
            run_facts += facts.from_records(launch.artefact.stdout or "", launch.results)
    run_facts += facts.from_checks(check for check in checks if check.node in suspects)
    run_facts += facts.from_comparisons(each for each in comparisons if each.status in _WRONG)
    return EvidenceSet(tuple(texts), tuple(run_facts))


def build_outputs(run: RunDir) -> list[str]:
    """Where the compiler's output is kept."""
    names = run.raw_names("nodes") if (run.raw / "nodes").is_dir() else []
    return [f"raw/{name}" for name in names if name.endswith(("-build.out", "-build.err"))]


def build_line(run: RunDir, message: str) -> Evidence | None:
    """Where the compiler printed that; None = in no recorded output."""
    first = next(iter(message.splitlines()), "").strip()
    for path in build_outputs(run) if first else ():
        text = decoded(run.kept(path))
        for number, line in enumerate(text.splitlines(), 1):
            if first in line:
                return Evidence(path, number, message)
    return None


@functools.cache
def _feeds() -> dict[str, frozenset[str]]:
    """Symptom → ids of the checks that are evidence for it."""
    feeds: dict[str, frozenset[str]] = {}
    for symptom in catalogue.load().entries:
        sources = [signal.source.partition(":") for signal in symptom.signals]
        feeds[symptom.id] = frozenset(name for kind, _, name in sources if kind == "preflight")
    return feeds


def _outputs(artefact: CaseArtefact) -> tuple[tuple[str, int | None], ...]:
    """A launch's outputs, each with how many of its bytes count: what processes print while busbw
    ends them is no cause of anything."""
    ends = artefact.bytes_before_end or (None, None)
    pairs = zip((artefact.stdout, artefact.stderr), ends, strict=True)
    return tuple((path, end) for path, end in pairs if path is not None)


def _searched(run: RunDir, path: str, end: int | None = None) -> Text | None:
    content = (run.kept(path) or b"")[:end]
    if not content:
        return None
    scan = searching.scanner().scan([content])
    return Text(path, scan.hits, scan.lines)


def _kernel_log(answer: NodeAnswer) -> tuple[Text, ...]:
    """The kernel log inside a node's answer, its lines numbered as in the whole answer."""
    section = answer.section(_KERNEL_LOG)
    if section is None or not section.stdout.strip():
        return ()
    scan = searching.scanner().scan([section.stdout.encode()])
    hits = tuple(_moved(hit, section.line_no - 1) for hit in scan.hits)
    return (Text(answer.artefact, hits, scan.lines),)


def _moved(hit: Hit, by: int) -> Hit:
    examples = (line._replace(line_no=line.line_no + by) for line in hit.examples)
    return hit._replace(examples=tuple(examples))


def _node_facts(answer: NodeAnswer) -> list[Fact]:
    node_facts: list[Fact] = []
    for section in answer.sections.values():
        for fact in facts.from_tools(answer.artefact, section.stdout):
            node_facts.append(_on_node(fact, answer.node.name, section))
    return node_facts


def _on_node(fact: Fact, node: str, section: SectionOutput) -> Fact:
    evidence = fact.evidence
    if evidence.line_no is not None:
        line_no = evidence.line_no + section.line_no - 1
        evidence = dataclasses.replace(evidence, line_no=line_no)
    where = tuple(f"{node} {name}" for name in fact.where) or (node,)
    return dataclasses.replace(fact, evidence=evidence, where=where)


def _counters(
    run: RunDir, launch: Launch, rails: Mapping[str, tuple[str, ...]]
) -> tuple[Fact, ...]:
    counted = counters.load(run, launch.artefact.case.id)
    changes = []
    for each in counted.nodes if counted is not None else ():
        after = each.after
        node_rails = rails.get(after.node, ())
        changes.append(
            NodeChanges(after.node, each.deltas, after.ports, after.artefact, node_rails)
        )
    return facts.from_counters(changes)
