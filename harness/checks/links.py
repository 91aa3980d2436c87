"""The fleet's link test as a check. `busbw.survey.measure_links` measures, `busbw.assess.links`
judges: it is of pairs of nodes, no answer of one."""

from __future__ import annotations

from busbw.checks import Check

BANDWIDTH = Check(
    "links.bandwidth",
    "ib_write_bw or iperf3 between all nodes, rail by rail (busbw check --links)",
    "the blame model flags one of its rails, or the node; what was not measured is UNKNOWN",
)
ALL_RAILS = Check(
    "links.all_rails",
    "the same with all rails of a pair at once (busbw check --links)",
    "the blame model flags one of its rails, or the node, by what is left of the rate alone",
)
LATENCY = Check(
    "links.latency",
    "ping or ib_write_lat over the idle link (busbw check --links)",
    "with every partner twice the others' or more, beyond their noise: WARN",
)
