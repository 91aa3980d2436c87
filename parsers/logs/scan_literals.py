"""Which lines of a block are worth a look, by their literals: all of them in one pass of
`hyperscan`.

A literal that stands in many lines and seldom decides anything (`rank`, `] `, or any of few letters)
is replaced by its whole expression, as far as `hyperscan` can express it: that takes longer for each
byte and wakes Python for fewer lines. Where the library is not there, or the processor is not one of its own,
`scan_sieve` finds the same lines.

>>> from busbw.parsers.logs.scan_sieve import branches_of
>>> finder(branches_of(["No device"])).lines(b"a\\nNET/IB : no device found", frozenset()).of_branch
{0: [1]}
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from busbw.parsers.logs.scan_sieve import Branch, Candidates, Finder, Sieve
from busbw.parsers.logs.wrapped_warnings import WARN
from busbw.table_cache import cached, digest_of

try:
    import hyperscan
except ImportError:
    _IS_HERE = False
else:
    _IS_HERE = True

_EVENTS_PER_EXPRESSION = 80
"""After so many matches of expressions that are no longer looked for, a database without them pays: each
takes 0.4 µs and as long again to be found, a new database about 60 µs for each of its expressions."""
_MOST_MISSES = 400_000
"""After so many lines that had a literal and did not match, it pays to search whole branches: a
miss takes 1 to 2 µs."""
_MISSES = 500
_MISSES_PER_HIT = 4
"""From both on, the lines of a branch are found by the whole branch."""
_SHORT = 6
"""A literal with fewer letters is a part of many words."""
_FREQUENT = frozenset(
    word.encode()
    for word in (
        *("rank", "info", "nccl info ", "nccl info channel ", "error", "warning"),
        *(" nranks ", " via net/", "via net/", ": using "),
        *("running", "pending", "roce"),
        *("int", "float", "double", "half"),
        *("step", "iter", "epoch", "dataset", "shard", "checkpoint", "libfabric:"),
        *(" passed", " skipped", " warning", " count", " device", "fabric", "partition"),
    )
)
"""Literals in so many lines of training logs that what is found by them is seldom a match: of a
megabyte of many programs' lines, 14,000 of 18,000 lines that had a literal and did not match. What
else is frequent in a text is learnt from it, which costs a new database."""
_BYTES_PER_MATCH = 250
_MOST_DATABASES = 8
_MANY_EXPRESSIONS = 8
"""So many take longer to compile than to read from the cache."""


def finder(branches: tuple[Branch, ...]) -> Finder:
    """The fastest finder there is here."""
    return LiteralFinder(branches) if _IS_HERE else Sieve(branches)


class LiteralFinder:
    """Finds lines by literals. Databases stay from text to text."""

    def __init__(self, branches: tuple[Branch, ...]) -> None:
        self.whole = _whole_from_start(branches)
        """Branches that are searched whole, and whether each line that is found matches."""
        self.branches = branches
        self.soon_common = frozenset(each.index for each in branches if each.is_soon_common)
        self.databases: dict[frozenset[int], _Database] = {}
        """By the expressions that they are without."""
        self.hits: Counter[int] = Counter()
        self.misses: Counter[int] = Counter()
        """How many candidates of a branch matched, or did not, where its literals were looked
        for."""
        self.most_misses = _MOST_MISSES

    def learn(self, hits: Mapping[int, int], misses: Mapping[int, int]) -> None:
        """As `Finder`."""
        self.hits.update(hits)
        self.misses.update(misses)
        self.most_misses -= sum(misses.values())
        if self.most_misses > 0:
            return
        whole: list[tuple[int, bool]] = []
        for each in self.branches:
            missed = self.misses[each.number]
            is_hot = missed > _MISSES and missed > _MISSES_PER_HIT * self.hits[each.number]
            if is_hot and each.number not in self.whole:
                whole += _found_whole([each])
        self.most_misses = _MOST_MISSES
        self.misses.clear()
        self.hits.clear()
        if whole:
            self.whole.update(whole)
            self.databases.clear()

    def lines(self, text: bytes, never: frozenset[int]) -> Candidates:
        """As `Finder`."""
        # What a text has a few lines of before nobody wants more has a database of its own: it would
        # be found a thousand times in vain, until one without it pays.
        never_here = never | self.soon_common
        database = self.databases.get(never_here)
        if database is None:
            database = self._next_best(never_here)
        found = database.lines(text, never_here)
        return found if self.soon_common <= never else found.joined(self._soon.lines(text, never))

    @functools.cached_property
    def _soon(self) -> _Database:
        others = frozenset(each.index for each in self.branches) - self.soon_common
        return _Database(self.branches, others, self.whole, is_kept=True)

    def candidates(self, line: bytes) -> Iterable[int]:
        """As `Finder`."""
        return self.lines(line, frozenset()).of_branch

    def _next_best(self, never: frozenset[int]) -> _Database:
        """The database for these expressions, if it pays; else the one that finds least of what is
        not wanted."""
        fits = [known for known in self.databases if known <= never]
        best = self.databases[max(fits, key=len)] if fits else None
        if best is not None and best.unwanted < _EVENTS_PER_EXPRESSION * len(best.numbers):
            return best
        if len(self.databases) >= _MOST_DATABASES:
            self.databases.clear()
        if best is not None:
            best.unwanted = 0
        # What was learnt from one text is seldom learnt again.
        is_kept = never == self.soon_common
        database = _Database(self.branches, never, self.whole, is_kept=is_kept)
        self.databases[never] = database
        return database


def _whole_from_start(branches: tuple[Branch, ...]) -> dict[int, bool]:
    """The branches that their literals cannot find, or find in most lines, and hyperscan can, as
    `LiteralFinder.whole`. Whether it can is known from compiling them: 10 ms each."""
    chosen = tuple(each for each in branches if _says_little(each))
    if not chosen:
        return {}
    version = getattr(hyperscan, "__version__", "")
    texts = tuple((each.number, each.text) for each in chosen)
    make = functools.partial(_found_whole, chosen)
    return dict(cached(f"whole-{digest_of(version, texts)}", make))


def _says_little(branch: Branch) -> bool:
    if not branch.is_found_by_text:
        return True
    if branch.is_exact:
        return False
    if branch.is_frequent:
        return True
    return min(map(len, branch.literals)) < _SHORT or not _FREQUENT.isdisjoint(branch.literals)


def _found_whole(branches: Iterable[Branch]) -> list[tuple[int, bool]]:
    """Those that hyperscan can search, or can do so without what it does not know: their numbers, and
    whether each line that it finds matches."""
    found = []
    for each in branches:
        if "{," in each.text:
            continue
        if _IN_ONE_LINE.fullmatch(_shortened(each.text)) and _compiles(
            each.text, hyperscan.HS_FLAG_CASELESS
        ):
            found.append((each.number, True))
        elif not re.search(r"\\[AZ]", each.text) and _compiles(each.text, _prefilter_flags()):
            found.append((each.number, False))
    return found


_IN_ONE_LINE = re.compile(
    r"(?:[ -#%-'*-Z_-~]|\\[dwSb]|\\[^\w\s]|\((?:\?:|(?!\?))|\)|\[(?!\^)(?:[ -Z^-~]|\\[dw]|\\[^\w\s])+\])+"
)
"""An expression that matches nothing across lines, and all of which hyperscan reads as Python does."""


def _compiles(text: str, flags: int) -> bool:
    try:
        hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
            expressions=[_searchable(text)], flags=[flags]
        )
    except hyperscan.error:
        return False
    return True


def _prefilter_flags() -> int:
    """Lines are lines; what cannot be expressed (lookarounds) matches more."""
    return (
        hyperscan.HS_FLAG_CASELESS
        | hyperscan.HS_FLAG_MULTILINE
        | hyperscan.HS_FLAG_PREFILTER
        | hyperscan.HS_FLAG_ALLOWEMPTY
    )


class _Database:
    """The literals of a set of branches, and some branches as a whole."""

    def __init__(
        self,
        branches: tuple[Branch, ...],
        never: frozenset[int],
        whole: Mapping[int, bool],
        *,
        is_kept: bool,
    ) -> None:
        """is_kept: it is worth a place in the cache of this machine."""
        self.unwanted = 0
        """Matches so far of literals that nobody wanted any more."""
        literals: dict[bytes, set[int]] = {}
        texts: dict[tuple[bytes, int], set[int]] = {}
        always: set[int] = set()
        for each in branches:
            if each.index in never:
                continue
            if each.number in whole:
                is_sure = whole[each.number]
                flag = hyperscan.HS_FLAG_CASELESS if is_sure else _prefilter_flags()
                texts.setdefault((_searchable(each.text), flag), set()).add(each.number)
                continue
            if not each.literals:
                always.add(each.number)
            for literal in each.literals:
                literals.setdefault(literal, set()).add(each.number)
        self.always = frozenset(always)
        """What every line is a candidate for."""
        self.branches = branches
        self.numbers = [frozenset(each) for each in (*literals.values(), *texts.values())]
        """Number of an expression in the database → branches."""
        self.wanted: dict[frozenset[int], list[frozenset[int]]] = {}
        """The same without the branches of some expressions."""
        sure = (each.number for each in branches if whole.get(each.number, each.is_exact))
        self.sure = frozenset(sure)
        expressions = [*map(_as_expression, literals), *(text for text, _ in texts)]
        flags = [hyperscan.HS_FLAG_CASELESS] * len(literals) + [flag for _, flag in texts]
        self.warning = len(expressions)
        """The number of `WARN`, which is of no branch."""
        self.numbers.append(frozenset())
        expressions.append(_as_expression(WARN))
        flags.append(0)
        for number, found in enumerate(self.numbers):
            if all(branches[each].is_single and each in self.sure for each in found):
                flags[number] |= hyperscan.HS_FLAG_SINGLEMATCH
        build = _built if is_kept and len(expressions) >= _MANY_EXPRESSIONS else _compiled
        self.database = build(expressions, flags)

    def _without(self, never: frozenset[int]) -> list[frozenset[int]]:
        """The branches for each number, without those of the expressions in `never`."""
        known = self.wanted.get(never)
        if known is not None:
            return known
        if len(self.wanted) >= _MOST_DATABASES:
            self.wanted.clear()
        unwanted = {each.number for each in self.branches if each.index in never}
        wanted = [each if each.isdisjoint(unwanted) else each - unwanted for each in self.numbers]
        self.wanted[never] = wanted
        return wanted

    def lines(self, text: bytes, never: frozenset[int]) -> Candidates:
        """The lines with a match, for each branch: those of each number."""
        branches = self._without(never)
        matches = _matches(self.database, text)
        has_warning = False
        lines: dict[int, bytes] = {}
        of_branch: dict[int, list[int]] = {}
        if self.always:
            lines = dict(enumerate(text.split(b"\n")))
            of_branch = {each: list(lines) for each in self.always}
        # Where nearly every line has a match, to cut all of them is faster than to look for each.
        cut = text.split(b"\n") if len(matches) * _BYTES_PER_MATCH > len(text) else []
        following = iter(cut)
        reach = at = -1 if cut else 0
        start = counted = 0
        behind = 0
        """Matches before it end in the line that was cut last."""
        for match in matches:
            wanted = branches[match & _NUMBER]
            if not wanted:
                if match & _NUMBER == self.warning:
                    has_warning = True
                else:
                    self.unwanted += 1
                continue
            if match >= behind:
                last = (match >> _NUMBER_BITS) - 1
                if last < 0:
                    last = 0  # an empty match at the very start
                if cut:
                    while reach < last:
                        line = next(following)
                        reach += len(line) + 1
                        at += 1
                    lines[at] = line
                    end = reach
                else:
                    start = text.rfind(b"\n", 0, last) + 1
                    at += text.count(b"\n", counted, start)
                    counted = start
                    end = text.find(b"\n", last)
                    end = len(text) if end < 0 else end
                    lines[at] = text[start:end]
                behind = (end + 2) << _NUMBER_BITS
            for branch in wanted:
                places = of_branch.get(branch)
                if places is None:
                    of_branch[branch] = [at]
                elif places[-1] != at:
                    places.append(at)
        line_count = len(cut) or at + text.count(b"\n", counted) + 1
        return Candidates(lines, of_branch, line_count, has_warning, self.sure)


_NUMBER_BITS = 16
_NUMBER = (1 << _NUMBER_BITS) - 1


def _matches(database: hyperscan.Database, text: bytes) -> list[int]:
    """Where a match ends, and the number of its expression in the lowest bits; in the order of the
    text."""
    matches: list[int] = []
    append = matches.append

    def note(number: int, _begin: int, end: int, _flags: int, _context: object) -> None:
        append(end << _NUMBER_BITS | number)

    database.scan(text, match_event_handler=note)
    matches.sort()
    return matches


_INDENTED = re.compile(r"\^(?:\\[sW]| )[*+](?=[^?+])")


def _searchable(text: str) -> bytes:
    """The shortened expression without blanks at the start of the line: Vectorscan 5.4.12 misses
    matches where several expressions of a database begin with them."""
    indent = _INDENTED.match(text)
    return _shortened(text[indent.end() if indent else 0 :]).encode()


_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_OPEN_END = re.compile(r"(?<!\\)(\(\?:)?(?:\.([*+])(?(1)\))\$|(\.|\\[dwS])([*+])(?(1)\)))$")


def _shortened(text: str) -> str:
    r"""An expression that matches in the same lines, without names, and without what a line may go on
    with: `hyperscan` would report each character of it.

    >>> _shortened(r"Using (?P<name>.+)$"), _shortened(r"(?P<no>\d+)/\w+"), _shortened(r"a\.*")
    ('Using .', '(?:\\d+)/\\w', 'a\\.*')
    """
    text = _GROUP_NAME.sub("(?:", text)
    end = _OPEN_END.search(text)
    if end is None:
        return text
    one = "." if end[2] else end[3]
    return text[: end.start()] + (one if "+" in end[0] else "")


def _as_expression(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _built(expressions: list[bytes], flags: list[int]) -> hyperscan.Database:
    """A database, from the cache if it was compiled before."""
    digest = digest_of(expressions, flags)
    fresh: list[hyperscan.Database] = []

    def dumped() -> bytes:
        fresh.append(_compiled(expressions, flags))
        return hyperscan.dumpb(fresh[0])

    content = cached(f"literals-{digest}", dumped)
    if fresh:
        return fresh[0]
    try:
        database = hyperscan.loadb(content, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.error:  # of another processor or version: a home that several nodes share
        return _compiled(expressions, flags)
    return database


def _compiled(expressions: list[bytes], flags: list[int]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=expressions, ids=list(range(len(expressions))), flags=flags)
    return database


class MarkedLine(NamedTuple):
    """A line in which expressions match."""

    start: int
    end: int
    """Where it stands in the text, without its line end."""
    marks: int
    """Which of the expressions match in it, or end a match in it: bit 0 = the first."""


class Marks:
    """Expressions of which only one thing is asked: where they match. Case counts.

    >>> marks = Marks(("algbw", r"Rank\\s+\\d"))
    >>> marks.stand_in(b"# Rank  0"), marks.stand_in(b"ALGBW")
    (True, False)
    >>> [(line.start, line.marks) for line in marks.lines_in(b"\\nalgbw\\n\\nalgbw Rank 1")]
    [(1, 1), (8, 3)]
    """

    def __init__(self, expressions: tuple[str, ...]) -> None:
        self.expressions = tuple(each.encode() for each in expressions)

    @cached_property
    def _python(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(self.expressions), re.MULTILINE)

    @cached_property
    def _each(self) -> tuple[re.Pattern[bytes], ...]:
        return tuple(re.compile(each, re.MULTILINE) for each in self.expressions)

    @cached_property
    def _first(self) -> hyperscan.Database:
        flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_MULTILINE
        return _built(list(self.expressions), [flags] * len(self.expressions))

    @cached_property
    def _all(self) -> hyperscan.Database:
        flags = [hyperscan.HS_FLAG_MULTILINE] * len(self.expressions)
        return _built(list(self.expressions), flags)

    def stand_in(self, text: bytes) -> bool:
        """Whether one of them matches somewhere."""
        if not _IS_HERE:
            return self._python.search(text) is not None
        try:
            self._first.scan(text, match_event_handler=lambda *_: True)
        except hyperscan.ScanTerminated:
            return True
        return False

    def numbers_in(self, text: bytes) -> frozenset[int]:
        """The places of the expressions that match somewhere."""
        if not _IS_HERE:
            return frozenset(number for number, each in enumerate(self._each) if each.search(text))
        return frozenset(match & _NUMBER for match in _matches(self._first, text))

    def ends_in(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where each match ends, and of which expression it is, in the order of the text. Nothing
        without `hyperscan`: what it is for is faster without it then."""
        for match in _matches(self._all, text) if _IS_HERE else ():
            yield match >> _NUMBER_BITS, match & _NUMBER

    def lines_in(self, text: bytes) -> list[MarkedLine]:
        """The lines in which one of them matches, or in which a match ends."""
        if not _IS_HERE:
            return list(self._by_python(text))
        lines: list[MarkedLine] = []
        start = marks = 0
        end = -1
        for match in _matches(self._all, text):
            last = (match >> _NUMBER_BITS) - 1
            if last > end:
                if end >= 0:
                    lines.append(MarkedLine(start, end, marks))
                start = text.rfind(b"\n", 0, last) + 1
                end = text.find(b"\n", last)
                end = len(text) if end < 0 else end
                marks = 0
            marks |= 1 << (match & _NUMBER)
        if end >= 0:
            lines.append(MarkedLine(start, end, marks))
        return lines

    def _by_python(self, text: bytes) -> Iterator[MarkedLine]:
        start = 0
        for line in text.split(b"\n"):
            if self._python.search(line):
                found = (number for number, each in enumerate(self._each) if each.search(line))
                marks = sum(1 << number for number in found)
                yield MarkedLine(start, start + len(line), marks)
            start += len(line) + 1
