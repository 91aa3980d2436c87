"""Launches in turn, round after round: settings against none, changed nodes between unchanged ones,
a soak. Finished launches are not repeated."""

from __future__ import annotations

import dataclasses
import itertools

from busbw import assess
from busbw.assess import launches
from busbw.compare import soak
from busbw.compare.ab import AFTER, BEFORE, TREATMENT, Slot, slot_id
from busbw.compare.plan import groups
from busbw.compare.result import SoakWatch
from busbw.model import BenchmarkCase, CaseOutcome, RunResult
from busbw.model.history import Change, Soak
from busbw.parsers.stats.regression import FEWEST
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import measure
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import Interleaving
from busbw.units import format_duration

# More launches of what cannot be told from the accepted runs yet, until it can or the budget is
# spent.


def open_cases(result: RunResult, required: frozenset[str]) -> tuple[str, ...]:
    """Cases with a number that more launches may settle."""
    shifts = result.compared.shifts if result.compared is not None else ()
    return tuple(
        dict.fromkeys(
            each.number.case_id
            for each in shifts
            if each.number.case_id in required
            and each.shift.change is Change.INCONCLUSIVE
            and each.shift.launches[0] >= FEWEST
        )
    )


def repeat(context: Context, place: Place, nodes: tuple[str, ...], order: int) -> int:
    """Repeat; returns the order of the next launch. Nothing is repeated where the playbook does not
    ask, or there is no accepted run."""
    wanted = context.plan.playbook.repeat
    planned = {case.id: case for case in context.plan.playbook.cases}
    required = frozenset(case.family for case in planned.values() if case.required)
    while wanted is not None:
        result = assess.derive(context.run)
        made = _by_family(result, required)
        left = [
            family for family in open_cases(result, required) if len(made[family]) < wanted.most
        ]
        added = {
            family: [outcome for outcome in outcomes if outcome.case.id not in planned]
            for family, outcomes in made.items()
        }
        extra = [outcome for outcomes in added.values() for outcome in outcomes]
        if not left or any(outcome.exit_status != 0 for outcome in extra):
            break
        # What a killed run began together is completed first, as it would have been: the budget was
        # looked at before.
        rounds = max(len(outcomes) for outcomes in added.values())
        begun = [family for family in left if len(added[family]) < rounds]
        spent = sum(outcome.seconds or 0.0 for outcome in extra)
        if not begun and spent + (made[left[0]][-1].seconds or 0.0) > wanted.budget_s:
            context.say(
                "repeat",
                f"budget of {format_duration(wanted.budget_s)} spent; {', '.join(left)} cannot be"
                " told",
            )
            break
        for number, family in enumerate(begun or left):
            trial = len(made[family]) + 1
            case = dataclasses.replace(
                planned[family], id=f"{family}-trial-{trial}", repeats=family
            )
            context.say(case.id, "once more: the noise is too large to tell")
            artefact = measure(
                context, make(context.plan, place, case, nodes, order=order + len(extra) + number)
            )
            if artefact.state != "ended" or artefact.exit_status != 0:
                return order + wanted.most * len(required)
    return order + (wanted.most * len(required) if wanted is not None else 0)


def _by_family(result: RunResult, required: frozenset[str]) -> dict[str, list[CaseOutcome]]:
    found: dict[str, list[CaseOutcome]] = {family: [] for family in required}
    for outcome in result.cases:
        if outcome.case.family in found and outcome.case.split is None:
            found[outcome.case.family].append(outcome)
    return found


FAILURES = 3
"""Rounds of a soak in a row that may fail."""


class _Launcher:
    """Makes the launches of a run one after the other, each with its place in the order."""

    def __init__(self, context: Context, place: Place, order: int) -> None:
        self._context, self._place, self._order = context, place, order
        self.spent_s = 0.0

    def __call__(
        self, case: BenchmarkCase, slot: Slot, nodes: tuple[str, ...], *, required: bool = True
    ) -> CaseArtefact:
        """One launch; `case` as it is repeated."""
        own = dataclasses.replace(case, id=slot_id(slot), required=required)
        launch = make(self._context.plan, self._place, own, nodes, order=self._order)
        self._order += 1
        artefact = measure(self._context, launch)
        self.spent_s += artefact.seconds
        return artefact

    def spent(self, wanted: Interleaving) -> bool:
        """The budget is; told."""
        if self.spent_s < wanted.budget_s:
            return False
        self._context.say("budget", f"{format_duration(wanted.budget_s)} spent: no further round")
        return True


def measure_interleaved(context: Context, place: Place, nodes: tuple[str, ...], order: int) -> None:
    """Everything the plan wants in turn; nothing where it wants none.

    Raises:
        UsageError: too few unchanged nodes take part.
    """
    wanted = context.plan.interleaving
    if wanted is None:
        return
    launcher = _Launcher(context, place, order)
    if wanted.soak_s is not None:
        _soak(context, place, wanted, launcher, nodes)
    elif wanted.treatment:
        _controls(context, wanted, launcher, nodes)
    else:
        _settings(context, wanted, launcher, nodes)


def _good(artefact: CaseArtefact) -> bool:
    return artefact.state == "ended" and artefact.exit_status == 0


def _settings(
    context: Context, wanted: Interleaving, launcher: _Launcher, nodes: tuple[str, ...]
) -> None:
    left = list(range(len(wanted.settings)))
    for number in range(1, wanted.most + 1):
        context.say("sweep", f"round {number}: {len(left)} settings in turn, one of them unset")
        # Each round begins with another setting, so that none is always the first or after the same
        # one.
        turned = left[number % len(left) :] + left[: number % len(left)]
        for case, variant in itertools.product(
            wanted.cases, turned if number % 2 else turned[::-1]
        ):
            if variant not in left:
                continue
            own = dataclasses.replace(case, env=(*case.env, *wanted.settings[variant]))
            artefact = launcher(
                own, Slot("sweep", number, str(variant), case.id), nodes, required=variant == 0
            )
            if not _good(artefact):
                context.say(
                    artefact.case.id,
                    f"{artefact.state} {artefact.problem}".rstrip() + ": not tried again",
                )
                left.remove(variant)
            if 0 not in left:
                return
        if launcher.spent(wanted) or _settled(context, wanted, "sweep", number):
            return


def _controls(
    context: Context, wanted: Interleaving, launcher: _Launcher, nodes: tuple[str, ...]
) -> None:
    changed, unchanged = groups(nodes, tuple(node for node in wanted.treatment if node in nodes))
    for number in range(1, wanted.most + 1):
        context.say(
            "ab",
            f"round {number}: {', '.join(unchanged)}, then {', '.join(changed)}, then"
            f" {', '.join(unchanged)}",
        )
        for case in wanted.cases:
            for side in (BEFORE, TREATMENT, AFTER):
                artefact = launcher(
                    case,
                    Slot("ab", number, side, case.id),
                    changed if side == TREATMENT else unchanged,
                )
                if not _good(artefact):
                    context.say(artefact.case.id, f"{artefact.state} {artefact.problem}".rstrip())
                    return
        if launcher.spent(wanted) or _settled(context, wanted, "ab", number):
            return


def _settled(context: Context, wanted: Interleaving, kind: str, number: int) -> bool:
    """Everything can be told after that round, and enough rounds were made."""
    # A resumed run decides as before: where the next round was begun, more was wanted, whatever its
    # launches say by now.
    begun = any(
        path.startswith(f"cases/{kind}-{number + 1:03}-") for path in context.run.raw_names("cases")
    )
    return number >= wanted.least and not begun and not _open(context)


def _open(context: Context) -> bool:
    """Something cannot be told yet."""
    result = assess.derive(context.run)
    shifts = [each.shift for each in result.sweep if each.shift is not None]
    shifts += (
        [each.shift for each in result.compared.contrasts] if result.compared is not None else []
    )
    return any(shift.change is Change.INCONCLUSIVE for shift in shifts)


def _soak(
    context: Context,
    place: Place,
    wanted: Interleaving,
    launcher: _Launcher,
    nodes: tuple[str, ...],
) -> None:
    planned_s = wanted.soak_s or 0.0
    watch = SoakWatch(context.run)
    failed = 0
    for number in itertools.count(1):
        fresh = False
        for case in wanted.cases:
            slot = Slot("soak", number, "", case.id)
            fresh = fresh or context.run.read_raw(f"cases/{slot_id(slot)}/outcome.json") is None
            artefact = launcher(case, slot, nodes)
            watch.add(launches.read(context.run, artefact, place.known))
            failed = 0 if _good(artefact) else failed + 1
        if fresh:
            _tell(context, watch.so_far(planned_s), number)
        if failed >= FAILURES:
            context.say(
                "soak",
                f"{FAILURES} launches in a row failed: ended after"
                f" {format_duration(launcher.spent_s)}",
            )
            return
        if launcher.spent_s >= planned_s:
            return


def _tell(context: Context, found: Soak, number: int) -> None:
    """Where the soak stands, and which links went away in that round."""
    context.say("soak", soak.summary(found))
    for event in found.events:
        if event.number == number and event.kind == "link-down":
            context.say("soak", f"{event.text}, {soak.when(event)}")
