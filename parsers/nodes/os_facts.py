"""Facts of the operating system from busbw's own section: `name=value` lines out of /proc and /sys, and the limits of the shell."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OsFacts:
    """Every value as printed."""

    values: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str | None:
        """The value; None = the node did not say."""
        return dict(self.values).get(name) or None

    def number(self, name: str) -> float | None:
        """The value as a number; None = there is none."""
        value = self.text(name)
        return float(value) if value is not None and re.fullmatch(r"-?\d+(?:\.\d+)?", value) else None


def parse(text: str) -> OsFacts:
    """The facts.

    >>> parse("kernel=6.1.0\\nnuma_balancing=\\n").text("numa_balancing") is None
    True
    """
    return OsFacts(tuple((name, value.strip()) for name, value in re.findall(r"^([a-z_0-9]+)=(.*)$", text, re.M)))
