"""Log lines inside one JSON document, as stores of logs export them: Grafana Loki, Google Cloud
Logging, Amazon CloudWatch, Elasticsearch, Datadog.

Written against Loki's query_range and Grafana's download, `gcloud logging read --format=json` and
entries.list, `aws logs get-log-events`, `filter-log-events` and `get-query-results`, and
Elasticsearch's hits. Stores print the newest line first, or the lines of several writers mixed: the
lines of each writer are put in the order of their times, one writer after another.

>>> text_of(b'[{"timestamp": "2026-11-16T03:00:02Z", "textPayload": "second"}, '
...         b'{"timestamp": "2026-11-16T03:00:01Z", "textPayload": "first"}]').text
b'first\\nsecond\\n'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from busbw.parsers.logs.json_values import (
    TextOf,
    items,
    loaded,
    mapping,
    message_of,
    values,
)
from busbw.parsers.logs.json_values import text_of as value_of

MOST_BYTES = 256 << 20
"""Of a whole document; its lines take as much again."""
HEAD_BYTES = 65536
_FORMS = re.compile(
    rb'"(?:resultType"\s*:\s*"streams|streams"\s*:\s*\[|logName"\s*:|textPayload"|jsonPayload"'
    rb'|logEvents"\s*:\s*\[|events"\s*:\s*\[\s*\{|ingestionTime"|@message"|_source"|entries"\s*:\s*\[\s*\{)'
    rb'|^\s*\[\s*\{[^{}]*"(?:timestamp|@timestamp|time|ts)"'
)
_LISTS = ("entries", "events", "logEvents", "logs", "items", "results", "data", "hits")
"""Where an object has its list of entries."""
_TIMES = ("timestamp", "@timestamp", "time", "ts", "receiveTimestamp")
_WRITERS = (
    "pod", "pod_name", "podName", "k8s_pod_name", "instance", "logStreamName", "@logStream", "host", "hostname", "node", "node_name",
    "instance_id", "filename", "logStream",
)  # fmt: skip
_NESTED = ("labels", "resource", "kubernetes", "stream", "attributes", "_source", "fields")
"""Where an entry has more of its values."""
_DEEPEST = 3


class Export(NamedTuple):
    """The lines of a document."""

    text: bytes
    problem: str
    """Why it is not all of them; "" = it is."""


class _Entry(NamedTuple):
    writer: str
    time: tuple[str, str]
    """Comparable; of the same form in all entries of one document."""
    line: str
    record: dict[str, object]
    """What else is told of it."""


def begins(head: bytes) -> bool:
    """Whether a text can be such a document: cheap, from its first bytes."""
    head = head[:HEAD_BYTES]
    return head.lstrip()[:1] in (b"{", b"[") and _FORMS.search(head) is not None


def text_of(data: bytes, line_of: TextOf | None = None) -> Export | None:
    """The lines of a document, or of pages one after another, or what `line_of` makes of each; None =
    they are no export of log lines."""
    text = data.decode("utf-8", "replace")
    problem = ""
    writers: dict[str, list[_Entry]] = {}
    for value in values(text):
        tree = value.tree
        if tree is None:
            tree = _without_end(text[value.begin :])
            problem = "the export of log lines is truncated or damaged"
        entries = list(_entries(tree))
        for entry in entries:
            writers.setdefault(entry.writer, []).append(entry)
        if not entries and not writers:
            return None
        if value.tree is None:
            break
    lines = [line for own in writers.values() for line in _in_order(own, line_of)]
    return Export("".join(lines).encode("utf-8", "replace"), problem) if lines else None


def _in_order(entries: list[_Entry], line_of: TextOf | None) -> list[str]:
    """The lines of one writer, the oldest first; lines of one instant as they stand."""
    if entries[0].time > entries[-1].time:
        entries = entries[::-1]
    entries = sorted(entries, key=lambda entry: entry.time)
    lines = [line_of(entry.record, entry.line) if line_of else entry.line for entry in entries]
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _entries(tree: object) -> Iterator[_Entry]:
    """The entries of a document, in its order."""
    document = mapping(tree)
    for key in ("data", "hits"):
        if isinstance(document.get(key), dict):
            document = mapping(document[key])
    records = tree if isinstance(tree, list) else []
    for key in _LISTS:
        records = records or items(document, key)
    for stream in items(document, "result") or items(document, "streams"):
        yield from _stream(mapping(stream))
    for record in records:
        entry = _entry(_fields(record) if isinstance(record, list) else mapping(record))
        if entry is not None:
            yield entry


def _stream(stream: dict[str, object]) -> Iterator[_Entry]:
    """A stream of Loki: labels, and pairs of time and line."""
    labels = mapping(stream.get("stream"))
    writer = _writer(labels)
    for value in items(stream, "values"):
        if isinstance(value, list) and len(value) > 1 and isinstance(value[1], str):
            yield _Entry(writer, _instant(str(value[0])), value[1], labels)


def _fields(pairs: list[object]) -> dict[str, object]:
    """A row of CloudWatch Logs Insights: objects of `field` and `value`."""
    return {str(mapping(pair).get("field")): mapping(pair).get("value") for pair in pairs}


def _entry(record: dict[str, object]) -> _Entry | None:
    """One line with its time; None = the record is none."""
    for key in ("attributes", "_source"):
        record = {**record, **mapping(record.get(key))}
    line = message_of(record)
    time = next((text for key in _TIMES if (text := value_of(record, key)) is not None), None)
    if line is None or time is None:
        return None
    return _Entry(_writer(record), _instant(time), line, record)


def _writer(record: dict[str, object]) -> str:
    """Which process or machine wrote a line; "" = the record does not say."""
    levels = [record]
    for _ in range(_DEEPEST):
        for level in levels:
            for key in _WRITERS:
                if isinstance(name := level.get(key), str):
                    return name
        levels = [mapping(level.get(key)) for level in levels for key in _NESTED if key in level]
    return ""


_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")


def _instant(time: str) -> tuple[str, str]:
    """A time in a form that sorts: of ISO 8601 or a number, with any number of decimals.

    >>> _instant("2026-11-16T03:00:01.5Z") > _instant("2026-11-16T03:00:01Z")
    True
    """
    if ":" in time:
        time = _ZONE.sub("", time)
    whole, _, decimals = time.replace(",", ".").partition(".")
    return whole.rjust(20, "0"), decimals


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _without_end(text: str) -> object:
    """A document that breaks off, up to its last whole value; None = nothing in it is whole."""
    opened: list[str] = []
    position, closing = 0, ""
    for match in _BRACKET.finditer(text):
        bracket = match[0]
        if bracket in ("[", "{"):
            opened.append("]" if bracket == "[" else "}")
        elif bracket in ("]", "}"):
            if not opened or opened.pop() != bracket:
                break
            position, closing = match.end(), "".join(reversed(opened))
    try:
        return loaded(text[:position] + closing)
    except ValueError:
        return None
