"""Text that comes from outside: nodes' answers, files that somebody gives."""

from __future__ import annotations

import re

_RUN = b"0" * 101
_ALL_ZEROS = bytes(ord("0") if ord("0") <= byte <= ord("9") else byte for byte in range(256))
_ENDLESS = re.compile(rb"\d{101,}")
"""No tool prints a number that long, and Python refuses to read one of 4,300 digits by an error of
its own."""
_ENDLESS_TEXT = re.compile(r"\d{101,}")
"""The same of the digits of other scripts, which Python reads, too."""
_FOREIGN_DIGIT = re.compile(r"\d")
"""One of them, where no ASCII is left: looking through what is left takes a hundredth of the time."""
_ASCII = bytes(range(128))
_WHOLE = re.compile(r"[0-9]{1,40}")


def decoded(data: bytes | None) -> str:
    """The bytes as text: what is not UTF-8 as U+FFFD, digits without end as an ellipsis. None =
    there is nothing, and so is the text.

    Files on the disk keep the original bytes.

    >>> decoded(b"rate " + b"9" * 5000 + b" Gb/s"), decoded(None)
    ('rate … Gb/s', '')
    """
    if not data:
        return ""
    if data.isascii() and _RUN not in data.translate(_ALL_ZEROS):
        return data.decode("ascii")
    # A thousand nodes' answers have 150 MB: looking for one fixed run of digits takes a twentieth
    # of the time of the expression.
    text = _ENDLESS.sub("…".encode(), data) if _RUN in data.translate(_ALL_ZEROS) else data
    shown = text.decode("utf-8", "replace")
    foreign = text.translate(None, _ASCII).decode("utf-8", "replace")
    return _ENDLESS_TEXT.sub("…", shown) if _FOREIGN_DIGIT.search(foreign) else shown


def whole_number(text: str | None) -> int | None:
    """The whole number that a node printed, in ASCII digits, 40 at most; None = it is none.

    `str.isdigit` takes digits that `int` refuses, and `int` refuses numbers without end.

    >>> [whole_number(text) for text in ("12", "²", "٣", "-1", "9" * 5000, None)]
    [12, None, None, None, None, None]
    """
    return int(text) if text and _WHOLE.fullmatch(text) else None


def with_run_at(text: str, run_id: str, place: str) -> str:
    """A text whose commands name a run by the folder that it was made in, with the folder in which it
    lies now.

    >>> with_run_at("busbw report runs/20261120-a", "20261120-a", "/tmp/copy")
    'busbw report /tmp/copy'
    """
    made_in = re.compile(rf"(?<!\S)[^\s'\"]*/{re.escape(run_id)}(?![\w.-])")
    return made_in.sub(lambda _: place, text)
