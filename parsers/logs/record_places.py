"""The place that a collector writes beside a log line: the node, the pod or the stream of its record.

Whoever needs the places of a text's lines reads it once more, with `marked` in place of the lines: the
text that comes out has as many lines, and each says where the line of that number was written.

>>> places_in(marked({"log": "a\\n", "kubernetes": {"pod_name": "t-0", "host": "gpu1"}}, "a"))
('gpu1', 'pod t-0')
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.logs.json_values import mapping

_NODES = (
    "node", "node_name", "nodeName", "host", "hostname", "_HOSTNAME", "k8s.node.name", "host.name", "kubernetes.host",
    "kubernetes.node.name", "compute.googleapis.com/resource_name", "instance_id", "ec2_instance_id",
)  # fmt: skip
_PODS = (
    "pod", "pod_name", "podName", "k8s_pod_name", "k8s.pod.name", "kubernetes.pod_name", "kubernetes.pod.name",
)  # fmt: skip
_STREAMS = ("logStreamName", "@logStream", "logStream")
_KINDS = ((_NODES, "{}"), (_PODS, "pod {}"), (_STREAMS, "log stream {}"))
"""Names of the fields, and how their place is shown; a stream only where nothing else is told."""
_NESTED = ("kubernetes", "labels", "resource", "stream", "attributes", "attrs", "_source", "fields")
"""Where a record has more of its values."""
_DEEPEST = 3
_MARK, _BETWEEN = "\0", "\x1f"
_LINE = re.compile(r"[^\n]+")


def marked(record: dict[str, object], text: str) -> str:
    """The text with the places of its record in place of each line."""
    mark = _MARK + _BETWEEN.join(places_of(record))
    return _LINE.sub(lambda _: mark, text)


def places_in(line: str) -> tuple[str, ...]:
    """What `marked` wrote into a line, which may be made of several; () = nothing."""
    first = line.split(_MARK)[1] if _MARK in line else ""
    return tuple(first.split(_BETWEEN)) if first else ()


def places_of(record: dict[str, object]) -> tuple[str, ...]:
    """What the fields of a record say of where it was written.

    >>> places_of({"host": {"name": "gpu1"}}), places_of({"labels": {"pod": "t-0"}, "hostname": "localhost"})
    (('gpu1',), ('pod t-0',))
    """
    levels = list(_levels(record))
    places: list[str] = []
    for keys, form in _KINDS:
        if places and keys is _STREAMS:
            break
        names = (_name(level.get(key)) for level in levels for key in keys)
        name = next((name for name in names if name not in ("", "localhost")), "")
        places += [form.format(name)] if name else []
    return tuple(places)


def _levels(record: dict[str, object]) -> Iterator[dict[str, object]]:
    """The record, and the objects in it that say more of it."""
    levels = [record]
    for _ in range(_DEEPEST):
        yield from levels
        levels = [mapping(level[key]) for level in levels for key in _NESTED if key in level]


def _name(value: object) -> str:
    """A name, also as `{"name": …}`; "" = there is none."""
    if isinstance(value, dict):
        value = value.get("name")
    return value if isinstance(value, str) and "\n" not in value else ""
