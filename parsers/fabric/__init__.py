"""What the tools of a fabric print: links, rates and error counters, with both ends. One module per tool.

Written against infiniband-diags 39 to 57, ibdiagnet 2.x, the UFM Enterprise REST API 6.x and lldpd 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from busbw.records.topology import FabricLink, PortErrors


@dataclass(frozen=True, slots=True)
class Reading:
    """What one text says."""

    tool: str
    """`iblinkinfo`, `ibnetdiscover`, `ibqueryerrors`, `ibdiagnet`, `ufm`, `lldp`."""
    links: tuple[FabricLink, ...] = ()
    errors: tuple[PortErrors, ...] = ()
    problems: tuple[str, ...] = ()
    """What of it could not be read, and what the tool itself complains of."""
