"""How the lines of a text make up runs of nccl-tests: where one begins, what belongs to it, where
it ends.

A run is printed in a fixed order (configuration, devices, column names, rows, out of bounds,
average); a line of an earlier phase begins a new run. Processes that MPI did not join each print a
run of their own into the same text: their heads stand together above mixed rows.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from busbw.model.benchmark import RankLine
from busbw.parsers.nccl_tests.checks import (
    CONFIG,
    Quoted,
    RunFacts,
    algbw_fits,
    factor_interval,
    share_interval,
)
from busbw.parsers.nccl_tests.layout import (
    FRAGMENT,
    HEAD,
    START,
    Cells,
    Layout,
    ReadRow,
    header,
    take_row,
    with_groups,
    with_units,
)

# What launchers, log collectors and people put in front of a line: which process wrote it, when,
# and the line itself.
#
# Written against the output tags of Open MPI 4 and 5, srun --label, hydra -l, torchrun, Ray, pdsh
# and clush, the log prefixes of kubectl,
# docker compose, syslog and Python logging, and the quoting of GitHub, Markdown, Ansible and
# e-mail.
#
# >>> split("[1,3]<stdout>:#   Rank  0")
# Prefixed(tag='1,3', text='#   Rank  0')
# >>> split(" 0:      8388608       2097152     float")
# Prefixed(tag='0', text='      8388608       2097152     float')
# >>> split("2026-07-10T09:00:00.25Z (worker, rank=0, pid=380) [1,0]<stdout>:# Avg bus bandwidth
# : 12.5")
# Prefixed(tag='worker, rank=0, pid=380/1,0', text='# Avg bus bandwidth    : 12.5')
# >>> split("     8388608       2097152     float")
# Prefixed(tag='', text='     8388608       2097152     float')


class Prefixed(NamedTuple):
    """A line without what stood in front of it."""

    tag: str
    """Which process wrote it (rank, host, pod, task), "" = nobody says. Time stamps are not part of
    it."""
    text: str


_CTIME = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\]?"
_CONTENT = r"(?=\s*(?:#|$|\d+\s+\d+\s+[a-z]|[\d.e+-]+\s+[\d.e+]+\s+[\d.e+]+))"
"""What a table line goes on with: prefixes that are ordinary words are taken only in front of
this."""

_PREFIXES = re.compile(
    "|".join(
        (
            # Open MPI 4, 5: tags
            rf"\s*(?:{_CTIME})?\[(?P<ompi>(?:[^\[\],\s]+,)?\d+)\](?:\[[^\[\]]+\])?<(?:stdout|stderr|stddiag)>:",
            rf"\s*{_CTIME}<(?:stdout|stderr|stddiag)>:",  # Open MPI: time stamps alone
            r'\s*<std(?:out|err) rank="(?P<xml>\d+)">',  # Open MPI 5: --output xml
            r"\s*\[(?P<torch>(?:rank|default)\d+)\]:",  # torchrun
            r"\s*\((?P<ray>[^()]{0,120}?\b(?:pid|rank|ip)=[^()]{1,120})\)",  # Ray, SkyPilot
            # ISO 8601
            (
                r"\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?:"
                r" std(?:out|err) [FP])?(?=\s|$)"
            ),
            r"\s*\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?=\s+\S)",  # time of day
            # syslog, journalctl
            r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d (?P<syslog>[\w.-]+) [^\s:]+:",
            # Python logging
            r"(?:- )?(?:[\w.]+ - )?(?:INFO|DEBUG|WARNING)(?: -(?= )|:[\w.]+:|:?(?= ))",
            r"\s*(?P<srun>\d{1,6}):(?=[ #]|$)",  # srun --label
            r"\s*\[(?P<hydra>\d{1,5})\](?= |$)",  # hydra -l
            # [node01], [pod/name/container]
            rf"\s*\[(?P<bracket>[A-Za-z][\w.-]*(?:[/:][\w.-]+)*)\]:?{_CONTENT}",
            rf"\s*(?P<pdsh>[A-Za-z][\w.-]*):{_CONTENT}",  # pdsh, clush
            rf"\s*(?P<compose>[A-Za-z][\w.-]*)\s*\|{_CONTENT}",  # docker compose
            # grep over several files
            rf"(?P<grep>[\w./-]+\.(?:log|out|txt|err|o\d+)(?:\.\d+)?)[:-](?:\d+[:-])?{_CONTENT}",
            rf"\s*\d{{1,7}}\t{_CONTENT}",  # cat -n
            r"\s*[>+](?=\s*(?:[#\[(<\d]|$))",  # quoting
            # lists, strings, docker's JSON log
            rf"""\s*(?:[-*•] |["'`]|:mark:`|\{{"log":"){_CONTENT}""",
        )
    )
)
_MAY_BEGIN = re.compile(r"""\s*(?:[\[({<>+"'`•:A-Z]|\d{1,6}:|\d{4}-\d\d|\d+\t|[-*] |\S*[:|-])""")
"""Cheap test: a line that does not begin like this has no prefix."""
_DEEPEST = 5
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_INVISIBLE = {0: None, 0x200B: None, 0xFEFF: None, 0xA0: " ", 0x202F: " ", 0x3000: " ", 0x2212: "-"}


def split(line: str) -> Prefixed:
    """The line without its prefixes (up to five stacked ones), and who wrote it.

    A space that a launcher puts behind its tag stays: whether it does is not told by one line, and
    columns only need all lines alike."""
    position = 0
    tags: list[str] = []
    for _ in range(_DEEPEST):
        if not _MAY_BEGIN.match(line, position):
            break
        match = _PREFIXES.match(line, position)
        if match is None or match.end() == position:
            break
        if match.lastgroup:
            tags.append(match[match.lastgroup].strip())
        position = match.end()
    return Prefixed("/".join(tags), line[position:])


def undecorate(line: str) -> str:
    """The line without colours, NULs, invisible characters, HTML entities and line ends; no-break
    spaces become spaces.

    >>> undecorate("\\x1b[32m[1,0]&lt;stdout&gt;:#\\x1b[0m\\r\\n")
    '[1,0]<stdout>:#'
    """
    line = line.rstrip("\r\n")
    if not line.isascii():
        line = line.translate(_INVISIBLE)
    elif "\0" in line:
        line = line.replace("\0", "")
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "&" in line and ";" in line:
        line = html.unescape(line).replace("\xa0", " ")
    return line


# The lines of nccl-tests output that are not rows: what each looks like and what it says.
#
# >>> rank_line("#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA
# H200").bus_id
# '0000:18:00'
# >>> program_of("mpirun -np 16 ./build/all_reduce_perf -b 8 -e 8G")
# 'all_reduce'

_END = r"[\s\"'`,;\\|]*$"
"""Quotes may follow, but not words: those make it a sentence about such a line."""
OUT_OF_BOUNDS = re.compile(rf"Out of bounds values\s*:\s*(\d{{1,18}})\s*(OK|FAILED)?{_END}")
AVERAGE = re.compile(
    r"Avg bus"
    rf" bandwidth\s*:\s*(-?(?:\d+(?:\.\d*)?(?:e[+-]?\d{{1,4}})?|nan|inf))(\s*)(?:GB/s)?(OK|FAILED)?{_END}"
)
TESTS_VERSION = re.compile(
    r"nccl-tests version"
    r" (\S+)(?:\s+nccl-headers=(\d{1,9}))?(?:\s+nccl-library=(\d{1,9}))?|rccl-tests: Version (\S+)"
)
NCCL_VERSION = re.compile(r"\b[NR]CCL version ?:? ?(\d\S*)")
REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
FAILURE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure \S+:\d+|Test timeout|Invalid number of GPUs:"
    r" \d|Incompatible NCCL versions"
    r"|invalid sizes? (?:for|specified)"
)
NOTE = re.compile(
    r"invalid (?:type|op) \S+, defaulting to|[Oo]ption -\w .*(?:not supported|requires)|\(-\w\)"
    r" .*Disabling\.|skipping json output"
)
"""What was asked for and not done."""
NRANKS = re.compile(r"\bnranks ([1-9]\d{0,8})")
HEADER_PART = re.compile(r"\b(?:size|bytes)\b.*\b(?:count|N)\b.*\btype\b")
LOG_HOST = re.compile(r"^([A-Za-z0-9][\w.-]*):\d+:\d+ ")
_RANK = re.compile(
    r"Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+(?P<group>\d{1,9})\s+)?Pid\s+(?P<pid>\d{1,9})\s+on\s+(?P<host>\S.{0,255}?)\s+device\s+(?P<device>\d{1,9})\s+"
    r"\[(?P<bus>[0-9a-fA-Fx:.]+)\]\s*(?P<name>.{0,255})"
)
_PROGRAM = re.compile(
    r"(?<![a-z_])(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|scatter|gather|hypercube)(?:_perf|\.cu:\d)"
)


def rank_line(text: str) -> RankLine | None:
    """One entry of the device table; None = the line is none."""
    match = _RANK.search(text)
    if match is None:
        return None
    return RankLine(
        rank=int(match["rank"]),
        host=match["host"],
        device=int(match["device"]),
        device_name=match["name"].strip(" `\"',\t"),
        pid=int(match["pid"]),
        group=int(match["group"]) if match["group"] is not None else None,
        bus_id=match["bus"],
    )


def program_of(text: str) -> str | None:
    """The collective whose program (or source file) a line names; None = none."""
    match = _PROGRAM.search(text)
    return match[1] if match else None


# Which lines of a text can belong to nccl-tests output, found in constant memory and without
# looking closely at the others.
#
# Most of a job's text is NCCL's log. Blocks without any word of a table are skipped whole; log
# lines are looked at only where a row may be
# glued to them.
#
# >>> [line.text for line in candidates([b"node-a:1:2 [0] NCCL INFO Connected all rings\n# Avg bus
# ", b"bandwidth    : 12.5 \n"])]
# ['# Avg bus bandwidth    : 12.5 ']

_BLOCK = 1 << 18
_LONGEST_LINE = 1 << 16
_TYPE_WORDS = ("float", "half", "double", "int8", "int32", "int64", "f8e", "fp8_", "char ", "int ")
_TABLE_WORDS = (
    "algbw", "busbw", "Rank", "nThread", "bandwidth", "bounds", "_perf", "nccl-tests", "CCL version", "rccl-tests", "Test ",
    "Using devices", "maxBytes", "-of-place", "in-place", "(GB/s)", "# error:", "#wrong", "requested but only", "Incompatible NCCL",
    "invalid ", "ption -", "Disabling.", "skipping json",
)  # fmt: skip
_BLOCK_WORDS = tuple(
    word.encode()
    for word in (
        *("float", "half", "double", "int8", "int32", "int64", "f8e", "fp8_"),
        *(
            "algbw",
            "Pid",
            "nThread",
            "bandwidth",
            "bounds",
            "_perf",
            "CCL version",
            "ccl-tests",
            "Test ",
            "Using devices",
        ),
    )
)
"""Words of which every piece of a run has one: a block without any is not looked at. Pieces of torn
rows follow a row that has one."""
_PIECE = re.compile(
    r"^\s*[.\d]|^/?A\s|^/?A$|(?:^|\s|>:)(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|none|sum|prod|max|min|avg|mulsum)(?:\s|$|[A-Za-z\[({<#])"
)
"""A cell somewhere in the line: what the rest of a torn row has."""
_FACT_WORDS = ("nranks ", "CCL version", "Test ")

_CELLS = 8
"""So many bars or commas make a line one of a Markdown table or a CSV file."""


class Line(NamedTuple):
    """A line that can belong to a table."""

    number: int
    """From 1."""
    tag: str
    """Which process wrote it, as a launcher's prefix says; "" = unknown."""
    text: str
    ended: bool
    """False = the text ends here without a line end."""


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text again, in blocks that end behind a line end (but the last, and but lines longer than
    256 KiB)."""
    kept = b""
    for chunk in chunks:
        kept += chunk
        if len(kept) < _BLOCK:
            continue
        cut = kept.rfind(b"\n") + 1
        if cut == 0:
            cut = len(kept) - 1  # never between \r and \n
        yield kept[:cut]
        kept = kept[cut:]
    if kept:
        yield kept


def candidates(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines that can belong to nccl-tests output, without launcher prefixes and colours."""
    number = 0
    in_table = False
    for block in blocks(chunks):
        if not in_table and not any(word in block for word in _BLOCK_WORDS):
            number += block.count(b"\n")
            continue
        lines = block.decode("utf-8", "replace").split("\n")
        last = lines.pop()
        for raw in lines:
            number += 1
            if _wanted(raw, in_table):
                for line in _lines(number, raw, True, in_table):
                    in_table = _still_in_table(line.text, in_table)
                    yield line
        if last and _wanted(last, in_table):
            yield from _lines(number + 1, last, False, in_table)
            in_table = _still_in_table(last, in_table)


def _still_in_table(text: str, in_table: bool) -> bool:
    """Whether rows may follow: from the column names or a first row to the average."""
    if "algbw" in text or HEAD.search(text):
        return True
    return in_table and "bandwidth" not in text


def _wanted(line: str, in_table: bool) -> bool:
    """Cheap test on a raw line; what it lets through is looked at again."""
    if " NCCL " in line:
        return "  " in line or "\t" in line or any(word in line for word in _FACT_WORDS)
    if in_table and _PIECE.search(line):
        return True
    return any(word in line for word in _TABLE_WORDS) or any(word in line for word in _TYPE_WORDS)


def _lines(number: int, raw: str, ended: bool, in_table: bool) -> Iterator[Line]:
    """One physical line as the lines it holds: usually one; several where line ends were written as
    `\\r` or as `\\n` in quotes."""
    raw = raw[:_LONGEST_LINE].rstrip("\r")
    if "\\n" in raw:
        raw = raw.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")
    pieces = re.split(r"[\r\n]+", raw)
    for position, piece in enumerate(pieces):
        tag, text = split(undecorate(piece))
        if text.count("|") >= _CELLS or text.count(",") >= _CELLS:
            text = _unlined(text)
        if (
            " NCCL " in text
            and not HEAD.search(text)
            and not (in_table and FRAGMENT.match(text))
            and not any(w in text for w in _FACT_WORDS)
        ):
            continue
        yield Line(number, tag, text, ended or position < len(pieces) - 1)


def _unlined(text: str) -> str:
    """A row or the column names of a Markdown table or a CSV file, with blanks for the bars or
    commas; other text as it is."""
    plain = text.replace("|", " ").replace(",", " ")
    return plain if "algbw" in text or HEAD.search(plain) else text


# How a row that other text tore apart is put together again.
#
# nccl-tests writes a row in steps (the head, each placement, the line end) while NCCL logs to the
# same stream, launchers end unfinished
# lines, and terminals wrap long ones. The pieces are joined where the result is a row whose
# bandwidths are its size over its times.
#
# >>> rows = RowJoiner(hosts={"node-a"})
# >>> rows.take(Line(1, "", "     8388608       2097152     float     sum
# -1node-a:41011:41040 [0] NCCL INFO", True), None).rest
# 'node-a:41011:41040 [0] NCCL INFO'
# >>> piece = rows.resume(Line(2, "", "    96.41   87.01  163.14       0    95.88   87.49  164.05
# 0", True), None)
# >>> piece.found[0].line.number, piece.found[0].read.row.in_place.time_us
# (1, 95.88)

_CUT_CELL = re.compile(r"\s*(?:-?\d*\.?\d*(?:e[+-]?\d*)?|N/?|[a-z]{1,7})")
_CELL_END = re.compile(r"(?:\.\d*|/?A|e?[+-]?\d+)(?=\s|$)")
_LONGEST_CELL = 80
"""Characters with the blanks before it; a column is at most 20 wide."""
_LONGEST_ROW = 4096
"""Characters; a whole row has about 300. What is longer is no row that was torn, and to read it
again with every line would never end."""


class Found(NamedTuple):
    """A row, or the line on which one began that was never finished."""

    line: Line
    """Where it began."""
    read: ReadRow | None
    """None = torn."""
    not_finite: bool = False
    """True = a measurement is nan or inf and was left out."""


class Piece(NamedTuple):
    """What a line gave."""

    found: tuple[Found, ...]
    """Rows that are finished with it, and rows given up because of it; () = it only carried a row
    on."""
    rest: str
    """What stands behind the last cell: foreign text, or nothing."""


class _Pending(NamedTuple):
    """The part of a row that was read so far."""

    line: Line
    text: str
    """Up to its last whole cell."""
    begun: str
    """Behind that, the beginning of a cell that the line's end cut; mostly nothing."""
    last: int
    """Number of the last line it was read from."""
    single: ReadRow | None = None
    """The row it is if nothing follows: without column names, half a row looks like a row of one
    placement."""


@dataclass(slots=True)
class RowJoiner:
    """Takes rows out of the lines of one writer."""

    hosts: set[str] = field(default_factory=set)
    """Names that may stand glued to a cell."""
    pending: _Pending | None = None
    """The row that was begun and is not finished."""

    def take(self, line: Line, layout: Layout | None, one_placement: bool = False) -> Piece:
        """The rows that begin in a line. `one_placement` = rows of this table measure only one
        placement."""
        text = line.text
        found: list[Found] = []
        while (head := HEAD.search(text)) is not None:
            resumed = self.resume(line._replace(text=text[: head.start()]), layout)
            found += resumed.found if resumed else ()
            found += self.give_up(one_placement)
            cells = take_row(text, layout, self._hosts())
            if cells is None:
                break
            before = text[: cells.begin]
            part = text[: cells.end] if not before.strip() else text[cells.begin : cells.end]
            text = text[cells.end :]
            if cells.read is None:
                self.pending = _Pending(line, part, _begun(text), line.number)
            elif layout is None and len(cells.read.measured()) == 1 and not cells.not_finite:
                self.pending = _Pending(line, part, _begun(text), line.number, cells.read)
            else:
                found.append(_checked(line, cells))
        return Piece(tuple(found), text)

    def goes_on(self, line: Line) -> bool:
        """Whether a line begins as the rest of the row that was begun: with a cell, or, in the very
        next line, with the end of one."""
        if self.pending is None:
            return False
        return bool(
            FRAGMENT.match(line.text)
            or (line.number == self.pending.last + 1 and _CELL_END.match(line.text))
        )

    def resume(self, line: Line, layout: Layout | None) -> Piece | None:
        """What a line adds to the row that was begun; None = it is no part of it."""
        pending = self.pending
        if pending is None or len(pending.text) > _LONGEST_ROW or not self.goes_on(line):
            return None
        longer: _Pending | None = None
        rest = ""
        for joined in (pending.text + pending.begun + line.text, f"{pending.text} {line.text}"):
            cells = take_row(joined, layout, self._hosts())
            if cells is None and (start := START.match(joined)) and start.end() > len(pending.text):
                longer, rest = (
                    _Pending(pending.line, start[0], _begun(joined[start.end() :]), line.number),
                    joined[start.end() :],
                )
            if cells is None:
                continue
            if (
                cells.read is not None
                and _adds_up(cells.read)
                and (pending.single is None or len(cells.read.measured()) == 2)
            ):
                self.pending = None
                return Piece((_checked(pending.line, cells),), joined[cells.end :])
            if cells.read is None and cells.end > len((longer or pending).text):
                longer, rest = (
                    _Pending(
                        pending.line, joined[: cells.end], _begun(joined[cells.end :]), line.number
                    ),
                    joined[cells.end :],
                )
        if longer is None:
            return None
        self.pending = longer
        return Piece((), rest)

    def begin(self, line: Line) -> bool:
        """Takes a line as the start of a row that was torn before its type; False = it is none."""
        start = START.match(line.text)
        if start is None or self.pending is not None:
            return False
        self.pending = _Pending(line, start[0], "", line.number)
        return True

    def give_up(self, one_placement: bool) -> tuple[Found, ...]:
        """Ends the row that was begun: torn, unless rows of one placement are what this table
        has."""
        pending, self.pending = self.pending, None
        if pending is None or not HEAD.search(pending.text):
            return ()  # numbers that were no row
        return (Found(pending.line, pending.single if one_placement else None),)

    def _hosts(self) -> tuple[str, ...]:
        return tuple(sorted(self.hosts, key=len, reverse=True))


def _begun(rest: str) -> str:
    """What stands behind the last whole cell, where it can be the beginning of one."""
    return rest if len(rest) <= _LONGEST_CELL and _CUT_CELL.fullmatch(rest) else ""


def _checked(line: Line, cells: Cells) -> Found:
    """A whole row; torn after all where it has more elements than bytes, so that its size has lost
    digits."""
    read = cells.read
    if read is not None and read.row.size_bytes < read.row.count:
        return Found(line, None)
    return Found(line, read, cells.not_finite)


def _adds_up(read: ReadRow) -> bool:
    """Whether a row that was put together can be one: bandwidth is size / time, or the same share
    of it in both placements (alltoallv and hypercube count less than the size), and busbw / algbw
    is one factor in both."""
    measured = read.measured()
    exact = all(algbw_fits(read.row.size_bytes, value, slack) for value, slack in measured)
    shares = [
        share
        for value, slack in measured
        if (share := share_interval(read.row.size_bytes, value, slack)) is not None
    ]
    alike = (
        len(shares) == 2
        and max(low for low, _ in shares) <= min(high for _, high in shares)
        and shares[0][0] <= 1
    )
    return (exact or alike) and (
        factor_interval((read,)) is not None or all(value.algbw_gb_s < 1 for value, _ in measured)
    )


# One run of nccl-tests while it is being read: how far it has come and what has been seen of it.

MOST_QUOTED = 1000
"""Lines of one kind that are kept to be quoted."""


class Phase(IntEnum):
    """How far a run has come."""

    PREFACE = 0
    DEVICES = 1
    HEADER = 2
    ROWS = 3
    OUT_OF_BOUNDS = 4
    AVERAGE = 5


@dataclass(slots=True)
class Run:
    """A run while it is being read."""

    first_line: int
    phase: Phase = Phase.PREFACE
    facts: RunFacts = field(default_factory=RunFacts)
    rows: list[ReadRow] = field(default_factory=list)
    torn: list[Quoted] = field(default_factory=list)
    ranks: list[RankLine] = field(default_factory=list)
    logged_ranks: Counter[int] = field(default_factory=Counter)
    layout: Layout | None = None
    footers: int = 0
    is_table: bool = False
    """Something of a table was seen, not only a version or a program's name."""

    def set(self, **changes: object) -> None:
        """Replaces fields of `facts`."""
        self.facts = replace(self.facts, **changes)  # type: ignore[arg-type]  # dataclasses.replace cannot type a field by its name

    def writers(self) -> int:
        """How many processes say that they are the first one: device lists that name the same
        rank."""
        return max(Counter(entry.rank for entry in self.ranks).values(), default=1)

    def parts(self) -> frozenset[str]:
        """Which parts of a run it has."""
        facts = self.facts
        there = {
            "configuration": bool(facts.config),
            "devices": bool(self.ranks),
            "names": self.layout is not None,
            "rows": bool(self.rows),
            "footer": self.footers > 0 or facts.out_of_bounds is not None,
        }
        return frozenset(name for name, present in there.items() if present)

    def one_placement(self) -> bool:
        """Whether its rows can be of one placement: none of them has two."""
        return not any(len(read.measured()) == 2 for read in self.rows)

    def add(self, found: Iterable[Found]) -> None:
        """Takes rows, whole and torn."""
        for line, read, not_finite in found:
            quoted = Quoted(line.number, line.text)
            if read is None:
                self.torn += [quoted] if len(self.torn) < MOST_QUOTED else []
                continue
            self.rows.append(replace(read, row=replace(read.row, line_no=line.number)))
            if not_finite:
                self.set(not_finite=(*self.facts.not_finite, quoted)[:MOST_QUOTED])

    def sealed(self) -> RunFacts:
        """The facts with rows and what was counted along the way."""
        return replace(
            self.facts,
            rows=tuple(self.rows),
            ranks=tuple(self.ranks),
            torn=tuple(sorted(self.torn, key=lambda line: line.line_no)),
            logged_ranks=tuple(number for number, _ in self.logged_ranks.most_common()),
            has_header=self.layout is not None,
        )


_LONGEST_HEADER = 1000
"""Characters of column names that may still go on in the next line; a whole header has about
250."""


@dataclass(slots=True)
class RunReader:
    """Turns the lines of one writer into runs."""

    runs: list[Run] = field(default_factory=list)
    current: Run | None = None
    waiting: list[Run] = field(default_factory=list)
    """Runs that have a head and no column names yet, since the last run that ended: of other
    processes, or of a run that died."""
    rows: RowJoiner = field(default_factory=RowJoiner)
    program: str | None = None
    nccl_versions: tuple[str, ...] = ()
    logged_ranks: Counter[int] = field(default_factory=Counter)
    failures: tuple[Quoted, ...] = ()
    groups: str = ""
    half_header: Line | None = None
    """Column names that may go on in the next line."""

    def feed(self, line: Line) -> None:
        """Takes the next line."""
        text = line.text
        if HEAD.search(text):
            self._rows(line)
        elif (
            "algbw" in text
            or "busbw" in text
            or HEADER_PART.search(text)
            or self.half_header is not None
        ):
            if not self._header(line):
                self._other(line)
        else:
            self._other(line)

    def goes_on(self, line: Line) -> bool:
        """Whether a line without a tag is the rest of this writer's last one, which a terminal
        wrapped."""
        return self.half_header is not None or self.rows.goes_on(line)

    def finish(self) -> list[Run]:
        """All runs, in the order they began."""
        self._give_up()
        self._close()
        self.runs += self.waiting
        self.waiting = []
        return sorted((run for run in self.runs if run.is_table), key=lambda run: run.first_line)

    # --- runs ---

    def _run(self, line: Line, phase: Phase, again: bool = False) -> Run:
        """The run a line of this phase belongs to; `again` = the run has had a line of this very
        kind already."""
        run = self.current
        if run is not None and (phase < run.phase or again):
            if run.phase < Phase.HEADER:
                self.waiting.append(run)
            else:
                self._give_up()
                self._close()
            run = None
        if run is None:
            run = self._begin(line)
        if phase > run.phase:
            run.phase = phase
        return run

    def _begin(self, line: Line) -> Run:
        run = Run(line.number)
        run.set(program=self.program, nccl_versions=self.nccl_versions, failures=self.failures)
        run.logged_ranks = self.logged_ranks
        self.program, self.nccl_versions, self.failures, self.logged_ranks = None, (), (), Counter()
        self.current = run
        return run

    def _close(self) -> None:
        if self.current is not None:
            self.runs.append(self.current)
            self.current = None

    def _header(self, line: Line) -> bool:
        """Column names, whole or wrapped over several lines."""
        text, run = line.text, self.current
        layout = header(text)
        if self.half_header is not None and len(self.half_header.text) > _LONGEST_HEADER:
            self.half_header = None
        wrapped = (
            self.half_header is not None
            and line.number == self.half_header.number + 1
            and layout is None
            and "(" not in text
        )
        if wrapped and self.half_header is not None and not FRAGMENT.match(text):
            joined = (self.half_header.text + text, f"{self.half_header.text} {text.lstrip()}")
            layouts = [found for candidate in joined if (found := header(candidate)) is not None]
            layout = max(
                layouts,
                key=lambda found: sum(column.name != "other" for column in found.columns),
                default=None,
            )
            if (
                layout is not None
                and run is not None
                and run.phase is Phase.HEADER
                and run.layout is not None
            ):
                run.layout, self.half_header = layout, line._replace(text=joined[0])
                return True
        if layout is None and not HEADER_PART.search(text):
            return False
        if layout is not None:
            self._set_header(line, with_groups(layout, self.groups))
        self.half_header = line if layout is None or layout.blocks == 1 else None
        return True

    def _set_header(self, line: Line, layout: Layout) -> None:
        run = self.current
        if (
            run is not None
            and run.phase in (Phase.HEADER, Phase.ROWS)
            and (not run.rows or self.waiting or run.writers() > run.facts.copies)
        ):
            if self.waiting:
                other = self.waiting.pop(0)
                run.ranks += other.ranks
                run.first_line = min(run.first_line, other.first_line)
            run.set(copies=run.facts.copies + 1)
            return
        run = self._run(line, Phase.HEADER, again=run is not None and run.phase >= Phase.HEADER)
        run.layout, run.is_table = layout, True

    def _rows(self, line: Line) -> None:
        run = self._run_of_rows(line)
        piece = self.rows.take(line, run.layout, run.one_placement())
        run.add(piece.found)
        if piece.rest.strip():
            self._facts(line, piece.rest)

    def _run_of_rows(self, line: Line) -> Run:
        run = self.current
        mixed = (
            run is not None and run.phase >= Phase.OUT_OF_BOUNDS and run.footers < run.facts.copies
        )
        run = run if run is not None and mixed else self._run(line, Phase.ROWS)
        run.is_table = True
        return run

    def _give_up(self) -> None:
        if self.current is not None:
            self.current.add(self.rows.give_up(self.current.one_placement()))

    # --- everything else ---

    def _other(self, line: Line) -> None:
        text = line.text
        run = self.current
        piece = self.rows.resume(line, run.layout) if run is not None else None
        if run is not None and piece is not None:
            run.add(piece.found)
            self._facts(line, piece.rest)
            return
        if "-of-place" in text or "in-place" in text:
            self.groups = text
        elif "(GB/s)" in text or "(MB/s)" in text:
            if run is not None and run.layout is not None and run.phase is Phase.HEADER:
                run.layout = with_units(run.layout, text)
        elif not self._preface(line) and not self._footer(line):
            self._facts(line, text)
            if (
                run is not None
                and run.phase in (Phase.HEADER, Phase.ROWS)
                and not self.rows.begin(line)
            ):
                self._orphan(line, run)

    def _orphan(self, line: Line, run: Run) -> None:
        """Cells without a row: at least three of them, between column names and footer, beginning
        the line."""
        words = line.text.split() if FRAGMENT.match(line.text) else []
        cells = next(
            (at for at, word in enumerate(words) if not FRAGMENT.fullmatch(word)), len(words)
        )
        if cells >= 3:
            run.add((Found(line, None),))

    def _preface(self, line: Line) -> bool:
        """Versions, configuration, devices."""
        text = line.text
        if "ersion" in text and (match := TESTS_VERSION.search(text)):
            modern = match[1] is not None
            run = self._run(
                line,
                Phase.PREFACE,
                again=modern
                and self.current is not None
                and self.current.facts.tests_version is not None,
            )
            run.set(
                tests_version=match[1] or match[4],
                headers_code=_int(match[2]),
                library_code=_int(match[3]),
            )
        elif "nThread" in text and len(pairs := CONFIG.findall(text)) >= 3:
            run = self._run(
                line,
                Phase.PREFACE,
                again=bool(self.current is not None and self.current.facts.config),
            )
            run.set(config=tuple((name, value + unit) for name, value, unit in pairs))
            run.is_table = True
        elif "Collective test starting" in text:
            run = self._run(line, Phase.PREFACE)
            run.set(program=program_of(text) or run.facts.program)
            run.is_table = True
        elif "Using devices" in text:
            self._devices(line)
        elif "Rank" in text and (entry := rank_line(text)):
            self.rows.hosts.add(entry.host)
            run = self._devices(line)
            run.ranks.append(entry)
        elif "maxBytes" in text and (match := REDUCED.search(text)):
            self._devices(line).set(reduced_to_bytes=int(match[1]))
        else:
            return False
        return True

    def _devices(self, line: Line) -> Run:
        run = self.current
        mixed = run is not None and run.phase in (Phase.HEADER, Phase.ROWS) and self.waiting
        run = run if run is not None and mixed else self._run(line, Phase.DEVICES)
        run.is_table = True
        return run

    def _footer(self, line: Line) -> bool:
        """Out of bounds, average, the program's last words."""
        text = line.text
        if "bounds" in text and (match := OUT_OF_BOUNDS.search(text)):
            run = self._run_of_footer(line, Phase.OUT_OF_BOUNDS)
            run.set(
                out_of_bounds=max(int(match[1]), run.facts.out_of_bounds or 0),
                out_of_bounds_failed=run.facts.out_of_bounds_failed or match[2] == "FAILED",
            )
        elif "bandwidth" in text and (match := AVERAGE.search(text)):
            run = self._run_of_footer(line, Phase.AVERAGE)
            run.footers += 1
            number = float(match[1]) if math.isfinite(float(match[1])) else None
            digits = len(match[1].lstrip("-0.").replace(".", ""))
            run.set(
                average_gb_s=number if run.facts.average_gb_s is None else run.facts.average_gb_s,
                average_failed=run.facts.average_failed or match[3] == "FAILED",
                average_may_be_cut=not line.ended and not match[2] and digits < 6,
                ended=run.footers >= run.facts.copies,
            )
            if run.footers >= run.facts.copies:
                self.runs += self.waiting if run.facts.copies == 1 else []
                self.waiting = []
        elif "Collective test concluded" in text:
            run = self.current or self._begin(line)
            run.set(program=program_of(text) or run.facts.program)
        else:
            return False
        return True

    def _run_of_footer(self, line: Line, phase: Phase) -> Run:
        self._give_up()
        run = self.current
        if run is not None and run.phase >= Phase.OUT_OF_BOUNDS and run.footers < run.facts.copies:
            run.phase = max(phase, run.phase)
        else:
            run = self._run(line, phase, again=run is not None and run.phase >= phase)
        run.is_table = True
        return run

    def _facts(self, line: Line, text: str) -> None:
        """What any line may tell beside the table: program, versions, ranks, failures."""
        run = self.current
        if match := LOG_HOST.match(text):
            self.rows.hosts.add(match[1])
        if (program := program_of(text)) is not None:
            if run is not None and run.phase < Phase.HEADER and run.facts.program is None:
                run.set(program=program)
            elif run is None or run.phase is Phase.AVERAGE:
                self.program = program
        if match := NCCL_VERSION.search(text):
            if run is not None and run.phase is not Phase.AVERAGE:
                run.set(nccl_versions=extended(run.facts.nccl_versions, match[1]))
            else:
                self.nccl_versions = extended(self.nccl_versions, match[1])
        if match := NRANKS.search(text):
            (run.logged_ranks if run is not None else self.logged_ranks)[int(match[1])] += 1
        if "# error:" in text and run is not None:
            run.set(last_error=text.partition("# error:")[2].strip() or None)
        if run is not None and NOTE.search(text):
            run.set(notes=(*run.facts.notes, Quoted(line.number, text))[:MOST_QUOTED])
        if FAILURE.search(text):
            quoted = Quoted(line.number, text)
            if run is None:
                self.failures = (*self.failures, quoted)[:MOST_QUOTED]
            elif len(run.facts.failures) < MOST_QUOTED:
                run.set(failures=(*run.facts.failures, quoted))


def extended(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The values with a new one behind them, once."""
    return known if new in known else (*known, new)


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None


# Which of a text's lines were written by one process, so that tables of several processes are not
# mixed.
#
# Launchers say it in front of each line. Where they do not, or where what looks like a process is
# something else (a line number), the lines
# are read as one stream; tables of several processes in it are told apart by nothing
# (`nccl_tests_runs`).

_RANK_TAG = re.compile(r"(?:^|[,/@]|rank|default)\d+$")
"""A launcher's tag that says which rank of one job wrote the line, not merely which host."""


def runs_of(lines: Iterable[Line]) -> tuple[RunFacts, ...]:
    """The runs in a text, in the order they began.

    Lines are kept apart by who wrote them. Where that tears tables (column names of one writer,
    rows of another), the tags are no writers after all, and the lines are read as one stream.
    """
    kept = tuple(lines)
    by_tag: dict[str, RunReader] = {}
    before = Line(-1, "", "", True)
    for line in kept:
        tag = (
            before.tag
            if not line.tag
            and line.number == before.number + 1
            and by_tag[before.tag].goes_on(line)
            else line.tag
        )
        before = line._replace(tag=tag)
        by_tag.setdefault(tag, RunReader()).feed(line)
    apart = [reader.finish() for reader in by_tag.values()]
    _count_writers(by_tag, apart)
    if _torn_apart(apart):
        reader = RunReader()
        for line in kept:
            reader.feed(line)
        apart = min(apart, [reader.finish()], key=_pieces)
    if len(apart) == len(by_tag):
        _share(list(by_tag.values()), apart)
    return tuple(
        run.sealed()
        for run in sorted((run for runs in apart for run in runs), key=lambda run: run.first_line)
    )


def _count_writers(tags: Iterable[str], apart: list[list[Run]]) -> None:
    """Tells runs of several ranks of one job that they are several."""
    by_shape: dict[str, list[Run]] = {}
    ranks: Counter[str] = Counter()
    for tag, runs in zip(tags, apart, strict=True):
        if _RANK_TAG.search(tag) and any(run.rows for run in runs):
            shape = tag.rstrip("0123456789")
            by_shape.setdefault(shape, []).extend(runs)
            ranks[shape] += 1
    for shape, runs in by_shape.items():
        for run in runs:
            run.set(writers=ranks[shape])


def _share(readers: list[RunReader], apart: list[list[Run]]) -> None:
    """Gives what writers without a table said (versions, number of ranks, failures) to the one run
    there is."""
    runs = [run for runs in apart for run in runs]
    if len(runs) != 1:
        return
    run = runs[0]
    for reader, own in zip(readers, apart, strict=True):
        if not own:
            run.logged_ranks.update(reader.logged_ranks)
            versions = run.facts.nccl_versions
            for version in reader.nccl_versions:
                versions = extended(versions, version)
            failures = sorted(run.facts.failures + reader.failures, key=lambda line: line.line_no)
            run.set(nccl_versions=versions, failures=tuple(failures)[:MOST_QUOTED])


def _pieces(apart: list[list[Run]]) -> tuple[int, int]:
    """How badly tables are in pieces: fewer whole ones is worse, then more runs."""
    runs = [run for runs in apart for run in runs]
    return -sum({"names", "rows", "footer"} <= run.parts() for run in runs), len(runs)


def _torn_apart(apart: list[list[Run]]) -> bool:
    """Whether runs of two writers have no part in common, so that they are pieces of one."""
    parts = [(number, run.parts()) for number, runs in enumerate(apart) for run in runs]
    with_rows = [(number, mine) for number, mine in parts if "rows" in mine]
    return any(
        number != other and not mine & theirs
        for number, mine in with_rows
        for other, theirs in parts
    )
