"""Processes that list different numbers of RDMA devices: on one host a NIC is missing, down or
filtered."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_USING = Watch("using", r"NET/IB ?: Using +\[0\]")
_ENTRY = re.compile(r"\[\d+\][\w.+-]+:\d+")


def _judge(view: View) -> Iterator[Clue]:
    nics: dict[str, tuple[int, Sighting]] = {}
    for line in view.sightings(_USING.name):
        if line.host is not None:
            nics.setdefault(line.host, (len(_ENTRY.findall(line.text)), line))
    most = max((count for count, _ in nics.values()), default=0)
    for host, (count, line) in sorted(nics.items()):
        if count < most:
            yield line.clue("nic-count-differs", Weight.STRONG, "nccl-log", (host,))


RULE = Rule(
    name="nic-lists",
    conclusion="A host whose NCCL uses fewer RDMA devices than the others lacks a NIC.",
    watches=(_USING,),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB"
            " eth0:10.0.0.1<0>\nb:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB"
            " eth0:10.0.0.2<0>\n",
            (("nic-count-differs", "strong"),),
        ),
    ),
    silent=(
        (
            "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
            "b:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
        ),
    ),
)
