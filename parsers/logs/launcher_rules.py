"""A launcher's messages, found in a text by a table of rules in one pass of the scanner.

A rule's `first` is searched line by line. What belongs to the message are the lines behind it up to
the next line of dashes; `detail` is searched in all of it with white space folded, because versions
break the lines differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from busbw.errors import UnknownLayout
from busbw.model import LauncherFailure, LauncherLog, WarningRole
from busbw.parsers.logs import Document, tags
from busbw.parsers.logs.scan import Line, Pattern, Scan

_HELP_LINES = 24
_LONGEST_TEXT = 600
_GROUPS = ("rank", "node", "code", "detail")


@dataclass(frozen=True, slots=True)
class Rule:
    """One message."""

    kind: str
    first: str
    """Expression for a line of it."""
    cause: str
    """Why launchers print it."""
    detail: tuple[str, ...] = ()
    """Expressions with groups named rank, node, code, detail, each searched in the whole message;
    () = `first` itself."""
    role: WarningRole = WarningRole.CAUSE
    help: bool = False
    """True = a help message of several lines."""


def patterns(prefix: str, rules: Iterable[Rule]) -> tuple[Pattern, ...]:
    """The patterns for the scanner; ids are `<prefix>.<kind>`."""
    expressions = []
    for rule in rules:
        after = _HELP_LINES if rule.help else 0
        expressions.append(Pattern(f"{prefix}.{rule.kind}", rule.first, keep=16, after=after))
    return tuple(expressions)


def failures(prefix: str, rules: Iterable[Rule], scan: Scan) -> tuple[LauncherFailure, ...]:
    """The messages that the rules match, in the order of the text; the same message of the same rank
    and node once."""
    by_id = {f"{prefix}.{rule.kind}": rule for rule in rules}
    failures: dict[tuple[object, ...], LauncherFailure] = {}
    for hit in scan.hits:
        rule = by_id.get(hit.pattern)
        if rule is None:
            continue
        not_kept = hit.line_count - len(hit.examples)
        for line in hit.examples:
            failure = _failure(rule, line)
            key = (failure.kind, failure.rank, failure.node, failure.code, failure.detail)
            before = failures.get(key, replace(failure, count=0))
            count = before.count + 1 + not_kept
            not_kept = 0
            first = min(before, failure, key=lambda each: each.line_no)
            failures[key] = replace(first, count=count)
    return tuple(sorted(failures.values(), key=lambda each: (each.line_no, each.kind)))


def _failure(rule: Rule, line: Line) -> LauncherFailure:
    text = _message(line) if rule.help else line.text.strip()
    groups: dict[str, str | None] = dict.fromkeys(_GROUPS)
    for expression in rule.detail or (rule.first,):
        match = re.search(expression, text, re.IGNORECASE)
        if match is not None:
            groups.update((name, value) for name, value in match.groupdict().items() if value)
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
    """The help message from its first line to the closing line of dashes, in one line."""
    form = tags.form_of(line.text)
    lines = [tags.untagged(line.text, form)]
    for following in line.after:
        text = tags.untagged(following, form)
        if text.startswith("-----"):
            break
        lines.append(text)
    return " ".join(" ".join(lines).split())


def document(
    kind: str, failures: tuple[LauncherFailure, ...], scan: Scan, product: str, command: str
) -> Document:
    """The document of a launcher's output. `product` and `command` name the launcher in errors.

    Raises:
        UnknownLayout: there are no failures.
    """
    if not failures:
        raise UnknownLayout(
            f"no message of {product} in it",
            seen=scan.first_line,
            next_step=f"give the standard error of {command} too",
        )
    summary: list[tuple[str, str]] = []
    faults: list[str] = []
    for failure in failures:
        text = _text_of(failure)
        summary.append((failure.kind, f"{text} ({failure.cause})"))
        if failure.role is not WarningRole.NOTE:
            faults.append(text)
    return Document(
        kind,
        (LauncherLog(kind, failures),),
        tuple(summary),
        not scan.problems,
        (*faults, *scan.problems),
        tuple(faults),
    )


def _text_of(failure: LauncherFailure) -> str:
    where = []
    if failure.rank is not None:
        where.append(f"rank {failure.rank}")
    if failure.node:
        where.append(f"node {failure.node}")
    text = f"line {failure.line_no}: {failure.text[:240]}"
    if failure.count > 1:
        text += f" ({failure.count} times)"
    return f"{text} [{', '.join(where)}]" if where else text
