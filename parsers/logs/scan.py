"""Where in gigabytes of text hundreds of regular expressions match: line by line, per process, in
constant memory.

Running every expression on every line reads less than 1 MB/s. Of each branch of an expression
(`mlx5_core |NVRM: ` has two) it is worked out which plain text a matching line must contain. All
those texts are looked for in one pass (`scan_literals`; `scan_sieve` where its library is not
there), and only a line that has one is looked at again, with the branches whose text it has.

A wrapped warning (text that runs on in lines without a prefix) is also searched as one line.

>>> scanner = Scanner((Pattern("no-ib", r"NET/IB ?: No device found"),))
>>> found = scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : No dev", b"ice found.\\ngpu1:41:42 [0] NCCL INFO Using network Socket\\n"])
>>> found.lines, found.hits[0].process, found.hits[0].examples[0].text
(2, 'gpu1:41', 'gpu1:41:42 [0] NCCL INFO NET/IB : No device found.')
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from busbw.parsers.logs import Document, scan_literals
from busbw.parsers.logs.blocks import LONGEST_LINE, Block, Piece, blocks
from busbw.parsers.logs.scan_sieve import Branch, Finder, branches_of
from busbw.parsers.logs.wrapped_warnings import wrapped_warnings
from busbw.table_cache import cached, digest_of

COMMON_LINES = 5_000
"""Default of `Pattern.common_after`. Five lines of each of a thousand ranks say what there is to
say."""
_SOON = 100
"""Matching lines within which a pattern becomes common in the first block that has some."""
SAMPLED_BLOCKS = 16
"""In every sixteenth block the first match of a common pattern is still taken: one line in 2 MB."""
_MUCH_TO_PARSE = 2_000
"""So many characters of expressions take longer to be understood than to be read from the cache."""
_MOST_ENTRIES = 500_000
_MOST_LINES = 1_000_000
"""Kept in all, 250 bytes each."""
_PROCESS = re.compile(rb"((?!\d\d?:)[\w.-]+):(\d+):\d+ ")
_MAY_BE_PROCESS = re.compile(rb":\d+:\d+ ")
"""What `_PROCESS` ends with: looked for first, it takes a tenth of the time."""
_RANK = re.compile(rb"\[(?:\d+,)?(\d+)\](?:\[[^\]\n]*\])?<std|\[(?:rank|default|Rank )(\d+)\]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One expression to look for: Python `re`, case ignored, searched line by line, ASCII
    classes."""

    id: str
    regex: str
    keep: int = 4
    """How many lines are kept of each process."""
    distinct: bool = False
    """True = of each process's lines with the same last word (`… via NET/IB/3/GDRDMA`) only the
    first is kept; the others are counted."""
    common_after: int = COMMON_LINES
    """Matching lines (of a distinct pattern: in a row, without anything new) after which it counts
    as common: from then on only one line in 2 MB is taken."""
    after: int = 0
    """How many lines behind each kept line are kept with it (fewer at the end of a block)."""
    frequent: bool = False
    """True = a log has thousands of its lines, and nearly every line with its fixed words matches: it
    pays to look for the whole expression at once."""
    unless: str = ""
    """A line that matches this expression as well does not count; "" = every line counts. Only
    lines that match `regex` are asked, so it may be slow."""

    def counts(self, line: str) -> bool:
        """Whether one line matches."""
        if re.search(self.regex, line, re.IGNORECASE) is None:
            return False
        return not self.unless or re.search(self.unless, line, re.IGNORECASE) is None


class Line(NamedTuple):
    """One line of the input."""

    line_no: int
    """From 1."""
    text: str
    """Without its line end; a wrapped warning is joined by spaces. Undecodable bytes are shown as
    U+FFFD."""
    after: tuple[str, ...] = ()
    """The lines behind it, where the pattern asked for them."""


class Hit(NamedTuple):
    """Where one expression matched in the output of one process. A thousand processes in one text
    have ten thousand of them: a dataclass takes six times as long to make."""

    pattern: str
    """Id of the pattern."""
    process: str | None
    """`host:pid` of the line's NCCL prefix, else `rank N` of its launcher tag; None = the line
    names neither."""
    line_count: int
    """Matching lines of this process; a lower bound where the pattern is common."""
    examples: tuple[Line, ...]
    """The first of them, at most the pattern's `keep`."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in one input."""

    size_bytes: int
    lines: int
    first_line: str
    """Its first line that is not blank, at most 200 characters; empty = there is none."""
    hits: tuple[Hit, ...]
    """One per pattern and process, by first line."""
    common: tuple[str, ...]
    """Patterns that became common (`Pattern.common_after`): after that only one line in 2 MB was
    taken."""
    problems: tuple[str, ...]
    """What was not searched as it should have been, in words."""
    long_lines: int = 0
    """Lines that were searched only in their first `LONGEST_LINE` bytes; they are among the problems."""

    def with_fewer_long_lines(self, read: int) -> Scan:
        """The scan, so many of its long lines searched in another way."""
        left = self.long_lines - read
        own = set(_problems_of_long_lines(self.long_lines))
        others = [each for each in self.problems if each not in own]
        problems = (*_problems_of_long_lines(left), *others)
        return replace(self, problems=problems, long_lines=left)

    def of(self, patterns: Iterable[Pattern]) -> Scan:
        """What a scan for these patterns alone had found."""
        ids = {pattern.id for pattern in patterns}
        hits = tuple(hit for hit in self.hits if hit.pattern in ids)
        return replace(self, hits=hits, common=tuple(name for name in self.common if name in ids))


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A format that a scan finds line by line. A caller that reads several of them searches the text
    once, for the patterns of all."""

    name: str
    """Of its `Format`."""
    patterns: tuple[Pattern, ...]
    document_of: Callable[[Scan], Document]
    """Makes the document of a scan for these patterns; raises UnknownLayout as `Format.read`."""

    def read(self, chunks: Iterable[bytes]) -> Document:
        """As `Format.read`."""
        return self.document_of(scanner_of(self.patterns).scan(chunks))


@functools.cache
def scanner_of(patterns: tuple[Pattern, ...]) -> Scanner:
    """A scanner for this process: building one takes longer than searching a small text."""
    return Scanner(patterns)


def _branches_of(expressions: tuple[str, ...]) -> tuple[Branch, ...]:
    if sum(map(len, expressions)) < _MUCH_TO_PARSE:
        return branches_of(expressions)
    make = functools.partial(branches_of, expressions)
    return cached(f"branches-{digest_of(*expressions)}", make)


class Scanner:
    """A set of patterns, ready to search any number of inputs. It can be pickled: workers of a pool
    build it from the patterns."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        finder: Callable[[tuple[Branch, ...]], Finder] = scan_literals.finder,
    ) -> None:
        """finder: how lines are found that are worth a look; what is found does not depend on it.

        Raises: ValueError: an expression uses syntax that `required_literals` does not know; or two
        patterns share an id.
        """
        ids = Counter(pattern.id for pattern in patterns)
        twice = sorted(name for name, count in ids.items() if count > 1)
        if twice:
            raise ValueError(f"pattern ids given twice: {twice!r}")
        self.patterns = tuple(patterns)
        expressions = tuple(pattern.regex for pattern in self.patterns)
        self._branches = _branches_of(expressions)
        for each in self._branches:
            pattern = self.patterns[each.index]
            each.is_single = pattern.common_after == 0 and not pattern.unless
            each.is_frequent = pattern.frequent
            each.is_soon_common = 0 < pattern.common_after < _SOON
        self._unless = {
            index: re.compile(pattern.unless.encode(), re.IGNORECASE)
            for index, pattern in enumerate(self.patterns)
            if pattern.unless
        }
        self._make_finder = finder

    @functools.cached_property
    def _finder(self) -> Finder:
        """Made for the first text: that takes longer than searching a small one."""
        return self._make_finder(self._branches)

    def __reduce__(self) -> tuple[type[Scanner], tuple[object, ...]]:
        return (Scanner, (self.patterns, self._make_finder))

    @property
    def slow(self) -> tuple[str, ...]:
        """Ids of patterns with a branch whose lines need no text of three letters: each costs a
        search of every block."""
        slow = [each.index for each in self._branches if not each.is_found_by_text]
        return tuple(self.patterns[index].id for index in dict.fromkeys(slow))

    def scan(self, chunks: Iterable[bytes]) -> Scan:
        """Search one input, given in chunks of any size. Memory depends on the number of processes
        and patterns, not on the length."""
        return Search(self, chunks).result()

    def ids_in(self, line: str) -> tuple[str, ...]:
        """The patterns that match one line, in their order, as `Pattern.counts` says of each: to ask
        hundreds of them takes a millisecond.

        >>> Scanner((Pattern("a", "rank \\\\d"), Pattern("b", "error"))).ids_in("Rank 3: Error")
        ('a', 'b')
        """
        if not line.isascii() or "\n" in line:
            return tuple(pattern.id for pattern in self.patterns if pattern.counts(line))
        data = line.encode()
        counted: set[int] = set()
        for number in self._finder.candidates(data):
            branch = self._branches[number]
            if branch.index not in counted and branch.regex.search(data) is not None:
                unless = self._unless.get(branch.index)
                if unless is None or unless.search(data) is None:
                    counted.add(branch.index)
        return tuple(self.patterns[index].id for index in sorted(counted))

    def search(self, text: bytes, tally: _Tally) -> int:
        """Have every line of the block booked that matches. Gives how many lines it has."""
        lines, of_branch, line_count, has_warning, sure = self._finder.lines(text, tally.never)
        claimed = self._search_wrapped(text, tally) if has_warning else {}
        matches: dict[int, list[int]] = {}
        hits: dict[int, int] = {}
        misses: dict[int, int] = {}
        for number, places in of_branch.items():
            branch = self._branches[number]
            index = branch.index
            if claimed:
                places = [at for at in places if at not in claimed or index not in claimed[at]]
            if index in tally.once:
                places = self._first(branch, places, lines)
            elif number not in sure:
                search = branch.regex.search
                matching = [at for at in places if search(lines[at]) is not None]
                hits[number] = len(matching)
                misses[number] = len(places) - len(matching)
                places = matching
            if not places:
                continue
            if index in matches:
                places = sorted({*matches[index], *places})
            matches[index] = places
        for index, places in matches.items():
            unless = self._unless.get(index)
            if unless is not None:
                places = [at for at in places if unless.search(lines[at]) is None]
            tally.book(index, places[:1] if index in tally.once else places, lines)
        self._finder.learn(hits, misses)
        return line_count

    def _first(self, branch: Branch, places: list[int], lines: Mapping[int, bytes]) -> list[int]:
        """The first place whose line counts; [] = none."""
        unless = self._unless.get(branch.index)
        for at in places:
            line = lines[at]
            is_match = branch.is_exact or branch.regex.search(line) is not None
            if is_match and (unless is None or unless.search(line) is None):
                return [at]
        return []

    def _search_wrapped(self, text: bytes, tally: _Tally) -> dict[int, Collection[int]]:
        """Book the wrapped warnings of a block, each as one line. Gives what matched, for the index
        of each line they consist of."""
        claimed: dict[int, Collection[int]] = {}
        for at, joined, count in wrapped_warnings(text):
            matched: set[int] = set()
            for number in self._finder.candidates(joined):
                branch = self._branches[number]
                if branch.index in matched or branch.regex.search(joined) is None:
                    continue
                matched.add(branch.index)
                unless = self._unless.get(branch.index)
                if unless is None or unless.search(joined) is None:
                    tally.book_wrapped(branch.index, at, joined)
            claimed.update((at + step, matched) for step in range(count))
        return claimed


class Search:
    """A scan of one input that goes on as somebody else reads that input: whoever iterates over it gets
    the input in pieces of bounded size, without ANSI sequences, each when it has been searched.

    >>> search = Search(Scanner((Pattern("bad", "ERROR"),)), [b"1\\n\\x1b[31mERROR\\x1b[0m\\n"])
    >>> list(search), [hit.pattern for hit in search.result().hits]
    ([b'1\\nERROR\\n'], ['bad'])
    """

    def __init__(self, scanner: Scanner, chunks: Iterable[bytes]) -> None:
        self._scanner = scanner
        self._tally = _Tally(scanner.patterns)
        self._pieces = self._searched(blocks(self._tally.counted(chunks)))

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def _searched(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        for block in blocks:
            piece = Piece(block.raw)
            piece.line_ends = block.skipped
            if not block.is_rest:
                self._tally.begin(block)
                lines = self._scanner.search(block.text, self._tally)
                self._tally.lines += lines
                piece.line_ends += lines if piece.endswith(b"\n") else lines - 1
            yield piece

    def result(self) -> Scan:
        """What was found in all of the input; what nobody read of it is searched now."""
        for _ in self._pieces:
            pass
        return self._tally.result()


class _Entry:
    """Growing counterpart of one Hit."""

    __slots__ = ("count", "endings", "examples")
    count: int
    examples: list[Line]
    endings: set[bytes]
    """Of a distinct pattern: the last words of the lines that matched."""


class _Tally:
    """What one scan has found so far."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.patterns = patterns
        self.lines = 0
        """Lines of the blocks that are done."""
        self.block = b""
        """The block being searched."""
        self.block_lines: list[bytes] = []
        """Its lines, once somebody needs those behind one."""
        self.block_processes: dict[int, bytes | None] = {}
        """The processes of its lines, of those that were booked."""
        self.block_kept: dict[int, Line] = {}
        """Its lines that are kept, without those behind them."""
        self.blocks = 0
        self.common: frozenset[int] = frozenset()
        """Patterns that have matched enough lines."""
        self.newly_common: frozenset[int] = frozenset()
        self.once: frozenset[int] = frozenset()
        """Patterns of which the first matching line of this block is enough."""
        self.never: frozenset[int] = frozenset()
        """Patterns that are not looked for in this block."""
        self.size_bytes = 0
        self.long_lines = 0
        self.first_line = ""
        self.entries: tuple[dict[bytes | None, _Entry], ...] = tuple({} for _ in patterns)
        """Of each pattern, by process."""
        self.entry_count = 0
        self.totals = [0] * len(patterns)
        self.uncounted = 0
        self.kept = 0
        self.dropped = 0
        self.processes: dict[bytes, bytes | None] = {}
        """What the first word of a line says of its process."""
        self.ending_count = 0
        self.has_wrapped = False
        """A wrapped warning was booked, before other lines of its block."""

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks as they are, their bytes counted."""
        for chunk in chunks:
            self.size_bytes += len(chunk)
            yield chunk

    def begin(self, block: Block) -> None:
        """Look at the next block. What has become common is treated so from here on."""
        self.block = block.text
        self.block_lines = []
        self.block_processes = {}
        self.block_kept = {}
        self.first_line = self.first_line or _first_line(block.text)
        self.long_lines += block.long_lines
        if self.newly_common:
            self.common |= self.newly_common
            self.newly_common = frozenset()
        self.once = self.common if self.blocks % SAMPLED_BLOCKS == 0 else frozenset()
        self.never = frozenset() if self.once else self.common
        self.blocks += 1

    def process(self, line: bytes) -> bytes | None:
        """As `process_of`, remembered by the line's first word or, behind a launcher's tag, its
        first two."""
        if _MAY_BE_PROCESS.search(line, 0, 400) is None:
            return _tagged(line)
        first = line.find(b" ") + 1
        words = (line[:first], line[: line.find(b" ", first) + 1])
        for word in words:
            known = self.processes.get(word)
            if known is not None:
                return known
        for word in words:
            match = _PROCESS.search(word, 0, 400)
            if match is not None and len(self.processes) < _MOST_ENTRIES:
                known = self.processes[word] = match.group(1) + b":" + match.group(2)
                return known
        return process_of(line)

    def book(self, index: int, places: Sequence[int], lines: Mapping[int, bytes]) -> None:
        """The places of lines of the block, ascending, that match the pattern."""
        processes, known = self.block_processes, self.processes
        for at in places:
            if at not in processes:
                line = lines[at]
                process = known.get(line[: line.find(b" ") + 1])
                processes[at] = self.process(line) if process is None else process
        self._book(index, places, lines, processes)

    def book_wrapped(self, index: int, at: int, line: bytes) -> None:
        """A warning that begins in this line of the block, joined, which matches the pattern."""
        self._book(index, (at,), {at: line}, {at: self.process(line)})
        self.block_kept.clear()  # what is kept of that line is not what stands there
        self.has_wrapped = True

    def _book(
        self,
        index: int,
        places: Sequence[int],
        lines: Mapping[int, bytes],
        processes: Mapping[int, bytes | None],
    ) -> None:
        pattern = self.patterns[index]
        is_distinct, keep, after = pattern.distinct, pattern.keep, pattern.after
        first_no, kept = self.lines + 1, self.block_kept
        entries = self.entries[index]
        total = self.totals[index]
        for at in places:
            process = processes[at]
            entry = entries.get(process) or self._new_entry(index, process)
            if entry is None:
                continue
            entry.count += 1
            if is_distinct:
                # What is new makes a pattern less common.
                line = lines[at]
                ending = line[line.rfind(b" ") :]
                if ending in entry.endings:
                    continue
                total = 0
                if self.ending_count < _MOST_ENTRIES:
                    self.ending_count += 1
                    entry.endings.add(ending)
            examples = entry.examples
            if len(examples) >= keep:
                continue
            if self.kept >= _MOST_LINES and examples:
                self.dropped += 1
                continue
            self.kept += 1
            example = kept.get(at)
            if example is None:
                text = lines[at].decode("utf-8", "replace")
                example = kept[at] = _new_line((first_no + at, text, ()))
            examples.append(self._with_behind(example, at, after) if after else example)
        self._count(index, total + len(places))

    def _with_behind(self, line: Line, at: int, after: int) -> Line:
        """The line, which stands there in the block, with so many of those behind it."""
        self.block_lines = self.block_lines or self.block.split(b"\n")
        behind = [
            each.decode("utf-8", "replace") for each in self.block_lines[at + 1 : at + 1 + after]
        ]
        return line._replace(after=() if behind == [""] else tuple(behind))

    def _count(self, index: int, total: int) -> None:
        self.totals[index] = total
        if total > self.patterns[index].common_after and index not in self.common:
            self.newly_common |= {index}

    def _new_entry(self, index: int, process: bytes | None) -> _Entry | None:
        """None = there are too many."""
        if self.entry_count >= _MOST_ENTRIES:
            self.uncounted += 1
            return None
        self.entry_count += 1
        entry = self.entries[index][process] = _Entry()
        entry.count = 0
        entry.examples = []
        if self.patterns[index].distinct:
            entry.endings = set()
        return entry

    def result(self) -> Scan:
        """The finished record."""
        hits: list[tuple[int, str, int, Hit]] = []
        names: dict[bytes | None, str | None] = {None: None}
        for pattern, entries in zip(self.patterns, self.entries, strict=True):
            for process, entry in entries.items():
                examples = entry.examples
                if self.has_wrapped:
                    examples.sort()
                if process is not None and process not in names:
                    names[process] = process.decode("utf-8", "replace")
                hit = _new_hit((pattern.id, names[process], entry.count, tuple(examples)))
                hits.append((examples[0].line_no, pattern.id, len(hits), hit))
        hits.sort()
        problems = _problems_of_long_lines(self.long_lines)
        if self.uncounted:
            problems.append(
                f"{self.uncounted} matches of more than {_MOST_ENTRIES} pairs of pattern and"
                " process were not kept"
            )
        if self.dropped:
            problems.append(
                f"{self.dropped} matching lines beyond the first {_MOST_LINES} were counted and not"
                " kept"
            )
        common = tuple(self.patterns[index].id for index in sorted(self.common | self.newly_common))
        return Scan(
            self.size_bytes,
            self.lines,
            self.first_line,
            tuple(hit for *_, hit in hits),
            common,
            tuple(problems),
            self.long_lines,
        )


_new_line = functools.partial(tuple.__new__, Line)
_new_hit = functools.partial(tuple.__new__, Hit)
"""As `Line` and `Hit`, of a tuple of all fields, in half the time."""


def _problems_of_long_lines(count: int) -> list[str]:
    if not count:
        return []
    return [
        f"{count} lines are longer than {LONGEST_LINE} bytes and were searched only up to there"
    ]


def _first_line(text: bytes) -> str:
    for line in text.split(b"\n"):
        if line.strip():
            return line.decode("utf-8", "replace").strip()[:200]
    return ""


def process_of(line: bytes) -> bytes | None:
    """`host:pid` of an NCCL prefix in the line, else `rank N` of a launcher's or torch's tag; None
    = neither.

    >>> process_of(b"[1,3]<stdout>:gpu2:4711:4720 [3] NCCL INFO Using network IB"), process_of(b"[rank7]:[E710 09:00:00 x.cpp:1] y")
    (b'gpu2:4711', b'rank 7')
    """
    match = _PROCESS.search(line, 0, 400)
    if match is not None:
        return match.group(1) + b":" + match.group(2)
    return _tagged(line)


def _tagged(line: bytes) -> bytes | None:
    """The rank that a launcher's or torch's tag names."""
    if (
        b"<std" not in line
        and b"[rank" not in line
        and b"[default" not in line
        and b"[Rank " not in line
    ):
        return None  # most lines: the search takes ten times as long
    tag = _RANK.search(line, 0, 400)
    return b"rank " + (tag.group(1) or tag.group(2)) if tag is not None else None
