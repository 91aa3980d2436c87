"""Clusters of which a part is dead, hung, slow, full or lying: the rest is measured, each of the
others is named with its reason, in time.

`tests/bench/partial.py` does the same with 64 nodes and prints the figures.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, faults, files, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

BOOK = """\
description: A proof and one bandwidth case over whatever part of the cluster can.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: proof, purpose: proof, collective: all_reduce, sizes: 64K, iterations: 2, warmup: 1, check: 1, timeout: 2m, stall: 60s}
  - {id: all-reduce, collective: all_reduce, sizes: 64K, iterations: 2, warmup: 1, check: 1, timeout: 2m, stall: 60s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""
_CRAWL = 'exec > >(while IFS= read -r -N 1 c; do printf %s "$c"; sleep 0.05; done)\n'


def _login(text: str) -> Callable[[LabState, str], None]:
    """What a node does at every login, before the command."""

    def make(lab: LabState, node: str) -> None:
        (files.node_directory(lab, lab.node(node)) / "home/.bashrc").write_text(text)

    return make


def _there(*argv: str) -> Callable[[LabState, str], None]:
    """A command on the node, with the rights of the lab's maker."""

    def make(lab: LabState, node: str) -> None:
        subprocess.run(enter.node_argv(lab, lab.node(node), argv), check=True, timeout=400)

    return make


def _dead(lab: LabState, node: str) -> None:
    first = lab.node(node).init
    assert first is not None
    processes.send(first, signal.SIGKILL)


def _garbage(lab: LabState, node: str) -> None:
    program = files.node_directory(lab, lab.node(node)) / "bin/mpirun"
    program.write_text("#!/bin/sh\nhead -c 3000 /dev/urandom\n")
    program.chmod(0o755)


def _no_inodes(lab: LabState, node: str) -> None:
    _there("mkdir", "-p", "/run/node/home/.cache")(lab, node)
    _there(
        "mount", "-t", "tmpfs", "-o", "size=100m,nr_inodes=4", "inodes", "/run/node/home/.cache"
    )(lab, node)


KINDS: dict[str, tuple[Callable[[LabState, str], None], str, str]] = {
    "dead": (_dead, "refused", "refused"),
    "hung": (
        lambda lab, node: void(faults.hang_ssh(lab, node)),
        "never sends a banner",
        "never sends a banner",
    ),
    "crawls": (_login(_CRAWL), "given up", "given up"),
    "full": (
        _there("mount", "-t", "tmpfs", "-o", "size=64k", "full", "/tmp"),
        "no room: /tmp",
        "no room: /tmp",
    ),
    "no inodes": (_no_inodes, "", "does not have the binaries"),
    "another's name": (
        _there("hostname", "node1"),
        "node1, the name of node1",
        "node1, the name of node1",
    ),
    "endless": (
        _login("yes 'the same again'\n"),
        "output over 64 MiB, cut",
        "output over 64 MiB, cut",
    ),
    "silent": (_login("exit 0\n"), "before the command began", "before the command began"),
    "garbage": (_garbage, "sw.mpirun", "sw.mpirun"),
}
"""{what is wrong: (how it is made, what `busbw check` says of it, what `busbw run` says)}; empty =
it cannot be told without writing."""


def void(_: object) -> None:
    """Of what a fault gives back nothing is needed."""


@dataclass(frozen=True)
class Ended:
    """One command over a cluster with bad nodes."""

    exit_status: int
    told: dict[str, str]
    """{node: all that the result says of it}."""
    result: Any
    err: str


def command(lab: LabState, out: Path, *words: str) -> Ended:
    """`busbw WORDS…` on the lab, and what its result says of which node."""
    argv = (sys.executable, "-m", "busbw", *words, "-i", f"lab:{lab.name}", "--out", str(out))
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    name = "check.json" if words[0] == "check" else "run.json"
    assert ((out / "latest").resolve() / name).exists(), done
    result = json.loads(((out / "latest").resolve() / name).read_text())
    told: dict[str, str] = {}
    for missing in result["unreachable"]:
        told[missing["node"]] = missing["reason"]
    for check in result["checks"]:
        if check["status"] in ("FAIL", "UNKNOWN"):
            told[check["node"]] = (
                f"{told.get(check['node'], '')}; {check['check_id']}: {check['seen']}"
                f" {check['reason']}"
            )
    for finding in result.get("findings", ()):
        named = {node for node in result["nodes"] if re.search(rf"\b{node}\b", finding["title"])}
        for node in {*finding["where"], *named}:
            told[node] = f"{told.get(node, '')}; {finding['title']}"
    return Ended(done.returncode, told, result, done.stderr)


def unnamed(ended: Ended, bad: dict[str, str], column: int) -> dict[str, str]:
    """The bad nodes ({node: kind}) of which the result does not say what is wrong, with all that it
    says."""
    wanted = {node: str(KINDS[kind][column]) for node, kind in bad.items()}
    return {
        node: ended.told.get(node, "")
        for node, words in wanted.items()
        if words not in ended.told.get(node, "")
    }


def broken(lab: LabState, bad: dict[str, str]) -> None:
    """Break the nodes, those that can no more be entered last."""
    for node, kind in sorted(bad.items(), key=lambda item: item[1] in ("dead", "hung")):
        KINDS[kind][0](lab, node)


def test_the_sound_nodes_are_measured_and_the_others_named(
    make_labs: Callable[..., Any], needs_lab: None, tmp_path: Path
) -> None:
    """Of 8 nodes: the first one is full, so that another becomes the head; one dead, one with
    another's name, one without inodes."""
    bad = {"node1": "full", "node3": "dead", "node5": "another's name", "node7": "no inodes"}
    sound = ["node2", "node4", "node6", "node8"]
    book = tmp_path / "part.yaml"
    book.write_text(BOOK)
    with make_labs(tmp_path / "labs") as up:
        lab = up(built=True, nodes=8, gpus=1)
        broken(lab, bad)
        checked = command(lab, tmp_path / "checks", "check", "-p", "lab")
        ran = command(lab, tmp_path / "runs", "run", str(book))
    assert unnamed(checked, bad, 1) == {}
    assert unnamed(ran, bad, 2) == {}
    assert [case["nodes"] for case in ran.result["cases"]] == [sound, sound], ran
    assert [case["status"] for case in ran.result["cases"]] == ["PASS", "PASS"], ran
    flagged = {
        node
        for finding in ran.result["findings"]
        if finding["required"]
        for node in finding["where"]
    }
    assert not flagged & set(sound), ran.result["findings"]
    assert (checked.exit_status, ran.result["verdict"], ran.exit_status) == (3, "UNKNOWN", 3), ran
