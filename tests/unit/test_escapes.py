"""Escape sequences: the quick way for many lines gives what the expression gives."""

from __future__ import annotations

import random
import re

from busbw.parsers.logs.escapes import without_escapes, without_escapes_bytes

PIECES = (
    *("\x1b", "\x1b[", "\x1b[31m", "\x1b[0m", "\x1b[1;32;44m", "\x1b[?25l", "\x1b[2K", "\x1b]0;title\x07"),
    *("\x1b]8;;http://x\x1b\\", "\x1b]half", "\x1bM", "\x1b\\", "\x07", "\\", "]", "[", "m", "a", " ", "1;", "\n", "é", "é"),
)  # fmt: skip


def test_many_lines_at_once_lose_what_each_line_loses() -> None:
    rng = random.Random(5)
    seen_clean = seen_cut = 0
    for _ in range(20_000):
        text = "".join(rng.choices(PIECES, k=rng.randrange(12)))
        expected = "\n".join(without_escapes(line) for line in text.split("\n"))
        assert without_escapes_bytes(text.encode()).decode() == expected, repr(text)
        seen_clean += expected == text
        seen_cut += expected != text
    assert seen_clean > 500
    assert seen_cut > 5_000


def test_nothing_of_a_coloured_line_is_lost() -> None:
    line = "\x1b[1;31mgpu1:41:42 [0] NCCL WARN x\x1b[0m"
    assert without_escapes(line) == re.sub(r"\x1b\[[\d;]*m", "", line)
