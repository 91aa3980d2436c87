"""Plans of runs with only what a test is about."""

from __future__ import annotations

from typing import Any

from busbw.fabrics.profile import ChecksPlan, Profile
from busbw.model import BenchmarkCase, Cluster
from busbw.playbook import Playbook, SurveyPlan
from busbw.store.plan import SCHEMA, RunPlan


def run_plan(
    cluster: Cluster,
    book: Playbook,
    profile: Profile,
    *,
    run_id: str = "r",
    started: str = "",
    transport: str = "ssh",
    **more: Any,
) -> RunPlan:
    """`more`: other fields of the plan."""
    return RunPlan(SCHEMA, "test", run_id, started, cluster, book, profile, transport, **more)


def bare_playbook(*cases: BenchmarkCase, name: str = "p", **more: Any) -> Playbook:
    """These cases, no checks, no gates, no survey; `more`: other fields of the playbook."""
    survey = SurveyPlan("never", 1.0, 1, 1, ())
    return Playbook(name, "", None, ChecksPlan(), cases, (), survey, "nccl-tests", **more)
