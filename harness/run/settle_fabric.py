"""Settling which fabric a run is on, once its nodes have answered and before anything is launched."""

from __future__ import annotations

import dataclasses

from busbw import assess
from busbw.assess import detection
from busbw.fabrics.profile import UNDETECTED
from busbw.run.context import Context


def settle(context: Context) -> Context:
    """The context with the profile that the answers decide, told with the facts; as it is where a
    profile was given.

    Raises:
        UsageError: the answers fit no profile, or several.
    """
    if context.plan.profile.name != UNDETECTED:
        return context
    plan = assess.load_plan(context.run)
    facts = detection.demand_profile(plan, assess.answers(context.run, plan))
    context.progress("check", f"fabric profile {plan.profile.name}, detected: {facts}")
    return dataclasses.replace(context, plan=plan)
