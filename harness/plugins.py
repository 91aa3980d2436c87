"""Finding one-file things by walking a package: no registration list, no import side effects.

`discover(busbw.transport, "TRANSPORT")` imports the modules of the package that define `TRANSPORT`
and returns what each holds, by name.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import pkgutil
import re
from types import ModuleType


def discover(package: ModuleType, attribute: str) -> dict[str, object]:
    """What the modules of `package` define as `attribute`, as {its `name` or the module's name: the
    thing}, sorted by name.

    A module may hold one thing or a tuple of them.

    Only those are imported: a module whose source has no line that begins with `attribute` is
    passed over, so that what stands beside the plugins costs nothing.

    Raises:
        ValueError: two modules give the same name.
    """
    return {name: thing for name, (_, thing) in discover_with_modules(package, attribute).items()}


def discover_with_modules(package: ModuleType, attribute: str) -> dict[str, tuple[str, object]]:
    """The same, each with the full name of the module that defines it. Raises as `discover`."""
    things: dict[str, tuple[str, object]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        full_name = f"{package.__name__}.{info.name}"
        if not _defines(full_name, attribute):
            continue
        value = vars(importlib.import_module(full_name)).get(attribute)
        for thing in value if isinstance(value, tuple) else (value,):
            if thing is None:
                continue
            name = str(getattr(thing, "name", info.name.replace("_", "-")))
            if name in things:
                first = things[name][0].rpartition(".")[2]
                raise ValueError(f"{attribute} {name!r} is defined twice: {first} and {info.name}")
            things[name] = full_name, thing
    return dict(sorted(things.items()))


def _defines(module: str, attribute: str) -> bool:
    """Whether the module's source has the attribute at its top level. Without a source to read it
    may."""
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    source = loader.get_source(module) if isinstance(loader, importlib.abc.InspectLoader) else None
    return source is None or re.search(rf"^{attribute}\b", source, re.M) is not None
