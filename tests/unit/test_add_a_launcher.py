"""A launcher is one file: added to a copy of the package, it is known wherever launchers are."""

from __future__ import annotations

from pathlib import Path

from scratch_copy import scratch_copy

FLUX = '''"""Flux's `flux run`."""

from __future__ import annotations

from busbw.launch import Launcher, LaunchRequest, placing
from busbw.launch.nccl_tests import arguments
from busbw.model import Invocation


def build(request: LaunchRequest) -> Invocation:
    """The command line."""
    case, names = request.case, placing.names(request)
    ranks = len(names) * placing.ranks_per_node(request)
    argv = ("flux", "run", "-n", str(ranks), "--exclusive", request.binary)
    argv += arguments(case, request.json_path)
    return Invocation(case.id, argv, request.env, names, case.timeout_s, ranks)


LAUNCHER = Launcher("flux", "a Flux instance", build, option_words=(("--exclusive", 0),))
'''
INVENTORY = "fabric: tcp\nlauncher: flux\nnodes:\n  - {name: 'n[1-2]', gpus: 8}\n"


def test_a_launcher_is_one_file(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    (copy.package / "launch" / "flux.py").write_text(FLUX)
    (tmp_path / "busbw.yaml").write_text(INVENTORY)

    planned = copy.run("run", "-i", "busbw.yaml", "--nccl-tests", "/opt/bin", "--dry-run")
    mistyped = copy.run("run", "-w", "n1", "--launcher", "fluks", "--nccl-tests", "/opt/bin")

    assert planned.returncode == 0, planned.stderr
    assert "\nflux \\\n  run \\\n  -n 16 \\\n  --exclusive \\\n  /opt/bin/" in planned.stdout
    assert "flux: a Flux instance" in copy.run("run", "--help").stdout
    assert "unknown launcher 'fluks'" in mistyped.stderr
    assert "did you mean 'flux'" in mistyped.stderr
    assert copy.changed() == ["launch/flux.py"]
