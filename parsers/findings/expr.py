"""The language of `expr` in the catalogue: comparisons of named values, joined by `and`.
Parsed, never evaluated as code.

    expression  =  comparison { "and" comparison }
    comparison  =  NAME OP term            OP is one of  <  <=  >  >=  ==  !=
    term        =  number | "true" | "false" | NAME | number "*" NAME | text

After == and != a word is text (`state == INIT`) unless it has an underscore
(`fm_version != driver_version`); after the others it is always a name. A comparison with a name
that the record does not have is unknown (None), neither true nor false: nothing is concluded from
what was not measured.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Value = float | bool | str
"""What a record holds under a name."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_COMPARISON = re.compile(rf"\s*({_NAME})\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*\Z")
_TERM_NUMBER = re.compile(rf"{_NUMBER}\Z")
_TERM_SCALED = re.compile(rf"({_NUMBER})\s*\*\s*({_NAME})\Z")
_TERM_NAME = re.compile(rf"{_NAME}\Z")
_TERM_TEXT = re.compile(r"[A-Za-z][\w ./-]*\Z")

_ORDERED: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`name OP term`."""

    name: str
    op: str
    constant: Value
    """The term, where `reference` is None."""
    reference: str | None = None
    """The name whose value is the term."""
    factor: float = 1.0
    """Multiplies the value of `reference`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Comparisons that must all hold."""

    text: str
    comparisons: tuple[Comparison, ...]

    def names(self) -> tuple[str, ...]:
        """The names it reads, left and right, in the order written."""
        pairs = ((comparison.name, comparison.reference) for comparison in self.comparisons)
        return tuple(name for pair in pairs for name in pair if name is not None)


def parse(text: str) -> Expression:
    """An expression from its text.

    >>> parse("busbw < 200 and same_leaf_ratio > 1.3*cross_leaf_ratio").names()
    ('busbw', 'same_leaf_ratio', 'cross_leaf_ratio')

    Raises:
        ValueError: the text is not of the grammar; the message quotes the part that is not.
    """
    return Expression(
        text, tuple(_comparison(part) for part in re.split(r"\s+and\s+", text.strip()))
    )


def _comparison(text: str) -> Comparison:
    match = _COMPARISON.match(text)
    if not match:
        raise ValueError(f"expected NAME OP VALUE, found {text!r}")
    name, op, term = match.groups()
    if term in ("true", "false"):
        return Comparison(name, op, term == "true")
    if _TERM_NUMBER.match(term):
        return Comparison(name, op, float(term))
    scaled = _TERM_SCALED.match(term)
    if scaled:
        return Comparison(name, op, "", scaled[2], float(scaled[1]))
    if _TERM_NAME.match(term) and (op in _ORDERED or "_" in term):
        return Comparison(name, op, "", term)
    if op in _ORDERED or not _TERM_TEXT.match(term):
        raise ValueError(
            f"expected a number, true, false, a name, a word or NUMBER*NAME, found {term!r}"
        )
    return Comparison(name, op, term)


def evaluate(expression: Expression, record: Mapping[str, Value]) -> bool | None:
    """Whether all comparisons hold of the record. None = not decidable: a name is missing and
    nothing else is false.

    >>> evaluate(parse("state != ACTIVE"), {"state": "DOWN"}), evaluate(parse("count < expected"), {"count": 7.0})
    (True, None)
    """
    held = [_holds(comparison, record) for comparison in expression.comparisons]
    if False in held:
        return False
    return None if None in held else True


def _holds(comparison: Comparison, record: Mapping[str, Value]) -> bool | None:
    if comparison.name not in record or (
        comparison.reference is not None and comparison.reference not in record
    ):
        return None
    left = record[comparison.name]
    right = comparison.constant if comparison.reference is None else record[comparison.reference]
    if not isinstance(right, str | bool):
        right = right * comparison.factor
    if comparison.op in _ORDERED:
        if isinstance(left, str) or isinstance(right, str):
            return None
        return _ORDERED[comparison.op](float(left), float(right))
    return (_text(left) == _text(right)) == (comparison.op == "==")


def _text(value: Value) -> str:
    """The value as == and != compare it: 1 and "1" are the same, true is not 1, words compare
    without case."""
    if isinstance(value, str):
        return value.strip().casefold()
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)).removesuffix(".0")
