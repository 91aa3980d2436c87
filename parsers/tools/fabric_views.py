"""What the tools of a fabric print, seen as one text: links, and ports with errors.

`busbw check --fabric` judges the same texts against the inventory (`parsers/fabric/checks.py`). Here
nobody says which nodes and rails should be there: only what the tool itself reports counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from busbw.model.topology import FabricLink, PortErrors
from busbw.parsers.fabric import Reading, recognise
from busbw.parsers.fabric.ibqueryerrors import CONGESTION
from busbw.parsers.tools import Tool, ToolFact

_MOST_LINKS = 16
"""Links that are listed one by one: a node's own. More are counted by their rate."""


def parse(text: str, name: str) -> tuple[Reading, ...]:
    """The view that `name` prints; () = the text is of another tool.

    >>> (view,) = parse('''Errors for "gpu-007 mlx5_2"
    ...    GUID 0xa088c20300ab0702 port 1: [SymbolErrorCounter == 12]
    ... ''', "ibqueryerrors")
    >>> list(_errors(view))
    ['ibqueryerrors: gpu-007 mlx5_2 port 1: SymbolErrorCounter 12']
    """
    view = recognise.read(text)
    return (view,) if view is not None and view.tool == name else ()


def _lines(view: Reading) -> Iterator[str]:
    if not view.links and not view.errors:
        yield "no link, and no port with errors"
    if len(view.links) > _MOST_LINKS:
        rates = Counter(_rate(link) for link in view.links)
        yield f"{len(view.links)} ends of links" + "".join(
            f", {count}{rate}" for rate, count in rates.items()
        )
    else:
        yield from (f"{link.label()}{_rate(link)}" for link in view.links)
    for port in view.errors:
        yield _counted(port, port.counters)


def _rate(link: FabricLink) -> str:
    return " at an unknown rate" if link.rate_gbit_s is None else f" at {link.rate_gbit_s:g} Gb/s"


def _counted(port: PortErrors, counters: tuple[tuple[str, int], ...]) -> str:
    return f"{port.end.label()}: " + ", ".join(f"{name} {value}" for name, value in counters)


def _failing(view: Reading) -> Iterator[tuple[PortErrors, tuple[tuple[str, int], ...]]]:
    """Ports with the counters of theirs that tell of a bad link, not of a busy one."""
    for port in view.errors:
        counters = tuple((name, value) for name, value in port.counters if name not in CONGESTION)
        if counters:
            yield port, counters


def _errors(view: Reading) -> Iterator[str]:
    for port, counters in _failing(view):
        yield f"{view.tool}: {_counted(port, counters)}"


def _facts(views: tuple[Reading, ...]) -> Iterator[ToolFact]:
    for view in views:
        for port, _ in _failing(view):
            values = (("loss", "physical"), ("rose", False))
            yield ToolFact("port.errors", values, port.end.name)


def _tool(name: str, *marks: str) -> Tool[Reading]:
    return Tool(
        name=name,
        marks=marks,
        parse=partial(parse, name=name),
        lines=_lines,
        facts=_facts,
        errors=_errors,
        gaps=lambda view: view.problems,
    )


TOOL = (
    _tool("ibqueryerrors", "Errors for ", "## Summary: "),
    _tool("ibnetdiscover", '"S-', '"H-'),
    _tool("lldp", "lldp.", '"lldp"'),
)
