"""The record of a setup script: its hash, what it sets, and nodes on which it is another."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from busbw import shell
from busbw.assess import planned
from busbw.model import SetupScript, Status
from busbw.run.setup_script import parse
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import SetupArtefact, SetupNode

SCRIPT = """\
export NCCL_IB_TC=106 NCCL_NET=gIB MY_API_TOKEN=secret
export LD_LIBRARY_PATH=/opt/gib/lib64
unset NCCL_DEBUG
echo sourced
"""


def asked(script: Path) -> SetupNode:
    argv = ("bash", "-c", shell.load("busbw.run", "setup_script.sh"), "busbw-setup", str(script))
    env = {"PATH": os.environ["PATH"], "NCCL_NET": "gIB", "NCCL_DEBUG": "INFO"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=20, check=True)
    return parse("n1", done.stdout)


def test_the_hash_and_what_the_script_changes_are_kept_and_no_secret(tmp_path: Path) -> None:
    script = tmp_path / "env.sh"
    script.write_text(SCRIPT)
    assert asked(script) == SetupNode(
        "n1",
        hashlib.sha256(SCRIPT.encode()).hexdigest(),
        (("LD_LIBRARY_PATH", "/opt/gib/lib64"), ("NCCL_IB_TC", "106")),
    )


def test_a_script_that_is_not_there_has_no_hash(tmp_path: Path) -> None:
    assert asked(tmp_path / "none.sh") == SetupNode("n1", None)


SAME = ("a" * 64, (("NCCL_IB_TC", "106"), ("NCCL_SOCKET_IFNAME", "eth0")))


@pytest.mark.parametrize(
    ("second", "optional", "expected"),
    [
        (SAME, False, []),
        ((SAME[0], (("NCCL_IB_TC", "106"), ("NCCL_SOCKET_IFNAME", "ens1"))), False, []),
        ((SAME[0], (("NCCL_IB_TC", "96"),)), False, [("setup-script-differs", Status.WARN)]),
        (("b" * 64, SAME[1]), True, [("setup-script-differs", Status.WARN)]),
        ((None, ()), False, [("setup-script-missing", Status.FAIL)]),
        ((None, ()), True, [("setup-script-missing", Status.FAIL)]),
    ],
)
def test_a_node_with_another_script_is_named(
    tmp_path: Path,
    second: tuple[str | None, tuple[tuple[str, str], ...]],
    optional: bool,
    expected: list[tuple[str, Status]],
) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T12:00:00Z", "quick")
    nodes = (SetupNode("n1", *SAME), SetupNode("n2", *second))
    script = SetupScript("/opt/env.sh", "inventory", optional)
    artefacts.keep(run, "setup.json", SetupArtefact(script, nodes))

    found = list(planned.setup_scripts(run))

    assert [(each.id, each.status) for each in found] == expected
    assert all(each.where == ("n2",) and "n2" in each.title for each in found)


def test_an_optional_script_that_no_node_has_is_no_finding(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T12:00:00Z", "quick")
    script = SetupScript("/opt/env.sh", "profile gcp-gib", optional=True)
    artefacts.keep(run, "setup.json", SetupArtefact(script, (SetupNode("n1", None),)))
    assert list(planned.setup_scripts(run)) == []
