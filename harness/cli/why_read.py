"""What `busbw why` reads: every input is searched for the table's lines and read by the formats that recognise it."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.formats.scan import Scanner
from busbw.parsers.judge.diagnose import search_patterns
from busbw.parsers.judge.diagnose_evidence import EvidenceSet, Text

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """All that was read."""

    evidence: EvidenceSet
    problems: tuple[str, ...]
    """What could not be read, or not wholly."""


def read(names: list[str]) -> Reading:
    """Read the inputs, in the order given; directories in the order of their names."""
    scanner = Scanner(search_patterns())
    texts, problems = [], []
    for path in _files(names, problems):
        try:
            scan = scanner.scan(_chunks(path))
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
            continue
        problems += [f"{path}: {problem}" for problem in scan.problems]
        texts.append(Text(path, scan.hits, (), scan.lines))
    return Reading(EvidenceSet(tuple(texts)), tuple(problems))


def _files(names: list[str], problems: list[str]) -> Iterator[str]:
    for name in names:
        if name == "-":
            yield name
        elif os.path.isdir(name):
            for folder, folders, files in os.walk(name):
                folders.sort()
                yield from (os.path.join(folder, file) for file in sorted(files))
        elif os.path.exists(name):
            yield name
        else:
            problems.append(f"{name}: no such file")


def _chunks(path: str) -> Iterator[bytes]:
    if path == "-":
        while chunk := sys.stdin.buffer.read(_CHUNK):
            yield chunk
        return
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
