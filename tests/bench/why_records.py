"""What the recorded first runs of `why_cases.py` say about the ranking, without any text:

    python tests/bench/why_records.py

Batches 12 to 17 are those on which the rules below were chosen, 18 to 20 chose none of them. Earlier
records do not hold what each answer rests on, later ones were made under the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import why_cases
from why_cases import Answer, Row

from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Role

GROUPS = {"12 to 17": range(12, 18), "18 to 20": range(18, 21)}
THING, WORDS = "named-objects", "guess"
"""Origins of an answer: a thing and what is wrong with it, and shared words."""


class Case(NamedTuple):
    """The answers to one text that shows its cause, and what each rests on."""

    label: Row
    answers: Sequence[Answer]
    origins: Sequence[str]

    def right(self, place: int) -> bool:
        """Whether this answer is the labelled cause."""
        return place < len(self.answers) and why_cases.accepts(self.label, self.answers[place])


def cases(batches: Iterable[int]) -> Iterator[Case]:
    """Of the batches, where anything was answered."""
    rows = {row["id"]: row for row in why_cases.load(why_cases.INDEX)}
    for result in why_cases.load(why_cases.RESULTS):
        if result["batch"] not in batches:
            continue
        for name, answers in why_cases.recorded(result).items():
            judged = why_cases.grade(rows[name], answers)
            if answers and judged.kind == "labelled" and judged.visible in why_cases.VISIBLE:
                origins = [basis[0] for basis in result["bases"][name]]
                yield Case(rows[name]["expected"], answers, origins)


def is_likely(case: Case) -> bool:
    """Its first answer was stated as likely."""
    return case.answers[0].confidence == "likely"


def has_a_rival(case: Case) -> bool:
    """As `certainty.has_a_rival`, as far as ids tell: another cause that follows from none of the
    answers."""
    known = catalogue.load()
    names = [answer.id for answer in case.answers]
    follows = {other for name in names for other in known.consequences.get(name, ())}
    return names[0] not in known.general and any(
        name in known.by_id
        and known.by_id[name].role is Role.CAUSE
        and name not in known.general | follows
        for name in names[1:]
    )


def first_right(found: Iterable[Case], chosen: Callable[[Case], bool]) -> str:
    """How often the first answer of the chosen ones is right."""
    own = [case for case in found if chosen(case)]
    return why_cases.share(sum(case.right(0) for case in own), len(own))


def things_before_messages(found: Iterable[Case]) -> str:
    """Where a thing stood first and a known message anywhere behind it: which alone was right."""
    thing = message = 0
    for case in found:
        behind = [n for n, origin in enumerate(case.origins) if origin not in (THING, WORDS)]
        if case.origins[0] == THING and behind:
            is_behind = any(map(case.right, behind))
            thing += case.right(0) and not is_behind
            message += is_behind and not case.right(0)
    return f"the thing {thing}, a message behind it {message}"


def words_behind_a_cause(found: Iterable[Case]) -> str:
    """Guesses by shared words behind a known cause: how many gave the cause where none before did."""
    known = catalogue.load()
    number = useful = texts = 0
    for case in found:
        places = [n for n, origin in enumerate(case.origins) if n and origin == WORDS]
        is_cause = known.by_id[case.answers[0].id].role is Role.CAUSE
        if case.origins[0] == WORDS or not is_cause or not places:
            continue
        texts += 1
        number += len(places)
        useful += sum(case.right(n) and not any(map(case.right, range(n))) for n in places)
    return f"{useful} of {number} in {texts} texts"


def main() -> None:
    """Print all of it for both groups."""
    for name, batches in GROUPS.items():
        found = list(cases(batches))
        print(f"batches {name}, {len(found)} texts with an answer; first answers stated as likely:")
        print("  all                       ", first_right(found, is_likely))
        print(
            "  by a thing alone          ",
            first_right(found, lambda case: is_likely(case) and case.origins[0] == THING),
        )
        print(
            "  by anything else          ",
            first_right(found, lambda case: is_likely(case) and case.origins[0] != THING),
        )
        print(
            "  of these without a rival  ",
            first_right(
                found,
                lambda case: is_likely(case) and case.origins[0] != THING and not has_a_rival(case),
            ),
        )
        print("right alone, a thing before a message:", things_before_messages(found))
        print("guesses by words behind a cause:      ", words_behind_a_cause(found))


if __name__ == "__main__":
    main()
