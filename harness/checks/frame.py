"""All families over all nodes: what is required, what is advisory, what does not apply to this
fabric."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import attrgetter

import busbw.checks
from busbw import plugins
from busbw.checks import CONNECT, CheckFamily, NodeAnswer, Policy, RuleResult
from busbw.checks.gpu import is_amd
from busbw.faults import Fault, attempt
from busbw.model import CheckResult, Status
from busbw.parsers.findings.gpu_words import GPUS, Gpus

# All families of checks, found by walking the package.


@functools.cache
def families() -> tuple[CheckFamily, ...]:
    """Every `CHECK`, by name. Walked once: each of a thousand texts may be judged."""
    return tuple(
        thing
        for thing in plugins.discover(busbw.checks, "CHECK").values()
        if isinstance(thing, CheckFamily)
    )


def judge(
    families: Iterable[CheckFamily], answers: tuple[NodeAnswer, ...], policy: Policy
) -> tuple[CheckResult, ...]:
    """Every check on every node, by id, then in the order of `answers`.

    A demanded id or glob that fits no family is UNKNOWN on every node: a requirement is never dropped
    silently.
    """
    known = tuple(families)
    # Node by node: what several families read of one answer is parsed once.
    results = [
        result for answer in answers for family in known for result in _of_one(family, answer)
    ]
    results += [result for family in known for result in _of_all(family, answers)]
    amd = {answer.node.name for answer in answers if is_amd(answer)}
    if amd:
        results = [_on_amd(each) if each.node in amd else each for each in results]
    for check_id in unknown_ids(known, (*policy.required, *policy.advisory)):
        why = f"this version of busbw has no check {check_id}"
        results += [
            CheckResult(check_id, a.node.name, Status.UNKNOWN, "not checked", "", "", reason=why)
            for a in answers
        ]
    is_required = functools.cache(policy.is_required)
    applied = (_apply(result, is_required(result.check_id), policy.profile) for result in results)
    # The sort is stable: results of one check stay in the order in which the nodes were asked.
    return tuple(sorted(applied, key=attrgetter("check_id")))


def known_ids(known: Iterable[CheckFamily]) -> set[str]:
    """The ids of all checks."""
    return {check_id for family in known for check_id in family.ids} | {CONNECT.id}


def unknown_ids(known: Iterable[CheckFamily], demanded: Iterable[str]) -> list[str]:
    """The demanded ids and globs that fit no check."""
    ids = known_ids(known)
    return [
        each for each in sorted(set(demanded)) if not any(fnmatchcase(name, each) for name in ids)
    ]


def judge_records(
    families: Iterable[CheckFamily], records: tuple[object, ...]
) -> tuple[RuleResult, ...]:
    """What the rules of all families say about the records of a text that was handed in."""
    return tuple(result for family in families for result in family.judge_records(records))


def _of_one(family: CheckFamily, answer: NodeAnswer) -> tuple[CheckResult, ...]:
    """What a family says of one node. A text that it stumbles over costs this node these checks,
    never the other nodes their answers."""
    results = attempt(lambda: family.judge(answer))
    if isinstance(results, Fault):
        return _not_understood(family.ids, (answer,), results)
    return results


def _of_all(family: CheckFamily, answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """What a family says of the nodes against each other, with the same care: an answer that it
    stumbles over by itself is compared with no other."""
    results = attempt(lambda: family.compare(answers))
    if not isinstance(results, Fault):
        return results
    crossing = tuple(name for name in family.ids if name.startswith("cross."))
    good: list[NodeAnswer] = []
    unread: list[CheckResult] = []
    for answer in answers:
        alone = attempt(functools.partial(family.compare, (answer,)))
        if isinstance(alone, Fault):
            unread += _not_understood(crossing, (answer,), alone)
        else:
            good.append(answer)
    rest = attempt(lambda: family.compare(tuple(good)))
    if not unread or isinstance(rest, Fault):
        return _not_understood(crossing, answers, results)
    return (*rest, *unread)


def _not_understood(
    check_ids: tuple[str, ...], answers: tuple[NodeAnswer, ...], fault: Fault
) -> tuple[CheckResult, ...]:
    why = f"busbw could not read what the node printed ({fault.text}); it is kept, please report it"
    return tuple(
        CheckResult(name, each.node.name, Status.UNKNOWN, "not understood", "", "", why)
        for each in answers
        for name in check_ids
    )


def everything(check_ids: tuple[str, ...]) -> Policy:
    """A policy that requires just these checks."""
    return Policy("", check_ids, ())


def _on_amd(result: CheckResult) -> CheckResult:
    """What is not well says that the node has AMD's GPUs: other steps fix it. So does the count of
    the GPUs, for what else is found in the run."""
    is_well = result.status in (Status.PASS, Status.SKIPPED)
    if is_well and result.check_id != "gpu.count":
        return result
    return replace(result, values=(*result.values, (GPUS, Gpus.AMD.value)))


def _apply(r: CheckResult, is_required: bool | None, profile: str) -> CheckResult:
    if is_required is r.required:
        return r
    # Written out: `dataclasses.replace` takes longer than all rules together, and there are a
    # hundred results per node.
    if is_required is None:
        reason = f"not applicable to profile {profile}"
        return CheckResult(
            r.check_id,
            r.node,
            Status.SKIPPED,
            r.seen,
            r.expected,
            r.command,
            reason,
            r.evidence,
            required=False,
        )
    return CheckResult(
        r.check_id,
        r.node,
        r.status,
        r.seen,
        r.expected,
        r.command,
        r.reason,
        r.evidence,
        is_required,
        r.values,
    )
