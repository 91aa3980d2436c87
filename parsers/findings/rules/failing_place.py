"""The part of NCCL in which an error began: the file of a message that does not say why
(`FILE:LINE NCCL WARN Cuda failure`), or the innermost of the files that passed the error up
(`NCCL INFO FILE:LINE -> CODE`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.things.table import first

_PATH = r"[\w/]+\.(?:cc|h|cu)"
_CHAIN = Watch("chain", rf"NCCL INFO (?:\[[^\]]*\] )?{_PATH}:\d+ (?:\(\w+\) )?-> [1-9]")
_MESSAGE = Watch("message", rf"{_PATH}:.*NCCL WARN (?:Cuda|HIP|DOCA) (?:failure|error)")
_FILE = re.compile(rf"({_PATH}):(?:\d+ (?:\(\w+\) )?->|.*NCCL WARN)")


def _judge(view: View) -> Iterator[Clue]:
    lines = (*view.sightings(_MESSAGE.name), *view.sightings(_CHAIN.name))
    firsts: dict[str | None, Sighting] = {}
    for line in lines:
        firsts.setdefault(line.process, line)
    for line in firsts.values():
        match = _FILE.search(line.text)
        thing = match and first(match[1], ("failed", "any"), guesses=False)
        if match and thing:
            clue = line.clue(thing.entries[0], Weight.WEAK, "nccl-log")
            yield replace(clue, span=match.span(1))


RULE = Rule(
    name="failing-place",
    conclusion=(
        "The file of an error, or the innermost file that passes it up, names the part of NCCL "
        "that failed."
    ),
    watches=(_CHAIN, _MESSAGE),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO transport/nvls.cc:430 -> 1\n"
            "a:1:2 [0] NCCL INFO init.cc:1396 -> 1\n",
            (("nvls-bind-failure", "weak"),),
        ),
        Fires(
            "a:1:2 [0] gin/gin_host.cc:73 NCCL WARN Cuda failure 999 'unknown error'\n",
            (("gin-not-available", "weak"),),
        ),
    ),
    silent=(
        "a:1:2 [0] enqueue.cc:1500 NCCL WARN Cuda failure 1 'invalid argument'\n",
        "a:1:2 [0] NCCL INFO init.cc:1396 -> 1\na:1:2 [0] NCCL INFO group.cc:64 -> 1\n",
        "a:1:2 [0] NCCL INFO transport/nvls.cc:430 -> 0\n",
    ),
)
