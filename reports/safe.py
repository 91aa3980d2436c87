"""How text that came from somewhere else is made harmless for each place it is written to.

Host names, logs and error messages are data, never markup. Every writer of this package passes them
through one of these functions; the rules are those of XML 1.0 (Char production), GitHub's Markdown
and workflow commands, and what spreadsheets run as formulas.
"""

from __future__ import annotations

import re

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)} | {
    0x7F: "␡"
}
# C1 controls, bidirectional marks and overrides, zero-width characters, line separators, lone
# surrogates, noncharacters.
_INVISIBLE = re.compile(
    "[\u0080-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e007f]|[\U0001fffe\U0001ffff\U0002fffe-\U0002ffff\U0003fffe-\U0003ffff\U000efffe\U000effff\U0010fffe\U0010ffff]"
)
# Only what means something where it stands, so that the text stays readable as text: `_` inside a
# word and `-` inside a line mean nothing.
_MARKDOWN = re.compile(
    r"([\\`*\[\]<>|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^(?:[-+=#]|\d{1,9}[.)]))"
)
# GitHub turns these into links to people, issues and sites, and into formulas, after escapes are
# resolved; a zero-width space behind the first sign keeps them text.
_AUTOLINK = re.compile(r"([@$]|#(?=\d)|\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.))", re.IGNORECASE)


def visible(text: str) -> str:
    """The text with every character that hides, moves or reorders others shown as a mark; line
    feeds and tabs stay.

    What is left is also the character set of XML 1.0, so the result can stand in XML once `<`, `>`,
    `&` and quotes are escaped.

    >>> visible("a\\x1b[2Jb\\x9b\\u202ec"), visible("two\\r\\nlines")
    ('a␛[2Jb⟨U+009B⟩⟨U+202E⟩c', 'two␍\\nlines')
    """
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text.translate(_PICTURES))


def one_line(text: str) -> str:
    """`visible`, with line feeds and tabs as marks too: for titles, table cells and lines of a
    terminal.

    >>> one_line("a\\n b\\tc")
    'a␊ b␉c'
    """
    return visible(text).replace("\n", "␊").replace("\t", "␉")


def markdown(text: str) -> str:
    """Text as GitHub's Markdown shows it literally, on one line: no markup, no HTML, no mention, no
    link.

    >>> markdown("<b>|all_reduce|</b> _y_")
    '\\\\<b\\\\>\\\\|all_reduce\\\\|\\\\</b\\\\> \\\\_y\\\\_'
    """
    flat = " ".join(visible(text).split())
    return _AUTOLINK.sub("\\1\u200b", _MARKDOWN.sub(_escaped, flat))


def _escaped(match: re.Match[str]) -> str:
    # Of `1.` at the beginning, which would make a list, the point is what can be escaped.
    return f"{match[0][:-1]}\\{match[0][-1]}"


def markdown_code(text: str) -> str:
    """A code span, on one line: nothing in it is markup. Empty text gives empty text.

    >>> markdown_code("gpu-[001-004]"), markdown_code("a`b|c")
    ('`gpu-[001-004]`', '`` a`b|c ``')
    """
    flat = " ".join(visible(text).split())
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{flat}{space}{fence}" if flat else ""


def markdown_block(text: str, language: str = "text") -> str:
    """A fenced block whose fence is longer than any run of backticks or tildes inside; ends with a
    line feed.

    >>> markdown_block("x ``` y")
    '````text\\nx ``` y\\n````\\n'
    """
    content = visible(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}\n"


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet runs: one line, with `'` before anything it would take for a
    formula.

    >>> csv_cell("=1+1"), csv_cell("  @x"), csv_cell("gpu-001")
    ("'=1+1", "'  @x", 'gpu-001')
    """
    flat = one_line(text)
    return f"'{flat}" if flat.lstrip()[:1] in tuple("=+-@＝＋－＠␉␍|%") else flat


def script_json(document: str) -> str:
    """JSON text as it may stand inside a `<script>` element: no character can end the element or a
    line of it.

    >>> script_json('["</script>"]')
    '["\\\\u003c/script\\\\u003e"]'
    """
    for sign in "<>&\u2028\u2029":
        document = document.replace(sign, f"\\u{ord(sign):04x}")
    return document


def css_string(text: str) -> str:
    """A quoted CSS string; everything but plain letters, digits and a few signs is dropped to `?`.

    >>> css_string('run "1"')
    '"run ?1?"'
    """
    return '"' + re.sub(r"[^A-Za-z0-9 ._:,;/()\[\]+-]", "?", text) + '"'


def annotation(text: str) -> str:
    """The message of a GitHub workflow command.

    >>> annotation("50%\\nslower")
    '50%25␊slower'
    """
    return one_line(text).replace("%", "%25")


def annotation_property(text: str) -> str:
    """A property (such as the title) of a GitHub workflow command.

    >>> annotation_property("a: b, c")
    'a%3A b%2C c'
    """
    return annotation(text).replace(":", "%3A").replace(",", "%2C")
