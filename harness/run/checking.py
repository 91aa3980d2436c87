"""A run that stops after the checks: reach, preflight, and what they come to. Nothing is built,
launched or changed on a node."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from busbw import assess
from busbw.assess import headline
from busbw.checks import CONNECT, NodeAnswer
from busbw.codec import dump_json
from busbw.errors import ReachError
from busbw.model import CheckResult, Status, Uncovered, Unreachable, worst
from busbw.model.links import LinkTable
from busbw.parsers.verdict import EXIT_STATUS, of_checks
from busbw.run.context import Context, End, Progress, logged
from busbw.run.reach import ask, reach
from busbw.store import artefacts
from busbw.store.artefacts import ReachArtefact
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport import Transport
from busbw.transport.fanout import Fleet
from busbw.transport.inside import inside, prefix_of
from busbw.transport.local import LocalTransport
from busbw.units import counted

SCHEMA = "busbw.check/1"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """check.json: what the checks come to. Like everything derived it can be rebuilt from
    `raw/`."""

    schema: str
    run_id: str
    tool_version: str
    profile: str
    started: str
    verdict: Status
    """The worst of what the profile and the playbook require; advisory results are listed and never
    decide."""
    exit_status: int
    emulated: str
    """Why nothing here says anything about real hardware; empty for a real cluster."""
    nodes: tuple[str, ...]
    unreachable: tuple[Unreachable, ...]
    checks: tuple[CheckResult, ...]
    uncovered: tuple[Uncovered, ...] = ()
    """What no check could say, and why."""
    links: LinkTable | None = None
    """Of `busbw check --links`; None = no links were measured."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long asking may take, None = as long as the checks themselves allow, and with which
    right."""

    within_s: float | None = None
    section_s: int | None = None
    sudo: bool = False
    """Whether `sudo -n` goes before what only root may see."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the nodes of a check are reached."""

    accept_new_host_keys: bool = False
    inside: str | None = None
    """What every command runs behind, as a person types it: `docker exec -i train`."""

    def transport(self, plan: RunPlan) -> Transport:
        """The transport of the plan.

        Raises:
            UsageError: `inside` cannot be read, or passes no standard input on.
        """
        prefix = prefix_of(self.inside) if self.inside is not None else ()
        if plan.transport == LocalTransport.name:
            # By itself: looking for the others loads an SSH library, a third of what a prolog
            # takes.
            transport: Transport = LocalTransport()
        else:
            from busbw.transport.choose import make

            transport = make(
                plan.transport,
                ssh_config=plan.cluster.ssh_config,
                accept_new_host_keys=self.accept_new_host_keys,
            )
        return inside(transport, prefix) if prefix else transport


def without_cases(plan: RunPlan, started: str) -> RunPlan:
    """The plan of a check of the same nodes: nothing is measured."""
    survey = replace(plan.playbook.survey, when="never")
    playbook = replace(plan.playbook, name="check", cases=(), gates=(), survey=survey)
    return replace(plan, playbook=playbook, started=started)


@dataclass(frozen=True, slots=True)
class ProbedNodes:
    """Reached nodes with their answers to the script of all checks."""

    context: Context
    answers: tuple[NodeAnswer, ...]


@contextmanager
def probed(
    run: RunDir,
    plan: RunPlan,
    transport: Transport,
    *,
    progress: Progress,
    now: Callable[[], str],
) -> Iterator[ProbedNodes]:
    """Reach the nodes and ask each once; the sessions are open while the caller works.

    Raises:
        ReachError: no node could be reached.
    """
    progress = logged(run, progress, now)
    with reach(run, plan, transport, progress) as fleet:
        require_session(fleet)
        context = Context(run=run, plan=plan, fleet=fleet, now=now, progress=progress)
        progress(
            "check",
            f"checking {len(fleet.sessions)} of {counted(len(plan.cluster.nodes), 'node')}",
        )
        ask(context)
        # Where no profile was given the answers decide on it.
        settled = assess.load_plan(run)
        yield ProbedNodes(replace(context, plan=settled), assess.answers(run, settled))
    progress("run", End("ended"))


def require_session(fleet: Fleet) -> None:
    """Nothing where a node was reached.

    Raises:
        ReachError: none was.
    """
    if not fleet.sessions:
        reason = fleet.unreachable[0].reason if fleet.unreachable else ""
        raise ReachError("no node could be reached", seen=reason)


def report_of(run: RunDir, schema: str, checks: tuple[CheckResult, ...]) -> CheckReport:
    """The report of checks between the nodes or of their GPUs, written as `NAME.json`, NAME out of
    `busbw.NAME/1`."""
    nodes = conclude(run)
    every = (*(check for check in nodes.checks if check.check_id == CONNECT.id), *checks)
    verdict = verdict_of(every)
    report = replace(
        nodes, schema=schema, checks=every, verdict=verdict, exit_status=EXIT_STATUS[verdict]
    )
    name = schema.partition(".")[2].partition("/")[0]
    run.write_derived(f"{name}.json", dump_json(report))
    return report


def verdict_of(checks: tuple[CheckResult, ...]) -> Status:
    """The worst of what the checks add to a verdict."""
    return worst(of_checks(checks))


def check(
    run: RunDir,
    plan: RunPlan,
    transport: Transport,
    limits: Limits,
    *,
    progress: Progress,
    now: Callable[[], str],
) -> CheckReport:
    """Reach the nodes, ask each once, judge."""
    progress = logged(run, progress, now)
    with reach(run, plan, transport, progress) as fleet:
        if fleet.sessions:
            progress(
                "check",
                f"checking {len(fleet.sessions)} of {counted(len(plan.cluster.nodes), 'node')}",
            )
            context = Context(run=run, plan=plan, fleet=fleet, now=now, progress=progress)
            ask(context, within_s=limits.within_s, section_s=limits.section_s, sudo=limits.sudo)
    progress("run", End("ended"))
    return _written(run, conclude(run))


def conclude_check(run: RunDir) -> CheckReport | None:
    """The report of a check's run directory, with its check.json written anew; None = the run was
    to measure something.

    Raises:
        RunDirError: there is no plan, or an artefact is not readable.
    """
    return None if assess.load_plan(run).playbook.cases else _written(run, conclude(run))


def _written(run: RunDir, report: CheckReport) -> CheckReport:
    run.write_derived("check.json", dump_json(report))
    return report


def conclude(run: RunDir) -> CheckReport:
    """The report of a run directory, from its `raw/` alone.

    Raises:
        RunDirError: there is no plan, or an artefact is not readable.
    """
    run.require_undamaged()
    plan = assess.load_plan(run)
    reached = artefacts.load(run, "reach.json", ReachArtefact)
    with _nothing_collected():
        checks = assess.checked(run, plan, assess.answers(run, plan))
    links, gaps = _links(run, plan)
    verdict = verdict_of(checks)
    invented = plan.cluster.invented
    shown = f" Invented is what they show: {invented}." if invented else ""
    return CheckReport(
        schema=SCHEMA,
        run_id=plan.run_id,
        tool_version=plan.tool_version,
        profile=plan.profile.name,
        started=plan.started,
        verdict=verdict,
        exit_status=EXIT_STATUS[verdict],
        emulated=(
            f"Emulated: the nodes are not real hardware.{shown}" if plan.cluster.emulated else ""
        ),
        nodes=tuple(node.name for node in plan.cluster.nodes),
        unreachable=reached.unreachable if reached else (),
        checks=checks,
        uncovered=gaps or headline.nothing_specified(plan),
        links=links,
    )


def _links(run: RunDir, plan: RunPlan) -> tuple[LinkTable | None, tuple[Uncovered, ...]]:
    """The link test, and what it leaves open."""
    if run.read_raw("link-baseline.json") is None:
        return None, ()
    # Here: a prolog's check has no time to load what judges links.
    from busbw.assess import links

    test = links.load(run, plan)
    return (test.table, links.uncovered(test)) if test is not None else (None, ())


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Without the collector of cycles: records hold none, and it would walk a thousand nodes'
    answers again and again, a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
