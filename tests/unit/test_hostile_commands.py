"""Command lines that a person is told to paste, or a script to run: whatever a node calls itself, a
shell reads it as one word."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from busbw import cli
from busbw.errors import UsageError
from busbw.inventory import resolve
from busbw.launch.render import render
from busbw.model import Confidence, Evidence, Finding, Invocation, Status
from busbw.parsers.stall.ticket import drain_commands, ticket
from busbw.parsers.stall.verdict import StallClass, StallVerdict

HOSTILE = "$(touch broken)`touch broken`;touch broken\n|touch broken '\"\\ && touch broken #"


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """A folder in which the programs that are named do nothing but say what they were given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("scontrol", "kubectl", "mpirun", "cd"):
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\n" "$#"\n')
        (folder / name).chmod(0o755)
    (folder / "touch").symlink_to(shutil.which("touch") or "/bin/touch")
    return tmp_path


def broken_by(stubs: Path, script: str) -> bool:
    """Whether a shell that runs it does something that was not meant."""
    subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=stubs,
        env={"PATH": str(stubs / "bin"), "HOME": str(stubs)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return any(stubs.glob("broken*"))


def verdict(kind: StallClass = StallClass.GPU_GONE) -> StallVerdict:
    finding = Finding(
        "stall-gpu-gone",
        Status.FAIL,
        f"{HOSTILE} lost its GPU",
        (HOSTILE,),
        (Evidence("raw/x", 1, HOSTILE),),
        confidence=Confidence.CERTAIN,
    )
    return StallVerdict(
        kind,
        finding.title,
        f"slurm {HOSTILE}",
        8,
        (),
        (finding,),
        (3,),
        (HOSTILE,),
        (HOSTILE,),
        None,
        None,
        (),
        (),
        (),
    )


def test_this_test_would_see_a_command_that_breaks_out(stubs: Path) -> None:
    assert broken_by(stubs, f"scontrol update nodename={HOSTILE}")


@pytest.mark.parametrize("job", ["slurm 7", "", "kubernetes"])
def test_the_line_that_drains_a_node_stays_one_command(stubs: Path, job: str) -> None:
    commands = drain_commands(replace(verdict(), job=job))
    assert commands
    for command in commands:
        assert not broken_by(stubs, command), command
    assert commands[0] in ticket(replace(verdict(), job=job), "runs/x")


def test_commands_sh_keeps_every_word_of_a_launch_together(stubs: Path) -> None:
    invocation = Invocation(
        "all-reduce", ("mpirun", "-H", HOSTILE, "-x", f"NAME={HOSTILE}"), (), ("node1",), 60.0, 8
    )
    assert not broken_by(stubs, render(invocation))


@pytest.mark.parametrize(
    "name", ["$(reboot)", "a;b", "a b", "-oProxyCommand=x", "a`b`", "a\nb", "../x"]
)
def test_a_name_that_is_no_host_name_enters_no_inventory(name: str, tmp_path: Path) -> None:
    hostfile = tmp_path / "hostfile"
    hostfile.write_text(f"{name} slots=8\n")
    for inventory, nodes in ((None, name), (str(hostfile), None)):
        try:
            cluster = resolve(inventory, nodes, None, {})
        except UsageError:
            continue
        # A blank parts two names.
        assert all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", node.name) for node in cluster.nodes)


def test_what_a_log_calls_its_host_reaches_no_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = "$(touch${IFS}broken)"
    log = tmp_path / "nccl.log"
    log.write_text(
        f"{host}:4242:4318 [0] transport/net_ib.cc:1887 NCCL WARN NET/IB : Got completion from peer"
        " 10.1.0.8<41713> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid"
        f" ::ffff:10.1.8.7 remoteGids::ffff:10.1.0.8 hca mlx5_0\n{host}:4242:4318 [0] NCCL INFO"
        " misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer"
        f" {host}<41713>\n"
    )
    assert cli.main(["why", str(log)]) in (0, 1, 3)
    output = capsys.readouterr().out
    assert output
    indented = [line for line in output.splitlines() if line.startswith("               ")]
    steps = [line for line in indented if f"{log}:" not in line]  # the log's own lines are quoted
    assert not [line for line in steps if "touch" in line]
    assert os.path.exists(log)


OWN_CACHE = ("table_cache.py", "pickle")
"""Reads only what this user alone could have written, as Python does with its bytecode:
test_table_cache.py has what it refuses."""
OWN_MEMORY = ("evidence.py", "marshal")
"""Packs plain values of this program while it runs; what it unpacks was never in a file."""


def test_nothing_that_runs_what_it_reads_is_ever_imported() -> None:
    problems = []
    for folder in ("harness", "parsers", "reports"):
        for path in (Path(__file__).parents[2] / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                problems += [
                    (path.name, name)
                    for name in names
                    if name.partition(".")[0]
                    in ("pickle", "marshal", "shelve", "dill", "cloudpickle")
                ]
    assert sorted(problems) == sorted([OWN_CACHE, OWN_MEMORY])
