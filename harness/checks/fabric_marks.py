"""What tells which fabric a node is on, beside its RDMA ports: who made the machine, and the
networking software of the clouds."""

from __future__ import annotations

from busbw.checks import CheckFamily, Section
from busbw.fabrics import profiles

CHECK = CheckFamily(
    name="fabric_marks",
    checks=(),
    sections=(Section("fabric_marks", small=True, arguments=profiles.directories),),
    judge=lambda answer: (),
    purpose="the choice of the fabric profile",
)
