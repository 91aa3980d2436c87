"""What a run concluded, read back from its `run.json`."""

from __future__ import annotations

from busbw.codec import parse_json
from busbw.errors import RunDirError
from busbw.model import RunResult
from busbw.store.run_directory import RunDir

SCHEMA = "busbw.run/1"


def result_of(run: RunDir, name: str = "") -> RunResult:
    """What stands in `run.json`.

    Args:
        name: of the file, in an error; "" = by the run's identifier.

    Raises:
        RunDirError: it is not readable, or another version of busbw made it.
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
    return result
