"""Put nodes back into service that busbw took out: after they passed again, and only where the
reason is still busbw's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from busbw.act import records
from busbw.act.records import Action, Undrained
from busbw.act.schedulers import Program, Scheduler, Standing, performed, scheduler
from busbw.errors import MeasureError
from busbw.model import RunResult, Status
from busbw.reports.safe import one_line
from busbw.run.checking import CheckReport
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

_WELL = (Status.PASS, Status.WARN)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one node."""

    node: str
    text: str
    exit_status: int
    """0 = in service again, 1 = it failed again, 3 = not known, or held by somebody else."""


def undrain(
    run: RunDir,
    plan: RunPlan,
    actions: tuple[Action, ...],
    report: CheckReport,
    measured: RunResult | None,
    *,
    act: bool,
    now: Callable[[], str],
) -> tuple[Outcome, ...]:
    """Undo each action whose node is well again.

    Args:
        report: of all nodes of the plan, made now.
        measured: a later run; None = there is none.
        act: False = only say what would be done.
    """
    outcomes = []
    known: dict[str, dict[str, Standing]] = {}
    for action in actions:
        system = scheduler(action.action, action.undo_command)
        outcome = why_not(action, plan, report, measured)
        if outcome is None:
            try:
                if system.action not in known:
                    known[system.action] = system.standings(plan.cluster, plan.transport)
                outcome = _undone(run, action, system, known[system.action], act, now())
            except MeasureError as error:
                outcome = Outcome(
                    action.node, f"still out of service: {error.what}: {error.seen}", 3
                )
        outcomes.append(outcome)
    return tuple(outcomes)


def why_not(
    action: Action, plan: RunPlan, report: CheckReport, measured: RunResult | None
) -> Outcome | None:
    """Why a node stays out of service; None = nothing speaks against it."""
    own = [check for check in report.checks if check.node == action.node]
    for status, exit_status in ((Status.FAIL, 1), (Status.UNKNOWN, 3)):
        bad = [check for check in own if check.required and check.status is status]
        if bad:
            seen = "; ".join(one_line(f"{check.check_id} {check.seen}") for check in bad[:3])
            return Outcome(action.node, f"still out of service: {status.value} {seen}", exit_status)
    answered = {check.check_id for check in own if check.status in _WELL}
    unanswered = [each for each in action.ids if "." in each and each not in answered]
    if not own or unanswered:
        ids = ", ".join(unanswered) or "it"
        return Outcome(action.node, f"still out of service: {ids} was not checked this time", 3)
    doubt = _not_measured(action, plan, measured) if action.measured else ""
    return Outcome(action.node, f"still out of service: {doubt}", 3) if doubt else None


def _not_measured(action: Action, plan: RunPlan, measured: RunResult | None) -> str:
    """What a measurement found only a measurement can take back."""
    playbook = plan.playbook.name
    if measured is None:
        return (
            f"a measurement named it, and checks cannot show that it is well: measure it with a"
            f" partner (busbw run {playbook} -w {action.node},OTHER), then --measured RUN"
        )
    run = f"--measured {measured.run_id}"
    if measured.playbook != playbook or measured.profile != plan.profile.name:
        return (
            f"{run} is {measured.playbook} over {measured.profile}, not {playbook} over"
            f" {plan.profile.name}"
        )
    if datetime.fromisoformat(measured.started) <= datetime.fromisoformat(action.at):
        return f"{run} began before it was taken out"
    if measured.verdict not in _WELL:
        return f"{run} is {measured.verdict.value}"
    if not any(case.results and action.node in case.nodes for case in measured.cases):
        return f"{run} did not measure it"
    return ""


def _undone(
    run: RunDir,
    action: Action,
    system: Scheduler,
    standings: dict[str, Standing],
    act: bool,
    at: str,
) -> Outcome:
    standing = standings.get(action.node)
    if standing is None:
        return Outcome(action.node, f"still out of service: {system.program} knows no such node", 3)
    ours = isinstance(system, Program)
    if standing.in_service and not ours:
        how = "it was in service already"
    elif standing.reason != action.reason and not ours:
        now_reason = one_line(standing.reason or "no reason given")
        return Outcome(action.node, f"left alone: held for another reason now ({now_reason})", 3)
    else:
        how = "back in service"
        if not act:
            lines = "; ".join(action.undo)
            return Outcome(action.node, f"passed, would be put back by: {lines}", 0)
        for step in system.back(action.place, action.reason):
            performed(step)
    if act:
        records.keep_undrained(run, Undrained(action.node, records.who(), at, how))
    return Outcome(action.node, f"{how} (it was out for: {action.reason})", 0)
