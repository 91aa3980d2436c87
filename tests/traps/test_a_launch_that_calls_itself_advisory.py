"""Trap: all_reduce failed, and its record says `required: false`. It must come to UNKNOWN."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from planted import Recording, case_of, caught

from busbw.codec import dump_json


def test_a_launch_that_calls_itself_advisory(run: Recording, tmp_path: Path) -> None:
    case = dataclasses.replace(case_of(run, "all-reduce"), required=False)
    run.table("all-reduce", "mpirun was unable to launch\n")
    run.outcome("all-reduce", case=json.loads(dump_json(case)), exit_status=1)
    caught(run.judged(tmp_path), "all-reduce")
