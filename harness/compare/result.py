"""What interleaved launches conclude: which setting gains, whether the treatment nodes are slower,
how a soak went."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.assess import placeholders
from busbw.assess.launches import Launch
from busbw.compare import ab, earlier, soak
from busbw.compare.soak_watch import soaked
from busbw.model import Confidence, Evidence, Finding, Status, Uncovered
from busbw.model.history import Change, ContrastShift, RunDiff, Soak, SweepResult
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.stats.regression import interval
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import format_bandwidth, format_duration, format_size


@dataclass(frozen=True, slots=True)
class Concluded:
    """What is added to a run's result."""

    headline: str
    """Empty = the run has its own."""
    findings: tuple[Finding, ...] = ()
    uncovered: tuple[Uncovered, ...] = ()
    sweep: tuple[SweepResult, ...] = ()
    soak: Soak | None = None


def conclude(
    run: RunDir, plan: RunPlan, launches: tuple[Launch, ...], diff: RunDiff | None
) -> Concluded | None:
    """None = nothing was interleaved."""
    interleaving = plan.interleaving
    if interleaving is None:
        return None
    if interleaving.soak_s is not None:
        return _soak(plan, soaked(run, launches, interleaving.soak_s))
    if interleaving.treatment:
        return _treatment(diff)
    return _sweep(ab.sweep_results((launch.outcome for launch in launches), interleaving.settings))


def _soak(plan: RunPlan, soaked: Soak) -> Concluded:
    uncovered: tuple[Uncovered, ...] = ()
    done, planned = format_duration(soaked.done_s), format_duration(soaked.planned_s)
    if soaked.done_s < soaked.planned_s:
        rest = f"{done} of {planned} measured"
        resume = f"busbw run --resume {placeholders.directory(plan)}"
        uncovered = (Uncovered("the rest of the soak", rest, resume),)
    return Concluded(_soak_headline(soaked), soak.findings(soaked), uncovered, soak=soaked)


_EVENTS = {
    "link-down": "links lost:",
    "failed": "failed launches:",
    "dip": "slow rounds:",
    "counter": "error counters that moved:",
}


def _soak_headline(soaked: Soak) -> str:
    kinds = [event.kind for event in soaked.events]
    parts = [f"{label} {kinds.count(kind)}" for kind, label in _EVENTS.items() if kind in kinds]
    for drift in soaked.drifts:
        if drift.chance < soak.LIKELY:
            parts.append(f"{drift.case_id} drift {drift.change:+.1%}")
    rounds = max((each.number for each in soaked.rounds), default=0)
    events = "; ".join(parts) or "no events, no drift"
    unit = "round" if rounds == 1 else "rounds"
    return f"soak of {format_duration(soaked.done_s)}, {rounds} {unit}: {events}"


def _sweep(results: tuple[SweepResult, ...]) -> Concluded:
    open_sizes: dict[tuple[str, str], list[str]] = {}
    for each in results:
        if each.shift is None or each.shift.change is Change.INCONCLUSIVE:
            why = each.problem if each.shift is None else "more noise than a gain would show in"
            at = f"{each.collective} {format_size(each.size_bytes)}"
            open_sizes.setdefault((each.setting, why or "not measured"), []).append(at)
    uncovered = tuple(
        Uncovered(f"{setting} at {', '.join(at)}", why, "quieter nodes, or fewer settings")
        for (setting, why), at in open_sizes.items()
    )
    return Concluded(_sweep_headline(results), (), uncovered, sweep=results)


def _sweep_headline(results: tuple[SweepResult, ...]) -> str:
    gains = [
        (each.shift.ratio or 0.0, each)
        for each in results
        if each.shift is not None and each.shift.change is Change.FASTER
    ]
    if gains:
        best = max(gains, key=lambda gain: gain[0])[1]
        more = f", and {len(gains) - 1} more" if len(gains) > 1 else ""
        return f"a gain that repeats: {_named(best)}{more}"
    settings = ", ".join(dict.fromkeys(each.setting for each in results))
    if settings:
        return f"no setting gains beyond the noise: {settings} against unset"
    return "no setting could be measured"


def _named(each: SweepResult) -> str:
    change = interval(each.shift) if each.shift is not None else each.problem
    values = f"{format_bandwidth(each.unset_gb_s)} to {format_bandwidth(each.busbw_gb_s)}"
    return f"{each.setting} at {each.collective} {format_size(each.size_bytes)} {values}, {change}"


def _treatment(diff: RunDiff | None) -> Concluded:
    contrasts = diff.contrasts if diff is not None else ()
    if not contrasts:
        return Concluded("treatment and control were not compared: no round is complete")
    worst = min(contrasts, key=lambda each: each.shift.ratio or 1.0)
    size = format_size(worst.contrast.size_bytes)
    before = ", than before the change"
    if worst.before is None:
        before = "; no accepted run from before the change measured these nodes in this way"
    headline = (
        f"treatment nodes give {interval(worst.shift)} against control nodes,"
        f" {worst.contrast.collective} {size}{before}"
    )
    findings = [_slower_treatment(each, diff) for each in contrasts]
    findings.append(_slower_control(contrasts))
    inconclusive = [each for each in contrasts if each.shift.change is Change.INCONCLUSIVE]
    uncovered = tuple(
        Uncovered(
            "whether the change cost bandwidth",
            each.shift.reason,
            "a quieter hour, or more rounds",
        )
        for each in inconclusive[:1]
    )
    return Concluded(headline, tuple(f for f in findings if f is not None), uncovered)


def _slower_treatment(each: ContrastShift, diff: RunDiff | None) -> Finding | None:
    """The treatment nodes are slower, or it is inconclusive whether they are."""
    slower = each.shift.change is Change.SLOWER
    # Before any change an inconclusive ratio is no question yet: such a run is the one to accept.
    inconclusive = each.shift.change is Change.INCONCLUSIVE and each.before is not None
    if not slower and not inconclusive:
        return None
    contrast = each.contrast
    proven = slower and each.before is not None
    number = f"{contrast.collective} {format_size(contrast.size_bytes)}"
    since = "their ratio before the change is not known"
    if each.before is not None:
        since = f"{each.before:.1%} before the change"
    title = f"treatment nodes slower than control nodes: {number}, {interval(each.shift)} ({since})"
    settle: tuple[str, ...] = ()
    if not slower:
        title = f"treatment against control nodes: {number}, {each.shift.reason}"
    elif not proven:
        settle = ("an accepted run with the same --treatment from before the change",)
    finding = Finding(
        id="treatment-nodes-slower" if slower else "treatment-inconclusive",
        status=Status.FAIL if proven else Status.UNKNOWN,
        title=title,
        where=contrast.treatment if slower else (),
        evidence=(
            _evidence("treatment", contrast.treatment, contrast.treatment_gb_s),
            _evidence("control", contrast.control, contrast.control_gb_s),
        ),
        confidence=Confidence.CERTAIN if proven else Confidence.POSSIBLE,
        would_settle=settle,
        effect=max(0.0, 1 - (each.shift.ratio or 1.0)),
    )
    return filled(finding, CHANGES=earlier.machine_changes(diff))


def _evidence(side: str, nodes: tuple[str, ...], busbw_gb_s: tuple[float, ...]) -> Evidence:
    values = ", ".join(format_bandwidth(value) for value in busbw_gb_s[:10])
    return Evidence("run.json", None, f"{side} {', '.join(nodes)}: {values}")


def _slower_control(contrasts: tuple[ContrastShift, ...]) -> Finding | None:
    """Control nodes that are slower than before, too: drift of the fabric, not the change."""
    slower = [
        (each.fabric, each.contrast.control)
        for each in contrasts
        if each.fabric is not None and each.fabric.change is Change.SLOWER
    ]
    if not slower:
        return None
    shift, nodes = min(slower, key=lambda pair: pair[0].ratio or 1.0)
    text = f"control {', '.join(nodes)} against the accepted runs: {interval(shift)}"
    finding = Finding(
        id="control-nodes-slower",
        status=Status.WARN,
        title=f"control nodes are slower than before as well: {interval(shift)}",
        where=nodes,
        evidence=(Evidence("raw/accepted.json", None, text),),
        confidence=Confidence.LIKELY,
    )
    return filled(finding)
