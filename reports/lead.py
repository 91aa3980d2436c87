"""What a run comes down to: the one number, the order of the findings, and the title every output
begins with."""

from __future__ import annotations

from dataclasses import replace

from busbw.model import CaseOutcome, Comparison, Confidence, Finding, RunResult, Status
from busbw.reports import phrases

_CONFIDENCE = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}


def outcome_of(result: RunResult, case_id: str) -> CaseOutcome | None:
    """The outcome of a case; None = the comparison names a case the run did not keep."""
    return next((outcome for outcome in result.cases if outcome.case.id == case_id), None)


def is_survey(outcome: CaseOutcome | None) -> bool:
    """It measured groups of nodes to find who is slow: its numbers are never the run's own."""
    if outcome is None:
        return False
    return outcome.case.split is not None or outcome.case.purpose == "diagnosis"


def whole_cluster(result: RunResult) -> tuple[Comparison, ...]:
    """Comparisons of all nodes together: those outside the surveys whose group is the widest there
    is, and those of cases that were not run."""
    surveys = {outcome.case.id for outcome in result.cases if is_survey(outcome)}
    outside = [comparison for comparison in result.comparisons if comparison.case_id not in surveys]
    widest = max((len(comparison.nodes) for comparison in outside), default=0)
    return tuple(comparison for comparison in outside if len(comparison.nodes) in (0, widest))


def beside_contract(result: RunResult) -> tuple[Comparison, ...]:
    """The same, as the pages show them: where a criterion of the contract judges a number, no other
    reference passes it."""
    contract = result.acceptance.criteria if result.acceptance else ()
    judge_of = {(each.case_id, each.size_bytes): each.id for each in contract}
    shown = []
    for each in whole_cluster(result):
        criterion = judge_of.get((each.case_id, each.size_bytes))
        if criterion is not None and each.status is Status.PASS:
            reason = f"the contract judges it (criterion {criterion}); {each.reason}"
            each = replace(each, status=Status.SKIPPED, reason=reason)
        shown.append(each)
    return tuple(shown)


def lead(result: RunResult) -> Comparison | None:
    """The comparison the title speaks of: required before advisory, worst state, bandwidth before
    latency, the largest size, the lowest share.

    None = nothing was compared.
    """

    def rank(comparison: Comparison) -> tuple[bool, int, bool, bool, int, float, str]:
        outcome = outcome_of(result, comparison.case_id)
        return (
            outcome is not None and not outcome.case.required,
            phrases.SEVERITY[comparison.status],
            comparison.measured_gb_s is None,
            outcome is not None and outcome.case.purpose != "bandwidth",
            -comparison.size_bytes,
            comparison.ratio if comparison.ratio is not None else float("inf"),
            comparison.case_id,
        )

    return min(whole_cluster(result) or result.comparisons, key=rank, default=None)


def collective(result: RunResult, comparison: Comparison) -> str:
    """The collective a comparison measured; the case's id where the case is not in the run."""
    outcome = outcome_of(result, comparison.case_id)
    return outcome.case.collective.value if outcome else comparison.case_id


def ordered_findings(result: RunResult) -> tuple[Finding, ...]:
    """Findings with the one to act on first: required before advisory, worst state, what follows
    from another behind it, largest effect, most certain; else as they came."""

    followers = {each for finding in result.findings for each in finding.explains}

    def rank(f: Finding) -> tuple[bool, int, bool, float, int]:
        state, sure = phrases.SEVERITY[f.status], _CONFIDENCE[f.confidence]
        return not f.required, state, f.id in followers, -f.effect, sure

    return tuple(sorted(result.findings, key=rank))


def deciding(result: RunResult) -> Finding | None:
    """The finding to act on first: the required one of the verdict's state; where a FAIL or UNKNOWN
    has none, the first of all, which is a suspicion; of a WARN the advisory check that failed. None
    = nothing led to the verdict."""
    findings = ordered_findings(result)
    states = {Status.FAIL, Status.UNKNOWN}
    suspicion = findings[:1] if result.verdict in states else ()
    if result.verdict is Status.WARN:
        states = {Status.WARN}
        suspicion = tuple(each for each in findings if each.status is Status.FAIL)
    decided = (each for each in findings if each.required and each.status in states)
    return next(decided, next(iter(suspicion), None))


def subject(result: RunResult) -> str:
    """What the verdict is about, in a few words: the contract's answer, or the number, finding or
    lost node that decided."""
    if result.acceptance is not None:
        culprit = _culprit(result).removesuffix("; ")
        text = f"{result.acceptance.word}: {result.acceptance.summary}"
        return f"{text}; {culprit}" if culprit else text
    compared = lead(result)
    if compared is not None and _decides(compared, result):
        figure = phrases.bandwidth(compared.measured_gb_s)
        if compared.ratio is not None:
            figure = phrases.percent(compared.ratio)
        return f"{_culprit(result)}{collective(result, compared)} {figure}"
    findings = ordered_findings(result)
    if result.verdict is Status.PASS:
        return result.headline
    if findings:
        return result.headline
    if result.unreachable and result.verdict in (Status.FAIL, Status.UNKNOWN):
        return f"{phrases.nodes(u.node for u in result.unreachable)} not reached"
    return "could not measure" if result.verdict is Status.UNKNOWN else "measured"


def _decides(compared: Comparison, result: RunResult) -> bool:
    """Whether the number stands for the verdict: that something is not known a finding says."""
    if not result.findings:
        return True
    return compared.status is result.verdict and result.verdict is not Status.UNKNOWN


def _culprit(result: RunResult) -> str:
    """What is to blame for the number that follows, with its separator; empty = nothing is blamed."""
    blamed = {name for blame in result.blame for name in blame.component.names}
    for finding in ordered_findings(result):
        places = [place for place in finding.where if place.partition(" ")[0] in blamed]
        if places and finding.required and finding.status is result.verdict:
            place = phrases.where(phrases.narrowest(places))
            doubt = "possible: " if finding.confidence is Confidence.POSSIBLE else ""
            return f"{doubt}{place} ({finding.id}); "
    return ""


def nodes_of(result: RunResult) -> str:
    """The nodes the subject belongs to, folded: those of a surveyed group where its number decides,
    else all; `no nodes` without any."""
    compared = lead(result)
    names = result.nodes
    if compared is not None and compared.status is result.verdict and compared.nodes:
        names = compared.nodes
    return phrases.nodes(names) or "no nodes"


def title(result: RunResult) -> str:
    """The page's title, read in a tab bar: `FAIL – gpu-005 rail 3 (slow-rail); all_reduce 52% – gpu-[000-015]`."""
    return f"{result.verdict.value} – {subject(result)} – {nodes_of(result)}"


def last_line(result: RunResult, run_dir: str) -> str:
    """The greppable line, what is to blame first:
    `busbw: FAIL gpu-005 rail 3 (slow-rail); all_reduce 192/372 GB/s (52%) gpu-[000-015] runs/…`."""
    compared = lead(result)
    if result.acceptance is not None:
        decision = subject(result)
    elif compared is not None and _decides(compared, result):
        decision = f"{_culprit(result)}{collective(result, compared)} {phrases.against(compared)}"
    elif result.verdict is Status.UNKNOWN:
        measured = any(outcome.results for outcome in result.cases)
        decision = f"{'no answer' if measured else 'could not measure'}: {subject(result)}"
    else:
        decision = subject(result)
    nodes = nodes_of(result)
    if not decision.endswith(nodes):
        decision += f" {nodes}"
    emulated = " (emulated)" if result.emulated else ""
    return f"busbw: {result.verdict.value} {decision} {run_dir}{emulated}"
