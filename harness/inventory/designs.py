"""The labels that state how the uplinks of a leaf were built: by their number and rate, or by how
narrow they are.

    labels: {leaf: leaf1, uplinks: "4 x 400G per rail"}
    labels: {leaf: leaf1, oversubscription: "2:1"}
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import Node, Requirement

GROUPING = ("leaf", "switch", "rack", "group")
"""Labels that say which nodes share a switch, the closest first."""
OVERSUBSCRIPTION = "oversubscription"
"""What the nodes of a leaf can send over what its uplinks carry: `2` or `2:1`."""
UPLINKS = "uplinks"
"""The cables that leave a leaf: `16 x 400G`, or `4 x 400G per rail` where each rail has a switch."""
_CABLES = re.compile(r"(\d{1,4}) ?x ?(\d+(?:\.\d+)?) ?G(?:b/s)?( per rail)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cables:
    """What leaves a leaf."""

    count: int
    rate_gbit_s: float
    per_rail: bool
    """Each rail has a switch with so many; else all rails of a leaf share one."""

    def oversubscription(self, nodes: int, nics: int, nic_gbit_s: float) -> float:
        """What so many nodes can send over what these carry.

        >>> Cables(4, 400.0, True).oversubscription(8, 8, 400.0)
        2.0
        >>> Cables(32, 400.0, False).oversubscription(4, 8, 400.0)
        1.0
        """
        ports = nodes * (1 if self.per_rail else nics)
        return ports * nic_gbit_s / (self.count * self.rate_gbit_s)


def cables(text: str) -> Cables | None:
    """Of a label `uplinks`; None = it is none.

    >>> cables("4 x 400G per rail"), cables("16x200G"), cables("four")
    (Cables(count=4, rate_gbit_s=400.0, per_rail=True), Cables(count=16, rate_gbit_s=200.0, per_rail=False), None)
    """
    found = _CABLES.fullmatch(text.strip())
    if found is None or not int(found[1]) or not float(found[2]):
        return None
    return Cables(int(found[1]), float(found[2]), bool(found[3]))


def ratio(text: str) -> float | None:
    """The number of a label `oversubscription`; None = it is none.

    >>> ratio("2:1"), ratio("1.5"), ratio("7:2"), ratio("high"), ratio("0")
    (2.0, 1.5, 3.5, None, None)
    """
    first, _, second = text.partition(":")
    try:
        number = float(first) / float(second or 1)
    except (ValueError, ZeroDivisionError):
        return None
    return number if number > 0 else None


def stated(requirements: Iterable[Requirement], key: str) -> float | None:
    """A number that every node must have; None = nobody says."""
    return next((each.number for each in requirements if each.key == key), None)


def fault(text: str, requirements: tuple[Requirement, ...]) -> str | None:
    """What is wrong with a label `uplinks`; None = nothing."""
    own = cables(text)
    if own is None:
        return f'uplinks: expected a number and a rate, such as "4 x 400G per rail" or "16 x 400G", found {text!r}'
    needed = ("nic_rate",) if own.per_rail else ("nic_rate", "nics")
    missing = [key for key in needed if stated(requirements, key) is None]
    if missing:
        return f"uplinks: what a node sends is not stated; add specification: {{{', '.join(f'{key}: …' for key in missing)}}}"
    return None


def contradiction(nodes: tuple[Node, ...], requirements: tuple[Requirement, ...]) -> str | None:
    """A leaf whose two labels do not fit together; None = there is none. More nodes than the
    inventory names may hang on a leaf, fewer may not."""
    leaves: dict[str, list[dict[str, str]]] = defaultdict(list)
    for node in nodes:
        labels = dict(node.labels)
        leaves[next((labels[key] for key in GROUPING if key in labels), "")].append(labels)
    for leaf, members in leaves.items():
        own = cables(next((each[UPLINKS] for each in members if UPLINKS in each), ""))
        told = next((each[OVERSUBSCRIPTION] for each in members if OVERSUBSCRIPTION in each), "")
        rate, nics = stated(requirements, "nic_rate"), stated(requirements, "nics")
        if own is None or rate is None or not leaf or (number := ratio(told)) is None:
            continue
        by_cables = own.oversubscription(len(members), int(nics or 1), rate)
        if by_cables > number * 1.01:
            return f"leaf {leaf}: oversubscription {told}, but its nodes can send {by_cables:.3g} times what its uplinks carry"
    return None
