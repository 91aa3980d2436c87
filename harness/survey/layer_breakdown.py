"""When a run is broken down into its layers, and what of the table is missing."""

from __future__ import annotations

from busbw.assess.expectation import Hardware
from busbw.model import Blame, Comparison, LaunchRole, Status, Uncovered
from busbw.parsers.blame import layer_breakdown
from busbw.parsers.blame.layer_breakdown import Breakdown, RailLink
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.playbook import Playbook
from busbw.store.plan import RunPlan


def requested(
    book: Playbook, comparisons: tuple[Comparison, ...], blames: tuple[Blame, ...]
) -> bool:
    """The layers are to be measured: always, or because a case of the playbook falls short or
    something is suspected."""
    when = book.survey.layer_breakdown
    if when != "on-shortfall":
        return when == "always"
    families = {case.family for case in book.cases}
    short = any(
        each.case_id in families and each.status in (Status.FAIL, Status.WARN)
        for each in comparisons
    )
    return short or bool(blames)


def of_run(
    plan: RunPlan,
    samples: tuple[GroupSample, ...],
    links: tuple[RailLink, ...],
    hardware: Hardware,
) -> Breakdown | None:
    """The layers of a run; None = nothing of them was measured."""
    if not links and not any(s.role is LaunchRole.NETWORK for s in samples):
        return None
    emulated = plan.cluster.emulated
    nics = hardware.nics or hardware.sockets
    # An emulated cluster describes no hardware, whatever its nodes report.
    line = nics.rate_gbit_s / 8 if nics is not None and not emulated else None
    return layer_breakdown.break_down(samples, links, line, emulated=emulated)


def uncovered(
    book: Playbook,
    comparisons: tuple[Comparison, ...],
    blames: tuple[Blame, ...],
    layers: Breakdown | None,
) -> tuple[Uncovered, ...]:
    """Layers of a run that falls short which were not measured."""
    if not requested(book, comparisons, blames):
        return ()
    names, why = "no layer was measured", "no budget was left, or their launches failed"
    if layers is not None:
        missing = [row for row in layer_breakdown.rows(layers) if row.missing]
        if not missing:
            return ()
        names = f"without {', '.join(row.name for row in missing)}"
        why = "; ".join(f"{row.name}: {row.text}" for row in missing)
    return (Uncovered(f"which layer is slow ({names})", why, "busbw run --survey --budget 20m"),)
