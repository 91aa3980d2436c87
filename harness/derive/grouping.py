"""Which nodes share a leaf, for the survey of a run and for its blame: both must know the same."""

from __future__ import annotations

from busbw.derive import layout
from busbw.parsers.judge.blame_parts import Fabric
from busbw.plan import RunPlan
from busbw.rundir import RunDir
from busbw.survey.places import completed, fabric_of


def fabric(run: RunDir, plan: RunPlan) -> Fabric:
    """By the inventory's labels, else by the fabric's own tools as far as this run was given what they say.

    Raises:
        RunDirError: an artefact is not readable.
    """
    told = fabric_of(plan.cluster, plan.profile.family)
    return told if told.leaf_of else completed(told, layout.known(run, plan), tuple(node.name for node in plan.cluster.nodes))
