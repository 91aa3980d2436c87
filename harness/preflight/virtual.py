"""Whether a node is a virtual machine: there the host decides about PCI and IOMMU, and physical counters are hidden."""

from __future__ import annotations

from busbw.parsers.nodes import os_facts
from busbw.preflight import NodeAnswer


def is_virtual(answer: NodeAnswer) -> bool:
    """The CPU says that it runs under a hypervisor; a node that does not say counts as bare metal."""
    output = answer.section("system")
    return output is not None and os_facts.parse(output.stdout).text("virtual") is not None
