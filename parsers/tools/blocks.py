"""Cutting a text into the blocks that its head lines begin, or into the outputs of several runs."""

from __future__ import annotations

import re


def blocks(head: re.Pattern[str], text: str) -> tuple[tuple[re.Match[str], str], ...]:
    """(head, the text from behind it to the next head) for every match; () = none.

    >>> [(head[1], body) for head, body in blocks(re.compile("^GPU (.)$", re.M), "GPU 0\\n up\\nGPU 1\\n")]
    [('0', '\\n up\\n'), ('1', '\\n')]
    """
    heads = list(head.finditer(text))
    ends = [match.start() for match in heads[1:]] + [len(text)]
    return tuple((match, text[match.end() : end]) for match, end in zip(heads, ends, strict=False))


def runs(begin: re.Pattern[str], text: str) -> tuple[str, ...]:
    """The text cut where each run after the first begins.

    >>> runs(re.compile("^run", re.M), "log\\nrun a\\nrun b\\n")
    ('log\\nrun a\\n', 'run b\\n')
    """
    starts = [match.start() for match in begin.finditer(text)][1:]
    return tuple(text[at:end] for at, end in zip((0, *starts), (*starts, len(text)), strict=True))
