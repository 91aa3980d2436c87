"""A fabric is one YAML file: added to a copy of the package, it is planned, judged and surveyed; and
the contract that every value of every fabric keeps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from scratch_copy import scratch_copy

from busbw.fabrics import fabric
from busbw.fabrics.fabric import LinkTool, Wire, carrier_by_fabric

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
"""


def test_a_fabric_is_one_file(tmp_path: Path) -> None:
    copy = scratch_copy(tmp_path)
    (copy.package / "fabrics" / "slingshot.yaml").write_text(SLINGSHOT)

    planned = copy.run(
        *("run", "-w", "n[1-4]", "-p", "slingshot", "--nccl-tests", "/opt/bin", "--survey"),
        "--dry-run",
    )
    expected = copy.run(
        *("expect", "--gpu", "H100", "--nodes", "4", "--nics", "4x200"),
        *("--fabric", "slingshot", "--collective", "all_reduce"),
    )
    mistyped = copy.run("run", "-w", "n1", "-p", "slingshat", "--dry-run")

    assert planned.returncode == 0, planned.stderr
    assert "NCCL_NET=AWS Libfabric" in planned.stdout
    assert "# link baseline: no tool measures a single link" in planned.stdout
    assert expected.returncode == 0, expected.stderr
    assert "GB/s" in expected.stdout
    assert "did you mean 'slingshot'" in mistyped.stderr
    assert copy.changed() == ["fabrics/slingshot.yaml"]


@pytest.mark.parametrize("name", fabric.names())
def test_every_value_has_a_reason_and_a_source(name: str) -> None:
    profile = fabric.load(name)
    values = [*profile.env, *profile.trials, *profile.never_set, *profile.harmful, *profile.mpi]
    values += [each for each in (profile.carrier, profile.flow_hashing) if each is not None]

    assert [each for each in values if not each.why.strip() or ", " not in each.source] == []
    fields = {field.name for field in dataclasses.fields(fabric.ProfileVar)}
    assert {"why", "source", "since", "until"} <= fields


def test_what_the_published_fabrics_travel_on() -> None:
    assert {name: (each.wire, each.published) for name, each in carrier_by_fabric().items()} == {
        "azure-ib": (Wire.INFINIBAND, "infiniband"),
        "efa": (Wire.UNFRAMED, "efa"),
        "gcp-gib": (Wire.ROCE, "roce"),
        "gcp-tcpx": (Wire.UNFRAMED, "tcpx"),
        "gcp-tcpxo": (Wire.UNFRAMED, "tcpxo"),
        "infiniband": (Wire.INFINIBAND, "infiniband"),
        "nvlink-only": (Wire.UNFRAMED, "intra-node"),
        "rocev2": (Wire.ROCE, "roce"),
        "spectrum-x": (Wire.ROCE, "spectrum-x"),
        "tcp": (Wire.TCP, "tcp"),
    }


def test_flows_are_hashed_on_plain_ethernet_only() -> None:
    loaded = [fabric.load(name) for name in fabric.names()]
    hashed = {each.name for each in loaded if each.flow_hashing and each.flow_hashing.value}
    assert hashed == {"gcp-gib", "gcp-tcpx", "gcp-tcpxo", "lab", "rocev2", "tcp"}
    assert fabric.load("nvlink-only").link_tool is LinkTool.NONE
