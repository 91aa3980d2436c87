"""Settings of NCCL that do not do what they say: value, release, another setting, another node."""

from __future__ import annotations

import dataclasses
import tarfile
from pathlib import Path

import pytest

from busbw.assess import launches, planned
from busbw.assess.checks import load_plan
from busbw.checks import NodeAnswer, Policy, SectionOutput, frame
from busbw.checks.frame import families
from busbw.fabrics.nccl_settings import SETTINGS, Setting, Trouble, remarks
from busbw.model import CheckResult, Node, ResolvedVar, Status
from busbw.store.run_directory import RunDir

FAILOVER = "NCCL_IB_RESILIENCY_PORT_FAILOVER"
BAD = {
    "NCCL_CTA_POLICY": "fast",
    "NCCL_NETDEVS_POLICY": "MAX:0",
    "NCCL_IB_DATA_DIRECT": "yes",
    FAILOVER: "true",
    f"{FAILOVER}_MAX_ATTEMPTS": "all",
    f"{FAILOVER}_PROBE_DELAY": "10ms",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY": "on",
    "NCCL_MNNVL_ENABLE": "3",
    "NCCL_MNNVL_RAIL_PER_HOST": "true",
    "NCCL_NET_GDR_C2C": "PHB",
    "NCCL_PXN_C2C": "-1",
    "NCCL_IB_OOO_RQ": "on",
    "NCCL_SOCKET_NTHREADS": "17",
    "NCCL_NSOCKS_PERTHREAD": "auto",
    "NCCL_IB_TIMEOUT": "32",
    "NCCL_IB_RETRY_CNT": "10",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: str(setting.name))
def test_a_value_that_nccl_does_not_know_is_named(setting: Setting) -> None:
    name = setting.name
    found = [each for each in remarks({name: BAD[name]}) if each.trouble is Trouble.VALUE]
    assert [each.name for each in found] == [name]
    assert f"{name}={BAD[name]} is not " in found[0].text


@pytest.mark.parametrize(
    ("settings", "release", "text"),
    [
        ({"NCCL_CTA_POLICY": "1"}, "2.26.6", "NCCL_CTA_POLICY=1 is of NCCL 2.27.3, and 2.26.6 is installed: it is not read"),
        ({"NCCL_CTA_POLICY": "2"}, "2.27.7", "NCCL_CTA_POLICY=2 is of NCCL 2.28, and 2.27.7 is installed: an older one takes 0"),
        ({"NCCL_CTA_POLICY": "ZERO"}, "2.28.9", "NCCL_CTA_POLICY=ZERO is of NCCL 2.29.2, and 2.28.9 is installed:"
            " an older one reads the word as 0 or not at all"),
        ({"NCCL_NETDEVS_POLICY": "ALL"}, "2.27.7", "NCCL_NETDEVS_POLICY=ALL is of NCCL 2.28.3, and 2.27.7 is installed: it is not read"),
        ({"NCCL_IB_DATA_DIRECT": "2"}, "2.27.5", "NCCL_IB_DATA_DIRECT=2 is of NCCL 2.27.6, and 2.27.5 is installed: an older one takes 1"),
        ({FAILOVER: "1"}, "2.28.9", f"{FAILOVER}=1 is of NCCL 2.29.7, and 2.28.9 is installed: it is not read"),
        ({FAILOVER: "1", "NCCL_IB_RESILIENCY_PORT_RECOVERY": "1"}, "2.29.7",
            "NCCL_IB_RESILIENCY_PORT_RECOVERY=1 is of NCCL 2.30.3, and"
            " 2.29.7 is installed: it is not read"),
        ({"NCCL_MNNVL_RAIL_PER_HOST": "1"}, "2.28.3", "NCCL_MNNVL_RAIL_PER_HOST=1 is of NCCL 2.28.7, and 2.28.3 is installed: it is not read"),
    ],
)  # fmt: skip
def test_a_setting_of_a_newer_release_is_named(
    settings: dict[str, str], release: str, text: str
) -> None:
    assert [each.text for each in remarks(settings, [release])] == [text]
    assert remarks(settings, [release, "2.30.7+cuda13.0"]) == ()
    assert remarks(settings) == ()


@pytest.mark.parametrize(
    ("settings", "name", "word"),
    [
        ({"NCCL_CTA_POLICY": "ZERO|EFFICIENCY"}, "NCCL_CTA_POLICY", "drops EFFICIENCY"),
        ({"NCCL_CTA_POLICY": "1", "NCCL_ALGO": "Ring"}, "NCCL_CTA_POLICY", "NCCL_ALGO is set"),
        ({"NCCL_IB_RESILIENCY_PORT_RECOVERY": "1"}, "NCCL_IB_RESILIENCY_PORT_RECOVERY", f"without {FAILOVER}=1"),
        ({FAILOVER: "1", "NCCL_IB_MERGE_NICS": "0"}, FAILOVER, "NCCL_IB_MERGE_NICS=0"),
        ({FAILOVER: "1", "NCCL_NET": "Socket"}, FAILOVER, "NCCL_NET=Socket"),
        ({"NCCL_IB_DATA_DIRECT": "1", "NCCL_NET": "AWS Libfabric"}, "NCCL_IB_DATA_DIRECT", "NCCL_NET=AWS Libfabric"),
        ({"NCCL_IB_OOO_RQ": "1", "NCCL_IB_AR_THRESHOLD": "4096"}, "NCCL_IB_AR_THRESHOLD", "NCCL_IB_OOO_RQ=1"),
        ({"NCCL_SOCKET_NTHREADS": "8", "NCCL_NSOCKS_PERTHREAD": "16"}, "NCCL_NSOCKS_PERTHREAD", "NCCL takes 8"),
        ({"NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "0"}, "NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE=0"),
        ({"NCCL_MNNVL_RAIL_PER_HOST": "1", "NCCL_MNNVL_ENABLE": "0"}, "NCCL_MNNVL_RAIL_PER_HOST", "NCCL_MNNVL_ENABLE=0"),
        ({"NCCL_MNNVL_RAIL_PER_HOST": "1", "NCCL_CROSS_NIC": "1"}, "NCCL_MNNVL_RAIL_PER_HOST", "NCCL_CROSS_NIC=1"),
        ({"NCCL_NET_GDR_C2C": "1", "NCCL_NET_GDR_LEVEL": "PXB"}, "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL=PXB"),
    ],
)  # fmt: skip
def test_a_setting_that_another_one_cancels_is_named(
    settings: dict[str, str], name: str, word: str
) -> None:
    (found,) = remarks(settings)
    assert (found.trouble, found.name) == (Trouble.CONFLICT, name)
    assert word in found.text


def test_settings_that_go_together_are_well() -> None:
    good = {
        "NCCL_CTA_POLICY": "EFFICIENCY", "NCCL_NETDEVS_POLICY": "max:2", "NCCL_IB_DATA_DIRECT": "2", FAILOVER: "1",
        "NCCL_IB_RESILIENCY_PORT_RECOVERY": "1", "NCCL_MNNVL_ENABLE": "2", "NCCL_MNNVL_RAIL_PER_HOST": "1", "NCCL_CROSS_NIC": "0",
        "NCCL_NET_GDR_C2C": "1", "NCCL_NET_GDR_LEVEL": "PHB", "NCCL_NET": "IB", "NCCL_IB_TIMEOUT": "22", "NCCL_IB_RETRY_CNT": "7",
    }  # fmt: skip
    assert remarks(good, ["2.30.7"]) == ()


def answer(name: str, **texts: str) -> NodeAnswer:
    contents = {"nccl_conf": "", "environment": "", "nccl_library": ""} | texts
    sections = {key: SectionOutput(key, text, "", 0, 1) for key, text in contents.items()}
    return NodeAnswer(Node(name), sections, f"raw/preflight/{name}.txt", None)


def results(check_id: str, *answers: NodeAnswer) -> tuple[CheckResult, ...]:
    judged = frame.judge(families(), answers, Policy("test", ("*",), ()))
    return tuple(result for result in judged if result.check_id == check_id)


OLD = "nccl /usr/lib/libnccl.so.2.26.2\n"
LIBRARY = "nccl /usr/lib/libnccl.so.2.30.7\n"


@pytest.mark.parametrize(
    ("texts", "status", "seen"),
    [
        ({}, Status.PASS, "none"),
        ({"nccl_conf": "NCCL_CTA_POLICY=1\n", "nccl_library": LIBRARY}, Status.PASS, "NCCL_CTA_POLICY=1"),
        ({"nccl_conf": "NCCL_NETDEVS_POLICY=BEST\n"}, Status.FAIL,
            "NCCL_NETDEVS_POLICY=BEST is not AUTO, ALL or MAX:n with n from 1: it takes AUTO"),
        ({"environment": f"{FAILOVER}=1\n", "nccl_library": OLD}, Status.WARN,
            f"{FAILOVER}=1 is of NCCL 2.29.7, and 2.26.2 is installed: it is not read"),
        ({"nccl_conf": "NCCL_IB_RESILIENCY_PORT_RECOVERY=1\n"}, Status.WARN, f"NCCL_IB_RESILIENCY_PORT_RECOVERY=1 does nothing without {FAILOVER}=1"),
        ({"nccl_conf": "NCCL_CTA_POLICY=9\n", "environment": "NCCL_CTA_POLICY=1\n"}, Status.PASS, "NCCL_CTA_POLICY=1"),
    ],
)  # fmt: skip
def test_the_settings_of_a_node_are_read(texts: dict[str, str], status: Status, seen: str) -> None:
    (result,) = results("sw.nccl_settings", answer("n1", **texts))
    assert (result.status, result.seen) == (status, seen)


def test_a_node_with_other_settings_than_most_is_named() -> None:
    conf = f"{FAILOVER}=1\nNCCL_SOCKET_IFNAME=eth{{}}\nNCCL_DEBUG=INFO\n"
    nodes = [answer(f"n{i}", nccl_conf=conf.format(i)) for i in range(3)]
    odd = answer("n3", nccl_conf=f"{FAILOVER}=0\n", environment="NCCL_MNNVL_ENABLE=0\n")
    by_node = {each.node: each for each in results("cross.nccl_settings", *nodes, odd)}
    assert [by_node[f"n{i}"].status for i in range(4)] == [Status.PASS] * 3 + [Status.FAIL]
    assert by_node["n3"].seen == f"{FAILOVER}=0, NCCL_MNNVL_ENABLE=0"
    assert by_node["n3"].expected == f"the same on all nodes: {FAILOVER}=1 (3 of 4)"


def test_a_run_names_the_variables_that_its_nccl_did_not_read(tmp_path: Path) -> None:
    """Composed: the recorded lab run, as if its nodes were real and its NCCL 2.26.2."""
    recorded = Path(__file__).parents[1] / "fixtures/lab_runs/healthy.tar.xz"
    with tarfile.open(recorded) as packed:
        packed.extractall(tmp_path, filter="data")
    run = RunDir(tmp_path)
    plan = load_plan(run)
    env = (
        ResolvedVar(FAILOVER, "1", "--env", "", ""),
        ResolvedVar("NCCL_NETDEVS_POLICY", "BEST", "--env", "", ""),
    )
    made = []
    for launch in launches.load(run, {}):
        invocation = dataclasses.replace(launch.artefact.invocation, env=env)
        results = tuple(dataclasses.replace(each, nccl_version="2.26.2") for each in launch.results)
        artefact = dataclasses.replace(launch.artefact, invocation=invocation)
        made.append(dataclasses.replace(launch, artefact=artefact, results=results))
    real = dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, emulated=False))
    found = tuple(planned.unread_settings(real, tuple(made)))
    assert [(each.id, each.status, each.title) for each in found] == [
        ("nccl-setting-unread", Status.WARN, f"{FAILOVER}=1 is of NCCL 2.29.7, and 2.26.2 is installed: it is not read"),
        ("nccl-setting-unread", Status.WARN, "NCCL_NETDEVS_POLICY=BEST is not AUTO, ALL or MAX:n with n from 1: it takes AUTO"),
    ]  # fmt: skip
    assert tuple(planned.unread_settings(plan, tuple(made))) == ()
