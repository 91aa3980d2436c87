"""What a run concluded, read back from its `run.json`: as long as its evidence is what it was
concluded from."""

from __future__ import annotations

from busbw.codec import parse_json
from busbw.errors import RunDirError
from busbw.model import RunResult
from busbw.store.run_directory import RunDir

SCHEMA = "busbw.run/1"
_DAMAGED = "evidence-damaged"
"""Its finding; what it concludes is already UNKNOWN."""


def result_of(run: RunDir, name: str = "") -> RunResult:
    """What stands in `run.json`.

    Args:
        name: of the file, in an error; "" = by the run's identifier.

    Raises:
        RunDirError: it is not readable, another version of busbw made it, or the evidence is no
            longer as it was, and the result does not know of it.
        FileNotFoundError: there is none: the run did not end.
    """
    name = name or f"{run.run_id}/run.json"
    result = parse_json(run.read_derived("run.json"), RunResult, name, error=RunDirError)
    if result.schema != SCHEMA:
        raise RunDirError(
            f"{name} was made by another version of busbw",
            seen=f"{result.schema}, by busbw {result.tool_version}; this version reads {SCHEMA}",
            next_step=f"rebuild it: busbw report {run.path}",
        )
    if all(finding.id != _DAMAGED for finding in result.findings):
        run.require_undamaged()
    return result
