"""A fabric is one YAML file: added to a copy of the package, it is planned, judged and surveyed; and
the contract that every value of every fabric keeps."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_copy import ROOT, scratch_copy

from busbw.fabrics import profiles
from busbw.fabrics.profile import LinkTool, ProfileVar, Wire
from busbw.fabrics.profiles import carrier_by_fabric
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import EveryFabric

SLINGSHOT = """\
title: Slingshot
applies_to: Slingshot 11, 200 Gb/s rails
inherits: common
link_tool: none
carrier: {wire: line rate, published: slingshot, why: the framing is not published, source: net}
flow_hashing: {value: false, why: switches route packet by packet, source: net}
env:
  - {name: NCCL_NET, value: AWS Libfabric, why: fails when the plugin is not loaded, source: net, since: "2.12"}
must_see: {networks: [AWS Libfabric]}
family: {name: slingshot, data_path: plugin, needs_mark: true, marks: [CXI]}
signs:
  - {devices: ["cxi*"]}
  - {vendor: HPE, directory: /opt/cray/libfabric}
"""
DETECTION = """
from busbw.assess import detection
from busbw.checks import NodeAnswer, SectionOutput, script
from busbw.checks import fabric_marks
from busbw.model import Node

asked = script.build([fabric_marks.CHECK], "run", 10.0).stdin.decode()
assert "/opt/cray/libfabric" in asked
texts = {"rdma_sysfs": "rdma cxi0 present 1\\n", "fabric_marks": "vendor=HPE\\n"}
sections = {name: SectionOutput(name, text, "", 0, 1) for name, text in texts.items()}
print(detection.guess((NodeAnswer(Node("n1"), sections, "raw/n1.txt", None),)).candidates)
"""


def test_a_fabric_is_one_file(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    (copy.package / "fabrics" / "slingshot.yaml").write_text(SLINGSHOT)

    log = tmp_path / "nccl.log"
    log.write_text("n1:1:1 [0] NCCL INFO Using network Socket\n")

    planned = copy.run(
        *("run", "-w", "n[1-4]", "-p", "slingshot", "--nccl-tests", "/opt/bin", "--survey"),
        "--dry-run",
    )
    expected = copy.run(
        *("expect", "--gpu", "H100", "--nodes", "4", "--nics", "4x200"),
        *("--fabric", "slingshot", "--collective", "all_reduce"),
    )
    explained = copy.run("why", str(log), "--fabric", "slingshot")
    detected = copy.python("-c", DETECTION)
    mistyped = copy.run("run", "-w", "n1", "-p", "slingshat", "--dry-run")

    assert planned.returncode == 0, planned.stderr
    assert "NCCL_NET=AWS Libfabric" in planned.stdout
    assert "# link baseline: no tool measures a single link" in planned.stdout
    assert expected.returncode == 0, expected.stderr
    assert "GB/s" in expected.stdout
    assert "did you mean 'slingshot'" in mistyped.stderr
    assert explained.returncode == 0, explained.stderr
    assert detected.stdout == "('slingshot',)\n", detected.stderr
    assert copy.changed() == ["fabrics/slingshot.yaml"]


@pytest.mark.parametrize("name", profiles.names())
def test_every_value_has_a_reason_and_a_source(name: str) -> None:
    profile = profiles.load(name)
    values = [*profile.env, *profile.trials, *profile.never_set, *profile.harmful, *profile.mpi]
    values += [each for each in (profile.carrier, profile.flow_hashing) if each is not None]

    assert [each for each in values if not each.why.strip() or ", " not in each.source] == []
    fields = {field.name for field in dataclasses.fields(ProfileVar)}
    assert {"why", "source", "since", "until"} <= fields


def test_what_the_published_fabrics_travel_on() -> None:
    assert {name: (each.wire, each.published) for name, each in carrier_by_fabric().items()} == {
        "azure-ib": (Wire.INFINIBAND, "infiniband"),
        "coreweave-ib": (Wire.INFINIBAND, "infiniband"),
        "coreweave-roce": (Wire.ROCE, "spectrum-x"),
        "crusoe-ib": (Wire.INFINIBAND, "infiniband"),
        "efa": (Wire.UNFRAMED, "efa"),
        "gcp-gib": (Wire.ROCE, "roce"),
        "gcp-tcpx": (Wire.UNFRAMED, "tcpx"),
        "gcp-tcpxo": (Wire.UNFRAMED, "tcpxo"),
        "infiniband": (Wire.INFINIBAND, "infiniband"),
        "infiniband-sharp": (Wire.INFINIBAND, "infiniband"),
        "nebius-ib": (Wire.INFINIBAND, "infiniband"),
        "nvlink-only": (Wire.UNFRAMED, "intra-node"),
        "oci": (Wire.ROCE, "roce"),
        "pollara": (Wire.ROCE, "roce"),
        "rocev2": (Wire.ROCE, "roce"),
        "slingshot": (Wire.UNFRAMED, "slingshot"),
        "spectrum-x": (Wire.ROCE, "spectrum-x"),
        "spectrum-x-plugin": (Wire.ROCE, "spectrum-x"),
        "tcp": (Wire.TCP, "tcp"),
        "tcp-100g": (Wire.TCP, "tcp"),
        "thor2": (Wire.ROCE, "roce"),
    }


def test_flows_are_hashed_on_plain_ethernet_only() -> None:
    loaded = [profiles.load(name) for name in profiles.names()]
    hashed = {each.name for each in loaded if each.flow_hashing and each.flow_hashing.value}
    assert hashed == {
        "gcp-gib",
        "gcp-tcpx",
        "gcp-tcpxo",
        "lab",
        "oci",
        "pollara",
        "rocev2",
        "tcp",
        "tcp-100g",
        "thor2",
    }
    assert profiles.load("nvlink-only").link_tool is LinkTool.NONE


FABRICS = ROOT / "harness" / "fabrics"
OTHER_VOCABULARIES = {
    "harness/checks/cloud.py": {"efa": "the provider's name in libfabric"},
    "parsers/tools/fi_info.py": {"efa": "the provider's name in libfabric"},
    "parsers/tools/counters.py": {"tcp": "a section of the counters"},
    "parsers/logs/scan_literals.py": {"roce": "letters that many lines of a log have"},
    "parsers/findings/named_places.py": {"roce": "how names of RDMA devices begin"},
    "parsers/findings/facts.py": {"tcp": "the device of the kernel's TCP counters"},
    "harness/compare/soak_watch.py": {"tcp": "the device of the kernel's TCP counters"},
    "harness/run/binaries.py": {"lab": "a payload"},
    "harness/playbook/form.py": {"lab": "a key of the playbook's YAML"},
    "harness/lab/enter.py": {"lab": "a word of the command line"},
    "harness/inventory/select.py": {"lab": "an inventory"},
    "harness/cli/why_live.py": {"lab": "an inventory"},
    "harness/cli/__init__.py": {"lab": "a command"},
    "harness/cli/examples.py": {"lab": "a command"},
    "parsers/tools/mlnx_tune.py": {"ib": "a link type, as mlnx_tune prints it"},
    "parsers/expect/cluster.py": {"tcp": "a fabric of the published tables"},
    "parsers/expect/baselines.py": {"tcp": "a fabric of the published tables"},
}
"""Where a word that is also a fabric's name decides something else."""


def test_only_the_yaml_of_a_fabric_names_it_to_decide_something() -> None:
    words = {*profiles.names(), *profiles.families()}
    named: dict[str, set[str]] = {}
    for path in python_files():
        found = deciding_words(ast.parse(path.read_text())) & words
        if found:
            named[str(path.relative_to(ROOT))] = found

    assert named == {path: set(words) for path, words in OTHER_VOCABULARIES.items()}


@pytest.mark.parametrize(
    "source",
    [
        'if plan.profile.name == "rocev2": ...',
        'FAMILIES = frozenset({"ib", "roce"})',
        'KEYWORDS = {"efa": ("OFI",)}',
        'match name:\n    case "tcp": ...',
        'class Family(StrEnum):\n    IB = "ib"',
    ],
)
def test_a_name_that_decides_is_seen(source: str) -> None:
    assert deciding_words(ast.parse(source)) & {"ib", "roce", "rocev2", "efa", "tcp"}


def python_files() -> Iterator[Path]:
    for folder in ("harness", "parsers", "reports"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def deciding_words(tree: ast.Module) -> set[str]:
    """The texts that are compared, collected, keys, matched, or members of an enum."""
    words: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case ast.Set() | ast.Tuple() | ast.List():
                parts = node.elts
            case ast.Dict():
                parts = [key for key in node.keys if key is not None]
            case ast.MatchValue():
                parts = [node.value]
            case ast.ClassDef() if any("Enum" in ast.unparse(base) for base in node.bases):
                parts = [each.value for each in node.body if isinstance(each, ast.Assign)]
            case _:
                continue
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                words.add(part.value)
    return words


def test_the_catalogue_names_known_families_only() -> None:
    known = {*profiles.families(), *EveryFabric}
    unknown = {
        entry.id: set(entry.fabrics) - known
        for entry in catalogue.load().entries
        if not set(entry.fabrics) <= known
    }
    assert unknown == {}


def test_profiles_of_one_family_agree_on_it() -> None:
    for name in profiles.names():
        family = profiles.load(name).family
        assert family is None or profiles.families()[family.name] == family
