"""Finding one-file things by walking a package: no registration list, no import side effects.

`discover(busbw.transport, "TRANSPORT")` imports every module of the package and returns what each one's `TRANSPORT` holds, by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def discover(package: ModuleType, attribute: str) -> dict[str, object]:
    """Modules of `package` that define `attribute`, as {its `name` or the module's name: the attribute}, sorted by name.

    Raises:
        ValueError: two modules give the same name.
    """
    found: dict[str, object] = {}
    origin: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        if attribute not in vars(module):
            continue
        thing = vars(module)[attribute]
        name = str(getattr(thing, "name", info.name.replace("_", "-")))
        if name in found:
            raise ValueError(f"{attribute} {name!r} is defined twice: {origin[name]} and {info.name}")
        found[name] = thing
        origin[name] = info.name
    return dict(sorted(found.items()))
