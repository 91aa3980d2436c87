"""What a run left behind, read: its plan, what each stage kept, and its launches."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.assess import launches
from busbw.assess.checks import answers, checked, load_plan, require_known
from busbw.assess.launches import Launch
from busbw.building.recipe import BuildOutcome
from busbw.checks import NodeAnswer
from busbw.checks.software import NodeFacts, facts
from busbw.compare import earlier
from busbw.model import CheckResult
from busbw.model.history import ComparableRun
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store import artefacts
from busbw.store.artefacts import (
    ExcludedNodes,
    Participants,
    PreflightArtefact,
    ReachArtefact,
    StageFailure,
)
from busbw.store.plan import RunPlan
from busbw.store.run_directory import Damage, RunDir

STAGES = ("reach", "build", "measure")


@dataclass(frozen=True, slots=True)
class Raw:
    """What a run left behind, as far as it came."""

    plan: RunPlan
    damage: tuple[Damage, ...]
    reach: ReachArtefact | None
    preflight: PreflightArtefact | None
    answers: tuple[NodeAnswer, ...]
    known: dict[str, NodeFacts]
    checks: tuple[CheckResult, ...]
    build: BuildOutcome | None
    participants: Participants | None
    excluded: ExcludedNodes | None
    failures: tuple[StageFailure, ...]
    launches: tuple[Launch, ...]
    samples: tuple[GroupSample, ...]
    accepted_runs: tuple[ComparableRun, ...]


def read(run: RunDir, damage: tuple[Damage, ...]) -> Raw:
    """All of it.

    Raises:
        RunDirError: there is no plan, or an artefact is not readable.
    """
    plan = load_plan(run)
    node_answers = answers(run, plan)
    known = {answer.node.name: facts(answer) for answer in node_answers}
    failures = [artefacts.load(run, f"failure-{stage}.json", StageFailure) for stage in STAGES]
    participants = artefacts.load(run, "participants.json", Participants)
    head = participants.head if participants is not None else ""
    own_launches = launches.load(run, known, launches.on_head_of(plan, head))
    for launch in own_launches:
        name = f"cases/{launch.artefact.case.id}/outcome.json"
        require_known(run, plan, name, launch.artefact.nodes)
    if participants is not None:
        require_known(run, plan, "participants.json", participants.nodes)
    return Raw(
        plan=plan,
        damage=damage,
        reach=artefacts.load(run, "reach.json", ReachArtefact),
        preflight=artefacts.load(run, "preflight.json", PreflightArtefact),
        answers=node_answers,
        known=known,
        checks=checked(run, plan, node_answers),
        build=artefacts.load(run, "build.json", BuildOutcome),
        participants=participants,
        excluded=artefacts.load(run, "excluded-nodes.json", ExcludedNodes),
        failures=tuple(failure for failure in failures if failure is not None),
        launches=own_launches,
        samples=tuple(sample for launch in own_launches for sample in launch.samples),
        accepted_runs=earlier.load(run),
    )
