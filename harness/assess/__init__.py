"""From a run directory to its result: reads `raw/`, judges, and gives one record. The same `raw/`
always gives the same record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.assess.checks import answers, checked, load_plan, policy

if TYPE_CHECKING:
    from busbw.model import RunResult
    from busbw.store.run_directory import RunDir

__all__ = ["answers", "checked", "derive", "load_plan", "policy"]


def derive(run: RunDir) -> RunResult:
    """Judge a run from what it left behind, however far it came.

    Raises:
        RunDirError: there is no plan, or an artefact is not readable.
    """
    # All judges take half a second to load, and a check needs none of them.
    from busbw.assess import result

    return result.derive(run)
