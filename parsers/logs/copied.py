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

from busbw.parsers.logs.escapes import without_escapes, without_escapes_bytes
from busbw.text import decoded

_AT_START = re.compile(rb">|\+|\| |[ \t]*```|\s*\d+[\t:| ]| {2,}\S")
_SIGNS = {
    b"&": re.compile(rb"&(?:quot|lt|gt|amp|nbsp|#x?\d+);"),
    b"<": re.compile(rb"<(?:pre|code)\b"),
    b"```": re.compile(rb"^[ \t]*```", re.M),
    b"\n>": re.compile(rb"\n>"),
    b"\xc2\xa0": re.compile(rb"\xc2\xa0"),
    b"\xe2\x80\x8b": re.compile(rb"\xe2\x80\x8b"),
}
"""Under a literal that a text must hold: asking for literals first takes a fiftieth of the time. A text
without any of them is as it was printed, but for its colours: programs colour long logs, too."""
_INVISIBLE = {0x200B: None, 0xFEFF: None, 0xA0: " ", 0x202F: " "}
_ENTITY = re.compile(r"&(?:quot|lt|gt|amp|nbsp|#x?\d+);")
_TAG = re.compile(r"</?(?:html|body|pre|code|div|span|p|br)\b[^>\n]{0,200}>")
_FENCE = re.compile(r"^([ \t]*)```[\w-]{0,20}[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)
_QUOTES = ((re.compile(r"(?:> ?)+"), ">"), (re.compile(r"\+"), "+"), (re.compile(r"\| ?"), "|"))
"""Each with the letter that it begins with."""
_SHARES = (0.6, 1.0, 1.0)
"""Of each: in front of how many of the lines it must stand. Tables have some lines with `+` and some
with `|`."""
_ROW = re.compile(r"\|.*\|\s*$")
"""A text of nothing else is a table."""
_NUMBERED = tuple(
    re.compile(rf"[ \t]*(\d{{1,7}})(?:{end}|[:|]?\s*$)") for end in ("\t", ":", r" \| ?", " ")
)
"""As `cat -n`, `grep -n`, editors and `less -N` write them."""
_DIGIT = re.compile(r"[ \t]*\d")
_LEFT_OUT = r"(?:omitted|skipp(?:ed|ing)|snip(?:ped)?|truncated|elided)(?: \d{1,9} lines?)?"
_LINES = r"\d{1,9} (?:more )?lines? "
_OMITTED = re.compile(
    r"\n[ \t]{0,40}(?:[\d., \t]{0,100}\.\.\.|…|\[(?:\.\.\.|…)\]|--More--.{0,20}"
    rf"|[\[(<](?:\.\.\. ?)?(?:{_LINES})?{_LEFT_OUT}(?: ?\.\.\.)?[\])>]"
    rf"|\.\.\. ?(?:{_LINES})?{_LEFT_OUT}(?: ?\.\.\.)?|{_LINES}{_LEFT_OUT})[ \t\r]*$",
    re.M | re.I,
)
"""A line that says so, and nothing else; with the end of the line before, which is found faster than
the start of a line."""
_MAY_OMIT = tuple("... … --more-- omitted skipp snip truncated elided".encode().split())
_FEW = 3
"""Lines that say little."""


def as_printed_bytes(data: bytes) -> bytes:
    """As `as_printed`, of a text that is not decoded; one without signs of copying loses its colours only.

    >>> as_printed_bytes(b"\\x1b[32mok\\x1b[0m\\r\\n"), as_printed_bytes(b"1: a 5\\n2: b 7\\n3: c 9\\n")
    (b'ok\\r\\n', b'a 5\\nb 7\\nc 9\\n')
    """
    plain = without_escapes_bytes(data) if b"\x1b" in data else data
    if not _is_copied(plain):
        return plain
    return as_printed(decoded(plain.replace(b"\r\n", b"\n"))).encode("utf-8", "replace")


def _is_copied(data: bytes) -> bool:
    """Whether something of `as_printed` may apply."""
    return _AT_START.match(data) is not None or any(
        literal in data and sign.search(data) is not None for literal, sign in _SIGNS.items()
    )


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
    small = data.lower()
    if not any(literal in small for literal in _MAY_OMIT):
        return ""
    text = decoded(data)
    match = _OMITTED.search("\n" + text)
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
    lines = text.splitlines(keepends=True)
    for (prefix, first), share in zip(_QUOTES, _SHARES, strict=True):
        filled = [line for line in lines if line.strip()]
        if all(map(_ROW.match, filled)):
            return text
        quoted = sum(line.startswith(first) for line in filled)
        if quoted >= max(_FEW, share * len(filled)):
            text = "".join(
                prefix.sub("", line, count=1) if prefix.match(line) else line for line in lines
            )
            lines = text.splitlines(keepends=True)
    return text


def _unnumbered(text: str) -> str:
    """Without line numbers: each is one more than that of the line before."""
    lines = text.splitlines(keepends=True)
    few = max(_FEW, 0.6 * len(lines))
    if sum(_DIGIT.match(line) is not None for line in lines) < few:
        return text
    for numbered in _NUMBERED:
        found = [numbered.match(line) for line in lines]
        begin = next((at for at, match in enumerate(found) if match), 0)
        first = found[begin] if found else None
        end = begin
        while first and end < len(lines) and _number(found[end]) == int(first[1]) + end - begin:
            end += 1
        if end - begin >= few:
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
