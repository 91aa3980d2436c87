"""Trap: the checks of node2 were never answered. It must come to UNKNOWN."""

from __future__ import annotations

import json
from pathlib import Path

from planted import Recording, caught


def test_an_answer_that_is_missing(run: Recording, tmp_path: Path) -> None:
    record = json.loads(run.text("preflight.json"))
    record["entries"] = [each for each in record["entries"] if each["node"] != "node2"]
    run.files["preflight.json"] = json.dumps(record).encode()
    caught(run.judged(tmp_path), "node2")
