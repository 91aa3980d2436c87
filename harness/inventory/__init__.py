"""Ways of naming a cluster: readers that turn a file, an option or an allocation into a
`Cluster`."""

from busbw.inventory.hostlist import expand, fold
from busbw.inventory.select import resolve

__all__ = ["expand", "fold", "resolve"]
