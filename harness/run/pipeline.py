"""A run from its plan to its report: stage after stage, each leaving its artefacts. A failed stage
ends the measuring, not the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from busbw import assess
from busbw.building.recipe import Benchmark, BuildOutcome
from busbw.checks.software import NodeFacts, facts
from busbw.compare import measure as compared
from busbw.compare import repeat
from busbw.errors import BusbwError, BusyError, ReachError
from busbw.model import RunResult
from busbw.reports import phrases
from busbw.run import allocation as slurm
from busbw.run import (
    build,
    cleanup,
    keys,
    launching,
    leases,
    participants,
    settle_fabric,
    setup_script,
)
from busbw.run.build_plans import BuildRequest
from busbw.run.context import Context, Done, End, Progress, logged
from busbw.run.launching import Place
from busbw.run.measure import measure
from busbw.run.measure_again import measure_again
from busbw.run.publish import publish
from busbw.run.reach import ask, reach
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact, Participants, StageFailure
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import measure as survey
from busbw.survey import without_suspects
from busbw.transport import Transport
from busbw.units import counted, format_duration


def execute(
    run: RunDir,
    plan: RunPlan,
    transport: Transport,
    benchmark: Benchmark,
    *,
    progress: Progress,
    now: Callable[[], str],
) -> RunResult:
    """Do what the plan says as far as it goes, then judge and report what there is.

    Raises:
        KeyboardInterrupt: passed on after the nodes were cleaned and the report was written.
        BusyError: somebody else works on the nodes; nothing was done and there is no report.
    """
    progress = logged(run, progress, now)
    interrupted = None
    try:
        _measure_all(run, plan, transport, benchmark, progress, now)
        progress("run", End("ended"))
    except KeyboardInterrupt as stop:
        interrupted = stop
        progress("run", "interrupted")
    result = publish(run)
    if interrupted is not None:
        raise interrupted
    return result


def _measure_all(
    run: RunDir,
    plan: RunPlan,
    transport: Transport,
    benchmark: Benchmark,
    progress: Progress,
    now: Callable[[], str],
) -> None:
    with reach(run, plan, transport, progress) as fleet:
        context = Context(run=run, plan=plan, fleet=fleet, now=now, progress=progress)
        try:
            if not fleet.sessions:
                raise _none_reached(context)
            _on_nodes(context, benchmark)
        except BusyError as error:
            # Nothing is wrong with the nodes and nothing was measured: there is nothing to report.
            progress("check", error.what)
            raise
        except BusbwError as error:
            _keep_failure(run, _stage_of(error), error)
            progress(_stage_of(error), error.what)


def _on_nodes(context: Context, benchmark: Benchmark) -> None:
    run = context.run
    reached = counted(len(context.fleet.sessions), "node")
    context.progress("check", f"checking {reached}")
    ask(context)
    context = settle_fabric.settle(context)
    plan = context.plan
    answers = assess.answers(run, plan)
    known = {answer.node.name: facts(answer) for answer in answers}
    context = participants.settle_slots(context, known)
    plan = context.plan
    chosen = participants.choose(context, answers)
    for excluded in chosen.excluded:
        context.progress("check", f"{excluded.node} is excluded: {excluded.reason}")
    # What a node without an answer does not say must not decide where all others write.
    known = {name: known[name] for name in chosen.nodes}
    root = build.work_root(known)
    try:
        allocation = slurm.allocation(context, chosen.head, chosen.nodes)
        built = _binaries(context, chosen, known, benchmark)
        nodes = built.usable
        place = Place(
            head=chosen.head,
            directory=root,
            binaries=built.folder,
            known=known,
            slurm=allocation,
            nccl_version=build.nccl_version(built),
        )
        setup_script.record(context, nodes)
        context = replace(context, heartbeat=leases.Heartbeat(context, chosen.nodes))
        with keys.access(context, place, nodes) as (ready, ready_nodes):
            _cases(context, ready, ready_nodes)
    finally:
        cleanup.after(context, f"{root}/{plan.job_directory}", chosen.nodes)


def _binaries(
    context: Context, chosen: Participants, known: dict[str, NodeFacts], benchmark: Benchmark
) -> BuildOutcome:
    root = build.work_root(known)
    request = BuildRequest(context, chosen.head, chosen.nodes, known, benchmark, root)
    outcome = build.build(request)
    context.progress("build", outcome.summary)
    build.refuse_unsupported(context.plan, outcome)
    return outcome


def _cases(context: Context, place: Place, nodes: tuple[str, ...]) -> None:
    plan = context.plan
    ranks_per_node = 0
    order = 0
    many = len(plan.playbook.cases)
    for number, case in enumerate(plan.playbook.cases, 1):
        launch = launching.make(plan, place, case, nodes, order=order)
        ranks_per_node = launch.ranks_per_node
        order += 1
        context.progress(
            case.id,
            f"{number} of {many}: {case.collective} on {counted(len(nodes), 'node')},"
            f" {launch.invocation.nranks} ranks",
        )
        if not _measured(context, measure(context, launch)):
            return
    compared.measure_interleaved(context, place, nodes, order)
    order = repeat.repeat(context, place, nodes, order)
    survey_options = plan.playbook.survey
    if len(nodes) > 1 and (
        survey_options.when == "always"
        or (survey_options.when == "on-shortfall" and survey.falls_short(context))
    ):
        survey.survey(context, place, nodes, ranks_per_node, order)
        without_suspects.measure(context, place, nodes)
    measure_again(context, place, nodes)


def _measured(context: Context, artefact: CaseArtefact) -> bool:
    """Whether the launch ended by itself, so that the next one has a chance; tells how it went."""
    took = format_duration(artefact.seconds)
    if artefact.state == "ended" and artefact.exit_status == 0:
        context.progress(artefact.case.id, Done(f"{_share(context, artefact)}ended after {took}"))
        return True
    how = f"exit status {artefact.exit_status}" if artefact.state == "ended" else artefact.state
    context.progress(artefact.case.id, f"{how} after {took} {artefact.problem}".rstrip())
    return False


def _share(context: Context, artefact: CaseArtefact) -> str:
    """What the launch's largest size reached of its reference; empty = nothing to compare with is
    known before the survey."""
    if artefact.case.purpose != "bandwidth":
        return ""
    compared = [
        each
        for each in assess.derive(context.run).comparisons
        if each.case_id == artefact.case.id and each.ratio is not None
    ]
    if not compared:
        return ""
    largest = max(compared, key=lambda each: each.size_bytes)
    return f"{phrases.percent(largest.ratio)} of {phrases.reference(largest.reference)}, "


def _none_reached(context: Context) -> ReachError:
    first = context.fleet.unreachable[0] if context.fleet.unreachable else None
    nodes = context.plan.cluster.nodes
    return ReachError(
        f"{nodes[0].name} could not be reached"
        if len(nodes) == 1
        else f"none of {len(nodes)} nodes could be reached",
        seen=f"{first.node}: {first.reason}" if first else "",
        next_step=first.next_step if first else "",
    )


def _stage_of(error: BusbwError) -> str:
    return {"ReachError": "reach", "BuildError": "build", "LaunchError": "measure"}.get(
        type(error).__name__, "measure"
    )


def _keep_failure(run: RunDir, stage: str, error: BusbwError) -> None:
    name = f"failure-{stage}.json"
    if run.read_raw(name) is None:
        artefacts.keep(
            run,
            name,
            StageFailure(stage, error.what, error.seen, error.next_step, error.exit_status),
        )
