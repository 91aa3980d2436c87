"""GPUDirect RDMA that is off: a NIC that reports it disabled, on a process none of whose channels
use it.

The channel lines are the only evidence that every version prints: `/GDRDMA` there outweighs what
was reported about a NIC. Hosts without it beside hosts with it lack the kernel module.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_DISABLED = Watch(
    "disabled",
    r"NET/(?!Socket).*GPU Direct RDMA Disabled for (?:HCA|GPU \S+ / HCA \d+ .*\(no module)",
)
_WITH = Watch("with", r"via NET/[^/]+/\d+(?:\(\d+\))?/GDRDMA", keep=1)
_WITHOUT = Watch(
    "without", r"via NET/(?:IB|IBext\w*|AWS Libfabric|Libfabric)/\d+(?:\(\d+\))?(?:/Shared)?\s*$"
)


def _judge(view: View) -> Iterator[Clue]:
    using = {line.host for line in view.each(_WITH.name)}
    carrying = {line.host for line in view.each(_WITHOUT.name)}
    for line in view.sightings(_DISABLED.name):
        if line.host in using or (line.host is None and using):
            continue
        # A NIC without channels carries nothing: that it lacks GPUDirect costs nothing.
        weight = Weight.STRONG if line.host in carrying else Weight.WEAK
        yield line.clue("peermem-missing", weight, "nccl-log", line.hosts)
        yield line.clue("gdr-unsupported-platform", Weight.WEAK, "nccl-log", line.hosts)
    for line in view.each(_WITHOUT.name):
        if line.host not in using:
            is_alone = bool(using) and line.host is not None
            weight = Weight.STRONG if is_alone else Weight.WEAK
            yield line.clue("peermem-missing", weight, "nccl-log", line.hosts)
        elif line.host is None:  # one direction of a channel has it: the other node lacks it
            yield line.clue("peermem-missing", Weight.WEAK, "nccl-log")


RULE = Rule(
    name="gpudirect",
    conclusion=(
        "GPUDirect RDMA is off on a host that reports it disabled, or whose channels lack "
        "/GDRDMA while other hosts have it."
    ),
    watches=(_DISABLED, _WITH, _WITHOUT),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
            (("peermem-missing", "weak"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 'mlx5_0'"
            " (no module or not supported by GPU)\n"
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0\n",
            (("peermem-missing", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
            "b:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 1[1] [send] via NET/IB/0\n",
            (("peermem-missing", "strong"),),
        ),
        Fires(
            "9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA\n"
            "9[1a000] -> 2[6b000] [receive] via NET/IB/1\n",
            (("peermem-missing", "weak"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0\n",
            (("peermem-missing", "weak"),),
        ),
    ),
    silent=(
        (
            "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
        ),
        "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/Socket/0\n",
        "a:1:2 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n",
    ),
)
