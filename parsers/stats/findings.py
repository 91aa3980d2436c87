"""What scatter may mean: advisory findings from the spread of iterations, processes, sizes and
repeated launches.

Scatter is a symptom and never a cause: everything here is *possible*, decides nothing, and says
what would settle it. With fewer than `MIN_ITERATIONS` iterations, or fewer than `MIN_PROCESSES`
processes, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.model import BenchmarkResult, Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.stats import spikes
from busbw.parsers.stats import spread as statistics
from busbw.units import format_bandwidth, format_duration, format_size, format_time_us

MIN_ITERATIONS = 20
"""Below it a coefficient of variation is mostly chance: with 20 values its own error is about a
sixth of it."""
MIN_PROCESSES = 4
RANK_SPREAD = 0.10
"""Standard deviation over mean of the processes: the rule of the GPU-networking articles
(rules.yaml, article-rank-spread)."""
ITERATION_SPREAD = 0.10
"""The same over iterations: a choice, no published rule; tuned fabrics stay under 3 %."""
OUTLIER_DEVIATIONS = 5.0
TAIL = 1.5
"""99th percentile over median: a choice; a job waits for its slowest step."""
DIP = 0.15
"""Loss against both neighbouring sizes: as large as what is called slow elsewhere (blame.FLOOR)."""
DIP_FROM_BYTES = 64 << 10
"""Below it NCCL changes protocol and algorithm from size to size."""
RUN_TO_RUN = 0.05
"""Of repeated launches: SuperBench calls 5 % under one's own baseline a defect, so a larger spread
makes its rule useless (rules.yaml)."""
LATENCY_FACTOR = 10.0
"""Measured systems lie between 0.85 and 10 times NCCL's model (physical-model, published runs):
above it something else is at work."""


_SPREAD_BY_WIRE = {
    None: "process-spread",
    True: "process-spread-ethernet",
    False: "process-spread-infiniband",
}
"""Whether the fabric is Ethernet → id."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A case with what its launches gave."""

    case_id: str
    collective: str
    iterations: int
    results: tuple[BenchmarkResult, ...]
    """One table per launch of the case, in their order."""
    artefacts: tuple[str, ...]
    """Where each of `results` stands; as many."""
    ethernet: bool | None
    """The fabric is Ethernet (True) or InfiniBand (False); None = neither, or not known."""
    model_latency_us: float | None = None
    """NCCL's model for a few bytes; None = the hardware is not known."""


def findings(case: Measured) -> tuple[Finding, ...]:
    """What the numbers of a case may hint at, advisory all of it; () = nothing, or too few numbers
    to say."""
    hints = [*_run_to_run(case)]
    if case.results and case.iterations >= MIN_ITERATIONS:
        hints += [*_processes(case), *_iterations(case), *_dips(case)]
    return tuple(hints + _latency(case))


def _possible(
    case: Measured, finding_id: str, title: str, text: str, where: tuple[str, ...] = ()
) -> Finding:
    outcome = f"raw/cases/{case.case_id}/outcome.json"
    artefact = case.artefacts[-1] if case.artefacts else outcome
    return filled(
        Finding(
            id=finding_id,
            status=Status.WARN,
            title=f"{case.case_id}: {title}",
            where=where,
            evidence=(Evidence(artefact, None, text),),
            confidence=Confidence.POSSIBLE,
            required=False,
        )
    )


def _run_to_run(case: Measured) -> list[Finding]:
    sizes = statistics.same_size(case.results)
    if not sizes or len(sizes[-1][1]) < 3:
        return []
    size, values = sizes[-1]
    spread = statistics.variation(values)
    if spread is None or spread <= RUN_TO_RUN:
        return []
    shown = map(format_bandwidth, values)
    if size < DIP_FROM_BYTES:  # of a few bytes the time is what counts
        shown = map(format_time_us, _times_us(case, size))
    title = (
        f"repeated launches differ by {spread:.0%} (standard deviation over mean) at"
        f" {format_size(size)}"
    )
    return [_possible(case, "run-to-run-spread", title, ", ".join(shown))]


def _times_us(case: Measured, size_bytes: int) -> Iterator[float]:
    for result in case.results:
        for row in result.rows:
            if row.size_bytes == size_bytes and row.out_of_place is not None:
                yield row.out_of_place.time_us


def _processes(case: Measured) -> list[Finding]:
    spreads = statistics.process_spread(case.results[-1].process_times)
    wide = [
        s
        for s in spreads
        if len(s.mean_us) >= MIN_PROCESSES and s.variation is not None and s.variation > RANK_SPREAD
    ]
    if not wide:
        return []
    worst = wide[-1]
    process, host, mean_us = worst.slowest
    title = (
        f"the processes scatter by {worst.variation:.0%} (standard deviation over mean) at"
        f" {format_size(worst.size_bytes)}"
    )
    text = (
        f"slowest: process {process} on {host or 'an unnamed host'}, {format_time_us(mean_us)} a"
        f" call; {len(worst.mean_us)} processes"
    )
    # The processes of one collective finish together, so the one that shows it is rarely the one to
    # blame.
    return [_possible(case, _SPREAD_BY_WIRE[case.ethernet], title, text, (host,) if host else ())]


def _iterations(case: Measured) -> list[Finding]:
    sizes = [
        each
        for each in statistics.iterations(case.results[-1].process_times)
        if len(each.times_us) >= MIN_ITERATIONS
    ]
    if not sizes:
        return []
    largest = sizes[-1]
    size = format_size(largest.size_bytes)
    hints = []
    spread = statistics.variation(largest.times_us)
    if spread is not None and spread > ITERATION_SPREAD:
        outliers = statistics.outliers(largest.times_us, deviations=OUTLIER_DEVIATIONS)
        text = (
            f"{len(outliers)} of {len(largest.times_us)} iterations lie more than {OUTLIER_DEVIATIONS:g}"
            " robust deviations from the median"
        )
        title = f"iterations scatter by {spread:.0%} (standard deviation over mean) at {size}"
        hints.append(_possible(case, "iteration-spread", title, text))
    hints += _period(case, largest)
    tail = largest.tail
    if tail is not None and len(largest.times_us) >= 100 and tail > TAIL:
        title = (
            f"the slowest hundredth of the iterations takes {tail:.1f} times the median at {size}"
        )
        hints.append(_possible(case, "long-tail", title, f"{len(largest.times_us)} iterations"))
    return hints


def _period(case: Measured, seen: statistics.Iterations) -> list[Finding]:
    stumbles = spikes.spikes((seen.times_us,))
    kept = spikes.period(stumbles, len(seen.times_us))
    if kept is None:
        return []
    title = (
        f"an iteration takes far longer every {format_duration(kept.seconds)} at"
        f" {format_size(seen.size_bytes)}"
    )
    text = (
        f"{kept.spikes} of {len(seen.times_us)} iterations, up to"
        f" {max(s.times for s in stumbles):.1f} times the median; {kept.even} of {kept.spikes - 1}"
        f" distances are {kept.iterations:.1f} iterations"
    )
    return [_possible(case, "periodic-spikes", title, text)]


def _dips(case: Measured) -> list[Finding]:
    rows = tuple(row for row in case.results[-1].rows if row.size_bytes >= DIP_FROM_BYTES)
    hints = []
    for dip in statistics.dips(rows, depth=DIP):
        title = f"{format_size(dip.size_bytes)} is {dip.depth:.0%} slower than the sizes beside it"
        before, after = (format_bandwidth(value) for value in dip.neighbours_gb_s)
        text = f"{format_bandwidth(dip.busbw_gb_s)} between {before} and {after}"
        hints.append(_possible(case, "size-dip", title, text))
    return hints[:3]


def _latency(case: Measured) -> list[Finding]:
    band = statistics.latency_band(case.results[-1].rows) if case.results else ()
    if not band or not case.model_latency_us:
        return []
    size, time_us = band[0]
    factor = time_us / case.model_latency_us
    if factor <= LATENCY_FACTOR:
        return []
    model = format_time_us(case.model_latency_us)
    title = (
        f"{format_time_us(time_us)} at {format_size(size)} is {factor:.0f} times what NCCL's model"
        f" gives ({model})"
    )
    return [_possible(case, "high-latency", title, f"{len(band)} sizes up to 64 KiB")]
