"""`busbw run --launcher mpijob` with a stand-in for kubectl whose pods are nodes of a lab: no real cluster, but real ssh, mpirun and ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from busbw.lab import enter, files

pytestmark = pytest.mark.lab
BOOK = str(Path(__file__).with_name("nccl_tests.yaml"))
FAKE = Path(__file__).parents[1] / "fixtures/kubernetes/kubectl"


def test_a_run_in_the_pods_of_an_mpijob_keeps_their_logs_and_deletes_it(lab_factory: Callable, tmp_path: Path) -> None:  # type: ignore[type-arg]
    lab = lab_factory(nodes=2)
    sources = str(resources.files("busbw.lab") / "payload")
    home = "/usr/lib/x86_64-linux-gnu/openmpi"
    build = ("make", "-C", sources, "MPI=1", f"BUILDDIR={tmp_path}/build", "BIN_FILES_LIST=all_reduce")
    subprocess.run((*build, *((f"MPI_HOME={home}",) if Path(home).is_dir() else ())), check=True, capture_output=True, timeout=100)
    for node in lab.nodes:
        shutil.copytree(tmp_path / "build", lab.path / "nodes" / node.name / "home/tests")
    (tmp_path / "bin").mkdir()
    shutil.copy(FAKE, tmp_path / "bin/kubectl")
    (tmp_path / "kube").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "FAKE_KUBE": str(tmp_path / "kube"),
        "FAKE_SSH": str(files.ssh_config(lab)),
        "FAKE_HOSTS": str(lab.path / "hosts"),
    }
    out = tmp_path / "runs"
    words = ("run", BOOK, "--launcher", "mpijob", "--image", "registry/nccl:1", "--node-count", "2", "--pod-gpus", "2", "-p", "lab")
    argv = (sys.executable, "-m", "busbw", *words, "--namespace", "bench", "--nccl-tests", "/run/node/home/tests", "--out", str(out))
    done = subprocess.run(
        enter.reexec_argv(lab, argv), env=environment, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL
    )
    run = (out / "latest").resolve()
    assert run.exists(), done.stderr
    case = json.loads((run / "raw/cases/all-reduce/outcome.json").read_text())
    assert (case["state"], case["exit_status"]) == ("ended", 0), done.stderr
    name = json.loads((tmp_path / "kube/manifest.json").read_text())["metadata"]["name"]
    assert case["nodes"] == [f"{name}-worker-0.{name}", f"{name}-worker-1.{name}"]
    assert "StrictHostKeyChecking=accept-new" in " ".join(case["invocation"]["argv"])
    assert [check["node"] for check in json.loads((run / "run.json").read_text())["checks"] if check["check_id"] == "sw.mpirun"] == case[
        "nodes"
    ]
    assert (run / f"raw/kubernetes/{name}-worker-1.log").read_text() == "Server listening on 0.0.0.0 port 22.\n"
    assert "Started container" in (run / "raw/kubernetes/events.txt").read_text()
    assert name in (tmp_path / "kube/deleted").read_text()
