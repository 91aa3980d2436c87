"""Which value of a variable wins, where it comes from, and what is said of the rest."""

from __future__ import annotations

import dataclasses

import pytest

from busbw import playbook
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import Profile, ProfileVar
from busbw.launch import FabricFacts
from busbw.launch.env import (
    Origins,
    cautions,
    excluded,
    mpi_options,
    parse_overrides,
    resolve,
    setup_script,
    stray,
)
from busbw.model import (
    BenchmarkCase,
    Collective,
    ResolvedVar,
    Settings,
    SetupScript,
    Sizes,
    UnsetVar,
)
from busbw.playbook import Playbook

IB = profiles.load("infiniband")
BOOK = dataclasses.replace(playbook.load("quick"), env=())
CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8, 8))
FACTS = FabricFacts("bond0", ("mlx5_0", "mlx5_3"), "2.27.5", "/tmp/log")


def variables(
    profile: Profile,
    book: Playbook,
    case: BenchmarkCase,
    overrides: Settings,
    facts: FabricFacts,
    site: Settings = (),
) -> tuple[ResolvedVar, ...]:
    return resolve(Origins(profile, book, overrides, site), case, facts).variables


def values(resolved: tuple[ResolvedVar, ...]) -> dict[str, str]:
    return {item.name: item.value for item in resolved}


def test_the_profiles_values_are_filled_with_the_facts_of_the_cluster() -> None:
    assert values(variables(IB, BOOK, CASE, (), FACTS)) == {
        "NCCL_DEBUG": "WARN",
        "NCCL_DEBUG_FILE": "/tmp/log/nccl.%h.%p.log",
        "NCCL_DEBUG_TIMESTAMP_LEVELS": "ALL",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_3",
        "NCCL_NET": "IB",
        "NCCL_SOCKET_IFNAME": "=bond0",
    }


def test_every_value_says_where_it_comes_from_and_why() -> None:
    (net,) = (item for item in variables(IB, BOOK, CASE, (), FACTS) if item.name == "NCCL_NET")
    assert net == ResolvedVar(
        name="NCCL_NET",
        value="IB",
        origin="profile infiniband",
        why="refuses to start when InfiniBand is missing, instead of running silently over TCP",
        source=(
            "NCCL user guide for 2.30 (environment variables),"
            " https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
        ),
        yields=True,
    )


def test_a_proof_run_is_logged_and_a_timed_run_is_not() -> None:
    proof = dataclasses.replace(CASE, purpose="proof")
    assert values(variables(IB, BOOK, proof, (), FACTS))["NCCL_DEBUG"] == "INFO"
    assert "NCCL_DEBUG_SUBSYS" in values(variables(IB, BOOK, proof, (), FACTS))
    assert "NCCL_DEBUG_SUBSYS" not in values(variables(IB, BOOK, CASE, (), FACTS))


def test_a_case_wins_over_the_command_line_that_over_the_playbook_that_over_the_profile() -> None:
    book = dataclasses.replace(
        BOOK, env=(("NCCL_NET", "playbook"), ("A", "playbook"), ("B", "playbook"))
    )
    case = dataclasses.replace(CASE, env=(("A", "case"),))
    resolved = variables(IB, book, case, (("A", "option"), ("B", "option")), FACTS)
    assert [
        (item.name, item.value, item.origin, item.why)
        for item in resolved
        if item.name in ("A", "B", "NCCL_NET")
    ] == [
        ("A", "case", "case all-reduce", "set by the case; instead of 'option' from --env"),
        (
            "B",
            "option",
            "--env",
            "given on the command line; instead of 'playbook' from playbook quick",
        ),
        (
            "NCCL_NET",
            "playbook",
            "playbook quick",
            "set by the playbook for all its cases; instead of 'IB' from profile infiniband",
        ),
    ]


def test_a_value_of_none_takes_the_variable_away_and_a_higher_layer_sets_it_again() -> None:
    book = dataclasses.replace(BOOK, env=(("NCCL_NET", None), ("NCCL_IB_HCA", None)))
    args = (IB, book, CASE, (("NCCL_IB_HCA", "=mlx5_9"), ("NCCL_CROSS_NIC", None)), FACTS)

    assert "NCCL_NET" not in values(variables(*args))
    assert values(variables(*args))["NCCL_IB_HCA"] == "=mlx5_9"
    assert resolve(Origins(IB, book, args[3]), CASE, FACTS).unset == (
        UnsetVar("NCCL_CROSS_NIC", "--unset", "given on the command line"),
        UnsetVar("NCCL_NET", "playbook quick", "unset by the playbook for all its cases"),
    )


def test_the_inventory_wins_over_the_profile_and_yields_to_the_playbook() -> None:
    book = dataclasses.replace(BOOK, env=(("A", "playbook"),))
    resolved = variables(IB, book, CASE, (), FACTS, (("A", "site"), ("NCCL_NET", "site")))
    assert [(item.value, item.origin) for item in resolved if item.name in ("A", "NCCL_NET")] == [
        ("playbook", "playbook quick"),
        ("site", "inventory"),
    ]


def test_only_a_profiles_values_yield_to_a_setup_script_and_never_those_of_the_log() -> None:
    resolved = variables(IB, BOOK, CASE, (("NCCL_CROSS_NIC", "0"),), FACTS)
    assert {item.name for item in resolved if item.yields} == {
        "NCCL_IB_HCA",
        "NCCL_NET",
        "NCCL_SOCKET_IFNAME",
    }


def test_the_playbooks_setup_script_wins_over_the_inventorys_that_over_the_profiles() -> None:
    gib = profiles.load("gcp-gib")
    book = dataclasses.replace(BOOK, setup="/opt/book.sh")
    assert setup_script(IB, BOOK) is None
    assert setup_script(gib, BOOK) == SetupScript(
        "/usr/local/gib/scripts/set_nccl_env.sh", "profile gcp-gib", optional=True
    )
    assert setup_script(gib, BOOK, "/opt/site.sh") == SetupScript("/opt/site.sh", "inventory")
    assert setup_script(gib, book, "/opt/site.sh") == SetupScript("/opt/book.sh", "playbook quick")


@pytest.mark.parametrize(
    ("unset", "what"),
    [
        (("A B",), "--unset: 'A B' is not the name of a variable"),
        (("A",), "A is given to --env and to --unset"),
    ],
)
def test_a_variable_cannot_be_set_and_unset_at_once(unset: tuple[str, ...], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_overrides(("A=1",), unset)
    assert caught.value.what == what


@pytest.mark.parametrize(
    ("machine", "rails", "expected"),
    [
        ("BM.GPU.A100-v2.8", (), ("4", "=mlx5_1,")),
        ("BM.GPU.H200.8", (), (None, "=mlx5_0,mlx5_3,")),
        ("BM.GPU.H200.8", ("mlx5_7",), (None, "=mlx5_7")),
        (None, (), (None, "")),
    ],
)
def test_a_value_for_named_machines_is_set_on_those_alone(
    machine: str | None, rails: tuple[str, ...], expected: tuple[str | None, str]
) -> None:
    facts = dataclasses.replace(FACTS, machine=machine, rails=rails)
    found = values(variables(profiles.load("oci"), BOOK, CASE, (), facts))
    assert found["NCCL_IB_TC"] == "41"
    assert found.get("NCCL_IB_QPS_PER_CONNECTION") == expected[0]
    assert found.get("NCCL_IB_HCA", "").startswith(expected[1])


def test_groups_are_cut_by_the_case_alone() -> None:
    resolved = variables(
        profiles.load("lab"),
        BOOK,
        dataclasses.replace(CASE, split="DIV 2"),
        (("NCCL_TESTS_SPLIT", "MOD 8"),),
        FACTS,
    )
    assert values(resolved)["NCCL_TESTS_SPLIT"] == "DIV 2"


def test_a_value_whose_fact_is_not_known_is_left_out_and_reported() -> None:
    assert values(variables(IB, BOOK, CASE, (), FabricFacts())) == {
        "NCCL_DEBUG": "WARN",
        "NCCL_DEBUG_TIMESTAMP_LEVELS": "ALL",
        "NCCL_NET": "IB",
    }
    assert excluded(IB, FabricFacts("eth0")) == (
        "NCCL_DEBUG_FILE is not set: {log_dir}/nccl.%h.%p.log is not known",
        "NCCL_IB_HCA is not set: ={rails} is not known",
    )


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.25.1", {"always", "ending"}),
        ("2.26", {"always", "new", "ending"}),
        ("2.30.4", {"always", "new"}),
        (None, {"always", "new"}),
    ],
)
def test_a_value_is_set_for_the_versions_it_is_for(version: str | None, names: set[str]) -> None:
    profile = dataclasses.replace(
        IB,
        env=(
            ProfileVar("always", "1", "w", "s"),
            ProfileVar("new", "1", "w", "s", since="2.26"),
            ProfileVar("ending", "1", "w", "s", until="2.30"),
        ),
    )
    assert (
        set(values(variables(profile, BOOK, CASE, (), FabricFacts(nccl_version=version)))) == names
    )


def test_mca_parameters_are_filled_or_left_out() -> None:
    lab = profiles.load("lab")
    assert [
        (item.name, item.value) for item in mpi_options(lab, FabricFacts(None, ("eth0", "eth1")))
    ] == [
        ("btl", "tcp,self"),
        ("mpi_yield_when_idle", "1"),
    ]


@pytest.mark.parametrize(
    ("override", "caution"),
    [
        (
            ("NCCL_IB_HCA", "mlx5_0"),
            (
                "NCCL_IB_HCA=mlx5_0 (--env): pins one rail; on a node with eight that is an eighth"
                " of the bandwidth; instead: leave it unset, or name all compute rails exactly"
                " (=mlx5_0,mlx5_3,…)"
            ),
        ),
        (
            ("NCCL_NET_GDR_LEVEL", "5"),
            (
                "NCCL_NET_GDR_LEVEL=5 (--env): integers above 4 mean SYS, which sends GPUDirect"
                " RDMA across the CPU interconnect, often slower than staging and sometimes"
                " failing; instead: leave it unset; PXB or PHB as an experiment"
            ),
        ),
        (
            ("NCCL_IB_GID_INDEX", "3"),
            (
                "NCCL_IB_GID_INDEX=3 (--env): automatic since NCCL 2.21; a wrong index gives"
                " modify_qp failures or RoCE v1; instead: leave it unset; NCCL_IB_ADDR_RANGE if the"
                " choice must be narrowed"
            ),
        ),
        (
            ("NCCL_COLLNET_ENABLE", "1"),
            (
                "NCCL_COLLNET_ENABLE=1 (--env): without the nccl-rdma-sharp plugin in the library"
                " path, the aggregation manager (sharp_am) and GPUDirect RDMA it is quietly"
                " ignored; instead: check sharp_am and the plugin first, then look for CollNet"
                " channels in the log"
            ),
        ),
        (("NCCL_P2P_DISABLE", "1"), "NCCL_P2P_DISABLE=1 (--env): cuts NVLink; diagnostic only"),
    ],
)
def test_settings_from_articles_that_do_harm_are_explained_and_still_set(
    override: tuple[str, str], caution: str
) -> None:
    resolved = variables(IB, BOOK, CASE, (override,), FACTS)
    assert values(resolved)[override[0]] == override[1]
    assert cautions(IB, resolved) == (caution,)


def test_the_profiles_own_values_need_no_caution() -> None:
    for name in profiles.names():
        profile = profiles.load(name)
        assert cautions(profile, variables(profile, BOOK, CASE, (), FACTS)) == ()


def test_all_rails_by_name_need_no_caution() -> None:
    assert (
        cautions(IB, variables(IB, BOOK, CASE, (("NCCL_IB_HCA", "=mlx5_0,mlx5_3"),), FACTS)) == ()
    )


def test_what_steers_nccl_or_mpi_in_the_callers_shell_is_found() -> None:
    environ = {
        "NCCL_IB_HCA": "mlx5_0",
        "PATH": "/bin",
        "UCX_TLS": "rc",
        "OMPI_MCA_btl": "tcp",
        "FI_PROVIDER": "efa",
        "NCCL_HOME": "/opt/nccl",
        "NCCL_TESTS_SPLIT": "x",
    }
    assert stray(environ) == (
        "FI_PROVIDER=efa",
        "NCCL_IB_HCA=mlx5_0",
        "NCCL_TESTS_SPLIT=x",
        "OMPI_MCA_btl=tcp",
        "UCX_TLS=rc",
    )


def test_overrides_are_read_in_the_order_given() -> None:
    assert parse_overrides(("NCCL_B=2", "NCCL_A=x=y", "EMPTY=", "NCCL_B=2")) == (
        ("NCCL_B", "2"),
        ("NCCL_A", "x=y"),
        ("EMPTY", ""),
    )


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (("NCCL_DEBUG",), "--env 'NCCL_DEBUG': expected NAME=VALUE"),
        (("A B=1",), "--env: 'A B' is not the name of a variable"),
        (("A=1\n2",), "--env: the value of A holds a control character"),
        (
            ("HF_TOKEN=x",),
            "--env: 'HF_TOKEN' looks like a secret, and every variable is written into the report",
        ),
        (("A=1", "A=2"), "--env A is given twice, as '1' and '2'"),
    ],
)
def test_an_override_that_cannot_be_meant_is_refused(items: tuple[str, ...], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_overrides(items)
    assert caught.value.what == what
    assert "x" not in caught.value.seen
