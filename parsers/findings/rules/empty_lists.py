"""Lists of RDMA devices and addresses that end behind their heading: there is none.

`ibv_devices` and `show_gids` print the heading also where they find nothing, and say no word of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_HEADING = Watch("heading", r"^\s*device\s+node GUID\s*$")
_DEVICE = Watch("device", r"^\s{0,9}[a-z]\w+\s+[0-9a-f]{16}\s*$")
_NO_GIDS = Watch("no-gids", r"^\s*n_gids_found=0\s*$")


def _judge(view: View) -> Iterator[Clue]:
    filled = {line.artefact for line in view.sightings(_DEVICE.name)}
    for line in view.sightings(_HEADING.name):
        if line.artefact not in filled:
            yield line.clue("ib-not-detected", Weight.STRONG, "ibv_devices")
    for line in view.sightings(_NO_GIDS.name):
        yield line.clue("ib-not-detected", Weight.WEAK, "show_gids")
        yield line.clue("gid-rocev1-or-no-ipv4", Weight.WEAK, "show_gids")


_HEAD = "    device          \t   node GUID\n    ------          \t----------------\n"

RULE = Rule(
    name="empty-lists",
    conclusion="`ibv_devices` lists no device, or `show_gids` no address.",
    watches=(_HEADING, _DEVICE, _NO_GIDS),
    judge=_judge,
    fires=(
        Fires(_HEAD, (("ib-not-detected", "strong"),)),
        Fires(
            "n_gids_found=0\n",
            (("ib-not-detected", "weak"), ("gid-rocev1-or-no-ipv4", "weak")),
        ),
    ),
    silent=(_HEAD + "    mlx5_0          \t08c0eb0300c8ff40\n", "n_gids_found=8\n"),
)
