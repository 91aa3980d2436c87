"""Trap: NCCL_COLLNET_ENABLE=1 is set; no channel goes over CollNet. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import NODES, Recording, caught, environment

from busbw.fabrics import profiles


def test_sharp_that_is_requested_and_not_used(run: Recording, tmp_path: Path) -> None:
    environment(run, "NCCL_COLLNET_ENABLE", "1")
    caught(run.judged(tmp_path), "CollNet")


def test_sharp_that_could_not_start_is_one_finding_with_its_reason(
    run: Recording, tmp_path: Path
) -> None:
    environment(run, "NCCL_COLLNET_ENABLE", "1")
    run.plan(profile=profiles.load("infiniband-sharp"))
    failed = "NET/IB/SHARP : SHARP coll init error: Cannot connect to sharp_am (-53)"
    lines = [
        f"{node}:{1000 + rank}:{1000 + rank} [{rank}] NCCL INFO {text}"
        for rank, node in enumerate(NODES)
        for text in ("NET/Plugin: Loaded collnet plugin SHARP (v11)", failed)
    ]
    run.edit("cases/proof/stdout.txt", lambda text: "\n".join((*lines, text)))
    result = run.judged(tmp_path)
    first = next(each for each in result.findings if each.id == "sharp-not-used")
    assert result.headline == "SHARP requested, not used: libsharp could not join: node[1-4]"
    assert "sharp_am is not reached" in first.cause
    assert {each.text for each in first.evidence} == {failed}
    assert {"transport-not-proven", "sharp-init-failure"} <= set(first.explains)
