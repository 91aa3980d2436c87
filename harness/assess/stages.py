"""What of a run did not come about: stages that failed, nodes that were left out, builds."""

from __future__ import annotations

from dataclasses import replace

from busbw.assess import builds, diagnosis
from busbw.assess.raw import Raw
from busbw.building import sources
from busbw.inventory.hostlist import fold
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.store.artefacts import Excluded, StageFailure
from busbw.store.run_directory import RunDir


def findings(run: RunDir, raw: Raw) -> tuple[Finding, ...]:
    """One for each of them."""
    participants = raw.participants.excluded if raw.participants else ()
    excluded = raw.excluded.nodes if raw.excluded else ()
    return (
        *(_failure_finding(run, failure, raw) for failure in raw.failures),
        *_excluded_findings(participants, "participants.json"),
        *_excluded_findings(excluded, "excluded-nodes.json"),
        *builds.findings(raw.build, raw.launches, emulated=raw.plan.cluster.emulated),
    )


def _failure_finding(run: RunDir, failure: StageFailure, raw: Raw) -> Finding:
    where = failure.nodes
    if failure.stage == "reach" and raw.reach is not None:
        where = tuple(missing.node for missing in raw.reach.unreachable)
    seen = Evidence(f"raw/failure-{failure.stage}.json", None, failure.seen or failure.what)
    if failure.stage == "build":
        seen = diagnosis.build_line(run, failure.seen) or seen
    finding = Finding(
        id=f"{failure.stage}-failed",
        status=Status.FAIL if failure.exit_status == 1 else Status.UNKNOWN,
        title=failure.what,
        where=where,
        evidence=(seen,),
        would_settle=(failure.next_step,) if failure.next_step else (),
        confidence=Confidence.CERTAIN,
        effect=1.0,
    )
    if failure.stage == "build" and sources.are_binaries(run):
        # Ready binaries were to be used: no compiler ran.
        finding = replace(finding, id="nccl-tests-not-there")
    # Commands that take one node.
    return filled(finding, NODE=where[0] if where else raw.plan.cluster.nodes[0].name)


def _excluded_findings(excluded: tuple[Excluded, ...], artefact: str) -> tuple[Finding, ...]:
    """Nodes that were reached and not measured: the run says nothing about them, so it cannot pass."""
    groups: dict[str, list[str]] = {}
    for each in excluded:
        groups.setdefault(each.reason, []).append(each.node)
    excluding = []
    for reason, nodes in groups.items():
        finding = Finding(
            id="node-excluded",
            status=Status.UNKNOWN,
            title=f"not measured: {reason}",
            where=tuple(nodes),
            evidence=(Evidence(f"raw/{artefact}", None, reason),),
            confidence=Confidence.CERTAIN,
        )
        excluding.append(filled(finding, NODE=fold(nodes)))
    return tuple(excluding)
