"""What the hardware and software of every node must be, whatever its neighbours are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One key of a `specification:` block."""

    key: str
    """As the table of `playbook.specification` names it: `nic_rate`."""
    value: str
    """As written, without its relation: `400`, `28.39.1002`, `NVIDIA H100 80GB HBM3`."""
    at_least: bool
    """Written as `>= 400`; False = exactly this."""
    source: str
    """`inventory`, `playbook` or `contract`."""

    @property
    def number(self) -> float:
        """The value of a key that counts or measures something."""
        return float(self.value)
