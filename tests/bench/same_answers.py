"""Whether `busbw read --json` and `busbw why --json` still answer as another revision did.

    python tests/bench/same_answers.py REVISION [--texts 400] [--seed 1] [--keep FOLDER]

For a change that is to make reading faster and nothing else. The texts: recorded fixtures, the two
corpora where they are, the catalogue's examples, recorded and composed tables
as launchers and terminals decorate them, torn, merged, and inside logs (`--texts` of these, by
`--seed`). Each is read by both commands of both revisions, in one process for each revision; the
exit status and every byte printed must be the same. Prints what differs. Exit status 1 = something
does.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gen_varied

REPOSITORY = Path(__file__).resolve().parents[2]
_COMMANDS = ("read", "why")
_RECORDED = ("tests/fixtures", "../shared/corpus", "../shared/corpus-2")
_LONGEST = 4 << 20
"""Longer recorded texts are left out."""


def recorded() -> Iterator[bytes]:
    """Every recorded text there is here."""
    for place in _RECORDED:
        for path in sorted((REPOSITORY / place).rglob("*")):
            if path.is_file() and path.stat().st_size <= _LONGEST:
                yield path.read_bytes()


def examples() -> Iterator[bytes]:
    """What the catalogue's expressions must match, each a text."""
    from busbw.parsers.findings import catalogue

    for entry in catalogue.load().entries:
        for signal in entry.signals:
            yield from (line.encode() for line in signal.matches)


def tables() -> list[str]:
    """Recorded outputs of nccl-tests."""
    folders = ("tests/fixtures/nccl_tests", "../shared/corpus/nccl-tests")
    paths = [path for place in folders for path in sorted((REPOSITORY / place).glob("*.txt"))]
    return [path.read_text("utf-8", "replace") for path in paths]


def decorated(rng: random.Random, text: str) -> str:
    """The text as a launcher, a terminal or a person leaves it."""
    lines = text.split("\n")
    way = rng.randrange(10)
    if way == 0:
        return "\n".join(f"\x1b[32m{line}\x1b[0m" for line in lines)
    if way == 1:
        return "\n".join(f"[1,{rng.randrange(4)}]<stdout>:{line}" for line in lines)
    if way == 2:
        return "\r\n".join(lines)
    if way == 3:
        return "\n".join(f"2026-03-01T10:00:00Z stdout F {line}" for line in lines)
    if way == 4:
        width = rng.choice((80, 100, 120))
        pieces = [line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)]
        return "\n".join(pieces)
    if way == 5:
        return "\n".join(line.replace(" ", "\u00a0") for line in lines)
    if way == 6:
        return text[rng.randrange(len(text) // 2) : rng.randrange(len(text) // 2, len(text))]
    if way == 7:
        return torn(rng, lines)
    if way == 8:
        return "\n".join(f"| {' | '.join(line.split())} |" for line in lines)
    return text


def torn(rng: random.Random, lines: list[str]) -> str:
    """Lines broken, changed, repeated or missing here and there."""
    for _ in range(rng.randint(1, 6)):
        number = rng.randrange(len(lines))
        line = lines[number]
        at = rng.randrange(len(line) + 1)
        broken = f"{line[:at]}\nnode-a:41:42 [0] NCCL INFO Channel 00 : 0 -> 1\n{line[at:]}"
        changed = line.replace(str(rng.randrange(10)), str(rng.randrange(10)), 1)
        glued = f"{line[:at]}gpu1:41:42 [0] NCCL INFO x"
        lines[number] = rng.choice((broken, changed, glued, line + "\n" + line, "", "nan inf"))
    return "\n".join(lines)


def mixed(rng: random.Random, texts: list[str]) -> str:
    """The lines of several texts, in bursts, each text's in their order."""
    waiting = [text.split("\n") for text in texts]
    lines: list[str] = []
    longest = rng.choice((1, 4, 40, 100_000))
    while left := [each for each in waiting if each]:
        source = rng.choice(left)
        length = rng.randint(1, longest)
        lines += source[:length]
        del source[:length]
    return "\n".join(lines)


def composed(count: int, seed: int) -> Iterator[bytes]:
    """Tables in every condition, and logs with tables in them."""
    rng = random.Random(seed)
    writer = gen_varied.Writer(seed)
    known = tables()
    for _ in range(count):
        texts = [
            decorated(rng, rng.choice(known) if rng.random() < 0.6 else gen_varied.table(writer))
            for _ in range(rng.choice((1, 1, 1, 2, 3)))
        ]
        if rng.random() < 0.3:
            texts.append("\n".join(writer.line() for _ in range(rng.randrange(400))))
        yield mixed(rng, texts).encode("utf-8", "replace")


def texts(count: int, seed: int) -> Iterator[bytes]:
    """All of them."""
    yield from recorded()
    yield from examples()
    yield from composed(count, seed)
    yield b"".join(gen_varied.varied(1_000_000, seed))


def answer(command: str, path: str) -> dict[str, object]:
    """Exit status and digests of what one command prints for one text."""
    from busbw import cli

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = cli.main([command, "--json", path])
    digest = hashlib.sha256((out.getvalue() + errors.getvalue()).encode("utf-8", "replace"))
    return {"status": status, "digest": digest.hexdigest()}


def print_answers(folder: Path) -> None:
    """All answers as JSON lines: what this program runs once for each revision."""
    os.chdir(folder)
    for path in sorted(folder.iterdir()):
        for command in _COMMANDS:
            print(json.dumps({"text": path.name, "command": command, **answer(command, path.name)}))


def answers(library: Path | None, folder: Path) -> list[str]:
    """The answers of the revision installed in a folder; None = of this tree."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if library is not None:
        environment["PYTHONPATH"] = str(library)
    argv = (sys.executable, __file__, "--answers", str(folder))
    run = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True, cwd=folder)
    return run.stdout.decode().splitlines()


def install(revision: str, place: Path) -> Path:
    """The package of a revision in a folder of its own."""
    source, library = place / "source", place / "library"
    source.mkdir()
    archive = subprocess.run(
        ("git", "archive", revision), cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(("tar", "-x", "-C", str(source)), input=archive.stdout, check=True)
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    subprocess.run((*pip, "--target", str(library), str(source)), check=True)
    return library


def main() -> int:
    """Compares; 1 = something differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("revision", nargs="?", default="HEAD")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the texts that differ")
    parser.add_argument("--answers", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answers is not None:
        print_answers(arguments.answers)
        return 0
    with tempfile.TemporaryDirectory(prefix="busbw-same-") as name:
        place = Path(name)
        folder = place / "texts"
        folder.mkdir()
        for number, text in enumerate(texts(arguments.texts, arguments.seed)):
            (folder / f"{number:05d}").write_bytes(text)
        before = answers(install(arguments.revision, place), folder)
        after = answers(None, folder)
        different = [json.loads(new) for old, new in zip(before, after, strict=True) if old != new]
        for each in different:
            print(f"{each['command']} differs on text {each['text']}")
            if arguments.keep is not None:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / each["text"]).write_bytes((folder / each["text"]).read_bytes())
    print(f"{len(after) - len(different)} of {len(after)} answers are the same, byte for byte")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
