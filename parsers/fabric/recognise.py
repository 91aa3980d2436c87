"""Which tool of a fabric printed a text: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable

from busbw.parsers.fabric import (
    Reading,
    ibdiagnet,
    iblinkinfo,
    ibnetdiscover,
    ibqueryerrors,
    lldp,
    ufm,
)

_TOOLS: tuple[tuple[Callable[[str], bool], Callable[[str], Reading]], ...] = (
    (ibnetdiscover.looks_like, ibnetdiscover.parse),
    (ibqueryerrors.looks_like, ibqueryerrors.parse),
    (iblinkinfo.looks_like, iblinkinfo.parse),
    (ufm.looks_like, ufm.parse),
    (ibdiagnet.looks_like, ibdiagnet.parse),
)


def read(text: str, node: str = "") -> Reading | None:
    """What the text says; None = it is of none of the tools. `node` is whose LLDP neighbours it
    lists, where it lists any.

    >>> read("lldp.eth0.chassis.name=leaf01\\n", "gpu-001").tool, read("hello\\n")
    ('lldp', None)
    """
    if lldp.looks_like(text):
        return lldp.parse(text, node)
    return next((parse(text) for looks_like, parse in _TOOLS if looks_like(text)), None)
