"""Hosts in different NVLink domains, where memory of one could not be mapped by another.

NCCL prints of each GPU the UUID of its NVLink fabric and its clique. Several domains are normal in a
job of several racks; beside a handle that could not be imported they say why: the program takes all
ranks as one domain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_DOMAIN = Watch("domain", r"MNNVL busId 0x\w+ fabric UUID \w+", distinct=True, keep=8)
_REFUSED = Watch(
    "refused",
    r"cuMemImportFromShareableHandle|ImportShareable|cuMulticast\w+.*(?:fail|error)"
    r"|Cuda failure.*(?:handle|not permitted|invalid)|cudaIpcOpenMemHandle|MNNVL .*(?:not working|not supported)",
)
_FABRIC = re.compile(r"fabric UUID (\w+(?:\.\w+)?) cliqueId (0x\w+)")
_NONE = re.compile(r"[0.]+")


def _judge(view: View) -> Iterator[Clue]:
    first: dict[tuple[str, str], Sighting] = {}
    for line in view.sightings(_DOMAIN.name):
        match = _FABRIC.search(line.text)
        if match and not _NONE.fullmatch(match[1]):
            first.setdefault((match[1], match[2]), line)
    if len(first) < 2 or not view.sightings(_REFUSED.name):
        return
    for line in first.values():
        yield line.clue("nvlink-domain-odd", Weight.STRONG, "nccl-log", line.hosts)


def _line(host: str, uuid: str) -> str:
    return (
        f"{host}:1:2 [0] NCCL INFO MNNVL busId 0x1901000 fabric UUID {uuid} cliqueId 0x2 state 3"
        " healthMask 0x0\n"
    )


_REFUSAL = "a:1:2 [0] p2p.cc:259 NCCL WARN Cuda failure 1 'invalid argument' cuMemImportFromShareableHandle\n"

RULE = Rule(
    name="nvlink-domains",
    conclusion="A handle cannot be imported, and the hosts are in several NVLink domains.",
    watches=(_DOMAIN, _REFUSED),
    judge=_judge,
    fires=(
        Fires(
            _line("a", "5b1f.9e01") + _line("b", "77aa.1101") + _REFUSAL,
            (("nvlink-domain-odd", "strong"),),
        ),
    ),
    silent=(
        _line("a", "5b1f.9e01") + _line("b", "77aa.1101"),
        _line("a", "5b1f.9e01") + _line("b", "5b1f.9e01") + _REFUSAL,
        _line("a", "0.0") + _line("b", "5b1f.9e01") + _REFUSAL,
    ),
)
