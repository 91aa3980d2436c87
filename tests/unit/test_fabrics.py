"""The contract of the fabric profiles: every value has a reason and a source, and what does harm is
never set."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from string import Formatter

import pytest

from busbw import playbook
from busbw.checks.frame import families
from busbw.errors import PlaybookError
from busbw.fabrics import profiles
from busbw.fabrics.profile import Profile

VALIDATED = {
    ("gcp-tcpxo", "NCCL_PROTO"),
    ("gcp-tcpx", "NCCL_BUFFSIZE"),
    ("infiniband-sharp", "NCCL_COLLNET_ENABLE"),
}
"""Values that do harm, or nothing, without what the profile is for: a vendor's plugin, SHARP."""
PLACEHOLDERS = {"socket_ifname", "rails", "log_dir"}
PROFILES = [profiles.load(name) for name in profiles.names()]


def ids(item: Profile) -> str:
    return item.name


def test_these_fabrics_are_known() -> None:
    assert profiles.names() == (
        "azure-ib",
        "coreweave-ib",
        "coreweave-roce",
        "crusoe-ib",
        "efa",
        "gcp-gib",
        "gcp-tcpx",
        "gcp-tcpxo",
        "infiniband",
        "infiniband-sharp",
        "lab",
        "nebius-ib",
        "nvlink-only",
        "oci",
        "pollara",
        "rocev2",
        "slingshot",
        "spectrum-x",
        "spectrum-x-plugin",
        "tcp",
        "tcp-100g",
        "thor2",
    )


@pytest.mark.parametrize("fabric", PROFILES, ids=ids)
def test_every_value_has_a_reason_and_a_source(fabric: Profile) -> None:
    assert fabric.title
    assert fabric.applies_to
    for item in (*fabric.env, *fabric.trials, *fabric.never_set, *fabric.harmful, *fabric.mpi):
        assert item.why.strip(), item
        assert re.fullmatch(r".+, (https://\S+|docs/\S+)", item.source), item


@pytest.mark.parametrize("fabric", PROFILES, ids=ids)
def test_no_profile_sets_what_must_never_be_set(fabric: Profile) -> None:
    assert {item.name for item in fabric.env} & {item.name for item in fabric.never_set} == set()
    trials = {item.name for item in fabric.trials}
    assert trials & {item.name for item in fabric.never_set} <= {"NCCL_NVLS_ENABLE"}


@pytest.mark.parametrize("fabric", PROFILES, ids=ids)
def test_no_profile_sets_a_value_that_is_known_to_do_harm(fabric: Profile) -> None:
    common = profiles.load("infiniband").harmful
    cloud = {"gcp-tcpx", "gcp-tcpxo", "azure-ib"}
    for item in fabric.env:
        hits = [
            bad
            for bad in common
            if bad.name == item.name
            and any(fnmatchcase(item.value or "", glob) for glob in bad.values)
        ]
        # On these machines eth0 is the provider's own name for the control network, and the
        # provider validated the other values with its plugin.
        allowed = fabric.name in cloud and (item.name, item.value) == ("NCCL_SOCKET_IFNAME", "eth0")
        assert hits == [] or allowed or (fabric.name, item.name) in VALIDATED, item


@pytest.mark.parametrize("fabric", PROFILES, ids=ids)
def test_placeholders_are_known_and_names_are_set_once(fabric: Profile) -> None:
    for item in (*fabric.env, *fabric.mpi):
        parts = Formatter().parse(item.value or "")
        assert {name for _, name, _, _ in parts if name is not None} <= PLACEHOLDERS
    # A value made of the cluster's facts may follow the plain one that it replaces.
    keys = [
        (item.name, item.purposes, item.machines, "{" in (item.value or "")) for item in fabric.env
    ]
    assert len(keys) == len(set(keys))
    options = [(item.name, item.since, item.until) for item in fabric.mpi]
    assert len(options) == len(set(options))


@pytest.mark.parametrize("fabric", [item for item in PROFILES if item.name != "lab"], ids=ids)
def test_every_fabric_with_gpus_says_what_the_log_must_show_and_what_must_be_checked(
    fabric: Profile,
) -> None:
    assert fabric.must_see.networks or fabric.name == "nvlink-only"
    assert {"ssh.connect", "gpu.count", "sw.mpirun"} <= set(fabric.checks.required)


CHECK_IDS = {"ssh.connect"} | {check_id for family in families() for check_id in family.ids}


@pytest.mark.parametrize("fabric", PROFILES, ids=ids)
def test_every_check_that_a_fabric_requires_exists(fabric: Profile) -> None:
    assert set(fabric.checks.required) - CHECK_IDS == set()


@pytest.mark.parametrize("name", playbook.names())
def test_every_check_that_a_playbook_requires_exists(name: str) -> None:
    assert set(playbook.load(name).checks.required) - CHECK_IDS == set()


def test_a_fabric_over_rdma_refuses_to_run_over_tcp() -> None:
    nets = {
        item.name: [variable.value for variable in item.env if variable.name == "NCCL_NET"]
        for item in PROFILES
    }
    assert nets == {
        "azure-ib": ["IB"],
        "coreweave-ib": ["IB"],
        "coreweave-roce": ["IB"],
        "crusoe-ib": ["IB"],
        "efa": ["AWS Libfabric"],
        "gcp-gib": ["gIB"],
        "gcp-tcpx": ["GPUDirectTCPX_v7"],
        "gcp-tcpxo": [],
        "infiniband": ["IB"],
        "infiniband-sharp": [None],
        "lab": [],
        "nebius-ib": ["IB"],
        "nvlink-only": [],
        "oci": ["IB"],
        "pollara": [None],
        "rocev2": ["IB"],
        "slingshot": ["AWS Libfabric"],
        "spectrum-x": ["IB"],
        "spectrum-x-plugin": [None],
        "tcp": ["Socket"],
        "tcp-100g": ["Socket"],
        "thor2": ["IB"],
    }


def test_what_a_profile_inherits_can_be_replaced_by_name() -> None:
    plain = {item.name: item.value for item in profiles.load("infiniband").env if not item.purposes}
    azure = {item.name: item.value for item in profiles.load("azure-ib").env if not item.purposes}
    assert (plain["NCCL_SOCKET_IFNAME"], azure["NCCL_SOCKET_IFNAME"]) == (
        "={socket_ifname}",
        "eth0",
    )
    assert set(plain) < set(azure)


def test_the_lab_sets_no_variable_of_nccl_and_sends_only_the_data_over_its_links() -> None:
    lab = profiles.load("lab")
    assert [(item.name, item.value) for item in lab.env] == [
        ("LAB_RAILS", "{rails}"),
        ("LAB_RAIL_BY_LOCAL_RANK", "1"),
    ]
    assert [(item.name, item.value) for item in lab.mpi] == [
        ("btl", "tcp,self"),
        ("btl_tcp_if_include", "{socket_ifname}"),
        ("oob_tcp_if_include", "{socket_ifname}"),
        ("prte_if_include", "{socket_ifname}"),
        ("mpi_yield_when_idle", "1"),
    ]


def test_an_unknown_fabric_lists_the_known_ones() -> None:
    with pytest.raises(PlaybookError) as caught:
        profiles.load("infinband")
    assert caught.value.what == "unknown fabric profile 'infinband'; did you mean 'infiniband'?"


def test_what_is_only_there_to_be_inherited_cannot_be_chosen() -> None:
    with pytest.raises(PlaybookError):
        profiles.load("common")


def test_the_page_of_the_profiles_is_the_one_made_from_them() -> None:
    docs = Path(__file__).parents[2] / "docs"
    generated = subprocess.run(
        (sys.executable, docs / "tools" / "fabrics_page.py"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = (docs / "fabrics.md").read_text(encoding="utf-8")
    assert page == generated, "python docs/tools/fabrics_page.py > docs/fabrics.md"
