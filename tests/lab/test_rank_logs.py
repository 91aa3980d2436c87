"""NCCL's log of every rank, over ssh from lab nodes: emulated by a program before the lab's
payload, which has no NCCL and writes none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from busbw.lab import persona
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

PLAYBOOK = """\
description: A proof alone.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: proof, purpose: proof, collective: all_reduce, sizes: 64K, ranks_per_node: 2, iterations: 2, warmup: 1, check: 1, timeout: 1m, stall: 30s}
survey: {when: never}
lab: {payload: lab, fabric: infiniband}
"""
EMULATED = """\
#!/bin/sh
h=$(uname -n); h=${{h%%.*}}
f=$(printf '%s' "$NCCL_DEBUG_FILE" | sed "s/%h/$h/; s/%p/$$/")
printf '%s:%s:%s [0] NCCL INFO Using network IB\\n%s:%s:%s [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\\n' \\
  $h $$ $$ $h $$ $$ >"$f" || exit 9
exec {payload} "$@"
"""
"""Writes two lines that a rank on InfiniBand logs, where NCCL would write them, and becomes the
payload."""


@pytest.fixture
def binaries() -> Iterator[Path]:
    """A folder that lab nodes see (their /tmp is their own) with the payload behind the emulation
    of a log."""
    with tempfile.TemporaryDirectory(prefix="busbw-rank-logs-", dir="/var/tmp") as folder:
        sources = Path(folder) / "payload"
        shutil.copytree(str(resources.files("busbw.lab") / "payload"), sources)
        subprocess.run(
            ("make", "MPI=1"),
            cwd=sources,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=400,
            check=True,
        )
        program = Path(folder) / "bin/all_reduce_perf"
        program.parent.mkdir()
        program.write_text(EMULATED.format(payload=sources / "build/all_reduce_perf"))
        for path in (Path(folder), program.parent, program):
            path.chmod(0o755)
        yield program.parent


def test_the_logs_of_all_ranks_are_fetched_from_their_nodes_and_prove_transport_and_gpudirect(
    make_labs: object, needs_lab: None, binaries: Path, tmp_path: Path
) -> None:
    (tmp_path / "proof.yaml").write_text(PLAYBOOK)
    with make_labs(tmp_path / "labs") as up:  # type: ignore[operator]  # a fixture of conftest
        lab: LabState = up(nodes=2, persona=persona.load("h100"))
        words = (
            "run",
            str(tmp_path / "proof.yaml"),
            "-i",
            f"lab:{lab.name}",
            "-p",
            "infiniband",
            "--nccl-tests",
            str(binaries),
        )
        done = subprocess.run(
            (sys.executable, "-m", "busbw", *words, "--out", str(tmp_path / "runs")),
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    run = tmp_path / "runs/latest"
    assert (run / "run.json").exists(), done
    for node in ("node1", "node2"):
        text = (run / f"raw/cases/proof/nccl/{node}.txt").read_text()
        assert (text.count(f"# busbw rank log nccl.{node}."), text.count("Using network IB")) == (
            2,
            2,
        )
    told = json.loads((run / "run.json").read_text())["sensitivity"]
    assert "detects: fallback to TCP: every rank says that it uses IB" in told
    assert any(
        line.endswith("all 4 kinds of channel between nodes end in /GDRDMA") for line in told
    ), told
