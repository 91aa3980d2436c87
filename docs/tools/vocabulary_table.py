"""The second half of a vocabulary's table: messages sorted by meaning, each by its telling words.

    python docs/tools/vocabulary_table.py MEANINGS --of WRITER REPOSITORY TAG… [--of …] [--run WORDS]
        [--rest]

MEANINGS is a text that the caller writes while reading the messages: a line `= KIND ID=WEIGHT …`
opens a meaning, and each line below is an expression, searched in `FILE  WORDS` of a message. The
first that is found decides. Printed are the groups of the table of those writers; `--rest`
prints the messages that no expression has instead.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vocabulary import SOURCES, Message, extracted

from busbw.parsers.vocabulary.messages import GAP, Kind

_LEAST_LETTERS = 4
"""Words of fewer letters tell little; so do numbers."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What messages that fit an expression mean."""

    kind: Kind
    findings: tuple[tuple[str, str], ...]
    """(id of an entry, weight)."""

    def head(self) -> str:
        """The group's first lines in the table."""
        if not self.findings:
            return f"- kind: {self.kind.value}\n"
        pairs = ", ".join(f"{name}: {weight}" for name, weight in self.findings)
        return f"- kind: {self.kind.value}\n  findings: {{{pairs}}}\n"


def meanings(text: str) -> list[tuple[re.Pattern[str], Meaning]]:
    """The expressions in order, each with its meaning.

    >>> [(_, first)] = meanings("= finding nic-stuck=weak\\nno answer")
    >>> first.head()
    '- kind: finding\\n  findings: {nic-stuck: weak}\\n'
    """
    rules = []
    current = Meaning(Kind.HARMLESS, ())
    for line in text.splitlines():
        if line.startswith("="):
            kind, *pairs = line[1:].split()
            named = (pair.split("=") for pair in pairs)
            current = Meaning(Kind(kind), tuple((name, weight) for name, weight in named))
        elif line.strip() and not line.startswith("#"):
            rules.append((re.compile(line), current))
    return rules


def sorted_by_meaning(
    messages: Iterable[Message], rules: Sequence[tuple[re.Pattern[str], Meaning]]
) -> tuple[dict[Meaning, list[Message]], list[Message]]:
    """The messages of each meaning, and those that no expression has."""
    groups: dict[Meaning, list[Message]] = {}
    rest = []
    for message in messages:
        text = f"{message.file}  {message.words}"
        meaning = next((each for rule, each in rules if rule.search(text)), None)
        if meaning is None:
            rest.append(message)
        else:
            groups.setdefault(meaning, []).append(message)
    return groups, rest


def runs(words: str, least: int) -> Iterator[str]:
    """The runs of fixed words of a message, shortest first, of so many words or more.

    >>> list(runs("bad … lane of a node", 3))
    ['lane of a', 'of a node', 'lane of a node']
    """
    parts = [part.split() for part in words.split(GAP)]
    for length in range(least, max(map(len, parts)) + 1):
        for part in parts:
            for at in range(len(part) - length + 1):
                yield " ".join(part[at : at + length])


def telling(groups: dict[Meaning, list[Message]], least: int) -> dict[Meaning, list[str]]:
    """The lines of each group: release, file, and the shortest run of words that no message of
    another group has; where there is none, all words of the message."""
    owners: dict[str, set[Meaning]] = {}
    users: Counter[str] = Counter()
    for meaning, messages in groups.items():
        for message in messages:
            for run in set(runs(message.words, 1)):
                owners.setdefault(run, set()).add(meaning)
                users[run] += 1
    lines = {}
    used: set[str] = set()
    for meaning, messages in groups.items():
        chosen: dict[str, Message] = {}
        for message in sorted(messages, key=lambda each: len(each.words)):
            if not any(f" {run} " in f" {message.words} " for run in chosen):
                chosen[_shortest(message.words, owners, users, least)] = message
        own = (
            f"{_since(each)} {_short(each.file)}  {run}"
            for run, each in chosen.items()
            if run not in used
        )
        lines[meaning] = sorted(own, key=lambda line: line.split(" ", 1)[1])
        used |= {*chosen}
    return lines


def _shortest(words: str, owners: dict[str, set[Meaning]], users: Counter[str], least: int) -> str:
    best: tuple[int, int, int, str] | None = None
    for place, run in enumerate(runs(words, least)):
        if best is not None and len(run.split()) > best[0]:
            break
        listed = run.split()
        plain = sum(word.isdigit() or len(word) < _LEAST_LETTERS for word in listed)
        if len(owners[run]) == 1 and plain <= len(listed) // 2:
            key = (len(listed), plain * 4 - min(users[run], 3), place, run)
            best = key if best is None else min(best, key)
    return best[3] if best else " * ".join(part.strip() for part in words.split(GAP)).strip(" *")


def _since(message: Message) -> str:
    return message.releases[0].removeprefix("v")


def _short(path: str) -> str:
    """The last three parts of a path."""
    return "/".join(path.split("/")[-2:])


def main() -> None:
    """Print the groups, or what has no meaning yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meanings", type=Path)
    parser.add_argument("--of", nargs="+", action="append", required=True, metavar="WRITER")
    parser.add_argument("--run", type=int, default=3, help="so many words or more (3)")
    parser.add_argument("--rest", action="store_true")
    options = parser.parse_args()
    rules = meanings(options.meanings.read_text(encoding="utf-8"))
    messages = []
    for writer, repository, *tags in options.of:
        own = extracted(writer, Path(repository), tags)
        shares_table = bool(SOURCES[writer].table)
        for message in own:
            if shares_table:
                message.releases[0] = f"{writer}-{message.releases[0].removeprefix('v')}"
            messages.append(message)
    groups, rest = sorted_by_meaning(messages, rules)
    if options.rest:
        for message in rest:
            sys.stdout.write(f"{message.file}  {message.words}\n")
        return
    sys.stdout.write("groups:\n")
    for meaning, lines in telling(groups, options.run).items():
        body = "".join(f"    {line}\n" for line in lines)
        sys.stdout.write(f"{meaning.head()}  messages: |\n{body}")


if __name__ == "__main__":
    main()
