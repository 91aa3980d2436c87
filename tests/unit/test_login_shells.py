"""Login shells that are none of POSIX: fish and tcsh themselves, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.checks.software import NodeFacts
from busbw.launch import LaunchRequest, Mpi, MpiFacts, choose, placing
from busbw.model import BenchmarkCase, Collective, Node, Sizes
from busbw.run import launching
from busbw.transport import framing

SHELLS = ("sh", "bash", "fish", "tcsh")
TEXT = "a  b; \"c\" `d` $HOME ${x%%:*} !e \\\\f %s 'g' *"
REQUEST = LaunchRequest(
    case=BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8, 8)),
    nodes=(Node("n1", gpus=1), Node("n2", gpus=1)),
    head="n1",
    binary="/opt/all_reduce_perf",
    env=(),
    mpi=MpiFacts("4.1.4"),
)
SSH = '#!/bin/sh\nfor last; do :; done\nexec env -u BUSBW_AGENT {shell} -c "$last"\n'


def needed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.parametrize("name", SHELLS)
def test_a_command_comes_as_it_was_sent_through_every_login_shell(name: str) -> None:
    line = framing.remote_line(("printf", "%s", TEXT), sudo=False, mark="M")
    done = subprocess.run((needed(name), "-c", line), capture_output=True, timeout=60, check=False)
    assert framing.unframe(done.stdout, done.stderr, "M").stdout == TEXT.encode()


def agent(tmp_path: Path, name: str) -> placing.Agent:
    """The agent in front of an ssh to a node with that login shell."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(shell=needed(name)))
    ssh.chmod(0o755)
    command = f"{ssh} -o BatchMode=yes"
    return placing.agent(replace(REQUEST, ssh_agent=command, odd_shells=True))


@pytest.mark.parametrize("name", SHELLS)
def test_what_mpirun_sends_is_read_by_sh_in_every_login_shell(tmp_path: Path, name: str) -> None:
    words = (
        "-x",
        "node2",
        "PATH=/opt/bin:$PATH ;",
        "export PATH ;",
        "A='x  y!' ;",
        "echo",
        '"$A ${PATH%%:*}"',
        "$SHELL",
    )
    through = agent(tmp_path, name)
    argv = (*through.before, *through.command.split(), *words)
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"x  y! /opt/bin /bin/bash\n", b"")


@pytest.mark.parametrize("name", SHELLS)
def test_mpirun_starts_its_daemon_through_every_login_shell(tmp_path: Path, name: str) -> None:
    """mpirun itself, with a daemon for another node that runs here."""
    program = needed("mpirun")
    version = subprocess.run(
        (program, "--version"), capture_output=True, text=True, timeout=60, check=False
    )
    if "Open MPI) 4" not in version.stdout:
        pytest.skip("mpirun is not Open MPI 4")
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    through = agent(tmp_path, name)
    argv = (
        *through.before,
        program,
        *root,
        "-np",
        "1",
        "-H",
        "other-node:1",
        "--mca",
        "plm_rsh_agent",
        through.command,
    )
    argv += (
        "--mca",
        "plm_rsh_assume_same_shell",
        "0",
        "--mca",
        "plm_rsh_no_tree_spawn",
        "1",
        "echo",
        "ran",
    )
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_only_a_node_whose_login_shell_is_not_posix_needs_the_agent() -> None:
    plain = NodeFacts("n1", "n1", "/root", 0, None, None, None, (), None, None, "/bin/bash")
    known = {"n1": plain, "n2": replace(plain, login_shell=None)}
    assert not launching.odd_shells(("n1", "n2"), known)
    for odd in ("/usr/bin/fish", "/bin/tcsh", "csh"):
        known["n2"] = replace(plain, login_shell=odd)
        assert launching.odd_shells(("n1", "n2"), known)


@pytest.mark.parametrize("name", ["mpirun", "mpijob", "hydra"])
def test_every_launcher_that_starts_daemons_by_ssh_encodes_what_odd_shells_would_read(
    name: str,
) -> None:
    launcher = choose.choose(name)
    version = "4.0.2" if launcher.mpi is Mpi.MPICH else "5.0.11"
    request = replace(REQUEST, mpi=MpiFacts(version))
    argv = launcher.build(replace(request, odd_shells=True)).argv
    assert argv[0] == "env"
    assert argv[1].startswith("BUSBW_AGENT=words=$1; ")
    assert 'sh -c eval${IFS}"$BUSBW_AGENT" busbw-agent 1 ssh' in " ".join(argv).replace(
        "HYDRA_LAUNCHER_EXTRA_ARGS=", "sh "
    )
    assert "BUSBW_AGENT" not in " ".join(launcher.build(request).argv)
