"""Texts that are almost right: real outputs, cut, spliced, doubled, with single bytes changed and
hostile pieces put in. Seeded, repeatable."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
_REPOSITORY = Path(__file__).parents[2]
_LARGEST_SEED = 60_000
_HOSTILE = (
    b"\x1b]0;title\x07", b"\x1b[2J", b"\x9b31m", b"\r", b"\0", b"\xff\xfe", b"\xe2\x80\xae", b"\xed\xa0\x80", "\u2028".encode(), b"nan",
    b"inf", b"-1", b"1e999", b"9" * 5000, b"-0", b"0x" + b"f" * 40, b"%s%n", b"$(reboot)", b"`reboot`", b"-oProxyCommand=reboot",
    b"../../../etc/passwd", b"<script>alert(1)</script>", b"[" * 3000, b"{" * 3000, b'{"a":' * 900, b"(" * 200, b"[1-999999999]",
    b"n[1-9999,1-9999][1-9999]", b"&a [*a,*a]", b"!!python/object/apply:os.system [reboot]", b"\xd9\x84" * 50, b"''\"\"", b"\\",
    b"\n" * 300, b" " * 5000, b"a" * 70000, b"/", b":", b"::", b"%", b"\t", b"\xc2\xa0", b"\xd9\xa3",
)  # fmt: skip


def seeds() -> tuple[bytes, ...]:
    """Beginnings of the project's fixtures and examples, the texts that its tests are made of, and
    the corpus where it is at hand."""
    places = [
        _FIXTURES,
        _REPOSITORY / "inventories",
        _REPOSITORY / "playbooks",
        _REPOSITORY / "docs" / "examples",
        _CORPUS,
    ]
    files = sorted(
        file
        for place in places
        for file in place.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc", ".md")
    )
    composed = [
        text
        for file in sorted((_REPOSITORY / "tests" / "unit").glob("test_*.py"))
        for text in _texts_in(file)
    ]
    return (*(file.read_bytes()[:_LARGEST_SEED] for file in files), *composed)


def seeds_for(word: str) -> tuple[bytes, ...]:
    """Texts of the tests that speak of this reader, and of its own documentation."""
    files = [
        file
        for part in ("parsers", "harness", "tests/unit")
        for file in sorted((_REPOSITORY / part).rglob("*.py"))
    ]
    named = [
        file
        for file in files
        if file.stem == word
        or (
            file.stem.startswith("test_") and re.search(rf"\b{re.escape(word)}\b", file.read_text())
        )
    ]
    return tuple(text for file in named for text in _texts_in(file))


def _texts_in(file: Path) -> list[bytes]:
    """String literals of several lines: what tests compose in the form of some tool."""
    literals = (
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
    )
    return [
        each.encode("utf-8", "replace")
        for each in literals
        if isinstance(each, str) and each.count("\n") > 1
    ]


def mutated(rng: random.Random, texts: tuple[bytes, ...]) -> bytes:
    """One text after one to six changes."""
    data = rng.choice(texts) if rng.random() < 0.95 else rng.randbytes(rng.randrange(2000))
    if len(data) > 8000 and rng.random() < 0.8:
        start = rng.randrange(len(data) - 4000)
        data = data[start if rng.random() < 0.5 else 0 :][: rng.randrange(500, 8000)]
    for _ in range(rng.randrange(1, 7)):
        data = rng.choice(_CHANGES)(rng, data, texts)
    return data[:200_000]


def _cut(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 12) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_HOSTILE) + data[at:]


def _for_a_word(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    """A hostile piece where a word was: numbers and names are where parsers trust."""
    words = data.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(_HOSTILE)
    return b" ".join(words)


def _for_a_value(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    """Another value behind a colon."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    name, colon, _ = lines[at].partition(b":")
    lines[at] = (
        name
        + colon
        + b" "
        + rng.choice(
            (
                b"null",
                b"[]",
                b"{}",
                b"true",
                b'"x"',
                b"-1",
                b"1.5",
                b"1e400",
                b"[[1]]",
                rng.choice(_HOSTILE),
            )
        )
    )
    return b"\n".join(lines)


def _double(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join([*lines[:at], *lines[at : at + 3] * rng.choice((2, 3, 200)), *lines[at:]])


def _drop(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + lines[at + rng.randrange(1, 4) :])


def _shuffle(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def _splice(rng: random.Random, data: bytes, texts: tuple[bytes, ...]) -> bytes:
    other = rng.choice(texts)[:4000]
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[rng.randrange(len(other) + 1) :]


_CHANGES = (_cut, _flip, _insert, _for_a_word, _for_a_value, _double, _drop, _shuffle, _splice)
