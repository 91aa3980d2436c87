"""RDMA devices that cannot be opened: a container without device access, or merely the virtual
functions of other containers.

A process that goes on to use a device of its own has what it was given; the failures before are
noise. One that never does lacks access. Where another rank reaches channels over a second device,
the first explanation is out.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_FAILED = Watch(
    "failed", r"NET/IB ?: Unable to (?:open|query) device|Call to ibv_open_device failed"
)
_USING = Watch("using", r"NET/IB ?: Using +\[0\]")


def _judge(view: View) -> Iterator[Clue]:
    if not view.has(_FAILED.name):
        return
    last = {line.process: line.place for line in view.each(_USING.name)}
    for line in view.sightings(_FAILED.name):
        where = places(line.text)
        if line.process in last and line.place < last[line.process]:
            yield line.clue("foreign-vf-noise", Weight.WEAK, "nccl-log", where)
            for entry in ("container-no-ib-devices", "rdma-userspace-kernel-mismatch"):
                yield line.clue(entry, Weight.EXCLUDES, "nccl-log", where)
        else:
            yield line.clue("container-no-ib-devices", Weight.STRONG, "nccl-log", where)


RULE = Rule(
    name="device-access",
    conclusion=(
        "Devices that cannot be opened are harmless if the process then uses its own device. "
        "Otherwise the process lacks access."
    ),
    watches=(_FAILED, _USING),
    judge=_judge,
    fires=(
        Fires(
            "pod-a:30:97 [0] NCCL WARN NET/IB : Unable to open device mlx5_3\n",
            (("container-no-ib-devices", "strong"),),
        ),
        Fires(
            "pod-a:30:97 [0] NCCL WARN NET/IB : Unable to open device mlx5_3\n"
            "pod-a:30:97 [0] NCCL INFO NET/IB : Using [0]mlx5_8:1/RoCE ; OOB eth0:10.0.0.1<0>\n",
            (("foreign-vf-noise", "weak"), ("container-no-ib-devices", "excludes")),
        ),
        Fires(
            "pod-a:30:97 [0] NCCL WARN NET/IB : Unable to open device mlx5_3\n"
            "pod-b:30:97 [0] NCCL INFO NET/IB : Using [0]mlx5_8:1/RoCE ; OOB eth0:10.0.0.2<0>\n",
            (("container-no-ib-devices", "strong"),),
        ),
    ),
    silent=("pod-a:30:97 [0] NCCL INFO NET/IB : Using [0]mlx5_8:1/RoCE ; OOB eth0:10.0.0.1<0>\n",),
)
