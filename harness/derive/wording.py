"""The words around a result: its headline, what was not covered, which versions were seen, the exact commands."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.build import BuildOutcome
from busbw.derive.launches import Launch
from busbw.launch.render import render
from busbw.parsers.judge.blame import BlameOutcome
from busbw.parsers.judge.groups import GroupSample
from busbw.parsers.judge.verdict import Verdict
from busbw.plan import RunPlan
from busbw.preflight.software import NodeFacts
from busbw.records import BenchmarkRow, CheckResult, Cluster, Comparison, Confidence, Invocation, Status, Uncovered
from busbw.units import format_bandwidth, format_size

EMULATED = "Emulated: host memory over MPI in an embedded lab; no number here speaks for real hardware."


def emulated(cluster: Cluster) -> str:
    """What every report of an emulated cluster says, with the hardware that its nodes only show."""
    return EMULATED + (f" Invented is what the nodes show: {cluster.invented}." if cluster.invented else "")


def headline(decided: Verdict, made: tuple[Launch, ...], outcome: BlameOutcome, comparisons: tuple[Comparison, ...]) -> str:
    """One sentence: what is wrong first; without anything wrong, the number and what it was compared with."""
    best = best_row(made)
    number = ""
    if best is not None:
        launch, row = best
        busbw = format_bandwidth(row.out_of_place.busbw_gb_s if row.out_of_place else None)
        size, count = format_size(row.size_bytes), len(launch.artefact.nodes)
        number = f"{launch.artefact.case.collective} {busbw} at {size} on {count} nodes"
    leading = [f for f in decided.findings if f.required and f.status is decided.status]
    if decided.status is not Status.PASS and leading:
        return f"{leading[0].title}" + (f"; {number}" if number else "")
    found = ""
    if decided.status is Status.UNKNOWN:
        # What is likely at least is told first, though a verdict needs more.
        likely = (f for f in decided.findings if f.required and f.status is Status.WARN and f.confidence is not Confidence.POSSIBLE)
        found = next((f"{f.title}; " for f in likely), "")
    short = next((c for c in comparisons if c.status is decided.status), None)
    if decided.status in (Status.FAIL, Status.UNKNOWN) and short is not None:
        expected = format_bandwidth(short.reference.busbw_gb_s)
        what = f"{short.case_id} at {format_size(short.size_bytes)}: {format_bandwidth(short.measured_gb_s)}"
        return f"{found}{what}, compared with {expected} ({short.reference.source}): {short.reason}"
    if decided.status is Status.UNKNOWN:
        return f"{found}not enough was measured to tell{'; ' + number if number else ''}"
    unsettled = f"; not settled: {_suspected(outcome)}" if outcome.open else ""
    passed = (
        f"; {' + '.join(short.nodes)} in {short.case_id}: {short.reason}" if decided.status is Status.WARN and short is not None else ""
    )
    return f"{number or 'nothing measured'}{_compared(outcome)}{unsettled}{passed}"


def _compared(outcome: BlameOutcome) -> str:
    """How many nodes the groups speak for. One that was loaded too little, or is suspected, is not cleared."""
    cleared, seen = len(outcome.exonerated), len({node for level in outcome.levels for node in level.sample.nodes})
    if not cleared:
        return ""
    if cleared < seen:
        return f"; {cleared} of {seen} nodes cleared by comparison with each other"
    return f"; {cleared} nodes compared with each other, none slow"


def _suspected(outcome: BlameOutcome) -> str:
    return ", ".join(dict.fromkeys(doubt.account.part.label for doubt in outcome.open))


def best_row(made: tuple[Launch, ...]) -> tuple[Launch, BenchmarkRow] | None:
    """The row a headline speaks of: the largest size of the first bandwidth case over all nodes."""
    for purpose in ("bandwidth", "correctness", "proof", "latency"):
        for launch in made:
            if launch.artefact.case.purpose == purpose and not launch.artefact.groups and launch.results:
                rows = [row for row in launch.results[-1].rows if row.out_of_place is not None]
                if rows:
                    return launch, max(rows, key=lambda row: row.size_bytes)
    return None


def uncovered(
    plan: RunPlan, made: tuple[Launch, ...], checks: tuple[CheckResult, ...], outcome: BlameOutcome, samples: tuple[GroupSample, ...]
) -> tuple[Uncovered, ...]:
    """Everything that was planned and not done, or done without an answer."""
    found = []
    ran = {launch.artefact.case.id for launch in made}
    for case in plan.playbook.cases:
        if case.id not in ran:
            found.append(Uncovered(f"case {case.id}", "the run ended before it", "busbw run --resume " + plan.run_id))
    advisory: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status is Status.UNKNOWN and not check.required:
            advisory.setdefault((check.check_id, check.reason or check.found), []).append(check.node)
    found += [Uncovered(check_id, f"{reason} ({len(nodes)} nodes)") for (check_id, reason), nodes in advisory.items()]
    if outcome.open:
        why = "slower than its peers in too few launches to accuse or to clear it"
        found.append(Uncovered(f"suspected: {_suspected(outcome)}", why, "busbw run --survey --budget 20m"))
    if outcome.inseparable and samples:
        found.append(Uncovered("which node or path is slow", outcome.inseparable, "measure more nodes, or rails one by one"))
    if not any(launch.artefact.groups for launch in made) and plan.playbook.survey.when != "never":
        found.append(Uncovered("groups of nodes against each other", "no survey round was measured"))
    return tuple(found)


def versions(
    plan: RunPlan, known: Mapping[str, NodeFacts], build: BuildOutcome | None, made: tuple[Launch, ...]
) -> tuple[tuple[str, str], ...]:
    """What a ticket must name."""
    found = [("busbw", plan.tool_version)]
    mpi = sorted({f"{f.mpi.implementation} {f.mpi.version}" for f in known.values() if f.mpi})
    if mpi:
        found.append(("MPI", ", ".join(mpi)))
    results = [result for launch in made for result in launch.results]
    for name, values in (
        ("NCCL", {r.nccl_version for r in results if r.nccl_version}),
        ("nccl-tests", {r.tests_version for r in results if r.tests_version}),
        ("device", {line.device_name for r in results for line in r.ranks}),
    ):
        if values:
            found.append((name, ", ".join(sorted(values))))
    if build:
        found.append(("build", build.told))
    return tuple(found)


def command(invocation: Invocation) -> str:
    """The paste-able command line of a launch."""
    return render(invocation)
