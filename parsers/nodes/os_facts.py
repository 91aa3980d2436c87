"""Facts of the operating system from busbw's own section: `name=value` lines out of /proc and /sys, and the limits of the shell."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_LINE = re.compile(r"^([a-z_0-9]+)=(.*)$", re.M)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class OsFacts:
    """Every value as printed, one line each and nothing else between."""

    values: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str | None:
        """The value; None = the node did not say."""
        return next((value for given, value in self.values if given == name and value), None)

    def line_no(self, name: str) -> int | None:
        """The line that tells it, from 1; None = the node did not say."""
        return next((number for number, (given, value) in enumerate(self.values, 1) if given == name and value), None)

    def number(self, name: str) -> float | None:
        """The value as a number; None = there is none."""
        value = self.text(name)
        return float(value) if value is not None and _NUMBER.fullmatch(value) else None


@functools.lru_cache(maxsize=16)
def parse(text: str) -> OsFacts:
    """The facts.

    >>> parse("kernel=6.1.0\\nnuma_balancing=\\n").text("numa_balancing") is None
    True
    """
    return OsFacts(tuple((name, value.strip()) for name, value in _LINE.findall(text)))


def count_of(listed: str) -> int | None:
    """How many a list of the kernel names; None = it is no such list.

    >>> count_of("0-47,96-143"), count_of("3"), count_of("")
    (96, 1, None)
    """
    if not re.fullmatch(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", listed):
        return None
    ends = ((int(first), int(last or first)) for first, _, last in (part.partition("-") for part in listed.split(",")))
    return sum(last - first + 1 for first, last in ends)
