"""A diagnosis of many texts, each worked out and packed where it was searched, is that of the same
texts as they are."""

from __future__ import annotations

import errno
import os
import pickle
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli import why_reading
from busbw.cli.spool import Spool
from busbw.errors import ReadError
from busbw.model import Evidence
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Role, Weight
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import (
    Bytes,
    Diagnosis,
    EvidenceSet,
    Fact,
    PackedHits,
    Text,
    lines_of,
)
from busbw.parsers.findings.rules import all_rules
from busbw.parsers.findings.searching import condensed, search_patterns
from busbw.parsers.findings.signs import line_clues
from busbw.parsers.logs.scan import Hit, Line, Scanner

_SCANNER = Scanner(search_patterns())


def _lines() -> list[str]:
    """What the catalogue and the rules give as examples."""
    lines = [
        line
        for entry in catalogue.load().entries
        for signal in entry.signals
        for line in signal.matches
    ]
    for rule in all_rules():
        lines += [each.text for each in rule.fires]
        lines += rule.silent
    return lines


_LINES = _lines()


def _texts(seed: int, count: int) -> list[Text]:
    rng = random.Random(seed)
    texts = []
    for number in range(count):
        lines = [line.rstrip("\n") for line in rng.choices(_LINES, k=rng.randint(0, 12))]
        for rank in range(rng.choice((0, 0, 3))):
            prefix = f"n{number}:{100 + rank}:7 [{rank}] NCCL INFO "
            for _ in range(rng.choice((4, 14))):
                channel, net = rng.randrange(9), rng.choice(("IB/0", "IB/0/GDRDMA", "Socket/0"))
                lines.append(f"{prefix}Channel 0{channel}/0 : {rank}[0] -> 1[1] via NET/{net}")
            lines.append(f"{prefix}Using network IB")
        content = "\n".join((*lines, "")).encode()
        scan = _SCANNER.scan([content])
        texts.append(Text(f"{number}.log", scan.hits, scan.lines))
    return texts


@pytest.mark.parametrize("seed", range(80))
def test_condensed_texts_are_diagnosed_as_they_are(seed: int) -> None:
    texts = _texts(seed, 1 + seed % 20)
    travelled = pickle.loads(pickle.dumps(tuple(map(condensed, texts))))

    packed, plain = diagnose(EvidenceSet(travelled)), diagnose(EvidenceSet(tuple(texts)))
    assert _uncounted(packed) == _uncounted(plain)


def _uncounted(diagnosis: Diagnosis) -> Diagnosis:
    """Without how many lines speak for a finding: of many texts a host's weak signs are cut short."""
    return replace(diagnosis, bases=tuple(replace(each, lines=0) for each in diagnosis.bases))


def test_what_rules_out_a_condition_is_held_once_for_all_texts() -> None:
    lines = (
        "n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via NET/IB/0/GDRDMA",
        "n1:7:7 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via NET/IB/0/GDRDMA",
        "n1:7:7 [0] NCCL INFO Using network AWS Libfabric",
    )
    scan = _SCANNER.scan(["\n".join((*lines, "")).encode()])
    known = catalogue.load()

    def held(count: int) -> Counter[tuple[str, bool]]:
        texts = [condensed(Text(f"{each}.log", scan.hits, scan.lines)) for each in range(count)]
        against = (each for each in line_clues(known, texts) if each.weight is Weight.EXCLUDES)
        return Counter(
            (each.symptom, known.by_id[each.symptom].role in (Role.CAUSE, Role.SECONDARY))
            for each in against
        )

    one, many = held(1), held(20)
    assert one["gdr-level-too-strict", False] == 2, "one for each channel"
    assert one["efa-provider-missing", True] == 1
    assert many == {key: count * (20 if key[1] else 1) for key, count in one.items()}


def test_the_command_condenses_many_large_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    for number in range(16):
        lines = [line.rstrip("\n") for line in rng.choices(_LINES, k=5)]
        (tmp_path / f"{number}.log").write_text("\n".join((*lines, "")), encoding="utf-8")
    plain = why_reading.read([str(tmp_path)]).evidence
    monkeypatch.setattr(why_reading, "WORTH_WORKERS", 0)

    packed = why_reading.read([str(tmp_path)]).evidence

    assert {text.clues is None for text in plain.texts} == {True}
    assert {text.clues is None for text in packed.texts} == {False}
    assert diagnose(packed) == diagnose(plain)


def test_a_fact_about_a_line_counts_for_a_condensed_text() -> None:
    text = "gpu1:41:42 [0] misc/x.cc:1 NCCL WARN some words that nobody has in a table\n"
    scan = _SCANNER.scan([text.encode()])
    plain = Text("a.log", scan.hits, scan.lines)
    source = next(
        signal.source
        for entry in catalogue.load().entries
        for signal in entry.signals
        if signal.source.startswith("preflight:") and signal.weight is Weight.WEAK
    )
    fact = Fact(source, (("status", "fail"),), Evidence("a.log", 1, "x"))
    unmapped = "unmapped-message"

    with_fact = diagnose(EvidenceSet((plain,), (fact,)))

    assert unmapped in {each.id for each in diagnose(EvidenceSet((plain,))).findings}
    assert unmapped not in {each.id for each in with_fact.findings if each.evidence[0].line_no}
    assert diagnose(EvidenceSet((condensed(plain),), (fact,))) == with_fact


def test_what_has_lines_behind_it_is_kept_for_the_diagnosis() -> None:
    behind = [pattern.id for pattern in search_patterns() if pattern.after]
    hits = tuple(Hit(each, None, 1, (Line(1, "one", ("two",)),)) for each in behind)

    assert behind
    assert tuple(condensed(Text("a.log", hits, 2)).hits) == hits


def test_packed_hits_are_the_hits() -> None:
    hits = (
        Hit("b", "gpu1:4", 3, (Line(1, "one"), Line(7, "seven", ("eight", "nine")))),
        Hit("a", None, 1, (Line(1, "one"),)),
        Hit("b", "gpu2:4", 1, (Line(9, "nïne �"),)),
    )

    packed = pickle.loads(pickle.dumps(PackedHits(hits)))

    assert tuple(packed) == hits
    assert (len(packed), packed[1], packed[1:]) == (3, hits[1], hits[1:])
    assert sorted(packed.patterns()) == ["a", "b"]


def test_hits_that_a_spool_keeps_are_the_hits() -> None:
    hits = (Hit("b", "gpu1:4", 3, (Line(1, "x" * 900),)), Hit("a", None, 1, (Line(1, "one"),)))
    spool, held = Spool(), []

    def keep(content: bytes) -> Bytes:
        held.append(spool.keep(content))
        return held[-1]

    first, second = PackedHits(hits).kept_by(keep), PackedHits(hits[:1]).kept_by(keep)

    assert (tuple(first), tuple(second)) == (hits, hits[:1])
    assert not any(isinstance(each, bytes) for each in held), "kept in memory"


def test_what_a_spool_cannot_take_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = Spool()
    kept = spool.keep(b"one")
    monkeypatch.setattr(os, "pwrite", full)

    assert spool.keep(b"two") == b"two"
    assert kept[0:3] == b"one"


def test_without_a_place_for_files_all_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(**_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)

    assert Spool().keep(b"one") == b"one"


def test_a_part_of_a_spool_that_is_gone_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Spool().keep(b"one")
    monkeypatch.setattr(os, "pread", lambda *_: b"o")

    with pytest.raises(ReadError, match="could not be read again"):
        kept[0:3]


def test_lines_are_unpacked_text_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    hit = Hit("a", None, 1, (Line(1, "one"),))
    evidence = EvidenceSet(tuple(Text(f"{n}", PackedHits((hit,))) for n in range(3)))
    unpacked: list[str] = []
    rows_of = PackedHits.rows_of

    def counted(self: PackedHits, pattern: str) -> object:
        unpacked.append(pattern)
        return rows_of(self, pattern)

    monkeypatch.setattr(PackedHits, "rows_of", counted)
    lines = lines_of(evidence, "a")

    assert next(lines).artefact == "0"
    assert unpacked == ["a"]
    assert [line.artefact for line in lines] == ["1", "2"]
