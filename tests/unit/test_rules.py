"""Every rule against its own examples."""

import pytest

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Context, EvidenceSet, Text
from busbw.parsers.findings.rules import Fires, Rule, all_rules, view_for
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner

RULES = all_rules()


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(search_patterns())


def clues(rule: Rule, text: str, scanner: Scanner) -> tuple[Clue, ...]:
    scan = scanner.scan([text.encode()])
    evidence = EvidenceSet((Text("example.log", scan.hits, scan.lines),))
    return tuple(rule.judge(view_for(rule, evidence, (), Context())))


@pytest.mark.parametrize(
    ("rule", "example"),
    [(rule, example) for rule in RULES for example in rule.fires],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_rule_speaks_where_its_own_examples_say_so(
    rule: Rule, example: Fires, scanner: Scanner
) -> None:
    given = {(clue.symptom, clue.weight.value) for clue in clues(rule, example.text, scanner)}
    assert given >= set(example.clues)


@pytest.mark.parametrize(
    ("rule", "text"),
    [(rule, text) for rule in RULES for text in rule.silent],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_rule_is_silent_where_its_own_examples_say_so(
    rule: Rule, text: str, scanner: Scanner
) -> None:
    assert clues(rule, text, scanner) == ()


def test_every_rule_names_entries_that_exist_and_has_examples_of_both_kinds() -> None:
    known = catalogue.load().by_id
    for rule in RULES:
        assert rule.fires, rule.name
        assert rule.silent, rule.name
        for example in rule.fires:
            for symptom, weight in example.clues:
                assert symptom in known, (rule.name, symptom)
                assert weight in list(Weight), (rule.name, weight)


def test_watches_of_one_rule_have_names_of_their_own() -> None:
    for rule in RULES:
        names = [watch.name for watch in rule.watches]
        assert len(set(names)) == len(names), rule.name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_watch_gets_all_lines_it_asks_for_where_another_asks_for_one_alone(rule: Rule) -> None:
    searched = {pattern.id: pattern for pattern in search_patterns()}
    for wanted in (watch.pattern() for watch in rule.watches):
        assert searched[wanted.id].common_after >= wanted.common_after
        assert searched[wanted.id].keep >= wanted.keep
