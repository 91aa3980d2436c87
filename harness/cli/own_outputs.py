"""What busbw itself prints and writes: no output of a benchmark, whatever numbers are in it."""

from __future__ import annotations

import re

_READ = "give the output that was read"
_RUN = "give its folder: busbw report RUN"
_OWN = (
    (rb'\s*\{\s*"schema": "busbw\.run/', "the result of a run", _RUN),
    (rb'\s*\{\s*"schema": "busbw\.', "a document", "give the output that it was made from"),
    (
        rb'\s*\{\s*(?:"files": \[\s*\{\s*)?"kind": "[\w-]+",\s*"file": [^\n]*,\s*"format": ',
        "what busbw read --json prints",
        _READ,
    ),
    (rb"file,run,collective,nranks,nodes,", "what busbw read --csv prints", _READ),
    (rb'\s*<!doctype html>(?s:.{0,4096})<meta name="generator" content="busbw ', "a report", _RUN),
)


def own_output(head: bytes) -> str:
    """Why a text that begins like this is not read; "" = it is not of busbw.

    >>> own_output(b'{"schema": "busbw.run/1", "run_id": "x"}')
    'this is the result of a run, by busbw itself: give its folder: busbw report RUN'
    """
    for begin, what, instead in _OWN:
        if re.match(begin, head) is not None:
            return f"this is {what}, by busbw itself: {instead}"
    return ""
