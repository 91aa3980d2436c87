"""The mpirun command line, run for real over the nodes of a lab: ranks stand where the launch wants
them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable

import pytest

from busbw.fabrics import profiles
from busbw.lab.state import LabState
from busbw.launch import FabricFacts, LaunchRequest, MpiFacts
from busbw.launch.env import mpi_options
from busbw.launch.mpirun import LAUNCHER, ssh_agent
from busbw.launch.render import render
from busbw.model import BenchmarkCase, Collective, Node, ResolvedVar, Sizes

pytestmark = pytest.mark.lab

CASE = BenchmarkCase("placement", Collective.ALL_REDUCE, Sizes(8, 8))
SAY = "echo rank $OMPI_COMM_WORLD_RANK $(hostname) $MARK $OMPI_MCA_mpi_yield_when_idle"


def request(lab: LabState, names: tuple[str, ...]) -> LaunchRequest:
    path = shutil.which("mpirun") or "mpirun"
    said = subprocess.run((path, "--version"), capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+\.\d+\.\d+)", said)
    assert version, said
    return LaunchRequest(
        case=CASE,
        nodes=tuple(Node(name, gpus=2) for name in names),
        head="node1",
        binary="/bin/sh",
        env=(ResolvedVar("MARK", "two words; $(none)", "--env", "it must arrive as it is"),),
        mpi=MpiFacts(version[1], path, run_as_root=os.geteuid() == 0),
        options=mpi_options(profiles.load("lab"), FabricFacts("eth0", ("eth0",))),
        ssh_agent=ssh_agent(None),
    )


@pytest.mark.parametrize(
    "names", [("node1", "node2", "node3"), ("node3", "node1", "node2"), ("node4", "node2")]
)
def test_ranks_stand_on_the_nodes_in_the_order_asked_for(
    lab4: LabState, on_node: Callable[..., object], names: tuple[str, ...]
) -> None:
    made = LAUNCHER.build(request(lab4, names))
    argv = (*made.argv[: made.argv.index("/bin/sh")], "/bin/sh", "-c", SAY)
    ran = on_node(lab4, "node1", shlex.join(argv), timeout_s=60.0)
    assert ran.exit_status == 0, ran  # type: ignore[attr-defined]  # the fixture's own record
    order = [
        f"rank {2 * place + slot} {name} two words; $(none) 1"
        for place, name in enumerate(names)
        for slot in (0, 1)
    ]
    assert sorted(line for line in ran.out.splitlines() if line.startswith("rank ")) == order  # type: ignore[attr-defined]  # the same


def test_the_shown_text_pasted_into_a_shell_does_the_same(
    lab4: LabState, on_node: Callable[..., object]
) -> None:
    text = render(LAUNCHER.build(request(lab4, ("node1", "node2"))))
    script = text[: text.index("/bin/sh")] + f"/bin/sh -c {shlex.quote(SAY)}\n"
    ran = on_node(lab4, "node1", script, timeout_s=60.0)
    assert ran.exit_status == 0, ran  # type: ignore[attr-defined]  # the fixture's own record
    assert ran.out.count("two words; $(none) 1") == 4  # type: ignore[attr-defined]  # the same
