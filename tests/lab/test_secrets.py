"""What must not travel: names, addresses, GUIDs, serial numbers in a redacted report; keys and the
agent to the nodes. One run on three nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults, files, persona, persona_faults
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

BOOK = """\
description: Everything that a node tells of its hardware, and one launch.
checks: {required: [ssh.connect, sw.mpirun, "gpu.*", "rdma.*", "pci.*", "os.*", "eth.*", "cross.*"]}
cases:
  - {id: proof, purpose: proof, collective: all_reduce, sizes: 64K, iterations: 2, warmup: 1, check: 1, timeout: 1m, stall: 20s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""
WATCHER = (
    '#!/bin/sh\necho "${SSH_AUTH_SOCK-none}" >>/run/node/home/agent\nPATH=/usr/bin:/bin exec mpirun'
    ' "$@"\n'
)
"""An mpirun that notes whether an agent came along."""


SECRET = "hunter2-of-the-session"


@dataclass(frozen=True)
class Ran:
    """A run with the user's agent at hand."""

    run: Path
    err: str
    agent_keys: str
    """What the agent held, as `ssh-add -L` says."""


@pytest.fixture(scope="module")
def lab(
    needs_lab: None, make_labs: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:
    """Three nodes with RoCE adapters, which have an IPv4 address each; one GPU and one adapter are
    broken, so that findings speak of them."""
    with make_labs(tmp_path_factory.mktemp("secrets") / "labs") as up:
        state: LabState = up(nodes=3, gpus=1, persona=persona.load("h100-roce"))
        for node in state.nodes:
            program = files.node_directory(state, node) / "bin/mpirun"
            program.unlink(missing_ok=True)
            program.write_text(WATCHER)
            program.chmod(0o755)
            (files.node_directory(state, node) / "home/.bashrc").write_text(
                f"export HF_TOKEN={SECRET} NCCL_API_KEY={SECRET}\n"
            )
        for kind, name in (
            ("ecc-errors", "node2"),
            ("gpu-lost", "node3"),
            ("port-down", "node2"),
            ("driver-odd", "node1"),
        ):
            faults.hardware(state, kind, name)
        yield state


@pytest.fixture(scope="module")
def ran(lab: LabState, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("run")
    (folder / "all.yaml").write_text(BOOK)
    inner = 'ssh-add -q "$0" && ssh-add -L >"$1" && shift && exec "$@"'
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        str(folder / "all.yaml"),
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(folder / "runs"),
    )
    agent = ("ssh-agent", "sh", "-c", inner, str(files.identity(lab)), str(folder / "agent-keys"))
    done = subprocess.run(
        (*agent, *argv),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode in (0, 1, 3), done
    return Ran((folder / "runs/latest").resolve(), done.stderr, (folder / "agent-keys").read_text())


def identities(lab: LabState, run: Path) -> set[str]:
    """Everything that tells whose cluster it was: what the lab invented, and what the raw evidence
    shows, looked for without busbw's own patterns."""
    found: set[str] = set()
    for node in lab.nodes:
        found |= {
            node.name,
            node.address,
            *(rail.address for rail in node.rails),
            *(rail.port for rail in node.rails),
        }
        hardware = persona_faults.hardware(lab, node)
        found |= {gpu.uuid for gpu in hardware.gpus} | {gpu.serial for gpu in hardware.gpus}
        for adapter in hardware.adapters:
            plain = adapter.guid.replace(":", "")
            found |= {adapter.guid, plain, f"0x{plain}", *([adapter.ipv4] if adapter.ipv4 else [])}
    raw = "\n".join(
        path.read_bytes().decode("utf-8", "replace")
        for path in run.glob("raw/**/*")
        if path.is_file()
    )
    found |= set(re.findall(r"link/ether ((?:[0-9a-f]{2}:){5}[0-9a-f]{2})", raw))
    found |= set(re.findall(r"\b(?:10\.77|10\.100|172\.\d+)\.\d+\.\d+\b", raw))
    found |= set(re.findall(r"\bfe80:[0-9a-f:]{6,}\b", raw))
    return {word for word in found if word not in ("0.0.0.0", "127.0.0.1")}


def test_a_redacted_report_has_nothing_left_that_tells_whose_cluster_it_was(
    lab: LabState, ran: Ran, tmp_path: Path
) -> None:
    wanted = identities(lab, ran.run)
    plain = "\n".join(
        path.read_text() for path in ran.run.iterdir() if path.is_file() and path.suffix != ".lock"
    )
    raw = "\n".join(
        path.read_bytes().decode("utf-8", "replace")
        for path in ran.run.glob("raw/**/*")
        if path.is_file()
    )
    for kind in ("node2", "10.77.0.2", "GPU-", "b83f", "1650002"):
        assert kind in raw, f"the run knows of {kind}: the proof has something to find"
    assert {"node2", "10.77.0.2"} <= {word for word in wanted if word in plain}, (
        "what is not redacted names them"
    )
    outputs = {name: tmp_path / name for name in ("junit.xml", "busbw.prom", "rows.csv")}
    words = (
        "--redact",
        "--junit",
        str(outputs["junit.xml"]),
        "--prom",
        str(outputs["busbw.prom"]),
        "--csv",
        str(outputs["rows.csv"]),
    )
    environment = {
        **os.environ,
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
    }
    told = {}
    for extra in ((), ("--json",)):
        argv = (sys.executable, "-m", "busbw", "report", str(ran.run), *words, *extra)
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            cwd=ran.run.parent,
            env=environment,
        )
        told[f"printed {extra}"] = done.stdout + done.stderr
    told |= {
        path.name: path.read_text()
        for path in (*outputs.values(), tmp_path / "step.md", *(ran.run / "redacted").iterdir())
    }
    assert {
        "run.json",
        "report.html",
        "summary.md",
        "junit.xml",
        "metrics.prom",
        "commands.sh",
        "rows.csv",
        "step.md",
    } <= set(told)
    left = {
        (name, word)
        for name, text in told.items()
        for word in wanted
        if re.search(rf"(?<![0-9A-Za-z.:]){re.escape(word)}(?![0-9A-Za-z])", text)
    }
    assert left == set()
    assert json.loads(told["run.json"])["nodes"] == ["node-001", "node-002", "node-003"]
    assert (ran.run / "redacted-names.csv").stat().st_mode & 0o777 == 0o600


def test_neither_the_agent_nor_a_key_goes_to_a_node(lab: LabState, ran: Ran) -> None:
    assert ran.agent_keys.startswith("ssh-ed25519 "), "there was an agent with a key"
    secret = "".join(files.identity(lab).read_text().splitlines()[1:-1])
    for node in lab.nodes:
        home = files.node_directory(lab, node) / "home"
        assert set((home / "agent").read_text().split()) == {"none"}, (
            "mpirun ran on every node, and saw no agent"
        )
        for place in (home, files.node_directory(lab, node) / "tmp"):
            held = [
                path
                for path in place.rglob("*")
                if path.is_file()
                and secret[-90:] in path.read_text(errors="replace").replace("\n", "")
            ]
            assert held == []


def test_what_a_session_has_in_its_environment_stays_there(ran: Ran) -> None:
    """Every shell on every node exported a secret: the launcher and the ranks had it, and the
    benchmark writes its environment as JSON."""
    read = [path for path in ran.run.glob("**/*") if path.is_file()]
    assert len(read) > 20
    assert [path for path in read if SECRET.encode() in path.read_bytes()] == []
