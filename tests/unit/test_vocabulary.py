"""The vocabulary: every message of the releases that were read has a meaning, and every meaning is
an entry of the catalogue."""

from pathlib import Path

import pytest

from busbw.errors import ReadError
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.diagnose import diagnose, search_patterns
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.vocabulary import messages
from busbw.parsers.vocabulary.messages import Group, Kind, Lookup, Message, Table

WORDS = Path(__file__).parents[1] / "fixtures" / "vocabulary"
"""One file for each writer: of each message its first and last release and the hashes of its words.
Written by `docs/tools/vocabulary.py WRITER REPOSITORY TAG… --words FILE`."""
TABLES = messages.tables()


def hashed_lookup(table: Table) -> Lookup:
    found = []
    for each in messages.messages(table):
        parts = tuple(f" {messages.hashed(part)} " for part in each.parts)
        found.append(Message(each.since, each.file, parts, each.group))
    return Lookup(found)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.writer)
def test_every_message_of_the_releases_that_were_read_is_in_the_table(table: Table) -> None:
    lookup = hashed_lookup(table)
    lines = (WORDS / f"{table.writer}.words").read_text().splitlines()
    assert lines
    assert [line for line in lines if lookup.find(line.split(" ", 2)[2]) is None] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.writer)
def test_a_group_names_entries_of_the_catalogue_with_weights_of_lines(table: Table) -> None:
    known = catalogue.load().by_id
    for group in table.groups:
        assert group.findings, group.messages
        for name, weight in group.findings.items():
            assert name in known
            assert Weight(weight) in (Weight.STRONG, Weight.WEAK)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.writer)
def test_no_two_groups_claim_the_same_words(table: Table) -> None:
    parts = [each.parts for each in messages.messages(table)]
    assert sorted(each for each in parts if parts.count(each) > 1) == []


def test_a_message_of_a_new_release_that_no_table_has_is_reported() -> None:
    table = next(table for table in TABLES if table.writer == "nccl")
    new = messages.hashed(messages.words("Plaited quantum link … lost"))
    assert hashed_lookup(table).find(new) is None


def test_a_line_of_a_table_without_its_file_is_refused() -> None:
    table = Table("x", "X", "", "X ", (Group(Kind.FINDING, "only words", {}),))
    with pytest.raises(ReadError, match="is not SINCE FILE  WORDS"):
        messages.messages(table)


def findings_of(*lines: str) -> list[tuple[str, str]]:
    text = "".join(f"{line}\n" for line in lines)
    hits = Scanner(search_patterns()).scan([text.encode()]).hits
    found = diagnose(EvidenceSet((Text("a.log", hits),))).findings
    return [(each.id, each.confidence.value) for each in found if each.confidence]


PREFIX = "gpu3:4711:4798 [2] x.cc:12 NCCL WARN "


def test_a_warning_that_no_table_has_is_possible_and_never_silent() -> None:
    assert findings_of(f"{PREFIX}Plaited quantum link 7 lost") == [("unmapped-message", "possible")]


def test_a_warning_that_only_the_vocabulary_has_gives_its_finding() -> None:
    assert findings_of(f"{PREFIX}NET/IB: OOO RQ is force enabled but size 8 is less than the") == [
        ("ooo-receive-unsupported", "likely")
    ]


def test_what_an_expression_of_the_catalogue_says_of_a_line_stands() -> None:
    names = [name for name, _ in findings_of(f"{PREFIX}Duplicate GPU detected : rank 0 and rank 1")]
    assert names == ["duplicate-gpu"]


def test_a_known_warning_repeated_beyond_what_is_kept_of_it_is_not_unmapped() -> None:
    lines = (f"{PREFIX}Duplicate GPU detected : rank {n} and rank 1" for n in range(40))
    assert [name for name, _ in findings_of(*lines)] == ["duplicate-gpu"]
