"""Each profile beside the file that its vendor ships: a wrong value, a missing one, or a difference
that nobody explains is seen."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from scripts import loaded

from busbw.fabrics import profiles

DOCS = Path(__file__).parents[2] / "docs"


TOOL = loaded("docs/tools/vendors.py")
FILES = TOOL.files()


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_the_profile_sets_what_the_vendors_file_sets_or_says_why_not(name: str) -> None:
    (file,) = (each for each in FILES if each.name == name)

    assert TOOL.unexplained(file, profiles.load(file.profile)) == []
    assert TOOL.needless(file, profiles.load(file.profile)) == []


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_a_wrong_value_and_a_missing_one_are_seen(name: str) -> None:
    (file,) = (each for each in FILES if each.name == name)
    profile = profiles.load(file.profile)
    equal = [each.name for each in TOOL.rows(file, profile) if each.ours == each.vendor]
    assert equal
    for planted in equal:
        kept = tuple(variable for variable in profile.env if variable.name != planted)
        wrong = tuple(
            dataclasses.replace(variable, value="wrong")
            for variable in profile.env
            if variable.name == planted
        )
        missing = dataclasses.replace(profile, env=kept)
        changed = dataclasses.replace(profile, env=(*kept, *wrong))
        assert planted in TOOL.unexplained(file, missing)
        assert planted in TOOL.unexplained(file, changed)


RAILS = {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}
BOOTSTRAP = {"NCCL_SOCKET_IFNAME": "=eth0"}
OWN: dict[str, dict[str, str]] = {
    "efa": {"NCCL_NET": "AWS Libfabric", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
    "gcp-gib": BOOTSTRAP | {"NCCL_NET": "gIB"},
    "infiniband": BOOTSTRAP | RAILS | {"NCCL_NET": "IB"},
    "nvlink-only": BOOTSTRAP,
    "rocev2": BOOTSTRAP | RAILS | {"NCCL_NET": "IB"},
    "spectrum-x": BOOTSTRAP | RAILS | {"NCCL_NET": "IB", "NCCL_IB_ADAPTIVE_ROUTING": "1"},
    "tcp": BOOTSTRAP | {"NCCL_NET": "Socket"},
    "thor2": BOOTSTRAP | RAILS | {"NCCL_NET": "IB"},
}
"""The whole environment of the fabrics for which no vendor ships a file of variables."""


@pytest.mark.parametrize("name", OWN)
def test_a_fabric_without_a_vendors_file_sets_this_and_nothing_else(name: str) -> None:
    file = TOOL.VendorFile("", "", "", "", {})
    facts = TOOL.Facts("eth0", ("mlx5_0", "mlx5_1"), "2.30.7")
    rows = TOOL.rows(dataclasses.replace(file, facts=facts), profiles.load(name))
    assert {row.name: row.ours for row in rows} == OWN[name]


def test_every_fabric_of_hardware_has_a_vendors_file_or_its_values_here() -> None:
    assert {file.profile for file in FILES} | set(OWN) == set(profiles.of_hardware())


def test_every_file_says_where_it_is_from_and_when_it_was_seen() -> None:
    for file in FILES:
        assert file.source.startswith("https://"), file.name
        assert file.revision, file.name
        assert len(file.seen) == len("2026-11-23"), file.name
