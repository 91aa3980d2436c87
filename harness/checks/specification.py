"""Every node against what the `specification:` block of inventory, playbook or contract demands. Each key
reads what another family asked; `playbook.specification` has the table."""

from __future__ import annotations

from busbw.checks import Check, CheckFamily, NodeAnswer, evidence_of, unknown
from busbw.inventory.hostlist import fold
from busbw.model import CheckResult, Requirement, Status
from busbw.playbook import specification
from busbw.playbook.specification import FIELDS, Field

GROUPS = tuple(dict.fromkeys(field.group for field in FIELDS))


def _id(field: Field) -> str:
    return f"spec.{field.group}"


def check_ids(requirements: tuple[Requirement, ...]) -> tuple[str, ...]:
    """The checks that judge these requirements."""
    fields = (specification.BY_KEY[each.key] for each in requirements)
    return tuple(dict.fromkeys(_id(field) for field in fields))


def sections(requirements: tuple[Requirement, ...]) -> tuple[str, ...]:
    """The sections that show what is demanded."""
    fields = (specification.BY_KEY[each.key] for each in requirements)
    return tuple(dict.fromkeys(name for field in fields for name in field.sections))


def judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    """A result for each requirement; one without evidence for each check that has none."""
    results = [_judged(answer, each) for each in answer.requirements]
    judged = {each.check_id for each in results}
    missing = tuple(f"spec.{group}" for group in GROUPS if f"spec.{group}" not in judged)
    results += [
        CheckResult(
            check_id,
            answer.node.name,
            Status.UNKNOWN,
            "nothing demanded",
            "a key in a specification: block",
            "",
            "no specification: block of inventory, playbook or contract has such a key",
        )
        for check_id in missing
    ]
    return tuple(results)


def without_requirement(result: CheckResult) -> bool:
    """Nothing was demanded, and nobody requires the check."""
    return result.check_id.startswith("spec.") and result.status is Status.SKIPPED


def _judged(answer: NodeAnswer, requirement: Requirement) -> CheckResult:
    field = specification.BY_KEY[requirement.key]
    expected = f"{specification.shown(requirement)} ({requirement.source})"
    for section in field.sections:
        gap = unknown(answer, _id(field), section, expected, field.command)
        if gap is not None:
            return gap
    outputs = [answer.sections[name] for name in field.sections]
    readings = field.read({each.name: each.stdout for each in outputs}, answer.node.rails)
    status, seen = _compared(requirement, readings)
    return CheckResult(
        _id(field),
        answer.node.name,
        status,
        seen,
        expected,
        field.command,
        f"{field.command} does not show it" if status is Status.UNKNOWN else "",
        evidence_of(answer, outputs[0]),
    )


def _compared(requirement: Requirement, readings: specification.Readings) -> tuple[Status, str]:
    """The status, and what was seen in words that are equal on equal nodes."""
    key, unit = requirement.key, specification.BY_KEY[requirement.key].unit
    parts: dict[str, list[str]] = {}
    silent = []
    for device, value in readings:
        if value is None:
            silent.append(device)
        elif not specification.met(requirement, value):
            parts.setdefault(value, []).append(device)
    if parts:
        bad = "; ".join(_of_devices(value, unit, names) for value, names in parts.items())
        return Status.FAIL, f"{key} {bad}; {specification.shown(requirement)} is wanted"
    if silent or not readings:
        where = f" of {fold(silent)}" if any(silent) else ""
        return Status.UNKNOWN, f"{key}{where} not shown"
    values = {value: [name for name, each in readings if each == value] for _, value in readings}
    good = (_of_devices(value or "", unit, names) for value, names in values.items())
    return Status.PASS, f"{key} {'; '.join(good)}"


def shared(answers: tuple[NodeAnswer, ...]) -> dict[str, str]:
    """What all parts of all nodes have in common, by key: what a specification may demand."""
    values = {field.key: _values(field, answers) for field in FIELDS}
    return {key: value for key, value in values.items() if value is not None}


def _values(field: Field, answers: tuple[NodeAnswer, ...]) -> str | None:
    """The one value of a key; None = the nodes differ, or one does not show it."""
    seen: set[str | None] = set()
    for answer in answers:
        if any(unknown(answer, _id(field), name, "", field.command) for name in field.sections):
            return None
        texts = {name: answer.sections[name].stdout for name in field.sections}
        readings = field.read(texts, answer.node.rails)
        seen.update(value for _, value in readings)
        if not readings:
            return None
    value = next(iter(seen)) if len(seen) == 1 else None
    return None if value == "0" else value


def _of_devices(value: str, unit: str, devices: list[str]) -> str:
    text = f"{value} {unit}" if unit else value
    return f"{text} on {fold(devices)}" if any(devices) else text


def _check(group: str) -> Check:
    fields = [field for field in FIELDS if field.group == group]
    keys = ", ".join(f"`{field.key}`" for field in fields)
    commands = "; ".join(dict.fromkeys(field.command for field in fields))
    return Check(f"spec.{group}", commands, f"does not match `specification:` ({keys}): FAIL")


CHECK = CheckFamily(
    name="specification",
    checks=tuple(map(_check, GROUPS)),
    sections=(),
    judge=judge,
)
