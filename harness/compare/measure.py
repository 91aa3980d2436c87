"""Makes interleaved launches round by round: a sweep, treatment between control nodes, a soak.

Finished launches are not repeated."""

from __future__ import annotations

import dataclasses
import itertools

from busbw import assess
from busbw.assess import launches
from busbw.compare import soak
from busbw.compare.ab import AFTER, BEFORE, TREATMENT, Slot, slot_id, with_setting
from busbw.compare.plan import groups
from busbw.compare.repeat import succeeded
from busbw.compare.soak_watch import SoakWatch
from busbw.model import BenchmarkCase
from busbw.model.history import Change, Soak
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import measure
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import Interleaving
from busbw.units import format_duration

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
        """One launch of a case in its slot."""
        own = dataclasses.replace(case, id=slot_id(slot), required=required)
        launch = make(self._context.plan, self._place, own, nodes, order=self._order)
        self._order += 1
        artefact = measure(self._context, launch)
        self.spent_s += artefact.seconds
        return artefact

    def spent(self, interleaving: Interleaving) -> bool:
        """Whether the budget is spent; reports it."""
        if self.spent_s < interleaving.budget_s:
            return False
        budget = format_duration(interleaving.budget_s)
        self._context.progress("budget", f"{budget} spent: no further round")
        return True


def measure_interleaved(context: Context, place: Place, nodes: tuple[str, ...], order: int) -> None:
    """The interleaved launches of the plan; nothing where it has none.

    Raises:
        UsageError: too few control nodes take part.
    """
    interleaving = context.plan.interleaving
    if interleaving is None:
        return
    launcher = _Launcher(context, place, order)
    if interleaving.soak_s is not None:
        _soak(context, place, interleaving, launcher, nodes)
    elif interleaving.treatment:
        _treatment(context, interleaving, launcher, nodes)
    else:
        _sweep(context, interleaving, launcher, nodes)


def _sweep(
    context: Context, interleaving: Interleaving, launcher: _Launcher, nodes: tuple[str, ...]
) -> None:
    variants = list(range(len(interleaving.settings)))
    for number in range(1, interleaving.most + 1):
        context.progress("sweep", f"round {number}: {len(variants)} settings, one of them unset")
        # Each round begins with another setting, so that none is always the first or always after
        # the same one.
        start = number % len(variants)
        rotation = variants[start:] + variants[:start]
        if number % 2 == 0:
            rotation.reverse()
        for case, variant in itertools.product(interleaving.cases, rotation):
            if variant not in variants:
                continue
            own = with_setting(case, interleaving.settings[variant])
            slot = Slot("sweep", number, str(variant), case.id)
            artefact = launcher(own, slot, nodes, required=variant == 0)
            if not succeeded(artefact):
                context.progress(artefact.case.id, f"{_failure(artefact)}: not measured again")
                variants.remove(variant)
            if 0 not in variants:
                return
        if launcher.spent(interleaving) or _settled(context, interleaving, "sweep", number):
            return


def _treatment(
    context: Context, interleaving: Interleaving, launcher: _Launcher, nodes: tuple[str, ...]
) -> None:
    present = tuple(node for node in interleaving.treatment if node in nodes)
    treatment, control = groups(nodes, present)
    sides = {BEFORE: control, TREATMENT: treatment, AFTER: control}
    sequence = ", then ".join(", ".join(group) for group in sides.values())
    for number in range(1, interleaving.most + 1):
        context.progress("ab", f"round {number}: {sequence}")
        for case, (side, group) in itertools.product(interleaving.cases, sides.items()):
            artefact = launcher(case, Slot("ab", number, side, case.id), group)
            if not succeeded(artefact):
                context.progress(artefact.case.id, _failure(artefact))
                return
        if launcher.spent(interleaving) or _settled(context, interleaving, "ab", number):
            return


def _failure(artefact: CaseArtefact) -> str:
    return f"{artefact.state} {artefact.problem}".rstrip()


def _settled(context: Context, interleaving: Interleaving, kind: str, number: int) -> bool:
    """Nothing is inconclusive after that round, and enough rounds were made."""
    # A resumed run decides as before: where the next round was begun, more was needed, whatever
    # its launches gave since.
    begun = any(
        path.startswith(f"cases/{kind}-{number + 1:03}-") for path in context.run.raw_names("cases")
    )
    return number >= interleaving.least and not begun and not _inconclusive(context)


def _inconclusive(context: Context) -> bool:
    result = assess.derive(context.run)
    shifts = [each.shift for each in result.sweep if each.shift is not None]
    if result.compared is not None:
        shifts += [each.shift for each in result.compared.contrasts]
    return any(shift.change is Change.INCONCLUSIVE for shift in shifts)


def _soak(
    context: Context,
    place: Place,
    interleaving: Interleaving,
    launcher: _Launcher,
    nodes: tuple[str, ...],
) -> None:
    planned_s = interleaving.soak_s or 0.0
    watch = SoakWatch(context.run)
    failed = 0
    for number in itertools.count(1):
        fresh = False
        for case in interleaving.cases:
            slot = Slot("soak", number, "", case.id)
            fresh = fresh or context.run.read_raw(f"cases/{slot_id(slot)}/outcome.json") is None
            artefact = launcher(case, slot, nodes)
            watch.add(launches.read(context.run, artefact, place.known))
            failed = 0 if succeeded(artefact) else failed + 1
        if fresh:
            _report(context, watch.so_far(planned_s), number)
        if failed >= FAILURES:
            spent = format_duration(launcher.spent_s)
            context.progress("soak", f"{FAILURES} launches in a row failed: ended after {spent}")
            return
        if launcher.spent_s >= planned_s:
            return


def _report(context: Context, soaked: Soak, number: int) -> None:
    """Where the soak stands, and which links were lost in that round."""
    context.progress("soak", soak.summary(soaked))
    for event in soaked.events:
        if event.number == number and event.kind == "link-down":
            context.progress("soak", f"{event.text}, {soak.when(event)}")
