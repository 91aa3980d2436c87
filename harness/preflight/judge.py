"""All families over all nodes: what is required, what is advisory, what does not apply to this fabric."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fnmatch import fnmatchcase

from busbw.preflight import CheckFamily, Demand, NodeAnswer
from busbw.records import CheckResult, Status


def judge(families: Iterable[CheckFamily], answers: tuple[NodeAnswer, ...], demand: Demand) -> tuple[CheckResult, ...]:
    """Every check on every node, by id, then in the order of `answers`.

    A demanded id or glob that fits no family is UNKNOWN on every node: a demand is never dropped silently.
    """
    known = tuple(families)
    results = [result for family in known for answer in answers for result in family.judge(answer)]
    results += [result for family in known for result in family.compare(answers)]
    covered = {check_id for family in known for check_id in family.ids} | {"ssh.connect"}
    for check_id in sorted({*demand.required, *demand.advisory}):
        if any(fnmatchcase(known_id, check_id) for known_id in covered):
            continue
        why = "this version of busbw does not have this check"
        results += [CheckResult(check_id, a.node.name, Status.UNKNOWN, "not checked", "", "", reason=why) for a in answers]
    place = {answer.node.name: position for position, answer in enumerate(answers)}
    applied = (_apply(result, demand) for result in results)
    return tuple(sorted(applied, key=lambda r: (r.check_id, place.get(r.node, len(place)))))


def everything(check_ids: tuple[str, ...]) -> Demand:
    """A demand for just these checks."""
    return Demand("", check_ids, ())


def _apply(result: CheckResult, demand: Demand) -> CheckResult:
    standing = demand.standing(result.check_id)
    if standing is None:
        reason = f"not applicable to profile {demand.profile}"
        return dataclasses.replace(result, status=Status.SKIPPED, reason=reason, required=False)
    return dataclasses.replace(result, required=standing)
