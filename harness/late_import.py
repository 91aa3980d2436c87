"""Packages whose names are imported when they are first used: a command pays only for the records
that it needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def by_module(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """The `__getattr__` of a package.

    names: module below the package → what other packages import from the package itself.
    """
    module_of = {name: module for module, each in names.items() for name in each}

    def attribute(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
