"""From evidence to causes: the catalogue's signals, the rules, one ranking. A pure function; reading
and searching the texts is the caller's.

texts ── search(patterns()) ──▶ hits ─┐
tables, dumps, checks, counters ──▶ facts ─┴─▶ clues ──▶ rank ──▶ Diagnosis
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw import plugins
from busbw.fabrics.fabric import families
from busbw.model import Confidence, Evidence, Finding
from busbw.parsers.findings import (
    catalogue,
    courses,
    crashes,
    gpu_words,
    message_clues,
    rules,
    similar,
)
from busbw.parsers.findings.catalogue import (
    Catalogue,
    Expression,
    Role,
    Signal,
    Value,
    Weight,
    evaluate,
    parse_expression,
)
from busbw.parsers.findings.courses import Course
from busbw.parsers.findings.evidence import (
    MOST_LINES_KNOWN,
    NO_PLACE,
    RESULT,
    Basis,
    Clue,
    Context,
    Diagnosis,
    EvidenceSet,
    Fact,
    PackedClues,
    PackedHits,
    Place,
    Sighting,
    Text,
    TextClues,
    View,
    lines_of,
    places,
)
from busbw.parsers.findings.gpu_words import Gpus
from busbw.parsers.findings.line_roles import LineRole, role_of, stated
from busbw.parsers.findings.ranking import WEIGHTS, channel_of, possible, rank
from busbw.parsers.findings.rules import Rule, Watch
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import COMMON_LINES, Line, Pattern
from busbw.text import whole_number

# From the catalogue's signals to clues: the patterns to search for, their hits, and the facts.


def patterns(known: Catalogue) -> tuple[Pattern, ...]:
    """The catalogue's expressions, each once; the expression itself is the id."""
    signals = (signal for symptom in known.entries for signal in symptom.signals)
    regexes = dict.fromkeys(signal.regex for signal in signals if signal.regex is not None)
    return tuple(Pattern(regex, regex) for regex in regexes)


@functools.cache
def _expressions() -> frozenset[str]:
    """The catalogue's expressions."""
    return frozenset(pattern.id for pattern in patterns(catalogue.load()))


_ECHO = re.compile(
    r"^\s*(?:[+$#>] )?(?:export |declare -x |setenv |set |env )?[A-Z]\w*=\S*\s*$"
    r"|set (?:by environment )?to \S+\s*$|\bNamespace\("
)
"""Lines that echo a setting and nothing else: its value is no symptom."""


@functools.cache
def _reads_echoes(signal: Signal) -> bool:
    """Its own examples are echoes of settings."""
    return any(_ECHO.search(line) for line in signal.matches)


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def _is_echo(line: str) -> bool:
    has_mark = "=" in line or "set " in line or "Namespace(" in line
    return has_mark and _ECHO.search(line) is not None


def line_clues(known: Catalogue, texts: Iterable[Text]) -> tuple[Clue, ...]:
    """Clues from the lines of the texts."""
    by_regex: dict[str, list[tuple[str, Signal]]] = {}
    for symptom in known.entries:
        for signal in symptom.signals:
            if signal.regex is not None:
                by_regex.setdefault(signal.regex, []).append((symptom.id, signal))
    clues: list[Clue] = []
    for number, text in enumerate(texts):
        if text.clues is not None:
            clues += text.clues.signs.of(text.artefact, number)
            continue
        known_lines: dict[Line, _KnownLine] = {}
        for hit in text.hits:
            signals = by_regex.get(hit.pattern, ())
            if not signals:
                continue
            expression = catalogue.compiled(hit.pattern)
            # Nobody asks where in a line it is said that something is not so.
            only_excludes = all(signal.weight is Weight.EXCLUDES for _, signal in signals)
            for line in hit.examples:
                shared = known_lines.get(line)
                if shared is None:
                    shared = known_lines[line] = _known_line(text, number, line)
                match = None if only_excludes else expression.search(line.text)
                span = match.span() if match else None
                is_offered = span is not None and span[0] >= shared.stated
                for symptom_id, signal in signals:
                    if shared.is_echo and not _reads_echoes(signal):
                        continue
                    where = () if signal.weight is Weight.EXCLUDES else places(line.text)
                    clue = Clue(
                        symptom_id,
                        Weight.WEAK if is_offered and signal.weight in _SURE else signal.weight,
                        signal.source,
                        shared.evidence,
                        shared.place,
                        where,
                        span,
                        hit.line_count > len(hit.examples),
                    )
                    clues.append(clue)
    return tuple(clues)


# Of a thousand texts: what each says by itself is worked out where it was searched, and of what was
# found in it only that is kept, packed, which is compared between texts.


@functools.cache
def _compared() -> frozenset[str]:
    """The patterns whose lines are asked for when all texts are there: all but those that are the
    catalogue's alone."""
    others = (*_watched(), *_kept_longer(), *message_clues.patterns())
    return frozenset(pattern.id for pattern in others)


def condensed(text: Text) -> Text:
    """The text as `diagnose` needs it among many others with other names: the diagnosis is the
    same, in a fifth of the memory."""
    signs = line_clues(catalogue.load(), (text,))
    messages = message_clues.message_clues((text,), signs)
    clues = TextClues(PackedClues(_needed(signs)), PackedClues(messages), _has_field(text))
    hits = []
    for hit in text.hits:
        if hit.pattern in _compared() or any(line.after for line in hit.examples):
            hits.append(hit)
    return Text(text.artefact, PackedHits(hits), text.lines, clues)


def _needed(clues: Iterable[Clue]) -> Iterator[Clue]:
    """The clues without lines of NCCL's information that rule out an entry once more: that an entry
    is out, and for which channel, is said by the first one. No rule reads them."""
    seen = set()
    for clue in clues:
        if clue.weight is Weight.EXCLUDES and " NCCL INFO " in clue.evidence.text:
            key = clue.symptom, channel_of(clue)
            if key in seen:
                continue
            seen.add(key)
        yield clue


class _KnownLine(NamedTuple):
    """What is the same for every expression that matches a line: most lines match several."""

    evidence: Evidence
    place: Place
    is_echo: bool
    stated: int
    """How many of its characters say what happened, before reasons that are only thought of."""


def _known_line(text: Text, number: int, line: Line) -> _KnownLine:
    evidence = Evidence(text.artefact, line.line_no, line.text)
    place = Place(number, line.line_no)
    return _KnownLine(evidence, place, _is_echo(line.text), len(stated(line.text)))


_SURE = (Weight.STRONG, Weight.CERTAIN)


def fact_clues(known: Catalogue, evidence: EvidenceSet) -> tuple[Clue, ...]:
    """Clues from the facts. A `requires` that no fact meets excludes; an unknown one gives no
    clue."""
    clues: list[Clue] = []
    for symptom in known.entries:
        for signal in symptom.signals:
            if signal.expr is not None:
                clues += _signal_clues(symptom.id, signal, signal.expr, evidence.facts)
    return tuple(clues)


def _signal_clues(symptom_id: str, signal: Signal, text: str, facts: Iterable[Fact]) -> list[Clue]:
    expression = parse_expression(text)
    clues = []
    for fact in facts:
        if not _is_source(fact.source, signal.source):
            continue
        values = fact.record()
        result = evaluate(expression, values)
        weight = _weight(signal.weight, result, str(values.get("status")))
        if weight is not None:
            evidence = _fact_evidence(fact, expression)
            clues.append(Clue(symptom_id, weight, signal.source, evidence, NO_PLACE, fact.where))
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
    names = [name for name in expression.names() if name in values]
    parts = [fact.evidence.text or fact.source]
    if names:
        parts.append(", ".join(f"{name} = {_value_text(values[name])}" for name in names))
    return Evidence(fact.evidence.artefact, fact.evidence.line_no, ": ".join(parts))


def _value_text(value: Value) -> str:
    if not isinstance(value, float):
        return str(value)
    # A count of wrong values stays a count, however large.
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"


# The view of a rule: the lines that match its watches, in the order of the texts.


def view_for(rule: Rule, evidence: EvidenceSet, clues: tuple[Clue, ...], context: Context) -> View:
    """The view of one rule."""
    patterns_of = {watch.name: _pattern_id(watch) for watch in rule.watches}

    @functools.cache
    def sightings_of(watch: str) -> tuple[Sighting, ...]:
        return lines_of(evidence, patterns_of[watch])

    def has(watch: str) -> bool:
        return evidence.has(patterns_of[watch])

    return View(sightings_of, has, clues, evidence.facts, context)


_SIGN, _GUESS, _FACT, _CRASH = "sign", "guess", "fact", "crash"
_PROGRAM = "program-error"
RATIOS = ("busbw_ratio", "intranode_busbw_ratio", "alltoall_ratio", "scale_ratio")
_MOST_FAILURES = 3
"""Lines that report a failure and whose words are looked up: later ones are consequences."""
LOW = 0.9
"""Below this share of the expected bandwidth settings count. Published guides call 0.85 a clear
loss; noise is within 5 %."""
_MOST_RUNS = 256
_STARTERS = frozenset({"mpirun", "launcher"})
"""Sources of what starts a run: what they complain of is over when the run works."""
_PASTE = 100
"""Lines of a text at most that somebody may have cut out for what it says."""
_BEHIND_A_DEVICE = 100
"""Lines at most between what a device reports and what a program says of it."""
COMPLETE = r"- ?Init COMPLETE"
"""A communicator is complete: what only prevents one is over."""
_BEFORE_WORK = frozenset({"build", "launch", "init"})
"""Stages that end when a communicator is complete."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """The rules, sorted by name."""
    return tuple(
        rule for rule in plugins.discover(rules, "RULE").values() if isinstance(rule, Rule)
    )


def search_patterns() -> tuple[Pattern, ...]:
    """What to search texts for: the expressions of the catalogue and of the rules, each once."""
    by_regex = {pattern.id: pattern for pattern in patterns(catalogue.load())}
    for pattern in _watched():
        by_regex.setdefault(pattern.id, pattern)
    for pattern in _kept_longer():
        by_regex[pattern.id] = pattern
    return (*by_regex.values(), *message_clues.patterns())


def _watched() -> Iterator[Pattern]:
    """What rules watch, and the marks of fabrics and GPUs."""
    for watch in (watch for rule in all_rules() for watch in rule.watches):
        name = _pattern_id(watch)
        most = 0 if watch.once else COMMON_LINES
        yield Pattern(name, watch.regex, watch.keep, watch.distinct, most, unless=watch.unless)
    marks = [COMPLETE, gpu_words.AMD_MARK, gpu_words.NVIDIA_MARK]
    for family in families().values():
        marks += (*family.marks, *family.rivals)
    for regex in marks:
        yield Pattern(regex, regex)


def _kept_longer() -> Iterator[Pattern]:
    """What needs more lines than the catalogue's expressions."""
    for regex in (courses.FINISHED, courses.SUCCESS, courses.BREAK, crashes.EXCEPTION):
        yield Pattern(regex, regex, keep=_MOST_RUNS)
    yield from failure_lines.patterns()


def _pattern_id(watch: Watch) -> str:
    """Of what texts are searched for; rules that watch the same lines share it."""
    return f"{watch.regex} unless {watch.unless}" if watch.unless else watch.regex


def diagnose(evidence: EvidenceSet, context: Context | None = None) -> Diagnosis:
    """The findings of the evidence, best first. Missing evidence proves nothing."""
    known = catalogue.load()
    absent = _fabrics_absent(evidence)
    context = replace(
        context or Context(),
        seen=_fabrics_seen(evidence) - absent,
        absent=absent,
        long_texts=frozenset(
            number for number, text in enumerate(evidence.texts) if text.lines > _PASTE
        ),
    )
    course_of = courses.of(evidence)
    crash = _crash(evidence, course_of)
    clues = [*line_clues(known, evidence.texts), *fact_clues(known, evidence)]
    if crash is not None:
        clues += _signs_of(crash, known, evidence)
    origins = [_SIGN] * len(clues)
    clues += message_clues.message_clues(evidence.texts, clues)
    origins += [message_clues.SOURCE] * (len(clues) - len(origins))
    for rule in all_rules():
        clues += rule.judge(view_for(rule, evidence, tuple(clues), context))
        origins += [rule.name] * (len(clues) - len(origins))
    if crash is not None and not any(clue.place == crash.place for clue in clues):
        clues.append(crash.clue(_PROGRAM, Weight.WEAK, "program"))
        origins.append(_CRASH)
    is_own = [not crashes.is_frame(clue.evidence.text) for clue in clues]
    clues = list(itertools.compress(clues, is_own))
    origins = list(itertools.compress(origins, is_own))
    outlived = [
        not clue.is_repeated
        and courses.is_outlived(clue.evidence.text, clue.place, course_of, clue.source in _STARTERS)
        for clue in clues
    ]
    clues = [
        _weak(clue) if is_over else clue for clue, is_over in zip(clues, outlived, strict=True)
    ]
    harmless = _harmless(known, clues)
    failures = _failures(evidence, harmless, failure_lines.patterns(words=False))
    doubts = failures + _failures(evidence, harmless, failure_lines.patterns(words=True))
    failures = [
        line for line in failures if not courses.is_outlived(line.text, line.place, course_of)
    ]
    doubts = [line for line in doubts if not courses.is_outlived(line.text, line.place, course_of)]
    doubts.sort(key=lambda line: line.place)
    signs = clues
    if failures:  # what ended it is elsewhere
        signs = [
            clue
            for clue, is_over in zip(clues, outlived, strict=True)
            if not is_over or not _ends(known, clue)
        ]
    faults = tuple(fault for fault in evidence.faults if not catalogue.is_remark(fault.text))
    findings = rank(
        known,
        signs,
        context,
        complaint=_complaint(evidence),
        failed=bool(failures),
        crash=crash.place if crash else None,
    )
    if not failures:
        findings = _without_past_causes(findings, evidence)
    stated = [each for each in findings if each.confidence is not Confidence.POSSIBLE]
    unexplained: tuple[Evidence, ...] = ()
    if not any(each.evidence for each in stated):
        lines = dict.fromkeys(line.evidence() for line in doubts)
        unexplained = (*lines, *faults)[:3]
    by_words, come_first = _guesses(known, evidence, findings, doubts, context)
    is_clean = not doubts and not faults
    works = (
        not failures
        and not stated
        and (evidence.has(courses.SUCCESS) or evidence.has(courses.FINISHED))
    )
    healthy = works and is_clean
    if works:  # nothing ended the job; settings and conditions may still cost bandwidth
        fatal = (Role.CAUSE, Role.SECONDARY)
        findings = tuple(each for each in findings if known.by_id[each.id].role not in fatal)
    only_words = bool(by_words) and all(each.id in message_clues.RESTATEMENTS for each in findings)
    notes = _notes(unexplained, by_words if only_words else ())
    findings = (*by_words, *findings) if come_first else (*findings, *by_words)
    own: dict[str, list[tuple[str, Clue]]] = {each.id: [] for each in findings}
    for origin, clue in zip(origins, clues, strict=True):
        if clue.symptom in own:
            own[clue.symptom].append((origin, clue))
    bases = tuple(_basis(each, own[each.id]) for each in findings)
    if _gpus_seen(evidence) is Gpus.AMD:
        findings = tuple(map(_in_words_of_amd, findings))
    return Diagnosis(findings, notes, unexplained, healthy, only_words, bases)


def _basis(finding: Finding, clues: Iterable[tuple[str, Clue]]) -> Basis:
    """What read the lines of a finding, and what they are worth. clues: those of its entry, with
    what made each."""
    own = [(origin, clue) for origin, clue in clues if clue.weight is not Weight.EXCLUDES]
    if not own:
        return Basis(_GUESS, Weight.WEAK, 1, role_of(finding.evidence[0].text).name.lower())
    best = min((clue.weight for _, clue in own), key=WEIGHTS.__getitem__)
    origins = {origin for origin, clue in own if clue.weight is best}
    roles = [role_of(clue.evidence.text) for _, clue in own if clue.place != NO_PLACE]
    return Basis(
        "+".join(sorted(origins)),
        best,
        len({clue.place for _, clue in own}),
        min(roles).name.lower() if roles else _FACT,
    )


def _crash(evidence: EvidenceSet, course_of: Mapping[int, Course]) -> Sighting | None:
    """The exception with which the last failure of a job began."""
    exceptions: dict[int, list[Sighting]] = {}
    for line in lines_of(evidence, crashes.EXCEPTION):
        exceptions.setdefault(line.place.text, []).append(line)
    devices = [line.place for each in _device_patterns() for line in lines_of(evidence, each.id)]
    for number, lines in sorted(exceptions.items()):
        course = course_of[number]
        first = crashes.first_of_last(lines, course.failures) if not course.finished else None
        if first is not None and not any(
            place.text == number and 0 < first.place.line_no - place.line_no <= _BEHIND_A_DEVICE
            for place in devices
        ):
            return first
    return None


def _signs_of(crash: Sighting, known: Catalogue, evidence: EvidenceSet) -> tuple[Clue, ...]:
    """What the catalogue reads in that line, as far as it was not kept: earlier lines took its place."""
    text = evidence.texts[crash.place.text]
    line = Line(crash.place.line_no, crash.text)
    found = []
    for hit in text.hits:
        is_hidden = hit.line_count > len(hit.examples) and line > hit.examples[-1]
        is_ours = is_hidden and hit.pattern in _expressions()
        if is_ours and catalogue.compiled(hit.pattern).search(line.text) is not None:
            found.append(hit._replace(examples=(line,)))
    clues = line_clues(known, (Text(text.artefact, found),))
    return tuple(replace(clue, place=crash.place) for clue in clues)


@functools.cache
def _device_patterns() -> tuple[Pattern, ...]:
    """What a device reports: what a program says right behind it follows from that."""
    return tuple(
        pattern
        for writer in failure_lines.load().writers
        if writer.name in ("pytorch", "gpu", "kernel")
        for pattern in failure_lines.patterns_of(writer)
    )


def _weak(clue: Clue) -> Clue:
    """The clue as no more than a guess."""
    is_sign = clue.weight in (Weight.STRONG, Weight.CERTAIN)
    return replace(clue, weight=Weight.WEAK) if is_sign else clue


def _ends(known: Catalogue, clue: Clue) -> bool:
    """It speaks for something that ends a run, and says more than the line itself."""
    if clue.symptom in message_clues.RESTATEMENTS:
        return False
    return known.by_id[clue.symptom].role in (Role.CAUSE, Role.SECONDARY)


def _without(lines: Iterable[Sighting], findings: Iterable[Finding]) -> list[Sighting]:
    """The lines that no finding shows."""
    shown = {item for each in findings for item in each.evidence}
    return [line for line in lines if line.evidence() not in shown]


def _guesses(
    known: Catalogue,
    evidence: EvidenceSet,
    findings: Sequence[Finding],
    doubts: Iterable[Sighting],
    context: Context,
) -> tuple[tuple[Finding, ...], bool]:
    """Guesses by the words of the most telling line, where no finding says why; and whether they
    come before the findings, because that line states a reason."""
    if any(_says_why(known, each) for each in findings):
        return (), False
    known_lines = [each for each in findings if each.id != message_clues.UNMAPPED]
    lines = _telling(_of_last_failure(_without(doubts, known_lines), context))
    if not lines:
        return (), False
    ids = {each.id for each in findings}
    alike = _by_words(known, evidence, lines, context)
    fresh = tuple(each for each in alike if each.id not in ids)
    return fresh, role_of(lines[0].text) is LineRole.REASON


def _says_why(known: Catalogue, finding: Finding) -> bool:
    """It is more than the line itself, and more than what somebody else noticed."""
    if finding.id in message_clues.RESTATEMENTS:
        return False
    if finding.confidence is not Confidence.POSSIBLE or known.by_id[finding.id].role is Role.STATE:
        return True
    return known.by_id[finding.id].role is not Role.SECONDARY and any(
        role_of(item.text) <= LineRole.FAILURE for item in finding.evidence
    )


def _of_last_failure(lines: Sequence[Sighting], context: Context) -> list[Sighting]:
    """The lines, in order; of a whole output those of its last failure."""
    kept: list[Sighting] = []
    since: dict[int, int] = {}
    """Of each text, where its last failure begins, as far as it was read backwards."""
    for line in reversed(lines):
        text, line_no = line.place
        if (
            text not in context.long_texts
            or since.get(text, line_no) - line_no <= courses.RESTARTED
        ):
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
) -> tuple[Finding, ...]:
    """What a failure of the first line's writer amounts to, and the entries that share words with
    the first failures and what stands behind the first one."""
    from busbw.parsers.findings.things import sentences  # most texts do not need its table

    first = failures[0]
    if not _is_of_field(evidence):
        return (_guess(known, first, message_clues.UNMAPPED),)
    near = [each.text for each in failures[1:_MOST_FAILURES]]
    near += _lines_behind(evidence, first)
    writer = failure_lines.writer_of(first.text)
    is_own = any(map(similar.is_of_field, (first.text, *near)))
    least = 0 if is_own else similar.STRANGER_SCORE
    alike = similar.search(first.text, context.seen, near=near)
    scores = {name: score for name, score in alike if score >= least}
    for each in failures:
        reading = sentences.guess(each.text)
        causes = reading.entries if reading else ()
        usual = [name for name in causes if _may_be(known, name, context)]
        for name, worth in zip(usual, sentences.WORTH, strict=False):
            scores[name] = scores.get(name, 0) + worth
        if usual:
            break
    names = sorted(scores, key=lambda name: -scores[name])
    if writer is not None and writer.finding is not None:
        stage = known.by_id[writer.finding].stage
        names = [writer.finding, *(name for name in names if known.by_id[name].stage == stage)]
    # Of a whole output, and of an exception, the line itself says more than words it shares.
    is_telling = first.place.text in context.long_texts or crashes.is_exception(first.text)
    if not names or (is_telling and writer is not None and writer.finding is None):
        names.insert(0, message_clues.UNMAPPED)
    return tuple(_guess(known, first, name) for name in dict.fromkeys(names))


def _guess(known: Catalogue, line: Sighting, name: str) -> Finding:
    """An entry by the words of a line: possible, no more."""
    return possible(known.by_id[name], line.clue(name, Weight.WEAK, "nccl-log"))


def _is_of_field(evidence: EvidenceSet) -> bool:
    """Any line that was searched for, or one behind it, has a word of this field."""
    return any(map(_has_field, evidence.texts))


def _has_field(text: Text) -> bool:
    if text.clues is not None:
        return text.clues.is_of_field
    for hit in text.hits:
        for line in hit.examples:
            if any(map(similar.is_of_field, (line.text, *line.after))):
                return True
    return False


def _may_be(known: Catalogue, name: str, context: Context) -> bool:
    """No other provider stands in the place of the entry's own."""
    return not set(known.by_id[name].fabrics) <= context.absent


def _lines_behind(evidence: EvidenceSet, first: Sighting) -> tuple[str, ...]:
    """The lines behind a failure, as far as they were kept: a crash names its place there."""
    for hit in evidence.texts[first.place.text].hits:
        for line in hit.examples:
            if line.line_no == first.place.line_no and line.after:
                return line.after
    return ()


def _fabrics_seen(evidence: EvidenceSet) -> frozenset[str]:
    """The families of which a line has a mark."""
    seen = set()
    for family in families().values():
        if any(map(evidence.has, family.marks)):
            seen.add(family.name)
    return frozenset(seen)


def _gpus_seen(evidence: EvidenceSet) -> Gpus:
    """Whose GPUs the evidence shows: what a check of the node says, then the lines. NVIDIA's count
    first: such a node may have an amdgpu for its screen."""
    if any(fact.record().get(gpu_words.GPUS) == Gpus.AMD for fact in evidence.facts):
        return Gpus.AMD
    is_amd = evidence.has(gpu_words.AMD_MARK) and not evidence.has(gpu_words.NVIDIA_MARK)
    return Gpus.AMD if is_amd else Gpus.NVIDIA


def _in_words_of_amd(finding: Finding) -> Finding:
    own = replace(finding, fixes=catalogue.fixes(finding.id, gpus=Gpus.AMD))
    return gpu_words.finding_for(own, Gpus.AMD)


def _fabrics_absent(evidence: EvidenceSet) -> frozenset[str]:
    """The families in whose place a line shows another provider."""
    absent = set()
    for family in families().values():
        if any(map(evidence.has, family.rivals)):
            absent.add(family.name)
    return frozenset(absent)


def _harmless(known: Catalogue, clues: Iterable[Clue]) -> set[tuple[str, int | None]]:
    """Text and number of the lines that the catalogue knows to be harmless."""
    harmless = set()
    for clue in clues:
        is_harmless = known.by_id[clue.symptom].role in (Role.NOTE, Role.STATE)
        if is_harmless and clue.weight is not Weight.EXCLUDES:
            harmless.add((clue.evidence.artefact, clue.evidence.line_no))
    return harmless


def _failures(
    evidence: EvidenceSet, harmless: Collection[tuple[str, int | None]], patterns: Iterable[Pattern]
) -> list[Sighting]:
    """Lines that report a failure, without the harmless ones and without echoes of settings."""
    lines = {line for each in patterns for line in lines_of(evidence, each.id)}
    return [
        line
        for line in sorted(lines, key=lambda line: line.place)
        if (line.artefact, line.place.line_no) not in harmless
        and not catalogue.is_remark(line.text)
        and not _is_echo(line.text)
        and not crashes.is_frame(line.text)
    ]


def _without_past_causes(
    findings: tuple[Finding, ...], evidence: EvidenceSet
) -> tuple[Finding, ...]:
    """The findings without possible causes that prevent a communicator, if one completed after
    all their lines."""
    last: dict[str, int] = {}
    for line in lines_of(evidence, COMPLETE):
        last[line.artefact] = max(line.place.line_no, last.get(line.artefact, 0))
    return tuple(
        finding for finding in findings if not (_prevents(finding) and _is_before(finding, last))
    )


def _prevents(finding: Finding) -> bool:
    """It is a possible cause that would prevent a communicator, or make a connection retry."""
    symptom = catalogue.load().by_id[finding.id]
    early = symptom.stage in _BEFORE_WORK or all(
        "retrying" in item.text for item in finding.evidence
    )
    return (
        finding.confidence is Confidence.POSSIBLE
        and symptom.role in (Role.CAUSE, Role.SECONDARY)
        and early
    )


def _is_before(finding: Finding, last: Mapping[str, int]) -> bool:
    return all((item.line_no or 0) < last.get(item.artefact, 0) for item in finding.evidence)


def _complaint(evidence: EvidenceSet) -> bool:
    """A ratio of measured to expected is below `LOW`."""
    for fact in evidence.facts:
        if fact.source != RESULT:
            continue
        for name, value in fact.values:
            if name in RATIOS and not isinstance(value, str | bool) and value < LOW:
                return True
    return False


def _notes(unexplained: tuple[Evidence, ...], by_words: tuple[Finding, ...]) -> tuple[str, ...]:
    if not unexplained:
        return ()
    first = unexplained[0]
    notes = [
        f"the first line that reports a failure is {first.artefact}:{first.line_no}; nothing in"
        " the evidence says for certain why"
    ]
    if any(each.id != message_clues.UNMAPPED for each in by_words):
        notes.append("no known sign is in the evidence: the findings only share words with a line")
    return tuple(notes)
