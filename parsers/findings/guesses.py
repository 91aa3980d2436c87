"""Guesses by the words of a line that reports a failure, where no finding says why: the usual causes
of the thing that it names, and entries that share words with it. Possible, no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from busbw.model import Evidence, Finding
from busbw.parsers.findings import courses, crashes, message_clues, similar
from busbw.parsers.findings.answers import possible
from busbw.parsers.findings.catalogue import Catalogue, Role, Weight
from busbw.parsers.findings.evidence import Context, EvidenceSet, Sighting, Text
from busbw.parsers.findings.line_roles import LineRole, role_of
from busbw.parsers.findings.named_places import places
from busbw.parsers.logs import failure_lines

PROGRAM = "program-error"
"""What an exception amounts to that nothing else reads."""
_MOST_FAILURES = 3
"""Lines that report a failure and whose words are looked up: later ones are consequences."""


class Guesses(NamedTuple):
    """What a line amounts to by its words."""

    findings: tuple[Finding, ...] = ()
    come_first: bool = False
    """The line states a reason, and no finding does."""


def of(
    known: Catalogue,
    evidence: EvidenceSet,
    findings: Sequence[Finding],
    reports: Iterable[Sighting],
    context: Context,
) -> Guesses:
    """The guesses by the most telling line of the reports of a failure, without what is found
    already."""
    if any(_says_why(known, each) for each in findings):
        return Guesses()
    shown: set[Evidence] = set()
    for each in findings:
        if each.id != message_clues.UNMAPPED:
            shown.update(each.evidence)
    lines = [line for line in reports if line.evidence() not in shown]
    lines = _telling(_of_last_failure(lines, context))
    if not lines:
        return Guesses()
    ids = {each.id for each in findings}
    # Behind a known cause none of 35 such guesses in 16 first runs added the cause.
    is_known = any(_is_cause(known, each) for each in findings)
    names = [_itself(lines[0])] if is_known else _by_words(known, evidence, lines, context)
    fresh = [name for name in names if name not in ids]
    where = places(lines[0].text)
    guesses = [
        possible(known.by_id[name], lines[0].clue(name, Weight.WEAK, "nccl-log", where))
        for name in fresh
    ]
    return Guesses(tuple(guesses), role_of(lines[0].text) is LineRole.REASON)


def is_of_field(text: Text) -> bool:
    """Any line that was searched for, or one behind it, has a word of this field."""
    if text.clues is not None:
        return text.clues.is_of_field
    for hit in text.hits:
        for line in hit.examples:
            if any(map(similar.is_of_field, (line.text, *line.after))):
                return True
    return False


def _says_why(known: Catalogue, finding: Finding) -> bool:
    """It is more than the line itself, and more than what somebody else noticed."""
    if finding.id in message_clues.RESTATEMENTS:
        return False
    if finding.at_least_likely or known.by_id[finding.id].role is Role.STATE:
        return True
    return known.by_id[finding.id].role is not Role.SECONDARY and any(
        role_of(item.text) <= LineRole.FAILURE for item in finding.evidence
    )


def _is_cause(known: Catalogue, finding: Finding) -> bool:
    """It is a cause, and more than the line itself."""
    is_more = finding.id not in message_clues.RESTATEMENTS
    return is_more and known.by_id[finding.id].role is Role.CAUSE


def _itself(line: Sighting) -> str:
    """What quotes a line that reports a failure."""
    return PROGRAM if crashes.is_own_error(line.text) else message_clues.UNMAPPED


def _of_last_failure(lines: Sequence[Sighting], context: Context) -> list[Sighting]:
    """The lines, in order; of a whole output those of its last failure."""
    kept: list[Sighting] = []
    since: dict[int, int] = {}
    """Of each text, where its last failure begins, as far as it was read backwards."""
    for line in reversed(lines):
        text, line_no = line.place
        is_quotation = text not in context.long_texts
        if is_quotation or since.get(text, line_no) - line_no <= courses.RESTARTED:
            since[text] = line_no
            kept.append(line)
    return kept[::-1]


def _telling(lines: Sequence[Sighting]) -> list[Sighting]:
    """The lines, those first that say most: reasons before failures before consequences. Notices
    count where there is nothing else."""
    by_role = sorted(lines, key=lambda line: (role_of(line.text), line.place))
    return [line for line in by_role if role_of(line.text) is not LineRole.NOTICE] or by_role


def _by_words(
    known: Catalogue, evidence: EvidenceSet, failures: Sequence[Sighting], context: Context
) -> list[str]:
    """What a failure of the first line's writer amounts to, then the entries that share words with
    the first failures and what stands behind the first one; each once."""
    first = failures[0]
    itself = _itself(first)
    if not any(map(is_of_field, evidence.texts)):
        return [itself]
    names = _alike(known, evidence, failures, context)
    writer = failure_lines.writer_of(first.text)
    if writer is not None and writer.finding is not None:
        stage = known.by_id[writer.finding].stage
        names = [writer.finding, *(name for name in names if known.by_id[name].stage == stage)]
    # Of a whole output, and of an exception, the line itself says more than words it shares.
    is_telling = first.place.text in context.long_texts or crashes.is_exception(first.text)
    if not names or (is_telling and writer is not None and writer.finding is None):
        names.insert(0, itself)
    return list(dict.fromkeys(names))


def _alike(
    known: Catalogue, evidence: EvidenceSet, failures: Sequence[Sighting], context: Context
) -> list[str]:
    """The entries that share words with the failures, and the usual causes of what the first of them
    that can be read says; best first."""
    from busbw.parsers.findings.things import sentences  # most texts do not need its table

    first = failures[0]
    near = [each.text for each in failures[1:_MOST_FAILURES]]
    near += _lines_behind(evidence, first)
    is_own = any(map(similar.is_of_field, (first.text, *near)))
    least = 0 if is_own else similar.STRANGER_SCORE
    alike = similar.search(first.text, context.seen, near=near)
    scores = {name: score for name, score in alike if score >= least}
    for each in failures:
        reading = sentences.guess(each.text)
        causes = reading.entries if reading else ()
        # Not those of a provider in whose place another one stands.
        usual = [name for name in causes if not set(known.by_id[name].fabrics) <= context.absent]
        for name, worth in zip(usual, sentences.WORTH, strict=False):
            scores[name] = scores.get(name, 0) + worth
        if usual:
            break
    return sorted(scores, key=lambda name: -scores[name])


def _lines_behind(evidence: EvidenceSet, first: Sighting) -> tuple[str, ...]:
    """The lines behind a failure, as far as they were kept: a crash names its place there."""
    for hit in evidence.texts[first.place.text].hits:
        for line in hit.examples:
            if line.line_no == first.place.line_no and line.after:
                return line.after
    return ()
