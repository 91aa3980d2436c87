"""A short text as its program printed it, without what people's tools leave in it: colours, no-break
spaces, HTML, the quoting of e-mail, diffs and chats, line numbers, Markdown's fences.

Only what stands in front of most lines is taken for a prefix: a program may print a line that begins
like one. Long logs are not read this way: `nccl_tests.lines` and `blocks` know what their lines look
like.

>>> as_printed("He wrote:\\n> CA 'mlx5_0'\\n> \\tPort 1:\\n>\\n> \\t\\tRate: 400\\n")
"He wrote:\\nCA 'mlx5_0'\\n\\tPort 1:\\n\\n\\t\\tRate: 400\\n"
>>> as_printed("| a  5 |\\n| b  7 |\\n| c  9 |\\n") == "| a  5 |\\n| b  7 |\\n| c  9 |\\n"
True
>>> as_printed("1: a 5\\n2: b 7\\n3: c 9\\n"), as_printed("0: a 5\\n2: b 7\\n3: c 9\\n")
('a 5\\nb 7\\nc 9\\n', '0: a 5\\n2: b 7\\n3: c 9\\n')
"""

from __future__ import annotations

import html
import re
import textwrap

from busbw.parsers.logs.escapes import without_escapes
from busbw.text import decoded

_SIGNS = re.compile(
    rb"\x1b|&(?:quot|lt|gt|amp|nbsp|#x?\d+);|\xc2\xa0|\xe2\x80\x8b|<(?:pre|code)\b|^[ \t]*```|^>|\A\+|\A\| |\A\s*\d+[\t:| ]|\A {2,}\S",
    re.M,
)
"""A text without any of them is as it was printed."""
_INVISIBLE = {0x200B: None, 0xFEFF: None, 0xA0: " ", 0x202F: " "}
_ENTITY = re.compile(r"&(?:quot|lt|gt|amp|nbsp|#x?\d+);")
_TAG = re.compile(r"</?(?:html|body|pre|code|div|span|p|br)\b[^>\n]{0,200}>")
_FENCE = re.compile(r"^([ \t]*)```[\w-]{0,20}[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)
_QUOTES = (re.compile(r"(?:> ?)+"), re.compile(r"\+"), re.compile(r"\| ?"))
_SHARES = (0.6, 1.0, 1.0)
"""Of each: in front of how many of the lines it must stand. Tables have some lines with `+` and some
with `|`."""
_ROW = re.compile(r"\|.*\|\s*$")
"""A text of nothing else is a table."""
_NUMBERED = tuple(
    re.compile(rf"[ \t]*(\d{{1,7}})(?:{end}|[:|]?\s*$)") for end in ("\t", ":", r" \| ?", " ")
)
"""As `cat -n`, `grep -n`, editors and `less -N` write them."""
_LEFT_OUT = r"(?:omitted|skipp(?:ed|ing)|snip(?:ped)?|truncated|elided)(?: \d{1,9} lines?)?"
_LINES = r"\d{1,9} (?:more )?lines? "
_OMITTED = re.compile(
    r"^[ \t]{0,40}(?:[\d., \t]{0,100}\.\.\.|…|\[(?:\.\.\.|…)\]|--More--.{0,20}"
    rf"|[\[(<](?:\.\.\. ?)?(?:{_LINES})?{_LEFT_OUT}(?: ?\.\.\.)?[\])>]"
    rf"|\.\.\. ?(?:{_LINES})?{_LEFT_OUT}(?: ?\.\.\.)?|{_LINES}{_LEFT_OUT})[ \t\r]*$",
    re.M | re.I,
)
"""A line that says so, and nothing else."""
_MAY_OMIT = re.compile(rb"\.\.\.|\xe2\x80\xa6|--More--|omitted|skipp|snip|truncated|elided", re.I)
_FEW = 3
"""Lines that say little."""


def is_copied(data: bytes) -> bool:
    """Whether something of `as_printed` may apply."""
    return _SIGNS.search(data) is not None


def as_printed(text: str) -> str:
    """The text without the marks of copying."""
    text = _unescaped(without_escapes(text).translate(_INVISIBLE))
    for undo in (_unquoted, _unnumbered, _unfenced, _unquoted):
        text = undo(text)
    return text


def omission(data: bytes) -> str:
    """The words by which a text says that a part of it was left out; "" = there are none.

    >>> omission(b"a\\n[12 lines omitted]\\nb\\n"), omission(b"GPU 0: OK\\nwaiting...\\n")
    ('[12 lines omitted]', '')
    """
    if not _MAY_OMIT.search(data):
        return ""
    text = decoded(data)
    match = _OMITTED.search(text)
    return match[0].strip() if match else _cut_lines(text)


def _cut_lines(text: str) -> str:
    """The first of the longest lines, where several of them end with dots at one column."""
    lines = text.splitlines()
    longest = max(map(len, lines), default=0)
    cut = [line for line in lines if len(line) == longest and line.endswith(("...", "…"))]
    return cut[0].strip() if len(cut) >= _FEW else ""


def _unescaped(text: str) -> str:
    """A page's text: it has no quote or angle of its own beside the escaped ones."""
    if _ENTITY.search(text) is None and _TAG.search(text) is None:
        return text
    plain = _TAG.sub("", text)
    is_page = "<" not in plain and ("&quot;" not in plain or '"' not in plain)
    return html.unescape(plain).replace("\xa0", " ") if is_page else text


def _unquoted(text: str) -> str:
    for prefix, share in zip(_QUOTES, _SHARES, strict=True):
        lines = text.splitlines(keepends=True)
        filled = [line for line in lines if line.strip()]
        if all(map(_ROW.match, filled)):
            return text
        quoted = sum(prefix.match(line) is not None for line in filled)
        if quoted >= max(_FEW, share * len(filled)):
            text = "".join(
                prefix.sub("", line, count=1) if prefix.match(line) else line for line in lines
            )
    return text


def _unnumbered(text: str) -> str:
    """Without line numbers: each is one more than that of the line before."""
    lines = text.splitlines(keepends=True)
    for numbered in _NUMBERED:
        found = [numbered.match(line) for line in lines]
        begin = next((at for at, match in enumerate(found) if match), 0)
        first = found[begin] if found else None
        end = begin
        while first and end < len(lines) and _number(found[end]) == int(first[1]) + end - begin:
            end += 1
        if end - begin >= max(_FEW, 0.6 * len(lines)):
            pairs = zip(lines[begin:end], found[begin:end], strict=True)
            plain = (line[match.end() :] or "\n" for line, match in pairs if match)
            return "".join((*lines[:begin], *plain, *lines[end:]))
    return text


def _number(match: re.Match[str] | None) -> int | None:
    return None if match is None else int(match[1])


def _unfenced(text: str) -> str:
    """Without fences, and what is inside them, or all of it, not indented."""

    def inside(match: re.Match[str]) -> str:
        return textwrap.dedent(match[2])

    return _FENCE.sub(inside, text) if _FENCE.search(text) else textwrap.dedent(text)
