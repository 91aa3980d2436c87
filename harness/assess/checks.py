"""What a run's nodes were asked, what they answered, and what the checks come to: the part of a
result that a check has, too."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from busbw.checks import NodeAnswer, Policy, frame, occupied, script, unread
from busbw.checks import specification as demands
from busbw.checks.frame import families
from busbw.checks.software import facts
from busbw.errors import RunDirError
from busbw.fabrics.profile import UNDETECTED
from busbw.faults import Fault, attempt
from busbw.inventory.hostlist import LEGAL_NAME
from busbw.model import CheckResult, CommandResult, Evidence, Status
from busbw.store import artefacts
from busbw.store.artefacts import PreflightArtefact, ReachArtefact
from busbw.store.plan import RunPlan, refuse_other_versions
from busbw.store.run_directory import RunDir

_BESIDE = ("fabric.json", "probe.json", "gpus.json", "link-baseline.json")
"""Artefacts in `raw/` of what lies between the nodes, and of each GPU by itself."""


def load_plan(run: RunDir) -> RunPlan:
    """The plan of a run.

    Raises:
        RunDirError: there is none, or it is another version's.
    """
    refuse_other_versions(run)
    plan = artefacts.load(run, "plan.json", RunPlan)
    if plan is None:
        whys = [each.why for each in run.damage() if each.name == "plan.json"]
        raise RunDirError(
            f"run {run.run_id} has no plan" + (" that is as it was written" if whys else ""),
            seen=f"{run.path}/raw/plan.json: {whys[0] if whys else 'missing'}",
            next_step="copy the whole run directory again, or start a new run: busbw run",
        )
    _refuse_odd_names(run, plan)
    if plan.profile.name != UNDETECTED:
        return plan
    # Here, because it knows the hardware tables: most runs name their fabric.
    from busbw.assess import detection

    return detection.settled(plan, answers(run, plan))


def _refuse_odd_names(run: RunDir, plan: RunPlan) -> None:
    """The names of a plan become parts of paths, here and on nodes."""
    cases = (case.id for case in plan.playbook.cases)
    names = (plan.run_id, *(node.name for node in plan.cluster.nodes), *cases)
    odd = [name for name in names if not LEGAL_NAME.match(name)]
    odd += [] if plan.started.isprintable() else [plan.started]
    if odd:
        raise RunDirError(
            f"the plan of run {run.run_id} holds a name or a time that is none",
            seen=f"raw/plan.json: {odd[0]!r}",
            next_step="start a new run: busbw run",
        )


def answers(run: RunDir, plan: RunPlan) -> tuple[NodeAnswer, ...]:
    """Every node's preflight answer, from the recorded text; () = preflight did not finish."""
    index = artefacts.load(run, "preflight.json", PreflightArtefact)
    nodes = {node.name: node for node in plan.cluster.nodes}
    requirements = plan.requirements
    found = []
    for entry in index.entries if index else ():
        result = CommandResult(
            node=entry.node,
            argv=("sh", "-s"),
            exit_status=entry.exit_status,
            stdout=run.kept(entry.stdout) or b"",
            stderr=run.kept(entry.stderr) or b"",
            seconds=entry.seconds,
            problem=entry.problem,
        )
        require_known(run, plan, "preflight.json", (entry.node,))
        answer = script.split(
            nodes[entry.node], result, index.boundary if index else "", entry.stdout
        )
        at = entry.answered_s
        span = None if at is None else (at - entry.seconds, at)
        answer = dataclasses.replace(answer, requirements=requirements, span_s=span)
        found.append(_readable(answer))
    return tuple(found)


def require_known(run: RunDir, plan: RunPlan, name: str, nodes: Iterable[str]) -> None:
    """Nothing where a record names nodes of the plan alone.

    Raises:
        RunDirError: it names another.
    """
    known = {node.name for node in plan.cluster.nodes}
    strange = [node for node in nodes if node not in known]
    if strange:
        raise RunDirError(
            f"raw/{name} of run {run.run_id} names the node {strange[0]!r}",
            seen="the plan has no such node",
            next_step="busbw report of the run as it was made",
        )


def _readable(answer: NodeAnswer) -> NodeAnswer:
    """The answer, where it can be read; else none, with the reason. A run decides by these readers
    who takes part."""
    for read in (facts, occupied.occupants_of_others, occupied.unseen, occupied.schedules):
        outcome = attempt(functools.partial(read, answer))
        if isinstance(outcome, Fault):
            return unread(answer, outcome)
    return answer


def policy(plan: RunPlan) -> Policy:
    """What the playbook and the fabric profile ask for; the playbook's word comes first. What a
    `specification:` block demands is required."""
    own, profile = plan.playbook.checks, plan.profile.checks
    requirements = plan.requirements
    return Policy(
        plan.profile.name,
        (*demands.check_ids(requirements), *own.required, *profile.required),
        (*own.advisory, *profile.advisory),
        demands.sections(requirements),
    )


def checked(run: RunDir, plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """What the checks come to: whether each node was reached, every family over all answers, and
    what was asked beside the nodes' own."""
    reach = artefacts.load(run, "reach.json", ReachArtefact)
    judged = frame.judge(families(), answers, policy(plan))
    # A specification without a key for a check is no answer of a node.
    kept = (each for each in judged if not demands.without_requirement(each))
    results = (*_reach_checks(plan, reach), *kept)
    if not any((run.raw / name).exists() for name in _BESIDE):
        return results
    # Here, because most runs ask for none of it.
    from busbw.assess import links, requested_checks

    return (*results, *requested_checks.checks(run), *links.checks(run, plan))


def _reach_checks(plan: RunPlan, reach: ReachArtefact | None) -> tuple[CheckResult, ...]:
    if reach is None:
        return ()
    required = policy(plan).is_required("ssh.connect") is not False
    reasons = {missing.node: missing for missing in reach.unreachable}
    results = []
    for node in plan.cluster.nodes:
        missing = reasons.get(node.name)
        command = f"ssh {node.name} true"
        if missing is None and node.name not in reach.reached:
            results.append(
                CheckResult(
                    "ssh.connect",
                    node.name,
                    Status.UNKNOWN,
                    "not recorded",
                    "reached",
                    command,
                    "raw/reach.json does not name the node",
                    required=required,
                )
            )
        elif missing is None:
            results.append(
                CheckResult(
                    "ssh.connect",
                    node.name,
                    Status.PASS,
                    "reached",
                    "reached",
                    command,
                    required=required,
                )
            )
        else:
            evidence = Evidence("raw/reach.json", None, missing.reason)
            results.append(
                CheckResult(
                    "ssh.connect",
                    node.name,
                    Status.UNKNOWN,
                    missing.reason,
                    "reached",
                    command,
                    evidence=evidence,
                    required=required,
                )
            )
    return tuple(results)
