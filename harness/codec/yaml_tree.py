"""YAML text as plain values that remember where they stood: core-schema scalars, nothing dropped,
nothing guessed.

Written against YAML 1.2's core schema and PyYAML 6.0.3 (its C parser where libyaml is compiled in:
0.05 s instead of 0.36 s for 320 KB). Stock `safe_load` reads `18:00` as 1080, `0123` as 83, `no` as
False and keeps the last of two equal keys; here the first three stay text and the last is an error.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.errors import BusbwError, UsageError

# Problems of a text that people wrote: where each is, what it is, and what was probably meant.
# All of them are told at once.

_SHOWN = 20
"""More problems than this come from one cause (a wrong file): the rest is counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    path: str
    what: str
    line: int | None = None
    """From 1; None = the file as a whole."""
    column: int | None = None
    """From 1; None = the line as a whole."""

    def __str__(self) -> str:
        """`file:line:column: what`, without the parts that are not known."""
        where = ":".join(
            str(part) for part in (self.path, self.line, self.column) if part is not None
        )
        return f"{where}: {self.what}"


def refuse(
    problems: Iterable[Problem], error: type[BusbwError] = UsageError, *, next_step: str = ""
) -> None:
    """Raise all problems as one error, in the order of the text; do nothing when there are none.

    Raises:
        BusbwError: of class `error`; its first line is the first problem.
    """
    ordered = sorted(
        dict.fromkeys(problems),
        key=lambda problem: (problem.path, problem.line or 0, problem.column or 0),
    )
    if not ordered:
        return
    lines = [str(problem) for problem in ordered[:_SHOWN]]
    if len(ordered) > _SHOWN:
        lines.append(f"… and {len(ordered) - _SHOWN} more")
    counted = "1 error" if len(ordered) == 1 else f"{len(ordered)} errors"
    if not next_step and issubclass(error, UsageError):
        next_step = f"{counted}: correct the text and start again; nothing was contacted"
    raise error("\n".join(lines), next_step=next_step)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that nobody knows: the likely meaning, or the list of known names.

    >>> unknown("key", "ansible_hosts", ("ansible_host", "ansible_port"))
    "unknown key 'ansible_hosts'; did you mean 'ansible_host'?"
    >>> unknown("profile", "token-ring", ("tcp", "efa"))
    "unknown profile 'token-ring'; known: efa, tcp"
    """
    names = sorted(known)
    close = nearest(name, names)
    if close:
        return f"unknown {kind} {name!r}; did you mean {close!r}?"
    listed = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
    return f"unknown {kind} {name!r}; known: {listed or 'none'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The likely meaning of a name that nobody knows; empty = nothing is near."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.65)), "")


MAXIMUM_BYTES = 5_000_000
MAXIMUM_ALIASED_NODES = 10_000
"""Nodes reached through aliases: a document that multiplies itself further is an attack or an
accident."""
_MAXIMUM_DEPTH = 100
_LONGEST_NUMBER = 40

Path = tuple[str | int, ...]
"""Keys and indices from the top of a document down to a value."""

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: Mapping[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value with a foreign tag, kept unread."""

    tag: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A document: its plain value (dict, list, str, int, float, bool, None) and where each part
    stood."""

    path: str
    """Name of the file, for messages."""
    value: Any
    positions: Mapping[Path, tuple[int, int]]
    """Line and column, from 1, of every value."""
    keys: Mapping[Path, tuple[int, int]]
    """Line and column of every key."""
    texts: Mapping[Path, str]
    """Text of every plain scalar that was read as a number or a truth value: a field that wants
    text takes this."""

    def at(self, where: Path) -> Any:
        """The plain value at a place."""
        value = self.value
        for step in where:
            value = value[step]
        return value

    def problem(self, where: Path, what: str, *, key: bool = False) -> Problem:
        """A problem at `where`, or at the nearest part around it that stood in the text; `key` = at
        the key, not at its value."""
        if key and where in self.keys:
            return Problem(self.path, what, *self.keys[where])
        while where and where not in self.positions:
            where = where[:-1]
        return Problem(self.path, what, *self.positions.get(where, (None, None)))


def read_tree(
    text: str,
    path: str,
    *,
    error: type[BusbwError] = UsageError,
    opaque_tags: tuple[str, ...] = (),
    allow_empty: bool = False,
) -> Tree:
    """Read one YAML document. A value whose tag is among `opaque_tags` (`!vault`) becomes `Opaque`;
    `allow_empty`: no document is None.

    Raises:
        BusbwError: of class `error`; the text is too long, is not YAML, or has several documents,
        equal keys, a tag or too many aliases.
    """
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > MAXIMUM_BYTES:
        refuse(
            [
                Problem(
                    path,
                    f"larger than {MAXIMUM_BYTES // 1_000_000} MB: not a file that a person wrote",
                )
            ],
            error,
        )
    try:
        _refuse_nesting(text, path, error)
        node = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as caught:
        mark = caught.problem_mark or caught.context_mark
        what = f"not YAML: {caught.problem or caught.context}" + (
            f" ({caught.context})" if caught.problem and caught.context else ""
        )
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        refuse([Problem(path, what, line, column)], error)
        raise AssertionError from caught
    except (yaml.YAMLError, RecursionError) as caught:
        refuse([Problem(path, f"not YAML: {caught}".replace("\n", " "))], error)
        raise AssertionError from caught
    reader = _Reader(path, error, opaque_tags)
    value = None if node is None else reader.value(node, ())
    if value is None and not allow_empty:
        reader.problems.append(Problem(path, "empty", 1, 1))
    refuse(reader.problems, error)
    return Tree(path, value, reader.positions, reader.keys, reader.texts)


def _refuse_nesting(text: str, path: str, error: type[BusbwError]) -> None:
    """Before anything is composed: PyYAML does that by recursion in C, which ends the whole process
    where the nesting is deep enough."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAXIMUM_DEPTH:
                what = f"nested deeper than {_MAXIMUM_DEPTH} levels"
                mark = event.start_mark
                refuse(
                    [
                        Problem(
                            path,
                            what,
                            *((mark.line + 1, mark.column + 1) if mark else (None, None)),
                        )
                    ],
                    error,
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


@functools.cache
def _loader() -> Any:
    """A loader that resolves no plain scalar itself; `_Reader` does. The C parser is used where
    PyYAML has it."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return type("CoreLoader", (base,), {"yaml_implicit_resolvers": {}})


@dataclass(slots=True)
class _Reader:
    """Walks PyYAML's node tree once; collects what is wrong instead of stopping at it."""

    path: str
    error: type[BusbwError]
    opaque_tags: tuple[str, ...]
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _aliased: int = 0
    _depth: int = 0

    def value(self, node: Any, where: Path) -> Any:
        """The plain value of a node."""
        here = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.positions[where] = here
        if id(node) in self._seen:
            self._aliased += 1
            if self._aliased > MAXIMUM_ALIASED_NODES:
                refuse(
                    [
                        Problem(
                            self.path,
                            f"aliases expand to more than {MAXIMUM_ALIASED_NODES} values",
                            *here,
                        )
                    ],
                    self.error,
                )
        self._seen.add(id(node))
        if self._depth > _MAXIMUM_DEPTH:
            refuse(
                [
                    Problem(
                        self.path,
                        f"nested deeper than {_MAXIMUM_DEPTH} levels, or an alias that contains"
                        " itself",
                        *here,
                    )
                ],
                self.error,
            )
        self._depth += 1
        try:
            if node.tag in self.opaque_tags:
                return Opaque(str(node.tag))
            if node.id == "scalar":
                return self._scalar(node, where)
            if self._foreign(node, ("map", "seq")):
                return None
            if node.id == "sequence":
                return [self.value(item, (*where, index)) for index, item in enumerate(node.value)]
            return self._mapping(node, where)
        finally:
            self._depth -= 1

    def _mapping(self, node: Any, where: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            here = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if key_node.id != "scalar":
                self.problems.append(
                    Problem(self.path, "a key must be a word, not a list or a mapping", *here)
                )
                continue
            key = str(key_node.value)
            if key in mapping:
                first = self.keys[(*where, key)][0]
                self.problems.append(
                    Problem(self.path, f"duplicate key {key!r} (first at line {first})", *here)
                )
                continue
            self.keys[(*where, key)] = here
            mapping[key] = self.value(value_node, (*where, key))
        return mapping

    def _scalar(self, node: Any, where: Path) -> Any:
        text = str(node.value)
        if self._foreign(node, ("str",)) or node.style in ("'", '"', "|", ">"):
            return text
        if text in _WORDS:
            value = _WORDS[text]
        elif len(text) > _LONGEST_NUMBER:
            return text
        elif _INT.match(text):
            value = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        elif _FLOAT.match(text):
            value = float(text)
        else:
            return text
        if value is not None:
            self.texts[where] = text
        return value

    def _foreign(self, node: Any, own: tuple[str, ...]) -> bool:
        """Whether the node carries a tag that is none of `own`; if so, it is a problem."""
        if node.tag in {_TAG + name for name in own} or node.tag == "!":
            return False
        tag = str(node.tag).replace(_TAG, "!!")
        self.problems.append(
            Problem(
                self.path,
                f"tag {tag!r} is not read here",
                node.start_mark.line + 1,
                node.start_mark.column + 1,
            )
        )
        return True
