"""What `fi_info` of libfabric prints (1.x): one block per provider and endpoint type."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.blocks import blocks

_PROVIDER = re.compile(r"^provider:\s*(\S+)[ \t\r]*$", re.M)
_FIELD = re.compile(r"^[ \t]+(\w+):\s*(\S+)[ \t\r]*$", re.M)


@dataclass(frozen=True, slots=True)
class FabricProvider:
    """One block; None = not printed."""

    provider: str
    fabric: str | None
    domain: str | None
    version: str | None
    endpoint: str | None
    """`FI_EP_RDM`, `FI_EP_DGRAM`, `FI_EP_MSG`."""


def parse(text: str) -> tuple[FabricProvider, ...]:
    """The blocks; () = none in the text.

    >>> parse("provider: efa\\n    fabric: efa\\n    domain: rdmap0s6-rdm\\n    version: 121.0\\n    type: FI_EP_RDM\\n")
    (FabricProvider(provider='efa', fabric='efa', domain='rdmap0s6-rdm', version='121.0', endpoint='FI_EP_RDM'),)
    """
    providers = []
    for head, body in blocks(_PROVIDER, text):
        fields = dict(_FIELD.findall(body))
        providers.append(
            FabricProvider(
                head[1],
                fields.get("fabric"),
                fields.get("domain"),
                fields.get("version"),
                fields.get("type"),
            )
        )
    return tuple(providers)


def _facts(providers: tuple[FabricProvider, ...]) -> tuple[ToolFact, ...]:
    domains = {each.domain for each in providers if each.provider == "efa"}
    if providers and not domains:
        # Without -p efa the tool lists what there is: that others are there says nothing of EFA.
        return ()
    return (ToolFact("efa.provider", (("domains", float(len(domains))),)),)


TOOL = Tool(
    name="fi_info",
    marks=("provider: ",),
    parse=parse,
    lines=lambda each: (f"{each.provider} {each.domain or ''} {each.endpoint or ''}".rstrip(),),
    facts=_facts,
)
