"""A result in words: its headline, its detection limits, what was not covered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from busbw.assess import placeholders
from busbw.fabrics.profile import UNDETECTED
from busbw.inventory.hostlist import fold
from busbw.model import (
    BenchmarkRow,
    CheckResult,
    Cluster,
    Comparison,
    Finding,
    Status,
    Uncovered,
)
from busbw.units import counted, format_bandwidth, format_size

if TYPE_CHECKING:
    # A check says its headline too, and needs none of the judges behind these.
    from busbw.assess.launches import Launch
    from busbw.parsers.blame.blame import BlameOutcome
    from busbw.parsers.verdict import Verdict
    from busbw.store.plan import RunPlan

WORDS = 12
"""Of a headline at most: it is read in a tab, a chat line and a subject line."""
_LONGEST = 100
"""Characters of what was seen that are a headline's at most: keys and paths are single words."""
_CLAUSE = re.compile(r"(?=[,;:] | \()")
_FREQUENCY = re.compile(r", slow in \d")
"""In how many launches is for the evidence."""
EMULATED = (
    "Emulated: host memory over MPI in an embedded lab; no number here says anything about real"
    " hardware."
)


def emulation_note(cluster: Cluster) -> str:
    """What every report of an emulated cluster says, with the hardware that its nodes only show."""
    return EMULATED + (
        f" Invented is what the nodes show: {cluster.invented}." if cluster.invented else ""
    )


def run_headline(
    decided: Verdict,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    comparisons: tuple[Comparison, ...],
) -> str:
    """What is wrong and where, in `WORDS` words; without anything wrong, the number and what is
    suspected."""
    number = _number(launches)
    status = decided.status
    leading = [f for f in decided.findings if f.required and f.status is status]
    if status is not Status.PASS and leading:
        return headline_of(leading[0])
    short = next((c for c in comparisons if c.status is status), None)
    if status is Status.UNKNOWN:
        likely = _likely(decided)
        if likely is not None:
            return shortened(f"{headline_of(likely)}; not enough measured to tell")
        if outcome.open:
            return shortened(f"possible: {_suspected(outcome)}, in too few launches to prove it")
        if short is not None:
            return _short_of(short)
        return "; ".join(filter(None, ("not enough measured to tell", number)))
    if status in (Status.FAIL, Status.WARN) and short is not None:
        return _short_of(short)
    if status is Status.WARN:
        failed = next((each for each in decided.findings if each.status is Status.FAIL), None)
        if failed is not None and failed.where:
            return "; ".join(filter(None, (_advised(failed), number)))
    return f"{number or 'nothing measured'}{_compared(outcome)}"


def _advised(failed: Finding) -> str:
    """An advisory check that failed, which is why there is a warning.

    >>> _advised(Finding("gpu.xgmi", Status.FAIL, "gpu.xgmi: down: GPU 3 link 2", ("n2", "n3"), ()))
    'n[2-3] fail gpu.xgmi'
    """
    return f"{fold(failed.where)} {'fail' if len(failed.where) > 1 else 'fails'} {failed.id}"


def headline_of(finding: Finding) -> str:
    """A finding's title in `WORDS` words, with the place it is about.

    >>> headline_of(Finding("x", Status.FAIL, "n1 is slow: 2 of 4 GB/s (50%), slow in 3 of 3 launches", ("n1",), ()))
    'n1 is slow: 2 of 4 GB/s (50%)'
    >>> headline_of(Finding("x", Status.FAIL, "A rank died and the others wait", ("n2",), ()))
    'A rank died and the others wait: n2'
    >>> headline_of(Finding("x", Status.FAIL, "all-reduce at 4 MiB: 3 GB/s, compared with 7", ("n1 + n2 + n3",), ()))
    'all-reduce at 4 MiB: 3 GB/s, compared with 7: n[1-3]'
    >>> headline_of(Finding("rdma.rate", Status.FAIL, "rdma.rate: mlx5_3 200 Gb/s; the others 400 Gb/s", ("n4",), ()))
    'n4: mlx5_3 200 Gb/s; the others 400 Gb/s'
    """
    if finding.where and finding.title.startswith(f"{finding.id}: "):
        return _of_check(finding.title.removeprefix(f"{finding.id}: "), fold(finding.where))
    missing = finding.where and all(place not in finding.title for place in finding.where)
    if not missing:
        return shortened(finding.title)
    place = fold(node for group in finding.where for node in group.split(" + "))
    return f"{shortened(finding.title, WORDS - len(place.split()))}: {place}"


def _of_check(seen: str, place: str) -> str:
    """Of one check: who, then what was seen. What it was about comes before a colon, and goes first
    where there are too many words.

    >>> _of_check("connect to 10.0.0.2 port 22: accepts TCP but never sends a banner", "n2")
    'n2: accepts TCP but never sends a banner'
    >>> _of_check(f"host key of 10.0.0.6 has changed: it shows {50 * 'a'}, but known_hosts has {50 * 'b'}", "n6")
    'n6: host key of 10.0.0.6 has changed'
    """
    if len(f"{place} {seen}".split()) > WORDS:
        about, _, what = seen.partition(": ")
        seen = what if 0 < len(what) <= _LONGEST else about
    return f"{place}: {shortened(seen, WORDS - len(place.split()))}"


def shortened(text: str, limit: int = WORDS) -> str:
    """The text up to the last comma, semicolon, colon or bracket within `limit` words.

    >>> shortened("all_reduce at 8 GiB: 20 GB/s, under 48 GB/s, where the fabric begins to be good")
    'all_reduce at 8 GiB: 20 GB/s, under 48 GB/s'
    >>> shortened("first, second: compared with nothing (no gate, accepted run, pair of nodes or expected figure)")
    'first, second: compared with nothing'
    """
    text = _FREQUENCY.split(text)[0]
    if len(text.split()) <= limit:
        return text
    kept, *clauses = _CLAUSE.split(text)
    for clause in clauses:
        if len(f"{kept}{clause}".split()) > limit:
            break
        kept += clause
    if kept.count("(") > kept.count(")"):
        kept = kept.rpartition("(")[0].rstrip()
    words = kept.split()
    return " ".join(words) if len(words) <= limit else f"{' '.join(words[:limit])} …"


def _number(launches: tuple[Launch, ...]) -> str:
    """`all_reduce 192.0 GB/s at 8 GiB on 16 nodes`; empty = nothing was measured."""
    best = best_row(launches)
    if best is None:
        return ""
    launch, row = best
    busbw = format_bandwidth(row.out_of_place.busbw_gb_s if row.out_of_place else None)
    size, count = format_size(row.size_bytes), len(launch.artefact.nodes)
    return f"{launch.artefact.case.collective} {busbw} at {size} on {counted(count, 'node')}"


def _likely(decided: Verdict) -> Finding | None:
    """The first finding that is likely at least: it leads, though a verdict needs more."""
    for finding in decided.findings:
        warns = finding.required and finding.status is Status.WARN
        if warns and finding.at_least_likely:
            return finding
    return None


def _short_of(comparison: Comparison) -> str:
    """What was short: the nodes of a group, the case, the number and what it should be."""
    measured = format_bandwidth(comparison.measured_gb_s)
    expected = format_bandwidth(comparison.reference.busbw_gb_s)
    place = f"{fold(comparison.nodes)} in " if comparison.nodes else ""
    return f"{place}{comparison.case_id}: {measured} instead of {expected}"


def _compared(outcome: BlameOutcome) -> str:
    """What the groups tell of the nodes. One that was loaded too little is not cleared."""
    if outcome.open:
        return f"; possible: {_suspected(outcome)}"
    cleared = len(outcome.cleared)
    measured = len({node for level in outcome.levels for node in level.sample.nodes})
    if not cleared:
        return ""
    if cleared < measured:
        return f"; {cleared} of {measured} ruled out"
    return "; none slow"


def _suspected(outcome: BlameOutcome) -> str:
    return ", ".join(dict.fromkeys(doubt.account.part.label for doubt in outcome.open))


def best_row(launches: tuple[Launch, ...]) -> tuple[Launch, BenchmarkRow] | None:
    """The row a headline speaks of: the largest size of the first bandwidth case over all nodes. Of
    a case that was launched several times it is the median launch, which is what decides."""
    for purpose in ("bandwidth", "correctness", "proof", "latency"):
        measured: dict[str, list[tuple[Launch, BenchmarkRow]]] = {}
        for launch in launches:
            case = launch.artefact.case
            row = None if launch.artefact.groups else _largest(launch)
            if case.purpose == purpose and row is not None:
                measured.setdefault(case.family, []).append((launch, row))
        if measured:
            family = next(iter(measured.values()))
            size_bytes = max(row.size_bytes for _, row in family)
            whole = [each for each in family if each[1].size_bytes == size_bytes]
            whole.sort(key=lambda each: _busbw(each[1]))
            return whole[(len(whole) - 1) // 2]
    return None


def _largest(launch: Launch) -> BenchmarkRow | None:
    """The row of the launch's largest size; None = it measured nothing."""
    results = launch.results[-1:]
    rows = [row for result in results for row in result.rows if row.out_of_place is not None]
    return max(rows, key=lambda row: row.size_bytes, default=None)


def _busbw(row: BenchmarkRow) -> float:
    return (row.out_of_place and row.out_of_place.busbw_gb_s) or 0.0


# Of a run that only checks.


def check_headline(checks: tuple[CheckResult, ...], nodes: tuple[str, ...], profile: str) -> str:
    """By the worst of what is required; where that is well, what an advisory check failed on.

    >>> check_headline((CheckResult("gpu.count", "n2", Status.FAIL, "7", "8", "nvidia-smi -L"),), ("n1", "n2"), "tcp")
    'n2: 7 (gpu.count)'
    >>> check_headline((CheckResult("ssh.connect", "n1", Status.UNKNOWN, "", "", ""),), ("n1",), "tcp")
    'n1 could not be checked; profile tcp'
    >>> check_headline((CheckResult("ssh.connect", "n1", Status.UNKNOWN, "", "", ""),), ("n1",), UNDETECTED)
    'n1 could not be checked'
    """
    count = f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'}"
    required = [check for check in checks if check.required and check.status is not Status.SKIPPED]
    if not required:
        return f"nothing was checked on {count}, profile {profile}"
    of_profile = "" if profile == UNDETECTED else f"; profile {profile}"
    for status, words in (
        (Status.FAIL, "not as required"),
        (Status.UNKNOWN, "could not be checked"),
    ):
        bad = {check.node for check in required if check.status is status}
        if bad:
            same = [check for check in required if check.status is status]
            only = _only_problem(same) if status is Status.FAIL else _only_gap(same)
            if only:
                return only
            which = f"{len(bad):,} of {count} {words}: {fold(bad)}"
            if len(nodes) == 1:
                which = f"{nodes[0]} {words}"
            return f"{which}{of_profile}"
    advised = [check for check in checks if check.status is Status.FAIL]
    if not advised:
        return f"{count} as required by profile {profile}"
    ids = list(dict.fromkeys(check.check_id for check in advised))
    only = _only_problem(advised)
    if only:
        return only
    what = ids[0] if len(ids) == 1 else f"{len(ids)} advisory checks"
    where = fold({check.node for check in advised})
    return f"{count} as required by profile {profile}, but {what} failed on {where}"


def _only_problem(bad: list[CheckResult]) -> str:
    """What is wrong where one answer of the same nodes says it: of one node, or alike on several.
    What compares nodes says it less closely than a node's own check. Empty = there is more."""
    own = [check for check in bad if not check.check_id.startswith("cross.")] or bad
    if len({check.node for check in bad}) > 1 and len({check.check_id for check in own}) > 1:
        return ""
    if {check.node for check in own} != {check.node for check in bad}:
        return ""
    if len({check.seen for check in own if check.check_id == own[0].check_id}) > 1:
        return ""
    ids = dict.fromkeys(check.check_id for check in own)
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    text = _of_check(own[0].seen, fold(check.node for check in bad))
    return f"{text} ({own[0].check_id}{more})"


def _only_gap(unanswered: list[CheckResult]) -> str:
    """Why one node could not be checked, where a single check of it says so; empty = there is more.

    >>> _only_gap([CheckResult("links.bandwidth", "n3", Status.UNKNOWN, "eth0", "", "", "not measured: n3: gone")])
    'n3: not measured: gone (links.bandwidth)'
    """
    first = unanswered[0]
    if len(unanswered) > 1 or not first.reason:
        return ""
    reason = first.reason.replace(f"{first.node}: ", "")
    return f"{_of_check(reason, first.node)} ({first.check_id})"


def sensitivity(checks: tuple[CheckResult, ...]) -> tuple[str, ...]:
    """What the checks detect, and what they do not.

    >>> sensitivity((CheckResult("gpu.count", "n1", Status.PASS, "8", "8", "nvidia-smi -L"),))[0]
    'detects: another answer than expected to 1 check of gpu, on each of 1 node, at that moment'
    """
    passed = {check.check_id for check in checks if check.status is Status.PASS}
    open_ = sorted({check.check_id for check in checks if check.status is Status.UNKNOWN})
    nodes = len({check.node for check in checks if check.status is Status.PASS})
    families = ", ".join(sorted({name.partition(".")[0] for name in passed}))
    lines = []
    if passed:
        counted = f"{len(passed)} check{'s' if len(passed) > 1 else ''} of {families}"
        lines.append(
            f"detects: another answer than expected to {counted}, on each of {nodes:,}"
            f" node{'s' if nodes > 1 else ''}, at that moment"
        )
    if open_:
        shown = ", ".join(open_[:6]) + (f" and {len(open_) - 6} more" if len(open_) > 6 else "")
        lines.append(f"does not detect: what was not checked on some or all nodes ({shown})")
    return (
        *lines,
        (
            "does not detect: whether data moves, how fast, and what comes and goes: nothing was"
            " measured (busbw run)"
        ),
    )


NEIGHBOURS = Uncovered(
    "hardware and versions: compared with neighbours only",
    "inventory, playbook and contract have no specification: block",
    "busbw init --propose RUN",
)
"""Where nothing absolute is demanded, what all nodes share passes."""


def nothing_specified(plan: RunPlan) -> tuple[Uncovered, ...]:
    """One line where nodes show hardware and nothing says which they should have."""
    shows = plan.cluster.invented or not plan.cluster.emulated
    return (NEIGHBOURS,) if shows and not plan.requirements else ()


def not_covered(
    plan: RunPlan,
    launches: tuple[Launch, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
) -> tuple[Uncovered, ...]:
    """Everything that was planned and not done, or done without an answer."""
    ran = {launch.artefact.case.id for launch in launches}
    uncovered = [
        Uncovered(
            f"case {case.id}",
            "the run ended before it",
            f"busbw run --resume {placeholders.directory(plan)}",
        )
        for case in plan.playbook.cases
        if case.id not in ran
    ]
    advisory: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status is Status.UNKNOWN and not check.required:
            reason = check.reason or check.seen
            advisory.setdefault((check.check_id, reason), []).append(check.node)
    for (check_id, reason), nodes in advisory.items():
        uncovered.append(Uncovered(check_id, f"{reason} ({counted(len(nodes), 'node')})"))
    if outcome.open:
        why = "slower than its peers, in too few launches to prove it or to rule it out"
        suspected = f"suspected: {_suspected(outcome)}"
        uncovered.append(Uncovered(suspected, why, "busbw run --survey --budget 20m"))
    if outcome.inseparable and any(launch.samples for launch in launches):
        advice = "measure more nodes, or rails one by one"
        uncovered.append(Uncovered("which node or path is slow", outcome.inseparable, advice))
    surveyed = any(launch.artefact.groups for launch in launches)
    if not surveyed and plan.playbook.survey.when != "never":
        why = "no survey round was measured"
        uncovered.append(Uncovered("groups of nodes against each other", why))
    return tuple(uncovered)
