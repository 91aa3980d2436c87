"""From the table's signals to clues: which patterns to search texts with, what their hits and the facts say."""

from __future__ import annotations

from collections.abc import Iterable

from busbw.parsers.formats.scan import Hit, Pattern
from busbw.parsers.judge.diagnose_evidence import Clue, EvidenceSet, Fact, Place, Sighting, Text, places
from busbw.parsers.symptoms import expr
from busbw.parsers.symptoms.table import Signal, SymptomTable, Weight
from busbw.records import Evidence

_NO_PLACE = Place(1 << 30, 0)
"""Facts come after lines: they have no time."""


def patterns(table: SymptomTable) -> tuple[Pattern, ...]:
    """The table's expressions, each once; the expression itself is the id."""
    first = dict.fromkeys(signal.regex for symptom in table.symptoms for signal in symptom.signals if signal.regex is not None)
    return tuple(Pattern(regex, regex) for regex in first)


def line_clues(table: SymptomTable, texts: Iterable[Text]) -> tuple[Clue, ...]:
    """Clues from the lines of the texts."""
    wanted: dict[str, list[tuple[str, Weight, str]]] = {}
    for symptom in table.symptoms:
        for signal in symptom.signals:
            if signal.regex is not None:
                wanted.setdefault(signal.regex, []).append((symptom.id, signal.weight, signal.source))
    clues = []
    for number, text in enumerate(texts):
        for hit in text.hits:
            for symptom_id, weight, source in wanted.get(hit.pattern, ()):
                clues += [_clue(symptom_id, weight, source, sighting) for sighting in sightings(text, number, hit)]
    return tuple(clues)


def sightings(text: Text, number: int, hit: Hit) -> tuple[Sighting, ...]:
    """The lines of a hit."""
    return tuple(Sighting(text.artefact, Place(number, line.line_no), line.text, hit.process, hit.count) for line in hit.examples)


def _clue(symptom_id: str, weight: Weight, source: str, sighting: Sighting) -> Clue:
    return Clue(symptom_id, weight, source, sighting.evidence(), sighting.place, places(sighting.text))


def fact_clues(table: SymptomTable, evidence: EvidenceSet) -> tuple[Clue, ...]:
    """Clues from the facts. A `requires` that holds nowhere excludes; one that is not known gives no clue."""
    clues: list[Clue] = []
    for symptom in table.symptoms:
        for signal in symptom.signals:
            if signal.expr is not None:
                found = _signal_clues(symptom.id, signal, expr.parse(signal.expr), evidence.facts)
                met = any(clue.weight is Weight.REQUIRES for clue in found)
                clues += [clue for clue in found if not (met and clue.weight is Weight.EXCLUDES)]
    return tuple(clues)


def _signal_clues(symptom_id: str, signal: Signal, expression: expr.Expression, facts: Iterable[Fact]) -> list[Clue]:
    clues = []
    for fact in facts:
        if not _same_source(signal.source, fact.source):
            continue
        values = fact.record()
        weight = _weight(signal.weight, expr.evaluate(expression, values), str(values.get("status")))
        if weight is not None:
            clues.append(Clue(symptom_id, weight, signal.source, _told(fact, expression), _NO_PLACE, fact.where))
    return clues


def _weight(weight: Weight, held: bool | None, status: str) -> Weight | None:
    if weight is Weight.REQUIRES:
        return {True: Weight.REQUIRES, False: Weight.EXCLUDES, None: None}[held]
    if held is None and status in ("fail", "warn") and weight is not Weight.EXCLUDES:
        return Weight.WEAK  # the check is against it, in a way that its values here do not tell
    return weight if held else None


def _same_source(wanted: str, given: str) -> bool:
    """Equal, or equal but for the digits that a `*` in the wanted name stands for."""
    if "*" not in wanted:
        return wanted == given
    head, _, tail = wanted.partition("*")
    middle = given[len(head) : len(given) - len(tail)]
    return given.startswith(head) and given.endswith(tail) and middle.isdigit()


def _told(fact: Fact, expression: expr.Expression) -> Evidence:
    """The fact with the comparison that held and the values it read."""
    values = fact.record()
    read = ", ".join(f"{name} = {_shown(values[name])}" for name in expression.names() if name in values)
    text = ": ".join(part for part in (fact.evidence.text or fact.source, read) if part)
    return Evidence(fact.evidence.artefact, fact.evidence.line_no, text)


def _shown(value: expr.Value) -> str:
    # A count of wrong values stays a count, however large.
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else f"{value:g}" if isinstance(value, float) else str(value)
