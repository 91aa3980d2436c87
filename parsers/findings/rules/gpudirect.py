"""GPUDirect RDMA that is off: a NIC that reports it disabled, on a process none of whose channels
use it.

The channel lines are the only evidence that every version prints: `/GDRDMA` there outweighs what
was reported about a NIC. Hosts without it beside hosts with it lack the kernel module.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_DISABLED = Watch(
    "disabled",
    r"NET/(?!Socket).*GPU Direct RDMA Disabled for (?:HCA|GPU \S+ / HCA \d+ .*\(no module)",
)
_WITH = Watch("with", r"via NET/[^/]+/\d+(?:\(\d+\))?/GDRDMA")
_WITHOUT = Watch(
    "without", r"via NET/(?:IB|IBext\w*|AWS Libfabric|Libfabric)/\d+(?:\(\d+\))?(?:/Shared)?\s*$"
)


def _look(view: View) -> Iterator[Clue]:
    using = {_host(line) for line in view.sightings(_WITH.name)}
    for line in view.sightings(_DISABLED.name):
        host = _host(line)
        if host in using or (host is None and using):
            continue
        yield Clue(
            "peermem-missing",
            Weight.STRONG,
            "nccl-log",
            line.evidence(),
            line.place,
            (host,) if host else (),
        )
        yield Clue(
            "gdr-unsupported-platform",
            Weight.WEAK,
            "nccl-log",
            line.evidence(),
            line.place,
            (host,) if host else (),
        )
    for line in view.sightings(_WITHOUT.name):
        host = _host(line)
        if host not in using:
            weight = Weight.STRONG if using and host is not None else Weight.WEAK
            yield Clue(
                "peermem-missing",
                weight,
                "nccl-log",
                line.evidence(),
                line.place,
                (host,) if host else (),
            )


def _host(line: Sighting) -> str | None:
    return line.process.rpartition(":")[0] if line.process and ":" in line.process else None


RULE = Rule(
    name="gpudirect",
    says=(
        "GPUDirect RDMA is off on a host that reports it disabled, or whose channels lack /GDRDMA"
        " while other hosts have it."
    ),
    watches=(_DISABLED, _WITH, _WITHOUT),
    look=_look,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
            (("peermem-missing", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 'mlx5_0'"
            " (no module or not supported by GPU)\n",
            (("peermem-missing", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
            "b:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 1[1] [send] via NET/IB/0\n",
            (("peermem-missing", "strong"),),
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
