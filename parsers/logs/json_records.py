"""Records of one line that `hyperscan` can take apart: objects of ASCII with plain values, without
escapes. Nearly all that programs write in JSON are like this, and to decode them takes twice as long.

>>> from busbw.parsers.logs.json_records import Records
>>> found = Records(("msg", "text"), ("error",)).of(b'x\\n{"level": "info", "msg": "saved"}\\n')
>>> list(found) in ([(2, 36, b"saved\\n")], [])  # [] = without hyperscan
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.parsers.logs.scan_literals import Marks

_STRING = r'"[^"\\\x00-\x1f\x80-\xff]*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?"
_MEMBER = rf"{_STRING}: ?(?:{_STRING}|{_NUMBER}|true|false|null)"
_OBJECT = rf"^\{{{_MEMBER}(?:, ?{_MEMBER})*\}}$"
_QUOTE = ord('"')
_TEXT, _MORE = 1, 2
"""Numbers of the other expressions."""


class Records:
    """Finds the records that have one of the fields in `texts`, and none of those in `more`."""

    def __init__(self, texts: Sequence[str], more: Sequence[str]) -> None:
        text, others = "|".join(texts), "|".join(more)
        self._marks = Marks((_OBJECT, rf'"(?:{text})": ?[^ ]', rf'"(?:{others})":'))

    def of(self, lines: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Those in whole lines, in their order: where they begin, what is behind their line end, and their
        text with a line end. None without hyperscan."""
        before = text = more = 0
        for end, number in self._marks.ends_in(lines):
            if number == _TEXT:
                before, text = text, end
            elif number == _MORE:
                more = end
            else:
                start = lines.rfind(b"\n", 0, end) + 1
                is_one = before <= start < text and more <= start
                has_text = is_one and lines[text - 1] == _QUOTE
                if has_text and lines.startswith(b"\n", end):
                    inside = lines[text : lines.find(b'"', text)]
                    yield start, end + 1, inside + b"\n"
