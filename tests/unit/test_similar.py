"""The text search for failures that no entry knows."""

import doctest
from collections import Counter

from busbw.fabrics.fabric import families
from busbw.parsers.findings import similar
from busbw.parsers.findings.catalogue import Entry, Weight, load
from busbw.parsers.findings.diagnose import diagnose, search_patterns
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet, Text
from busbw.parsers.logs.scan import Scanner

EVERY = tuple(families())


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(similar).failed == 0


def test_an_entry_is_found_by_its_own_examples_with_each_left_out() -> None:
    indexed = dict(similar.index().counts)
    ranks = []
    for entry in load().entries:
        for lines in _examples(entry) if entry.id in indexed else ():
            ranks.append(_rank_without(entry.id, lines, indexed[entry.id]))
    top3 = sum(rank < 3 for rank in ranks) / len(ranks)
    assert len(ranks) > 450
    assert top3 > 0.6


def _examples(entry: Entry) -> list[tuple[str, ...]]:
    """The lines of each signal."""
    chosen = []
    for signal in entry.signals:
        if signal.matches and signal.weight not in (Weight.REQUIRES, Weight.EXCLUDES):
            chosen.append(signal.matches)
    return chosen


def _rank_without(name: str, lines: tuple[str, ...], counts: Counter[str]) -> int:
    """Where the entry stands for the first of its lines, while its words count without them."""
    whole = Counter(counts)
    counts.subtract(similar.words(" ".join(lines)))
    try:
        names = [each for each, _ in similar.search(lines[0], EVERY)]
    finally:
        counts.clear()
        counts.update(whole)
    return names.index(name) if name in names else len(names) + 3


def test_one_word_in_common_is_chance() -> None:
    assert similar.search("NVSwitch") == ()
    assert similar.search("fabric manager: NVSwitch not initialized")[0][0].startswith("fabric")


def test_entries_of_a_provider_are_no_answer_where_it_was_not_seen() -> None:
    line = "EFA security group must allow all traffic to and from itself"
    assert similar.search(line, ("efa",))[0][0] == "efa-security-group"
    assert "efa-security-group" not in dict(similar.search(line))


def answer(text: str) -> Diagnosis:
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    return diagnose(EvidenceSet((Text("x.log", hits),)))


def test_a_failure_that_no_entry_knows_gives_possible_ones_and_says_how() -> None:
    line = "[ERROR] rank 3: the subnet manager and its partition table gave no answer"
    diagnosis = answer(line)
    assert diagnosis.by_words
    assert {each.confidence.value for each in diagnosis.findings} == {"possible"}
    assert [item.text for item in diagnosis.findings[0].evidence] == [line]
    assert "only share words" in diagnosis.notes[-1]


def test_a_text_of_another_field_is_not_looked_up() -> None:
    other = "[ERROR] the subnet manager and its partition table gave no answer"
    assert answer(other).findings == ()
