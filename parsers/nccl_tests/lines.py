"""Which lines of a text can belong to nccl-tests output, without what launchers, log collectors and
people put in front of them.

Written against the output tags of Open MPI 4 and 5, srun --label, hydra -l, torchrun, Ray, pdsh and
clush, the prefixes of kubectl, docker compose, syslog and Python logging, and the quoting of
GitHub, Markdown, Ansible and e-mail. Memory is constant: most of a job's text is NCCL's log, and
blocks without any keyword of a table are skipped whole.

>>> split_prefix("[1,3]<stdout>:#   Rank  0")
Prefixed(tag='1,3', text='#   Rank  0')
>>> split_prefix(" 0:      8388608       2097152     float")
Prefixed(tag='0', text='      8388608       2097152     float')
>>> log = [b"node-a:1:2 [0] NCCL INFO Connected all rings\\n# Avg bus ", b"bandwidth    : 12.5 \\n"]
>>> [line.text for line in candidates(log)]
['# Avg bus bandwidth    : 12.5 ']
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.parsers.logs.blocks import line_ends_in
from busbw.parsers.logs.escapes import without_escapes, without_escapes_bytes
from busbw.parsers.logs.scan_literals import MarkedLine, Marks
from busbw.parsers.nccl_tests.layout import has_header_part
from busbw.parsers.nccl_tests.rows import ELEMENT_BYTES, HEAD, REDOPS, REST_OF_ROW


class Prefixed(NamedTuple):
    """A line without what stood in front of it."""

    tag: str
    """Which process wrote it (rank, host, pod, task); "" = unknown. Time stamps are left out."""
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
_NCCL_LINE = re.compile(r"(?!INFO|DEBUG|WARNING)[A-Za-z][\w.-]*:\d+:\d+ \[-?\d+\] ")
"""A line that NCCL logged without anything in front of it: no prefix is like this."""
_DEEPEST = 5
_INVISIBLE = {0: None, 0x200B: None, 0xFEFF: None, 0xA0: " ", 0x202F: " ", 0x3000: " ", 0x2212: "-"}


def split_prefix(line: str) -> Prefixed:
    """The line without its prefixes (up to five stacked ones), and who wrote it.

    A space behind a tag stays: one line does not show whether the launcher added it, and columns
    only need to be alike in all lines.
    """
    if _NCCL_LINE.match(line):
        return Prefixed("", line)
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
        line = without_escapes(line)
    if "&" in line and ";" in line:
        line = html.unescape(line).replace("\xa0", " ")
    return line


_BLOCK = 1 << 18
_LONGEST_LINE = 1 << 16
_TYPES = ("float", "half", "double", "int8", "int32", "int64", "f8e", "fp8_", "char ", "int ")
_KEYWORDS = (
    "algbw", "busbw", "Rank", "nThread", "bandwidth", "bounds", "_perf", "nccl-tests", "CCL version", "rccl-tests", "Test ",
    "Using devices", "maxBytes", "-of-place", "in-place", "(GB/s)", "(elements)", "# error:", "#wrong", "requested but only", "Incompatible NCCL",
    "invalid ", "ption -", "Disabling.", "skipping json",
)  # fmt: skip
_BLOCK_KEYWORDS = (
    b"float", b"half", b"double", b"int8", b"int32", b"int64", b"f8e", b"fp8_", b"algbw", b"Pid", b"nThread", b"bandwidth",
    b"bounds", b"_perf", b"CCL version", b"ccl-tests", b"Test ", b"Using devices",
)  # fmt: skip
"""Every piece of a run has one of these: a block without any is skipped. Pieces of torn rows follow
a row that has one."""
_PIECE = re.compile(
    r"^\s*[.\d]|^/?A\s|^/?A$|(?:^|\s|>:)(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|none|sum|prod|max|min|avg|mulsum)(?:\s|$|[A-Za-z\[({<#])"
)
"""A cell somewhere in the line: what the rest of a torn row has."""
_FACT_KEYWORDS = ("nranks ", "CCL version", "Test ")

_CELLS = 8
"""With that many bars or commas, a line may be one of a Markdown table or a CSV file."""


class Line(NamedTuple):
    """A line that can belong to a table."""

    number: int
    """From 1."""
    tag: str
    """Which process wrote it, as a launcher's prefix says; "" = unknown."""
    text: str
    ended: bool
    """False = the text ends here without a line end."""
    times: int = 1
    """How many lines say the same: NCCL's `Init COMPLETE` of one process, before a table."""


class Block(NamedTuple):
    """A part of a text."""

    text: bytes
    line_ends: int


def blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """The text again, in blocks that end behind a line end (except the last one, and lines longer
    than 256 KiB)."""
    rest, line_ends = b"", 0
    for chunk in chunks:
        rest += chunk
        line_ends += line_ends_in(chunk)
        if len(rest) < _BLOCK:
            continue
        cut = rest.rfind(b"\n") + 1
        if cut == 0:
            cut = len(rest) - 1  # never between \r and \n
        yield Block(rest[:cut], line_ends)
        rest, line_ends = rest[cut:], 0
    if rest:
        yield Block(rest, line_ends)


_CELL = r"[\s|,]"
"""What stands between cells; bars and commas in Markdown tables and CSV files."""
_NUMBERS = rf"\d{_CELL}+\d{{1,19}}{_CELL}+"
_SPEAKING = Marks(
    (
        rf"{_NUMBERS}(?:{'|'.join(ELEMENT_BYTES)})(?:{_CELL}|$|[\[(<`\"'\w.-])",
        # of a type to come: without these words in it, hyperscan takes longer than for all the others
        rf"{_NUMBERS}\w{{0,12}}(?:float|half|double|int|f8e|fp8_|char)\w{{0,12}}{_CELL}+(?:[a-z]+{_CELL}+)?(?:-?\d+{_CELL}+)?(?:[\d.]+{_CELL}+){{3}}",
        r"algbw|busbw|#wrong|nThread|Using devices|maxBytes|-of-place|in-place|# error:|[GM]B/s\)",
        r"Collective test|Out of bounds values|Avg bus bandwidth|ption -|Disabling\.|skipping json",
        r"\b(?:size|bytes)\b.*\b(?:count|N)\b.*\btype\b",
        r"Rank\s+\d{1,9}\s.*Pid\s",
        r"ccl-tests version|ccl-tests: Version|CCL version|(?:_perf|\.cu:\d)",
        r"Test (?:NCCL|CUDA) failure|Test failure|Test timeout|Incompatible NCCL|invalid (?:sizes? |type|op|number of GPUs)|Invalid number",
        r"\bnranks [1-9]",
        r"\x00|\\n|&\w+;|&#|\xc2\xa0|\xe2\x80[\x8b\xaf]|\xe2\x88\x92|\xe3\x80\x80|\xef\xbb\xbf",
    )
)
"""Before the first table, the lines that matter have one of these: what `runs` reads there, and what
`undecorate` takes off besides colours."""
_NRANKS, _DECORATION = 1 << 8, 1 << 9
"""Marks that say little by themselves."""
_INIT = re.compile(
    rb"(\S+ \[\d+\] NCCL INFO )(?:ncclCommInit\w* )?comm 0x[0-9a-f]+ rank \d+ nranks (\d+)"
    rb"(?: \w+ [\w.:]+)* - Init [A-Z]+\r?"
)
"""What NCCL logs of each communicator: the number of ranks is all that is read of it."""
_BLOCK_MARKS = Marks(tuple(re.escape(word.decode()) for word in _BLOCK_KEYWORDS))


_PLAIN_ROW = re.compile(
    rb" *\d{1,19} +\d{1,19} +(?:%s)(?: +(?:%s|N/A|-?\d[\d.]*(?:e[+-]?\d+)?))+ *"
    % ("|".join(ELEMENT_BYTES).encode(), "|".join(REDOPS).encode())
)
"""A row that nobody wrote anything in front of, into or behind: in a table, it is a line as it is."""


def candidates(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines that can belong to nccl-tests output, without launcher prefixes and colours."""
    number = number_behind = 0
    state = _State()
    for block, line_ends in blocks(chunks):
        number, number_behind = number_behind, number_behind + line_ends
        if not state.in_table and not _BLOCK_MARKS.stand_in(block):
            continue
        if b"\x1b" in block:
            block = without_escapes_bytes(block)
        end = block.rfind(b"\n") + 1
        done = 0
        for line in () if state.has_begun else _worth_reading(block):
            if line.start >= end:
                break
            raw = block[line.start : line.end]
            process = _INIT.fullmatch(raw) if line.marks == _NRANKS else None
            if process is not None and state.counts(process):
                continue
            number += block.count(b"\n", done, line.start)
            done = line.start
            if process is not None:
                state.begin_to_count(process, number + 1, raw)
                continue
            yield from state.lines(number + 1, raw)
            if state.has_begun:
                number, done = number + 1, line.end + 1
                break
        if state.has_begun and done < end:
            for raw in block[done : end - 1].split(b"\n"):
                number += 1
                if state.in_table and len(raw) < 1000 and _PLAIN_ROW.fullmatch(raw):
                    yield Line(number, "", raw.decode("ascii"), True)
                else:
                    yield from state.lines(number, raw)
        if end < len(block):
            yield from state.lines(number_behind + 1, block[end:], ended=False)
    if state.has_given:
        yield from state.counted()


def _worth_reading(block: bytes) -> Iterator[MarkedLine]:
    """The lines that matter before the first table: decorated ones only where there is something
    under the decoration."""
    for line in _SPEAKING.lines_in(block):
        is_decorated = line.marks == _DECORATION
        if not is_decorated or _SPEAKING.stand_in(_plain(block[line.start : line.end]).encode()):
            yield line


def _plain(raw: bytes) -> str:
    """A line without its decoration, in one line: where `_lines` makes several of it, the ends of
    lines are as good as blanks."""
    text = raw.decode("utf-8", "replace")
    return undecorate(_unescaped(text).replace("\n", "\r")).replace("\n", "\r")


def _unescaped(line: str) -> str:
    """Line ends and tabs where they were written as `\\n` and `\\t` in quotes."""
    if "\\n" not in line:
        return line
    return line.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")


class _Counted:
    """Lines of one process that say the same number of ranks."""

    __slots__ = ("number", "raw", "times")

    def __init__(self, number: int, raw: bytes) -> None:
        self.number = number
        """Of the first of them."""
        self.raw = raw
        self.times = 1


class _State:
    """Where in a text its lines stand."""

    __slots__ = ("_counted", "has_begun", "has_given", "in_table")

    def __init__(self) -> None:
        self.in_table = False
        """Rows may follow."""
        self.has_begun = False
        """Something of a table was seen: from here on every line is read."""
        self.has_given = False
        """A line was given: until then there is nothing that the numbers of ranks could belong to."""
        self._counted: dict[tuple[bytes, ...], _Counted] = {}
        """By process and number of ranks."""

    def counts(self, process: re.Match[bytes]) -> bool:
        """Takes an `Init COMPLETE` (a match of `_INIT`) that says what such lines of its process said
        before."""
        counted = self._counted.get(process.groups())
        if counted is None:
            return False
        counted.times += 1
        return True

    def begin_to_count(self, process: re.Match[bytes], number: int, raw: bytes) -> None:
        """Takes the first that says so: its number, and the line."""
        self._counted[process.groups()] = _Counted(number, raw)

    def counted(self) -> Iterator[Line]:
        """One line for all that were counted alike since the last other line."""
        for each in self._counted.values():
            for line in _lines(each.number, each.raw.decode("utf-8", "replace"), True, False):
                yield line._replace(times=each.times)
        self._counted.clear()

    def lines(self, number: int, raw: bytes, *, ended: bool = True) -> Iterator[Line]:
        """The lines that a physical line holds; none, if it can not belong to a table."""
        text = raw.decode("utf-8", "replace")
        if not _may_belong(text, self.in_table):
            return
        self.has_given = True
        if self._counted:
            yield from self.counted()
        for line in _lines(number, text, ended, self.in_table):
            self.in_table = _still_in_table(line.text, self.in_table)
            if not self.has_begun:
                self.has_begun = self.in_table or has_header_part(line.text)
            yield line


def _still_in_table(text: str, in_table: bool) -> bool:
    """Whether rows may follow: from the column names or a first row to the average."""
    if "algbw" in text or HEAD.search(text):
        return True
    return in_table and "bandwidth" not in text


def _may_belong(line: str, in_table: bool) -> bool:
    """Cheap test on a raw line; `_lines` tests again what it lets through."""
    if " NCCL " in line:
        return "  " in line or "\t" in line or _has_fact(line)
    if in_table and _PIECE.search(line):
        return True
    return any(word in line for word in _KEYWORDS) or any(word in line for word in _TYPES)


def _has_fact(log_line: str) -> bool:
    return any(word in log_line for word in _FACT_KEYWORDS)


def _lines(number: int, raw: str, ended: bool, in_table: bool) -> Iterator[Line]:
    """One physical line as the lines it holds: usually one; several where line ends were written as
    `\\r` or as `\\n` in quotes."""
    raw = _unescaped(raw[:_LONGEST_LINE].rstrip("\r"))
    pieces = re.split(r"[\r\n]+", raw)
    for position, piece in enumerate(pieces):
        tag, text = split_prefix(undecorate(piece))
        if text.count("|") >= _CELLS or text.count(",") >= _CELLS:
            text = _without_separators(text)
        if " NCCL " not in text or _keeps_log_line(text, in_table):
            yield Line(number, tag, text, ended or position < len(pieces) - 1)


def _keeps_log_line(text: str, in_table: bool) -> bool:
    """Whether a line of NCCL's log has a row, the rest of one, or a fact about the run in it."""
    if HEAD.search(text) or _has_fact(text):
        return True
    return in_table and REST_OF_ROW.match(text) is not None


def _without_separators(text: str) -> str:
    """A row or the column names of a Markdown table or a CSV file, with blanks for the bars or
    commas; other text as it is."""
    plain = text.replace("|", " ").replace(",", " ")
    return plain if "algbw" in text or HEAD.search(plain) else text
