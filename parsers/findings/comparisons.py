"""What the catalogue's comparisons say of facts: clues from measured values."""

from __future__ import annotations

from collections.abc import Iterable

from busbw.model import Evidence
from busbw.parsers.findings import expr
from busbw.parsers.findings.catalogue import Catalogue, Signal, Weight
from busbw.parsers.findings.evidence import NO_PLACE, Clue, Fact
from busbw.parsers.findings.expr import Expression, Value
from busbw.text import whole_number

_DISTINCTIONS = frozenset({"loss"})
"""What a counter counts: damage of a link, or lack of room."""


def fact_clues(known: Catalogue, facts: Iterable[Fact]) -> tuple[Clue, ...]:
    """Clues from the facts. A `requires` that no fact meets excludes; an unknown one gives no
    clue."""
    own = tuple(facts)
    clues: list[Clue] = []
    for entry in known.entries:
        for signal in entry.signals:
            if signal.expr is not None:
                clues += _signal_clues(entry.id, signal, signal.expr, own)
    return tuple(clues)


def _signal_clues(entry_id: str, signal: Signal, text: str, facts: Iterable[Fact]) -> list[Clue]:
    expression = expr.parse(text)
    clues = []
    for fact in facts:
        if not _is_source(fact.source, signal.source):
            continue
        values = fact.record()
        result = expr.evaluate(expression, values)
        weight = _weight(signal.weight, result, str(values.get("status")))
        if weight is not None:
            evidence = _fact_evidence(fact, expression)
            clues.append(Clue(entry_id, weight, signal.source, evidence, NO_PLACE, fact.where))
    if any(clue.weight is Weight.REQUIRES for clue in clues):
        return [clue for clue in clues if clue.weight is not Weight.EXCLUDES]
    return clues


def _weight(weight: Weight, result: bool | None, status: str) -> Weight | None:
    """The weight of a comparison's result; None = no clue."""
    if weight is Weight.REQUIRES:
        return {True: Weight.REQUIRES, False: Weight.EXCLUDES, None: None}[result]
    if result is None and status in ("fail", "warn") and weight is not Weight.EXCLUDES:
        return Weight.WEAK  # the check failed, in a way that its values here do not show
    return weight if result else None


def _is_source(name: str, pattern: str) -> bool:
    """Equal, or equal but for the digits that a `*` in the pattern stands for."""
    if "*" not in pattern:
        return pattern == name
    head, _, tail = pattern.partition("*")
    middle = name[len(head) : len(name) - len(tail)]
    return name.startswith(head) and name.endswith(tail) and whole_number(middle) is not None


def _fact_evidence(fact: Fact, expression: Expression) -> Evidence:
    """The fact with the comparison that is true and the values it read."""
    values = fact.record()
    names = [name for name in expression.names() if _is_shown(name, values.get(name))]
    parts = [fact.evidence.text or fact.source]
    if names:
        parts.append(", ".join(f"{name} = {_value_text(values[name])}" for name in names))
    return Evidence(fact.evidence.artefact, fact.evidence.line_no, ": ".join(parts))


def _is_shown(name: str, value: Value | None) -> bool:
    """It is a quantity or a state that people know: not our own distinctions."""
    return value is not None and not isinstance(value, bool) and name not in _DISTINCTIONS


def _value_text(value: Value) -> str:
    if not isinstance(value, float):
        return str(value)
    # A count of wrong values stays a count, however large.
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"
