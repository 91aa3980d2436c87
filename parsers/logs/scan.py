"""Where in gigabytes of text hundreds of regular expressions match: line by line, per process, in
constant memory.

Running every expression on every line reads 60 MB/s and less. Here a block of lines is first
reduced to *shapes*: lines without digits and hex letters, in lower case, made by one
`bytes.translate` of the block. A log of millions of lines has a few hundred shapes. For each new
shape it is worked out once which expressions could match a line of that shape (`scan_sieve`: what
remains of the expression must match what remains of the line); only lines of such shapes are looked
at again.

A wrapped warning (text that runs on in lines without a prefix) is also searched as one line.

>>> scanner = Scanner((Pattern("no-ib", r"NET/IB ?: No device found"),))
>>> found = scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : No dev", b"ice found.\\ngpu1:41:42 [0] NCCL INFO Using network Socket\\n"])
>>> found.lines, found.hits[0].process, found.hits[0].examples[0].text
(2, 'gpu1:41', 'gpu1:41:42 [0] NCCL INFO NET/IB : No device found.')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from busbw.parsers.logs.scan_sieve import (
    LONGEST_LINE,
    Alike,
    Block,
    Compiled,
    Sieve,
    blocks,
    compiled,
)

COMMON_LINES = 5_000
"""Default of `Pattern.common_after`. Five lines of each of a thousand ranks say what there is to
say."""
SAMPLED_BLOCKS = 16
"""In every sixteenth block the first match of a common pattern is still taken: one line in 2 MB."""
_MOST_ENTRIES = 500_000
_MOST_LINES = 1_000_000
"""Kept in all, 250 bytes each."""
_PROCESS = re.compile(rb"((?!\d\d?:)[\w.-]+):(\d+):\d+ ")
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
    first is kept; the others are taken to match as it did, and counted."""
    common_after: int = COMMON_LINES
    """Matching lines (of a distinct pattern: in a row, without anything new) after which it counts
    as common: from then on only one line in 2 MB is taken."""
    after: int = 0
    """How many lines behind each kept line are kept with it (fewer at the end of a block)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input."""

    line_no: int
    """From 1."""
    text: str
    """Without its line end; a wrapped warning is joined by spaces. Undecodable bytes are shown as
    U+FFFD."""
    after: tuple[str, ...] = ()
    """The lines behind it, where the pattern asked for them."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Where one expression matched in the output of one process."""

    pattern: str
    """Id of the pattern."""
    process: str | None
    """`host:pid` of the line's NCCL prefix, else `rank N` of its launcher tag; None = the line
    names neither."""
    count: int
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


class Scanner:
    """A set of patterns, ready to search any number of inputs. It can be pickled: workers of a pool
    build it from the patterns."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """Raises: ValueError: an expression uses syntax that `scan_sieve` does not know; or two
        patterns share an id.
        """
        ids = Counter(pattern.id for pattern in patterns)
        twice = sorted(name for name, count in ids.items() if count > 1)
        if twice:
            raise ValueError(f"pattern ids given twice: {twice!r}")
        self.patterns = tuple(patterns)
        self._compiled = tuple(
            compiled(index, pattern.regex) for index, pattern in enumerate(self.patterns)
        )
        self._sieve = Sieve(self._compiled)

    def __reduce__(self) -> tuple[type[Scanner], tuple[tuple[Pattern, ...]]]:
        return (Scanner, (self.patterns,))

    @property
    def slow(self) -> tuple[str, ...]:
        """Ids of patterns whose plain text is almost all digits and letters a-f (`error|802`): each
        costs a search of every block."""
        return tuple(self.patterns[each.index].id for each in self._compiled if not each.sieved)

    def scan(self, chunks: Iterable[bytes]) -> Scan:
        """Search one input, given in chunks of any size. Memory depends on the number of processes
        and patterns, not on the length."""
        tally = _Tally(self.patterns, self._compiled)
        for block in blocks(tally.counted(chunks)):
            tally.begin(block)
            tally.lines += self._sieve.search(block.text, tally)
        return tally.result()


class _Entry:
    """Growing counterpart of one Hit."""

    __slots__ = ("count", "examples")

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[tuple[int, bytes, bytes]] = []
        """(line number, line, lines behind it). Tuples of plain values: a hundred thousand records
        here keep the garbage collector busy."""


class _Tally:
    """What one scan has found so far."""

    def __init__(self, patterns: tuple[Pattern, ...], expressions: tuple[Compiled, ...]) -> None:
        self.patterns = patterns
        self.expressions = expressions
        self.lines = 0
        """Lines of the blocks that are done."""
        self.block = b""
        """The block being searched."""
        self.block_lines: tuple[int, list[bytes]] = (0, [])
        """The lines of the block with this number, where some line wanted those behind it."""
        self.blocks = 0
        self.common: frozenset[int] = frozenset()
        """Patterns that have matched enough lines; see `Booking` for the two parts of it."""
        self.newly_common: frozenset[int] = frozenset()
        self.once: frozenset[int] = frozenset()
        self.never: frozenset[int] = frozenset()
        self.size_bytes = 0
        self.long_lines = 0
        self.first_line = ""
        self.entries: dict[tuple[int, bytes | None], _Entry] = {}
        self.totals = [0] * len(patterns)
        self.uncounted = 0
        self.kept = 0
        self.dropped = 0
        self.processes: dict[bytes, bytes | None] = {}
        """What the first word of a line says of its process."""
        self.distinct = frozenset(
            index for index, pattern in enumerate(patterns) if pattern.distinct
        )
        self.like: dict[tuple[int, bytes | None, bytes], _Entry] = {}
        """(pattern, process, last word) of the lines that `distinct` patterns matched."""
        self.settled: dict[Alike, tuple[tuple[int, _Entry], ...]] = {}
        """Those lines that only `distinct` patterns want → what such a line counts for."""

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks as they are, their bytes counted."""
        for chunk in chunks:
            self.size_bytes += len(chunk)
            yield chunk

    def begin(self, block: Block) -> None:
        """Look at the next block. What has become common is treated so from here on."""
        self.block = block.text
        self.first_line = self.first_line or _first_line(block.text)
        self.long_lines += block.long_lines
        if self.newly_common:
            self.common |= self.newly_common
            self.newly_common = frozenset()
        self.once = self.common if self.blocks % SAMPLED_BLOCKS == 0 else frozenset()
        self.never = frozenset() if self.once else self.common
        self.blocks += 1

    def examine(self, at: int, line: bytes, candidates: Sequence[int]) -> Sequence[int]:
        """Run the candidate expressions on a line and book those that match; gives their
        indexes."""
        low = line.lower()
        matched: list[int] = []
        alike: list[int] = []
        for index in candidates:
            if index in self.distinct and self._is_like_another(index, line):
                alike.append(index)
                continue
            expression = self.expressions[index]
            if expression.literal_in(low) and expression.regex.search(line) is not None:
                matched.append(index)
        for index in matched:
            self.book(index, ((at, line),))
        return [*matched, *alike] if alike else matched

    def book_alike(
        self, key: Alike, lines: Sequence[bytes], places: Sequence[int], candidates: Sequence[int]
    ) -> None:
        """As `Booking`. What such lines count for is remembered where the first word tells the
        process: it is the same for all of them."""
        counts = self.settled.get(key)
        if counts is None:
            counts, places = self._settle(key, lines, places, candidates)
        for index, entry in counts:
            if index not in self.common:
                entry.count += len(places)
                self._count(index, len(places))

    def _settle(
        self, key: Alike, lines: Sequence[bytes], places: Sequence[int], candidates: Sequence[int]
    ) -> tuple[tuple[tuple[int, _Entry], ...], Sequence[int]]:
        """Examine the lines until one of them tells the process. Gives what each line counts for,
        and those not examined."""
        for position, at in enumerate(places):
            matched = self.examine(at, lines[at], candidates)
            process = self.processes.get(key[0])
            if process is not None and len(self.settled) < _MOST_ENTRIES:
                counts = []
                for index in matched:
                    entry = self.entries.get((index, process))
                    if entry is not None:
                        counts.append((index, entry))
                self.settled[key] = tuple(counts)
                return self.settled[key], places[position + 1 :]
        return (), ()

    def _is_like_another(self, index: int, line: bytes) -> bool:
        """It is counted with a matching line of the same process and with the same last word: by
        far the most lines end here."""
        process = self.processes.get(line[: line.find(b" ") + 1])
        if process is None:
            return False
        entry = self.like.get((index, process, line[line.rfind(b" ") :]))
        if entry is None:
            return False
        entry.count += 1
        self._count(index)
        return True

    def _count(self, index: int, lines: int = 1) -> None:
        self.totals[index] += lines
        if self.totals[index] > self.patterns[index].common_after and index not in self.common:
            self.newly_common |= {index}

    def process(self, line: bytes) -> bytes | None:
        """As `process_of`, remembered by the line's first word or, behind a launcher's tag, its
        first two."""
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

    def book(self, index: int, lines: Sequence[tuple[int, bytes]]) -> None:
        """As `Booking`."""
        pattern, entries, processes = self.patterns[index], self.entries, self.processes
        first_no = self.lines + 1
        for at, line in lines:
            process = processes.get(line[: line.find(b" ") + 1]) or self.process(line)
            entry = entries.get((index, process))
            if entry is None:
                if len(entries) >= _MOST_ENTRIES:
                    self.uncounted += 1
                    continue
                entry = entries[index, process] = _Entry()
            entry.count += 1
            if pattern.distinct and not self._is_new(index, process, line, entry):
                continue
            if len(entry.examples) >= pattern.keep:
                continue
            if self.kept >= _MOST_LINES and entry.examples:
                self.dropped += 1
            else:
                self.kept += 1
                after = self._behind(at, pattern.after) if pattern.after else b""
                entry.examples.append((first_no + at, line, after))
        self._count(index, len(lines))

    def _behind(self, at: int, lines: int) -> bytes:
        """So many lines of the block behind the one at `at`."""
        if self.block_lines[0] != self.blocks:
            self.block_lines = self.blocks, self.block.split(b"\n")
        return b"\n".join(self.block_lines[1][at + 1 : at + 1 + lines])

    def _is_new(self, index: int, process: bytes | None, line: bytes, entry: _Entry) -> bool:
        """The first line of the process with this last word. What is new makes a pattern less
        common."""
        key = (index, process, line[line.rfind(b" ") :])
        if key in self.like:
            return False
        self.totals[index] = 0
        if len(self.like) < _MOST_ENTRIES:
            self.like[key] = entry
        return True

    def result(self) -> Scan:
        """The finished record."""
        hits = []
        for (index, process), entry in self.entries.items():
            examples = tuple(_line(*example) for example in sorted(entry.examples))
            name = process.decode("utf-8", "replace") if process is not None else None
            hits.append(Hit(self.patterns[index].id, name, entry.count, examples))
        hits.sort(key=lambda hit: (hit.examples[0].line_no, hit.pattern))
        problems = []
        if self.long_lines:
            problems.append(
                f"{self.long_lines} lines are longer than {LONGEST_LINE} bytes and were searched"
                " only up to there"
            )
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
            self.size_bytes, self.lines, self.first_line, tuple(hits), common, tuple(problems)
        )


def _line(line_no: int, text: bytes, after: bytes) -> Line:
    further = tuple(each.decode("utf-8", "replace") for each in after.split(b"\n")) if after else ()
    return Line(line_no, text.decode("utf-8", "replace"), further)


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
    tag = _RANK.search(line, 0, 400)
    return b"rank " + (tag.group(1) or tag.group(2)) if tag is not None else None
