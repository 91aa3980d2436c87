"""All families of checks, found by walking the package."""

from __future__ import annotations

import busbw.preflight
from busbw import plugins
from busbw.preflight import CheckFamily


def families() -> tuple[CheckFamily, ...]:
    """Every `CHECK`, by name."""
    return tuple(thing for thing in plugins.discover(busbw.preflight, "CHECK").values() if isinstance(thing, CheckFamily))
