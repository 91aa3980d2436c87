"""What `busbw why` answers to each failure message of a writer's sources, one at a time.

    python tests/bench/messages.py WRITER REPOSITORY TAG [--half even|odd] [--most N] [--without-tables]

Messages are extracted as `docs/tools/vocabulary.py` does, filled with plausible arguments, and
written behind the prefix that the writer puts before them. A half is those messages whose hash is
even or odd: what is decided on one half is judged on the other. `--without-tables` leaves out the
writer's table of words and shows what the catalogue and the general rules know.

Printed are the shares of messages that get no answer, only a general one (unmapped, secondary,
internal), a possible finding, and a stated one.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from busbw.parsers.findings import message_clues
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.vocabulary.messages import GAP

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))
from vocabulary import SOURCES, extracted

PREFIXES = {
    "mpich": "MPIR_Init_thread(192)........: ",
    "slurm": "slurmd: error: ",
    "infiniband-diags": "ibwarn: [4711] main: ",
    "nccl": "gpu3:41:42 [0] NCCL WARN ",
    "ucx": "[1.2] [gpu3:1:0] a.c:12 UCX  ERROR ",
    "open-mpi": "",
}
"""What stands before a message of a writer; "error: " for the others."""
_ARGUMENTS = ("3", "node-7", "0x1f")
_STATED = ("certain", "likely")


def filled(words: str) -> str:
    """The message with an argument in each gap."""
    parts = words.split(GAP)
    text = parts[0]
    for number, part in enumerate(parts[1:]):
        text += _ARGUMENTS[number % len(_ARGUMENTS)] + part
    return text


def is_even(words: str) -> bool:
    """To which half it belongs."""
    return hashlib.sha256(words.encode()).digest()[0] % 2 == 0


def answers(lines: Iterator[str]) -> Counter[str]:
    """How many lines get which kind of answer."""
    scanner_patterns = search_patterns()
    kinds: Counter[str] = Counter()
    for line in lines:
        hits = Scanner(scanner_patterns).scan([f"{line}\n".encode()]).hits
        found = diagnose(EvidenceSet((Text("a.log", hits),))).findings
        if not found:
            kinds["none"] += 1
        elif found[0].id in message_clues.RESTATEMENTS:
            kinds["general"] += 1
        elif found[0].confidence and found[0].confidence.value in _STATED:
            kinds["stated"] += 1
        else:
            kinds["possible"] += 1
    return kinds


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("writer", choices=sorted(SOURCES))
    parser.add_argument("repository", type=Path)
    parser.add_argument("tag")
    parser.add_argument("--half", choices=("even", "odd"))
    parser.add_argument("--most", type=int, default=10_000, help="every n-th, up to so many")
    parser.add_argument("--without-tables", action="store_true")
    options = parser.parse_args()
    if options.without_tables:
        message_clues.message_clues = lambda texts, clues: []
    messages = [each.words for each in extracted(options.writer, options.repository, [options.tag])]
    if options.half:
        messages = [each for each in messages if is_even(each) == (options.half == "even")]
    messages = messages[:: -(-len(messages) // options.most) or 1]
    prefix = PREFIXES.get(options.writer, "error: ")
    kinds = answers(prefix + filled(each) for each in messages)
    cells = (
        f"{name} {kinds[name]} ({kinds[name] / max(1, len(messages)):.0%})"
        for name in ("none", "general", "possible", "stated")
    )
    print(f"{options.writer} {options.tag}: {len(messages)} messages, " + ", ".join(cells))


if __name__ == "__main__":
    main()
