"""`busbw init`, and the file it writes being found afterwards."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.inventory import resolve
from busbw.model import Node


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_host_list_becomes_a_file_that_every_command_finds(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "-w", "gpu-[001-004],login"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "wrote busbw.yaml: 5 nodes gpu-[001-004],login, from -w gpu-[001-004],login"
    assert lines[1].startswith("next: busbw check ")
    cluster = resolve(None, None, None, {})
    assert [node.name for node in cluster.nodes] == [
        "gpu-001",
        "gpu-002",
        "gpu-003",
        "gpu-004",
        "login",
    ]
    assert cluster.head == "gpu-001"
    assert "no nodes were given: those of busbw.yaml are used" in cluster.notes


def test_what_comes_next_can_be_pasted_also_with_a_blank_in_the_name(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "-w", "gpu-1", "-o", "mein ä.yaml"]) == 0
    _, check, run = capsys.readouterr().out.splitlines()
    assert shlex.split(check, comments=True)[1:] == ["busbw", "check", "-i", "mein ä.yaml"]
    words = ["busbw", "run", "-i", "mein ä.yaml", "--nccl-tests", "PATH"]
    assert shlex.split(run, comments=True) == words


def test_the_one_hostfile_here_is_taken_with_what_it_says_of_each_node(here: Path) -> None:
    (here / "hostfile").write_text("node-b slots=8\nnode-a slots=8\nnode-c slots=4\n")
    assert main(["init"]) == 0
    assert resolve(None, None, None, {}).nodes == resolve("hostfile", None, None, {}).nodes
    assert [node.name for node in resolve(None, None, None, {}).nodes] == [
        "node-b",
        "node-a",
        "node-c",
    ], "the order is that of the ranks"


def test_an_ansible_inventory_keeps_addresses_users_and_ports(here: Path) -> None:
    (here / "hosts.ini").write_text(
        "[gpu]\ngpu[01:03] ansible_user=hpc ansible_port=2222\nodd ansible_host=10.0.0.9\n"
    )
    assert main(["init"]) == 0
    nodes = {node.name: node for node in resolve(None, None, None, {}).nodes}
    assert nodes["gpu02"] == Node("gpu02", user="hpc", port=2222, labels=nodes["gpu02"].labels)
    assert nodes["odd"].address == "10.0.0.9"


def test_a_slurm_allocation_is_written_down(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[1-2]")
    assert main(["init"]) == 0
    assert [node.name for node in resolve(None, None, None, {}).nodes] == ["gpu1", "gpu2"]


def test_several_candidates_none_and_an_existing_file_are_errors_that_say_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 2
    assert "busbw: error: nothing here names nodes" in capsys.readouterr().err
    (here / "hosts.ini").write_text("[gpu]\na\n")
    (here / "hostfile").write_text("b\n")
    assert main(["init"]) == 2
    assert "busbw: next: busbw init -i hosts.ini" in capsys.readouterr().err
    (here / "busbw.yaml").write_text("mine\n")
    assert main(["init", "-w", "a"]) == 2
    assert (here / "busbw.yaml").read_text() == "mine\n"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "-w", "a", "--force"]) == 0


def test_the_file_describes_nodes_that_are_named_and_nodes_of_an_allocation(here: Path) -> None:
    (here / "busbw.yaml").write_text(
        "nodes: ['gpu[1-4]']\ndefaults: {gpus: 8}\nfabric: infiniband\n"
    )
    named = resolve(None, "gpu[2-3]", None, {})
    assert ([node.gpus for node in named.nodes], named.fabric) == ([8, 8], "infiniband")
    allocated = resolve(None, None, None, {"SLURM_JOB_NODELIST": "gpu[1-2]"})
    assert ([node.name for node in allocated.nodes], allocated.fabric) == (
        ["gpu1", "gpu2"],
        "infiniband",
    )
    strange = resolve(None, "gpu[4-5]", None, {})
    assert ([node.name for node in strange.nodes], strange.fabric) == (
        ["gpu4", "gpu5"],
        None,
    ), "half known is not known"
