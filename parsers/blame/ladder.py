"""Which step of a ladder of node counts loses bandwidth: rings over 2, 4, 8 … nodes, each with all
nodes of the one before. A hint only.

A ring's bus bandwidth does not depend on how many nodes it has, as far as the network is concerned
(physical-model.md section 4): what a larger one loses came with the nodes that were added, with the
uplinks that it is the first to use, or with the number of nodes itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.blame.confirm import CASE
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

ROUND = "ladder-"
"""What stands before the number of nodes in a round's id."""
LEAST_LOSS = 0.1
"""Of one step: rings over good nodes lose some percent as they grow, by latency and by
congestion."""
APART = 4.0
"""A loss must exceed this many standard deviations of what the two rings' iterations scatter by."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Step:
    """From one ring to the next larger one."""

    smaller: GroupSample
    larger: GroupSample

    @property
    def added(self) -> tuple[str, ...]:
        """The nodes that the larger ring has and the smaller has not, in the order of its ranks."""
        return tuple(node for node in self.larger.nodes if node not in self.smaller.nodes)

    @property
    def ratio(self) -> float:
        """Of the larger ring's bus bandwidth to the smaller one's."""
        return self.larger.median_gb_s / self.smaller.median_gb_s

    @property
    def loses(self) -> bool:
        """More than rings of good nodes do, and more than these two scatter by."""
        noise = math.hypot(
            *(
                1.25 * each.spread / math.sqrt(len(each.busbw_gb_s))
                for each in (self.smaller, self.larger)
            )
        )
        return 1 - self.ratio >= max(LEAST_LOSS, APART * noise)


def steps(samples: tuple[GroupSample, ...]) -> tuple[Step, ...]:
    """The steps that were measured, the smallest first; of a ring measured twice the later
    counts."""
    rings = {
        len(sample.nodes): sample for sample in samples if sample.launch.startswith(CASE + ROUND)
    }
    ordered = [rings[count] for count in sorted(rings)]
    return tuple(Step(a, b) for a, b in pairwise(ordered) if set(a.nodes) < set(b.nodes))


def findings(samples: tuple[GroupSample, ...]) -> tuple[Finding, ...]:
    """The step that loses most, as a hint; () = none loses, or there is no ladder."""
    found = steps(samples)
    losing = [step for step in found if step.loses]
    if not losing:
        return ()
    worst = min(losing, key=lambda step: step.ratio)
    low, high = len(worst.smaller.nodes), len(worst.larger.nodes)
    more = f"; {len(losing) - 1} more of {len(found)} steps lose" if len(losing) > 1 else ""
    return (
        Finding(
            id="ladder-step",
            status=Status.WARN,
            title=(
                f"a hint: from {low} to {high} nodes a ring loses {1 - worst.ratio:.0%}; added were"
                f" {_names(worst.added)}{more}"
            ),
            where=(),
            evidence=(_rung(found[0].smaller), *(_rung(step.larger, step) for step in found)),
            cause=(
                "something among the nodes that were added, what they are the first to share, or"
                " the number of nodes; a ladder cannot tell which"
            ),
            confidence=Confidence.POSSIBLE,
            would_settle=(
                "busbw run --survey: pairs tell which of them, or whether what they share",
            ),
            effect=max(0.0, 1 - worst.ratio),
            required=False,
        ),
    )


def _rung(ring: GroupSample, step: Step | None = None) -> Evidence:
    text = (
        f"{len(ring.nodes)} nodes in one ring: {format_bandwidth(ring.median_gb_s)} over"
        f" {len(ring.busbw_gb_s)} iterations"
    )
    if step is not None:
        text += (
            f", {step.ratio:.0%} of {len(step.smaller.nodes)} nodes; added: {_names(step.added)}"
        )
    return Evidence(ring.artefact, ring.line_no, text)


def _names(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes[:_SHOWN]) + (
        f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    )
