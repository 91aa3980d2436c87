"""Guesses at a failure by the part that its line names and by the kind of failure."""

import pytest

from busbw.parsers.findings import catalogue, parts
from busbw.parsers.findings.catalogue import Role


def test_every_guess_is_an_entry_that_can_be_a_cause() -> None:
    known = catalogue.load().by_id
    for part in parts.PARTS:
        for entries in part.causes.values():
            for entry in entries:
                assert known[entry].role in (
                    Role.CAUSE,
                    Role.STATE,
                    Role.SECONDARY,
                    Role.FINDING,
                ), entry


def test_every_kind_of_a_part_has_words() -> None:
    kinds = set(parts.KINDS)
    for part in parts.PARTS:
        assert set(part.causes) <= kinds, part.words.pattern


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("raylet lost its heartbeat to the head", "dead-process"),
        ("munge: that token has the wrong size", "scheduler-auth-failed"),
        ("xfs (dm-3): log mount failed", "io-straggler"),
        ("mlx5_3: object allocation ended with ENOMEM", "memlock-limit"),
        ("this libtpu needs a chip that another program has in use", "gpu-busy"),
        ("cannot write the index: no space left", "disk-full"),
    ],
)
def test_part_and_kind_give_the_usual_cause(line: str, first: str) -> None:
    assert parts.guesses(line)[0] == first


@pytest.mark.parametrize("line", ["", "all 16 nodes are ready", "gpu 3 is idle"])
def test_a_line_without_a_failure_gives_no_guess(line: str) -> None:
    assert parts.guesses(line) == ()
