"""What the tools of a fabric print: links, rates and error counters, with both ends. One module per
tool.

Written against infiniband-diags 39 to 57, ibdiagnet 2.x, the UFM Enterprise REST API 6.x and lldpd
1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.model.topology import FabricLink, PortErrors


@dataclass(frozen=True, slots=True)
class Reading:
    """What one text says."""

    tool: str
    """`iblinkinfo`, `ibnetdiscover`, `ibqueryerrors`, `ibdiagnet`, `ufm`, `lldp`."""
    links: tuple[FabricLink, ...] = ()
    errors: tuple[PortErrors, ...] = ()
    problems: tuple[str, ...] = ()
    """What of it could not be read, and what the tool itself complains of."""

    def at_line(self, first: int) -> Reading:
        """The same, of a text that begins at line `first` of another, from 1."""

        def moved(line_no: int | None) -> int | None:
            return None if line_no is None else line_no + first - 1

        links = tuple(replace(link, line_no=moved(link.line_no)) for link in self.links)
        return replace(
            self,
            links=links,
            errors=tuple(replace(each, line_no=moved(each.line_no)) for each in self.errors),
        )
