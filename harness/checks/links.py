"""The fleet's link test as a check. `busbw.survey.measure_links` measures, `busbw.assess.links`
judges: it is of pairs of nodes, no answer of one."""

from __future__ import annotations

from busbw.checks import Check

BANDWIDTH = Check(
    "links.bandwidth",
    "ib_write_bw or iperf3 between all nodes, rail by rail (busbw check --links)",
    "the blame model flags one of its rails, or the node; what was not measured is UNKNOWN",
)
