"""What a `specification:` block may say, how a node is compared with it, and what is proposed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from plans import run_plan

from busbw import inventory, playbook
from busbw.assess.expectation import Hardware, as_demanded
from busbw.checks import NodeAnswer, SectionOutput, script, specification
from busbw.checks.frame import families
from busbw.cli import main
from busbw.errors import InventoryError
from busbw.fabrics import profiles
from busbw.model import Cluster, CommandResult, Node, Requirement, Status
from busbw.parsers.expect.hardware import Nics
from busbw.playbook.specification import FIELDS, merged, met, requirements
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import PreflightArtefact, PreflightEntry, ReachArtefact

H100 = Path(__file__).parents[1] / "fixtures" / "h100_nodes" / "node1.txt"
BOUNDARY = "20261123-034628-check"
EVERY_KEY = {
    "gpus": "8",
    "gpu_model": "H100 80GB",
    "nvlinks": "18",
    "gpu_pcie_width": "16",
    "gpu_pcie_generation": "5",
    "nics": "8",
    "nic_rate": ">= 400",
    "nic_lanes": "4",
    "link_layer": "InfiniBand",
    "rdma_mtu": "4096",
    "nic_pcie_width": "16",
    "nic_pcie_generation": "5",
    "nic_firmware": "28.39.1002",
    "vbios": "96.00.74.00.01",
    "driver": ">= 535.129",
    "ofed": "23.10-1.1.9.0",
    "kernel": ">= 5.15",
    "bios": "1.05.03",
}


def h100(block: dict[str, str], rails: tuple[str, ...] = ()) -> NodeAnswer:
    """The answer of a lab that shows H100, with what is demanded of it."""
    result = CommandResult("node1", ("sh", "-s"), 0, H100.read_bytes(), b"", 0.5)
    answer = script.split(Node("node1", rails=rails), result, BOUNDARY, "raw/preflight/node1.txt")
    return NodeAnswer(
        answer.node, answer.sections, answer.artefact, None, requirements(block, "inventory")
    )


def judged(block: dict[str, str]) -> list[tuple[Status, str]]:
    answer = h100(block)
    return [(r.status, r.seen) for r in specification.judge(answer)][: len(block)]


def test_every_key_that_the_nodes_show_passes_where_it_is_as_specified() -> None:
    results = judged(EVERY_KEY)
    assert len(results) == len(EVERY_KEY)
    assert [seen for status, seen in results if status is not Status.PASS] == []
    assert (Status.PASS, "nic_rate 400 Gb/s on mlx5_[0-7]") in results


@pytest.mark.parametrize("key", list(EVERY_KEY))
def test_every_key_fails_where_something_else_is_specified(key: str) -> None:
    other = {"gpu_model": "H200", "link_layer": "Ethernet"}.get(key, ">= 99999")
    ((status, seen),) = judged({key: other})
    assert status is Status.FAIL
    assert seen.startswith(f"{key} ")
    assert "is wanted" in seen


def test_a_failure_names_devices_what_was_seen_and_what_is_wanted() -> None:
    assert judged({"nic_rate": "800"}) == [
        (Status.FAIL, "nic_rate 400 Gb/s on mlx5_[0-7]; nic_rate 800 Gb/s is wanted")
    ]


def test_what_no_node_shows_is_unknown_with_the_command() -> None:
    result = specification.judge(h100({"nccl": "2.27.5"}))[0]
    assert (result.check_id, result.status, result.seen, result.expected, result.reason) == (
        "spec.version",
        Status.UNKNOWN,
        "nccl not shown",
        "nccl 2.27.5 (inventory)",
        "ls libnccl.so.2.* does not show it",
    )


def test_a_version_is_compared_number_by_number() -> None:
    least = Requirement("driver", "550.54", True, "inventory")
    assert [met(least, seen) for seen in ("550.54.15", "550.9", "1000.1")] == [True, False, True]
    exact = Requirement("driver", "550.54", False, "inventory")
    assert [met(exact, seen) for seen in ("550.54", "550.54.15")] == [True, False]


def test_every_field_reads_a_section_that_the_checks_ask() -> None:
    asked = {section.name for family in families() for section in family.sections}
    assert {name for field in FIELDS for name in field.sections} <= asked


def test_the_contract_decides_over_the_playbook_and_that_over_the_inventory() -> None:
    both = merged(
        requirements({"nics": "8", "gpus": "8"}, "inventory"),
        requirements({"nics": "4", "driver": "550"}, "contract"),
    )
    assert [(each.key, each.value, each.source) for each in both] == [
        ("gpus", "8", "inventory"),
        ("nics", "4", "contract"),
        ("driver", "550", "contract"),
    ]


def test_limits_take_the_specified_rate_and_never_less_than_was_found_at_least() -> None:
    found = Hardware((), None, 8, Nics(8, "200", 200.0), 4096, ())
    for value, rate in (("400", 400.0), (">= 400", 400.0), (">= 100", 200.0), ("100", 100.0)):
        nics = as_demanded(found, requirements({"nic_rate": value}, "inventory")).nics
        assert nics is not None
        assert (nics.count, nics.rate_gbit_s) == (8, rate)
    assert as_demanded(found, ()) == found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nic_rat: 400", "unknown key 'nic_rat'; did you mean 'nic_rate'?"),
        ("nic_rate: fast", "expected a number above 0, or >= and a number, found 'fast'"),
        ("driver: new", "expected a version, or >= and a version, found 'new'"),
        ('gpu_model: ">= H100"', "gpu_model is compared word by word: no >="),
        ("gpus: 8.5", "expected a whole number above 0, or >= and one, found '8.5'"),
        ('driver: "=> 580.95"', "the only relation is >=, found '=> 580.95'"),
        ('nic_rate: "<400"', "the only relation is >=, found '<400'"),
        ('gpu_model: "== H100"', "the only relation is >=, found '== H100'"),
        ("gpus: 0", "expected a whole number above 0, or >= and one, found '0'"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_line(
    tmp_path: Path, line: str, words: str
) -> None:
    path = tmp_path / "busbw.yaml"
    path.write_text(f"nodes: [n1]\nspecification:\n  nics: 8\n  {line}\n")
    with pytest.raises(InventoryError) as caught:
        inventory.resolve(str(path), None, None, {})
    assert caught.value.what.startswith(f"{path}:4:")
    assert caught.value.what.endswith(words)
    assert "correct the text and start again" in caught.value.next_step


def test_a_version_keeps_its_last_zero(tmp_path: Path) -> None:
    path = tmp_path / "busbw.yaml"
    path.write_text("nodes: [n1]\nspecification: {nccl: 2.30, kernel: 6.10}\n")
    cluster = inventory.resolve(str(path), None, None, {})
    assert [each.value for each in cluster.requirements] == ["2.30", "6.10"]


def test_what_all_nodes_share_is_proposed_and_meets_itself() -> None:
    shared = specification.shared((h100({}), h100({})))
    assert shared["nics"] == "8"
    assert shared["nic_firmware"] == "28.39.1002"
    assert "nccl" not in shared, "no node shows its library"
    assert {status for status, _ in judged(shared)} == {Status.PASS}
    odd = NodeAnswer(
        Node("node2"),
        h100({}).sections
        | {"rdma_sysfs": SectionOutput("rdma_sysfs", "rdma mlx5_0 present 1\n", "", 0, 1)},
        "raw/preflight/node2.txt",
        None,
    )
    assert "nics" not in specification.shared((h100({}), odd)), "the nodes differ"


def checked_run(out: Path, text: bytes) -> Path:
    """The run directory of a check of two H100 nodes that answered so."""
    started, names = "2026-11-23T03:40:57Z", ("node1", "node2")
    run = run_directory.create(out, started, "check")
    cluster = Cluster(tuple(Node(name) for name in names), names[0], "-w node[1-2]")
    book = dataclasses.replace(playbook.load("day-one"), cases=(), gates=())
    plan = run_plan(cluster, book, profiles.load("infiniband"), run_id=run.run_id, started=started)
    entries = tuple(
        PreflightEntry(name, f"raw/preflight/{name}.txt", None, 0, None, 0.5) for name in names
    )
    artefacts.keep(run, "plan.json", plan)
    artefacts.keep(run, "reach.json", ReachArtefact(names, (), "ssh"))
    for name in names:
        run.write_raw(f"preflight/{name}.txt", text)
    artefacts.keep(run, "preflight.json", PreflightArtefact(BOUNDARY, entries))
    return run.path


def test_init_adds_a_commented_proposal_that_holds_once_its_marks_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = checked_run(tmp_path / "runs", H100.read_bytes())
    assert main(["init", "-w", "node[1-2]"]) == 0
    before = Path("busbw.yaml").read_text()
    assert main(["init", "--propose", str(run)]) == 0
    text = Path("busbw.yaml").read_text()
    assert text.startswith(before)
    assert inventory.resolve("busbw.yaml", None, None, {}).requirements == (), "a comment"
    assert "added a proposal to busbw.yaml: 18 keys" in capsys.readouterr().out
    head, _, block = text.partition("# specification:")
    uncommented = re.sub(r"(?m)^#  ", "", block)
    Path("real.yaml").write_text(head + "specification:" + uncommented)
    (rate,) = [
        each
        for each in inventory.resolve("real.yaml", None, None, {}).requirements
        if each.key == "nic_rate"
    ]
    assert (rate.value, rate.source) == ("400", "inventory")
    assert main(["init", "--propose", str(run)]) == 2, "it has a block already"


def test_init_proposes_nothing_from_a_check_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = H100.read_bytes().replace(b"mlx5_3 1 state 4: ACTIVE", b"mlx5_3 1 state 1: DOWN")
    run = checked_run(tmp_path / "runs", text.replace(b"unlimited", b"64"))
    assert main(["init", "--propose", str(run)]) == 2
    assert "its checks came to FAIL" in capsys.readouterr().err
    assert not Path("busbw.yaml").exists()
