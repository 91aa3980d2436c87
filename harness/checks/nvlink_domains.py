"""NVLink domains of several nodes (NVL72): which domain each node is in, and whether IMEX joins all of
it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from busbw.checks import (
    NodeAnswer,
    Rule,
    RuleResult,
    SectionOutput,
    evidence_of,
    results_of,
)
from busbw.checks.gpu import is_amd
from busbw.inventory import fold
from busbw.model import CheckResult, Status
from busbw.parsers.tools import imex, nvidia_smi_details
from busbw.units import counted

NVL72 = re.compile(r"\bGB[23]00\b")
_JOINED = "the NVLink domain of the other nodes of its rack"
HOW = "nvidia-smi -q; nvidia-imex-ctl -N"
_UP = "the IMEX domain UP (GB200 and GB300 in one NVLink domain)"
_IMEX = "nvidia-imex-ctl -N"


def imex_domain(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    """Whether the IMEX domain of a node is up, as the node sees it."""
    query, output = answer.section("gpu_query"), answer.section("imex")
    if query is None or query.exit_status != 0:
        # Which GPUs there are is what decides whether it applies.
        return results_of(
            answer, "gpu_query", "nvidia-smi --query-gpu=name", ("gpu.imex",), lambda output: ()
        )
    if not NVL72.search(query.stdout):
        reason = "only GPUs that share NVLink with other nodes have an IMEX domain"
        skipped = _imex(answer, Status.SKIPPED, "no such GPU")
        return (replace(skipped, reason=reason),)
    if output is not None and output.missing:
        failed = _imex(answer, Status.FAIL, "nvidia-imex-ctl is not installed")
        return (replace(failed, evidence=evidence_of(answer, output)),)
    return results_of(answer, "imex", _IMEX, ("gpu.imex",), _state_of_domain)


def _imex(answer: NodeAnswer, status: Status, seen: str) -> CheckResult:
    return CheckResult("gpu.imex", answer.node.name, status, seen, _UP, _IMEX)


def _state_of_domain(output: SectionOutput) -> tuple[RuleResult, ...]:
    domain = imex.parse(output.stdout)
    if domain is None:
        return ()
    waiting = [f"node {number} {state}" for number, state in domain.nodes if state != "READY"]
    bad = f"{domain.state}: {', '.join(waiting[:4])}" if waiting else domain.state
    rule = Rule("gpu.imex", _UP)
    result = rule.passed("UP") if domain.state == "UP" else rule.failed(bad)
    return (result.with_values(domain_state=domain.state),)


def domains(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """Nodes of one NVL72 against each other: which NVLink domain each is in, and whether IMEX joins
    all of it."""
    shown = {answer.node.name: _clique(answer) for answer in answers}
    racks = {answer.node.name: _rack(answer) for answer in answers}
    return tuple(
        _domain(answer, shown, racks) if _is_tray(answer) else _no_tray(answer)
        for answer in answers
    )


def _is_tray(answer: NodeAnswer) -> bool:
    details = answer.section("gpu_details")
    return details is not None and NVL72.search(details.stdout) is not None


def _no_tray(answer: NodeAnswer) -> CheckResult:
    reason = "only GPUs that share NVLink with other nodes have a domain of several nodes"
    details = answer.section("gpu_details")
    if (details is None or details.exit_status != 0) and not is_amd(answer):
        why = answer.problem or "nvidia-smi -q gave no answer"
        return CheckResult(
            "cross.nvlink_domain", answer.node.name, Status.UNKNOWN, "not known", _JOINED, HOW, why
        )
    return CheckResult(
        "cross.nvlink_domain",
        answer.node.name,
        Status.SKIPPED,
        "no such GPU",
        _JOINED,
        HOW,
        reason,
    )


def _clique(answer: NodeAnswer) -> str:
    """The domain that all its GPUs are in; empty = none, or several."""
    details = answer.section("gpu_details")
    gpus = nvidia_smi_details.parse(details.stdout) if details is not None else ()
    shown = {gpu.fabric_clique for gpu in gpus}
    return shown.pop() if len(shown) == 1 else ""


def _rack(answer: NodeAnswer) -> str:
    """What the inventory says: nodes of one domain share the label `nvlink_domain`, else `rack`."""
    labels = dict(answer.node.labels)
    return labels.get("nvlink_domain") or labels.get("rack") or ""


def _domain(answer: NodeAnswer, shown: Mapping[str, str], racks: Mapping[str, str]) -> CheckResult:
    name = answer.node.name
    own, rack = shown[name], racks[name]
    rule = Rule("cross.nvlink_domain", _JOINED)
    together = [each for each, other in shown.items() if other == own]
    section = answer.section("imex")
    domain = imex.parse(section.stdout) if section is not None else None
    if not own:
        result = rule.failed("in no NVLink domain, or its GPUs in several")
    elif rack and (usual := _usual(shown, racks, rack)) not in ("", own):
        result = rule.failed(f"another NVLink domain than most of {rack} ({usual[:8]}…)")
    elif domain is not None and domain.state == "UP" and len(domain.members) < len(together):
        result = rule.failed(
            f"IMEX joins {len(domain.members)} of its {counted(len(together), 'node')}"
        )
    elif len(together) == 1 and len(shown) > 1:
        outside = [each for each, other in shown.items() if not other]
        why = f"; {fold(outside)} in no domain" if outside else ""
        result = rule.warned(f"alone in its NVLink domain{why}")
    else:
        result = rule.passed(f"one of {len(together)} nodes")
    details = answer.sections["gpu_details"]
    return CheckResult(
        rule.check_id,
        name,
        result.status,
        result.seen,
        rule.expected,
        HOW,
        evidence=evidence_of(answer, details, _cluster_line(details)),
        values=(("joined", result.status is not Status.FAIL),),
    )


def _cluster_line(details: SectionOutput) -> int | None:
    """Where the domain of the first GPU stands; None = it is not printed."""
    lines = enumerate(details.stdout.splitlines(), 1)
    return next((number for number, line in lines if "ClusterUUID" in line), None)


def _usual(shown: Mapping[str, str], racks: Mapping[str, str], rack: str) -> str:
    """The domain of most nodes of a rack; empty = there is no such."""
    inside = Counter(own for name, own in shown.items() if own and racks[name] == rack)
    first = inside.most_common(2)
    return first[0][0] if first and (len(first) == 1 or first[0][1] > first[1][1]) else ""
