"""RoCE packets outside the lossless class: from NCCL_IB_TC and `mlnx_qos`, in the format of
mlnx_qos of MLNX_OFED 5 and DOCA."""

from __future__ import annotations

import pytest

from busbw.assess.traffic_class import mismatches
from busbw.checks import NodeAnswer, SectionOutput
from busbw.fabrics import profiles
from busbw.model import Node, SetupScript
from busbw.store.artefacts import SetupArtefact, SetupNode

MAP = "\n".join(
    f"\tprio:{priority} dscp:{','.join(f'{dscp:02d}' for dscp in range(priority * 8, priority * 8 + 8))},"
    for priority in range(8)
)
QOS = (
    "== ens1np0\nDCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n"
    f"{MAP}\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    "\tenabled     0   0   0   1   0   0   0   0   \n"
)
ROCE = profiles.load("rocev2")


def answer(name: str = "n1", **texts: str) -> NodeAnswer:
    contents = {"mlnx_qos": QOS} | texts
    sections = {key: SectionOutput(key, text, "", 0, 1) for key, text in contents.items()}
    return NodeAnswer(Node(name), sections, f"raw/preflight/{name}.txt", None)


WAITS = (
    "a packet dropped there is missed for up to 4.29 s, and 8 such waits end the job"
    " (NCCL_IB_TIMEOUT=20, NCCL_IB_RETRY_CNT=7)"
)
TWO = (answer("n1"), answer("n2"))
WOULD = "and flow control is on priority 3 (NCCL_IB_TC=106 would be in it)"


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ({}, [f"NCCL_IB_TC is not set, so 0 (DSCP 0, priority 0), {WOULD} on n[1-2]; {WAITS}"]),
        (
            {"NCCL_IB_TC": "41"},
            [f"NCCL_IB_TC=41 (DSCP 10, priority 1), {WOULD} on n[1-2]; {WAITS}"],
        ),
        ({"NCCL_IB_TC": "106"}, []),
        ({"NCCL_IB_TC": "96"}, []),
    ],
)
def test_the_class_measured_must_have_flow_control(
    settings: dict[str, str], texts: list[str]
) -> None:
    assert [each.text for each in mismatches(ROCE, settings, None, TWO)] == texts


def test_what_a_dropped_packet_costs_is_reported_with_the_time_out_of_the_ranks() -> None:
    conf = (answer("n1", nccl_conf="NCCL_IB_TIMEOUT=14\n"), answer("n2"))
    found = mismatches(ROCE, {"NCCL_IB_RETRY_CNT": "3"}, None, conf)
    assert [(each.nodes, each.text.partition("; ")[2]) for each in found] == [
        (("n1",), "a packet dropped there is missed for up to 0.0671 s, and 4 such waits end the job (NCCL_IB_TIMEOUT=14, NCCL_IB_RETRY_CNT=3)"),
        (("n2",), "a packet dropped there is missed for up to 4.29 s, and 4 such waits end the job (NCCL_IB_TIMEOUT=20, NCCL_IB_RETRY_CNT=3)"),
    ]  # fmt: skip


def test_what_a_setup_script_or_nccl_conf_sets_counts() -> None:
    script = SetupArtefact(
        SetupScript("/opt/env.sh", "inventory"),
        (SetupNode("n1", "a", (("NCCL_IB_TC", "106"),)), SetupNode("n2", "a")),
    )
    (found,) = mismatches(ROCE, {}, script, TWO)
    assert found.nodes == ("n2",)
    conf = (answer("n1", nccl_conf="== /etc/nccl.conf\nNCCL_IB_TC=106\n"),)
    assert mismatches(ROCE, {}, None, conf) == ()


@pytest.mark.parametrize("name", ["infiniband", "tcp", "gcp-gib", "efa"])
def test_only_roce_through_the_own_transport_is_compared(name: str) -> None:
    assert mismatches(profiles.load(name), {}, None, TWO) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "== ens1np0\nneeds root\n",
        QOS.replace("dscp\n", "pcp\n"),
        QOS.replace("1   0   0   0   0   \n", "0   0   0   0   0   \n"),
    ],
)
def test_a_node_that_does_not_tell_its_lossless_class_is_left_to_the_check(text: str) -> None:
    assert mismatches(ROCE, {}, None, (answer(mlnx_qos=text),)) == ()
