"""Which fabric profile fits: from the answers of nodes, with the facts that decided, and never
where two fit."""

from __future__ import annotations

import dataclasses

import pytest
from plans import bare_playbook, run_plan

from busbw.assess import detection
from busbw.assess.detection import Guess
from busbw.checks import NodeAnswer, SectionOutput
from busbw.errors import UsageError
from busbw.fabrics import profile, profiles
from busbw.model import Cluster, Node
from busbw.store.plan import RunPlan

GOOGLE, MICROSOFT = (
    "vendor=Google\nproduct=Google Compute Engine\n",
    "vendor=Microsoft Corporation\nproduct=Virtual Machine\n",
)


EFA = "".join(
    f"rdma {name} present 1\nport {name} 1 state 4: ACTIVE\n"
    f"port {name} 1 rate 100 Gb/sec (4X EDR)\nport {name} 1 link_layer Unspecified\n"
    for name in ("rdmap16s27", "rdmap32s27")
)


def sysfs(
    count: int,
    layer: str,
    rate: str = "400 Gb/sec (4X NDR)",
    hca: str = "MT4129",
    state: str = "4: ACTIVE",
) -> str:
    lines = []
    for number in range(count):
        lines += [
            f"rdma mlx5_{number} hca_type {hca}",
            f"port mlx5_{number} 1 state {state}",
            f"port mlx5_{number} 1 rate {rate}",
        ]
        lines.append(f"port mlx5_{number} 1 link_layer {layer}")
    return "\n".join(lines) + "\n"


def answer(name: str = "n1", **texts: str) -> NodeAnswer:
    contents = {"rdma_sysfs": "", "fabric_marks": "vendor=Supermicro\n"} | texts
    sections = {key: SectionOutput(key, text, "", 0, 1) for key, text in contents.items()}
    return NodeAnswer(Node(name), sections, f"raw/preflight/{name}.txt", None)


def two(**texts: str) -> tuple[NodeAnswer, ...]:
    return (answer("n1", **texts), answer("n2", **texts))


@pytest.mark.parametrize(
    ("answers", "guess"),
    [
        (
            two(rdma_sysfs=sysfs(8, "InfiniBand")),
            Guess(("infiniband",), ("8 active ports of InfiniBand at 400 Gb/s",)),
        ),
        (
            two(rdma_sysfs=sysfs(8, "Ethernet")),
            Guess(("rocev2",), ("8 active ports of Ethernet at 400 Gb/s",)),
        ),
        (
            two(rdma_sysfs=sysfs(8, "InfiniBand"), fabric_marks=MICROSOFT),
            Guess(
                ("azure-ib",),
                (
                    "the machine is of Microsoft Corporation",
                    "8 active ports of InfiniBand at 400 Gb/s",
                ),
            ),
        ),
        (
            two(rdma_sysfs=EFA, fabric_marks="vendor=Amazon EC2\n"),
            Guess(("efa",), ("2 RDMA devices named rdmap* or efa_*",)),
        ),
        (
            two(fabric_marks=GOOGLE + "directory=/var/lib/tcpxo\n"),
            Guess(("gcp-tcpxo",), ("the machine is of Google", "/var/lib/tcpxo is there")),
        ),
        (
            two(fabric_marks=GOOGLE, rdma_sysfs=sysfs(8, "Ethernet")),
            Guess(
                ("gcp-gib",), ("the machine is of Google", "8 active ports of Ethernet at 400 Gb/s")
            ),
        ),
        (two(), Guess(("tcp",), ("no active RDMA port",))),
        (
            two(rdma_sysfs=sysfs(8, "InfiniBand", state="1: DOWN")),
            Guess(("tcp",), ("no active RDMA port",)),
        ),
        ((answer(),), Guess(("nvlink-only",), ("one node", "no active RDMA port"))),
        ((), Guess((), ("no node answered",))),
    ],
)
def test_the_facts_decide(answers: tuple[NodeAnswer, ...], guess: Guess) -> None:
    assert detection.guess(answers) == guess


def test_slower_ports_for_storage_do_not_decide() -> None:
    text = (
        sysfs(4, "InfiniBand")
        + "rdma mlx5_9 hca_type MT4129\nport mlx5_9 1 state 4: ACTIVE\nport mlx5_9 1 rate 100"
        " Gb/sec (4X EDR)\n"
    )
    text += "port mlx5_9 1 link_layer Ethernet\n"
    assert detection.guess(two(rdma_sysfs=text)) == Guess(
        ("infiniband",), ("4 active ports of InfiniBand at 400 Gb/s",)
    )


@pytest.mark.parametrize(
    ("answers", "candidates"),
    [
        (two(rdma_sysfs=sysfs(8, "Ethernet", hca="MT41692")), ("rocev2", "spectrum-x")),
        (two(fabric_marks=GOOGLE), ("gcp-tcpx", "gcp-tcpxo", "tcp")),
        ((answer("n1", rdma_sysfs=sysfs(8, "InfiniBand")), answer("n2")), ("infiniband", "tcp")),
        (
            two(
                rdma_sysfs=sysfs(8, "InfiniBand") + sysfs(4, "Ethernet").replace("mlx5_", "mlx5_1")
            ),
            ("infiniband", "rocev2"),
        ),
    ],
)
def test_where_two_fit_none_is_taken_and_both_are_named(
    answers: tuple[NodeAnswer, ...], candidates: tuple[str, ...]
) -> None:
    plan = undetected()
    assert detection.settled(plan, answers) == plan
    with pytest.raises(UsageError) as caught:
        detection.demand_profile(plan, answers)
    assert (
        caught.value.what
        == f"the nodes do not show which fabric they are on: it may be {' or '.join(candidates)}"
    )
    assert caught.value.next_step.startswith(f"-p {candidates[0]}, or -p {candidates[1]}")
    assert caught.value.seen


def test_a_clear_case_is_taken_and_a_given_profile_is_never_changed() -> None:
    plan = undetected()
    settled = detection.settled(plan, two(rdma_sysfs=sysfs(8, "InfiniBand")))
    assert settled.profile == profiles.load("infiniband")
    assert (
        detection.demand_profile(settled, two(rdma_sysfs=sysfs(8, "InfiniBand")))
        == "8 active ports of InfiniBand at 400 Gb/s"
    )
    tcp_plan = dataclasses.replace(plan, profile=profiles.load("tcp"))
    assert detection.settled(tcp_plan, two(rdma_sysfs=sysfs(8, "InfiniBand"))) == tcp_plan


def test_before_it_is_detected_nothing_is_set_and_nothing_required() -> None:
    none = profile.undetected()
    assert (none.env, none.mpi, none.checks.required) == ((), (), ())
    assert none.name not in profiles.names()


def undetected() -> RunPlan:
    book = bare_playbook(name="quick")
    cluster = Cluster((Node("n1"), Node("n2")), "n1", "-w n[1-2]")
    return run_plan(cluster, book, profile.undetected(), run_id="run")
