"""Ways of naming a cluster: readers that turn a file, an option or an allocation into a
`Cluster`."""

from typing import TYPE_CHECKING

from busbw.inventory.hostlist import expand, fold

if TYPE_CHECKING:
    from busbw.inventory.select import resolve

__all__ = ["expand", "fold", "resolve"]


def __getattr__(name: str) -> object:
    """`resolve` is loaded when somebody uses it: it knows every way of naming a cluster, and most
    commands only fold host names."""
    if name != "resolve":
        raise AttributeError(name)
    from busbw.inventory.select import resolve

    return resolve
