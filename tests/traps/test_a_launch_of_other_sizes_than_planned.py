"""Trap: the launch was made with sizes up to 1 MiB where the plan says 8 GiB. It must come to UNKNOWN."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from planted import Recording, case_of, caught, table

from busbw.codec import dump_json
from busbw.model import Sizes


def test_a_launch_of_other_sizes_than_planned(run: Recording, tmp_path: Path) -> None:
    case = dataclasses.replace(case_of(run, "alltoall"), sizes=Sizes(1 << 20, 1 << 20))
    run.table("alltoall", table(case))
    run.outcome("alltoall", case=json.loads(dump_json(case)))
    caught(run.judged(tmp_path), "alltoall", "plan")
