"""What a failure says could not be had: the thing and what is wrong with it (`things`), whoever
wrote the line.
"""

from __future__ import annotations

import heapq
import operator
import re
from collections.abc import Iterator

from busbw.parsers.findings import signs
from busbw.parsers.findings.catalogue import Role, Weight, load
from busbw.parsers.findings.evidence import Clue, Place, Sighting, View
from busbw.parsers.findings.known_lines import is_remark
from busbw.parsers.findings.line_roles import stated
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.logs import failure_lines

_KEEP = 64
_MOST_LINES = 512
"""Failures read of all texts: later ones are consequences."""
_INFORMS = r"NCCL (?:INFO|TRACE) |UCX +(?:INFO|DEBUG)|<info>|<debug>|\bDEBUG\b"
_FAILURES = tuple(
    Watch(f"failure {number}", words, keep=_KEEP, unless=_INFORMS)
    for number, words in enumerate(
        (
            r"no such |not found|can ?not |can't |could ?n[o']t |could not |unable to |fail(?:ed|ure)",
            r"denied|refused|rejected|timed? ?out|in use|exhausted|too many|too old|mismatch|invalid",
            r"unknown|missing|not (?:available|supported|permitted|valid|running|implemented)|expired"
            r"|unreachable|exceed|no space|insufficient|unsatisf|not exist|n[o']t match|is down",
            r"error|errno|out of memory|killed|version|killing|reset|violat|unsigned|unauthori|busy",
            r"\b(?-i:E[A-Z]{4,})\b.*\d|\bno (?:\w+ ){1,3}(?:found|available|left)|limit|aborted|blocked|lost|closed by"
            r"|already (?:bound|running)|nothing to|not in the|didn't|does ?n[o']t|\bstatus [1-9]"
            r"|_ERR\b|not part of|but only|Back-?off|unschedulable|skew|rewound|bad permissions|link is down|definitely down",
        )
    )
)
_HARMLESS = (Role.NOTE, Role.SETTING, Role.STATE)
_NCCL = re.compile(r"NCCL WARN ")
"""NCCL's messages have a vocabulary of their own, which knows what they mean."""
_SOURCE = re.compile(
    r"\b[\w./-]+\.(?:cc|cpp|cu|c|h|hpp|py):\d+\]?|\b\w+(?:\.\w+)+\(|\b\w+(?:::~?\w+)+"
)
"""Where in its sources a writer printed the line, and code (`a.b(`, `A::b`): names are no objects."""
_SURE = (Weight.STRONG, Weight.CERTAIN)


_place = operator.attrgetter("place")


def _judge(view: View) -> Iterator[Clue]:
    if not any(view.has(watch.name) for watch in _FAILURES):
        return
    # Their tables are not needed for a healthy text.
    from busbw.parsers.findings import similar
    from busbw.parsers.findings.things import sentences

    known = load().by_id
    judged: dict[Place, set[str]] = {}
    settled = set()
    for clue in view.clues:
        judged.setdefault(clue.place, set()).add(clue.symptom)
        if clue.weight in _SURE or known[clue.symptom].role in _HARMLESS:
            settled.add(clue.place)
    lines: dict[Place, Sighting] = {}
    is_ours = False
    for line in heapq.merge(*(view.each(watch.name) for watch in _FAILURES), key=_place):
        if line.place in lines or len(lines) < _MOST_LINES:
            lines[line.place] = line
        is_ours = is_ours or similar.is_of_field(line.text)
    for place, line in lines.items():
        if place in settled or (place in judged and _NCCL.search(line.text)):
            continue
        reading = sentences.read(_SOURCE.sub(" ", stated(line.text)))
        if reading is None or signs.is_typed(line.text) or _is_harmless(line.text):
            continue
        for entry in reading.entries:
            # Never more than possible: in first runs such pairs named the cause in 10 of 23.
            if is_ours or not reading.is_general:
                yield line.clue(entry, Weight.GUESS, "nccl-log", places(line.text))


def _is_harmless(line: str) -> bool:
    """By the lexicon of failures, or a remark that the catalogue knows."""
    return failure_lines.is_harmless(line) or is_remark(line)


RULE = Rule(
    name="named-objects",
    conclusion=(
        "What a line says could not be had (a host name, a port, a library, a device, a credential)"
        " and how (missing, refused, in use) give the cause together, whoever wrote the line."
    ),
    watches=_FAILURES,
    judge=_judge,
    fires=(
        Fires("unable to get host address for gpu-7 (1)\n", (("name-resolution-failed", "guess"),)),
        Fires(
            "insmod: could not insert module x.ko: Required key not available\n",
            (("kernel-module-not-loaded", "guess"),),
        ),
        Fires("SA path record query timed out\n", (("ib-peer-no-answer", "guess"),)),
    ),
    silent=(
        "a:1:2 [0] NCCL INFO /dev/infiniband/uverbs0: Permission denied\n",
        "could not open libx.so, trying next\n",
        "0 errors, 0 failed\n",
        "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PC00._DSM], AE_NOT_FOUND\n",
        "n3 sshd[41201]: error: kex_exchange_identification: Connection closed by remote host\n",
        "leaf-03#show interfaces counters errors\n",
        "training failed at step 10\n",
        "F0827 15:46:04.819053  1144  1156 malloc.cc:56] failed to find entry 12\n",
        "it ended. This can happen if the host name could not be resolved, or the disk is full\n",
    ),
)
