"""Where in gigabytes of text hundreds of regular expressions match: line by line, per process, in constant memory.

Running every expression on every line reads 60 MB/s and less. Here a block of lines is first reduced to *shapes*: lines without digits
and hex letters, in lower case, made by one `bytes.translate` of the block. A log of millions of lines has a few hundred shapes. For each
new shape it is worked out once which expressions could match a line of that shape (`scan_regex`: what remains of the expression must match
what remains of the line); only lines of such shapes are looked at again. With hyperscan installed, it names the expressions that occur in
a block instead.

A wrapped warning (text that runs on in lines without a prefix) is also searched as one line.

>>> scanner = Scanner((Pattern("no-ib", r"NET/IB ?: No device found"),))
>>> found = scanner.scan([b"gpu1:41:42 [0] NCCL INFO NET/IB : No dev", b"ice found.\\ngpu1:41:42 [0] NCCL INFO Using network Socket\\n"])
>>> found.lines, found.hits[0].process, found.hits[0].examples[0].text
(2, 'gpu1:41', 'gpu1:41:42 [0] NCCL INFO NET/IB : No device found.')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from busbw.parsers.formats.scan_blocks import LONGEST_LINE, blocks
from busbw.parsers.formats.scan_hyperscan import HyperscanSieve
from busbw.parsers.formats.scan_sieve import Compiled, ShapeSieve, Sieve, compiled

COMMON_LINES = 20_000
"""Lines after which an expression counts as common: from then on its first match in each block is enough."""
_MOST_ENTRIES = 500_000
_PROCESS = re.compile(rb"((?!\d\d?:)[\w.-]+):(\d+):\d+ ")
_RANK = re.compile(rb"\[(?:\d+,)?(\d+)\](?:\[[^\]\n]*\])?<std|\[(?:rank|default|Rank )(\d+)\]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One expression to look for: Python `re`, case ignored, searched line by line, ASCII classes."""

    id: str
    regex: str
    keep: int = 4
    """How many lines are kept of each process."""
    every_process: bool = False
    """True = never treated as common; instead, each process's lines with the same last word are examined once. For lines that every
    process writes by the thousand, of which one per kind is wanted from each (`… via NET/IB/3/GDRDMA`)."""
    after: int = 0
    """How many lines behind each kept line are kept with it (fewer at the end of a block)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input."""

    line_no: int
    """From 1."""
    text: str
    """Without its line end; a wrapped warning is joined by spaces. Undecodable bytes are shown as U+FFFD."""
    after: tuple[str, ...] = ()
    """The lines behind it, where the pattern asked for them."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Where one expression matched in the output of one process."""

    pattern: str
    """Id of the pattern."""
    process: str | None
    """`host:pid` of the line's NCCL prefix, else `rank N` of its launcher tag; None = the line names neither."""
    count: int
    """Matching lines of this process that were examined; a lower bound where the pattern is common or `every_process`."""
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
    """Patterns that matched more than `COMMON_LINES` lines: after that only one line per block was taken."""
    problems: tuple[str, ...]
    """What was not searched as it should have been, in words."""


class Scanner:
    """A set of patterns, ready to search any number of inputs. It can be pickled: workers of a pool build it from the patterns."""

    def __init__(self, patterns: Sequence[Pattern], *, hyperscan: bool | None = None) -> None:
        """hyperscan: True = use it, False = do not, None = where it is installed.

        Raises:
            ValueError: an expression is not one, or uses syntax that `scan_regex` does not know; or two patterns share an id.
            ImportError: hyperscan is demanded and not installed.
        """
        ids = [pattern.id for pattern in patterns]
        if len(set(ids)) != len(ids):
            raise ValueError(f"pattern ids given twice: {sorted({each for each in ids if ids.count(each) > 1})!r}")
        self.patterns = tuple(patterns)
        self._compiled = tuple(compiled(index, pattern.regex) for index, pattern in enumerate(self.patterns))
        self._hyperscan = hyperscan
        self._sieve = self._best_sieve()

    def __reduce__(self) -> tuple[Callable[..., Scanner], tuple[tuple[Pattern, ...], bool | None]]:
        return (_scanner, (self.patterns, self._hyperscan))

    @property
    def slow(self) -> tuple[str, ...]:
        """Ids of patterns whose plain text is almost all digits and letters a-f (`error|802`): each costs a search of every block."""
        return tuple(self.patterns[each.index].id for each in self._compiled if not each.sieved)

    def _best_sieve(self) -> Sieve:
        if self._hyperscan is False:
            return ShapeSieve(self._compiled)
        try:
            return HyperscanSieve(self._compiled)
        except ImportError:
            if self._hyperscan:
                raise
            return ShapeSieve(self._compiled)

    def scan(self, chunks: Iterable[bytes]) -> Scan:
        """Search one input, given in chunks of any size. Memory depends on the number of processes and patterns, not on the length."""
        tally = _Tally(self.patterns, self._compiled)
        size_bytes = long_lines = 0
        first_line = ""
        for block in blocks(chunks):
            tally.block = block.text
            first_line = first_line or _first_line(block.text)
            self._sieve.search(block.text, tally)
            tally.lines += block.lines
            size_bytes += block.size_bytes
            long_lines += block.long_lines
        return tally.result(size_bytes, long_lines, first_line)


def _scanner(patterns: tuple[Pattern, ...], hyperscan: bool | None) -> Scanner:
    return Scanner(patterns, hyperscan=hyperscan)


class _Entry:
    """Growing counterpart of one Hit."""

    __slots__ = ("count", "examples")

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[Line] = []


class _Tally:
    """What one scan has found so far."""

    def __init__(self, patterns: tuple[Pattern, ...], expressions: tuple[Compiled, ...]) -> None:
        self.patterns = patterns
        self.expressions = expressions
        self.lines = 0
        """Lines of the blocks that are done."""
        self.block = b""
        """The block being searched."""
        self.entries: dict[tuple[int, bytes | None], _Entry] = {}
        self.totals = [0] * len(patterns)
        self.uncounted = 0
        self.processes: dict[bytes, bytes | None] = {}
        """What the first word of a line says of its process."""
        self.seen: set[tuple[int, bytes | None, bytes]] = set()
        """(pattern, process, last word) of the lines that `every_process` patterns have been tried on."""

    def common(self) -> frozenset[int]:
        """Patterns of which one line per block is enough from now on."""
        return frozenset(
            index for index, total in enumerate(self.totals) if total > COMMON_LINES and not self.patterns[index].every_process
        )

    def untried(self, index: int, line: bytes) -> bool:
        """False = an `every_process` pattern has had a line of this process with this last word."""
        if not self.patterns[index].every_process:
            return True
        key = (index, self.process(line), line[line.rfind(b" ") + 1 :])
        if key in self.seen:
            return False
        if len(self.seen) < _MOST_ENTRIES:
            self.seen.add(key)
        return True

    def examine(self, at: int, line: bytes, candidates: Sequence[int]) -> Sequence[int]:
        """Run the candidate expressions on a line and book those that match; gives their indexes."""
        low = line.lower()
        matched = []
        for index in candidates:
            expression = self.expressions[index]
            if expression.literals and not any(literal in low for literal in expression.literals):
                continue
            if expression.regex.search(line) is not None:
                matched.append(index)
        if matched:
            process = self.process(line)
            for index in matched:
                self._book(index, process, at, line)
        return matched

    def process(self, line: bytes) -> bytes | None:
        """As `process_of`, remembered by the line's first word."""
        word = line[: line.find(b" ") + 1]
        known = self.processes.get(word)
        if known is None:
            known = process_of(word)
            if known is None:
                return process_of(line)
            if len(self.processes) < _MOST_ENTRIES:
                self.processes[word] = known
        return known

    def _book(self, index: int, process: bytes | None, at: int, line: bytes) -> None:
        self.totals[index] += 1
        entry = self.entries.get((index, process))
        if entry is None:
            if len(self.entries) >= _MOST_ENTRIES:
                self.uncounted += 1
                return
            entry = self.entries[index, process] = _Entry()
        entry.count += 1
        pattern = self.patterns[index]
        if len(entry.examples) < pattern.keep:
            after = (
                tuple(each.decode("utf-8", "replace") for each in self.block.split(b"\n")[at + 1 : at + 1 + pattern.after])
                if pattern.after
                else ()
            )
            entry.examples.append(Line(self.lines + at + 1, line.decode("utf-8", "replace"), after))

    def result(self, size_bytes: int, long_lines: int, first_line: str) -> Scan:
        """The finished record."""
        hits = [
            Hit(
                self.patterns[index].id,
                process.decode("utf-8", "replace") if process is not None else None,
                entry.count,
                tuple(sorted(entry.examples, key=lambda line: line.line_no)),
            )
            for (index, process), entry in self.entries.items()
        ]
        hits.sort(key=lambda hit: (hit.examples[0].line_no, hit.pattern))
        problems = []
        if long_lines:
            problems.append(f"{long_lines} lines are longer than {LONGEST_LINE} bytes and were searched only up to there")
        if self.uncounted:
            problems.append(f"{self.uncounted} matches of more than {_MOST_ENTRIES} pairs of pattern and process were not kept")
        common = tuple(self.patterns[index].id for index in sorted(self.common()))
        return Scan(size_bytes, self.lines, first_line, tuple(hits), common, tuple(problems))


def _first_line(text: bytes) -> str:
    return next((line.decode("utf-8", "replace").strip()[:200] for line in text.split(b"\n") if line.strip()), "")


def process_of(line: bytes) -> bytes | None:
    """`host:pid` of an NCCL prefix in the line, else `rank N` of a launcher's or torch's tag; None = neither.

    >>> process_of(b"[1,3]<stdout>:gpu2:4711:4720 [3] NCCL INFO Using network IB"), process_of(b"[rank7]:[E710 09:00:00 x.cpp:1] y")
    (b'gpu2:4711', b'rank 7')
    """
    found = _PROCESS.search(line, 0, 400)
    if found is not None:
        return found.group(1) + b":" + found.group(2)
    tag = _RANK.search(line, 0, 400)
    return b"rank " + (tag.group(1) or tag.group(2)) if tag is not None else None
