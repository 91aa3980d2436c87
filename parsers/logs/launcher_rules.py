"""How a launcher's messages are found in a text and taken apart: a table of rules, one pass of the
scanner.

A rule's `first` is searched line by line. What belongs to the message are the lines behind it up to
the next line of dashes; `detail` is searched in all of it with white space folded, because versions
break the lines differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from busbw.model import LauncherFailure, WarningRole
from busbw.parsers.logs.scan import Line, Pattern, Scan

_HELP_LINES = 24
_LONGEST_TEXT = 600
_TAG = re.compile(
    r"^\s*(?:\[?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8}"
    r" \d{4}\]?)?(?:\[[^\]]{1,80}\]){0,2}<std\w+>: ?"
)
_GROUPS = ("rank", "node", "code", "detail")


@dataclass(frozen=True, slots=True)
class Rule:
    """One message."""

    kind: str
    role: WarningRole
    first: str
    """Expression for a line of it."""
    cause: str
    detail: tuple[str, ...] = ()
    """Expressions with groups named rank, node, code, detail, each searched in the whole message;
    () = `first` itself."""
    help: bool = False
    """True = a help message of several lines."""


def patterns(prefix: str, rules: Iterable[Rule]) -> tuple[Pattern, ...]:
    """What the scanner has to look for; ids are `<prefix>.<kind>`."""
    return tuple(
        Pattern(f"{prefix}.{rule.kind}", rule.first, keep=16, after=_HELP_LINES if rule.help else 0)
        for rule in rules
    )


def failures(prefix: str, rules: Iterable[Rule], scan: Scan) -> tuple[LauncherFailure, ...]:
    """What the rules found, in the order of the text; the same message of the same rank and node
    once."""
    by_id = {f"{prefix}.{rule.kind}": rule for rule in rules}
    found: dict[tuple[str, int | None, str | None, int | None, str | None], LauncherFailure] = {}
    for hit in scan.hits:
        rule = by_id.get(hit.pattern)
        if rule is None:
            continue
        more = hit.count - len(hit.examples)
        for line in hit.examples:
            each = _failure(rule, line)
            key = (each.kind, each.rank, each.node, each.code, each.detail)
            before = found.get(key)
            count = (before.count if before else 0) + 1 + more
            more = 0
            found[key] = replace(
                before if before and before.line_no <= each.line_no else each, count=count
            )
    return tuple(sorted(found.values(), key=lambda each: (each.line_no, each.kind)))


def _failure(rule: Rule, line: Line) -> LauncherFailure:
    text = _message(line) if rule.help else line.text.strip()
    groups: dict[str, str | None] = dict.fromkeys(_GROUPS)
    for expression in rule.detail or (rule.first,):
        told = re.search(expression, text, re.IGNORECASE)
        groups.update(
            {name: value for name, value in (told.groupdict() if told else {}).items() if value}
        )
    return LauncherFailure(
        kind=rule.kind,
        cause=rule.cause,
        role=rule.role,
        line_no=line.line_no,
        text=text[:_LONGEST_TEXT],
        rank=int(groups["rank"]) if groups["rank"] else None,
        node=groups["node"],
        code=int(groups["code"]) if groups["code"] else None,
        detail=groups["detail"],
    )


def _message(line: Line) -> str:
    """The help message from its found line to the closing line of dashes, in one line."""
    kept = [line.text]
    for following in line.after:
        text = _TAG.sub("", following)
        if text.startswith("-----"):
            break
        kept.append(text)
    return " ".join(" ".join(_TAG.sub("", text) for text in kept).split())
