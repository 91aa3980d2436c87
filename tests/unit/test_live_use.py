"""What GPUs and RDMA ports do while a job stands, from evidence composed in the formats of
nvidia-smi and of the kernel's counters."""

from __future__ import annotations

import dataclasses

import pytest
from live_answers import SPLIT, asked, judged, node, nodes, ras

from busbw.model import Confidence
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.verdict import StallClass

SPIN = (100, 142.0)


def using(
    number: int,
    first: tuple[int, float],
    second: tuple[int, float] | None = None,
    world: int = 4,
    **more: str,
) -> NodeEvidence:
    """One node with one rank on GPU 3, at (utilisation in %, power in W) in both looks."""

    def table(at: tuple[int, float]) -> str:
        return (
            f"index, uuid, utilization.gpu [%], power.draw [W]\n2, GPU-x{number}, 0, 71.00\n3,"
            f" GPU-{number}, {at[0]}, {at[1]}\n"
        )

    users = f"pid, gpu_uuid, used_gpu_memory [MiB]\n{100 + number}, GPU-{number}, 70000\n"
    return node(
        number,
        world=world,
        gpu_1=table(first),
        gpu_2=table(second or first),
        gpu_apps=users,
        **more,
    )


def test_the_gpu_that_runs_no_kernel_while_the_others_spin_is_only_possible() -> None:
    found = judged(tuple(using(n, (0, 75.0) if n == 2 else SPIN) for n in range(4)))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANK_BEHIND,
        (2,),
        ("n2",),
    )
    assert (
        found.headline
        == "rank 2 on n2: GPU 3 runs no kernel (0 % utilisation) while the 3 others of the job spin"
        " in theirs"
    )
    first = found.findings[0]
    assert (first.confidence, first.where) == (Confidence.POSSIBLE, ("rank 2", "n2", "GPU 3"))
    assert first.evidence[0].text == "index 3, utilization.gpu 0, power.draw 75.0"


def test_the_line_of_a_gpu_is_the_line_of_the_answer_it_stands_in() -> None:
    late = using(2, (0, 75.0))
    found = judged(tuple(late if n == 2 else using(n, SPIN) for n in range(4)))
    assert found.findings[0].evidence[0].line_no == late.gpu_line_no + 2, "head line, GPU 2, GPU 3"


def test_the_gpu_that_still_computes_while_the_others_spin_at_little_power_is_named() -> None:
    found = judged(tuple(using(n, (100, 640.0) if n == 1 else (100, 140.0 + n)) for n in range(4)))
    assert (found.kind, found.culprit_ranks) == (StallClass.RANK_BEHIND, (1,))
    assert (
        found.headline
        == "rank 1 on n1: GPU 3 draws 640 W and still computes, while the 3 others spin at 140 to"
        " 143 W"
    )


@pytest.mark.parametrize(
    "used",
    [
        [SPIN] * 4,
        [(0, 70.0)] * 4,
        [(0, 70.0), (0, 70.0), SPIN, SPIN],
        [(0, 70.0), (55, 200.0), SPIN, SPIN],
        [(100, 640.0), (100, 140.0), (100, 400.0), (100, 145.0)],
        [(100, 200.0), (100, 150.0), (100, 155.0), (100, 160.0)],
        [(0, 70.0), SPIN, SPIN],
    ],
    ids=[
        "all spin",
        "none runs",
        "half runs none",
        "one in between",
        "powers of all kinds",
        "a little more power",
        "three GPUs",
    ],
)
def test_gpus_that_do_not_set_few_apart_flag_nobody(used: list[tuple[int, float]]) -> None:
    assert (
        judged(tuple(using(n, at, world=len(used)) for n, at in enumerate(used))).culprit_ranks
        == ()
    )


def test_a_gpu_that_was_idle_in_one_look_only_flags_nobody() -> None:
    assert (
        judged(
            tuple(using(n, (0, 75.0), SPIN) if n == 2 else using(n, SPIN) for n in range(4))
        ).culprit_ranks
        == ()
    )


def test_an_idle_gpu_and_ras_that_name_the_same_rank_make_it_certain() -> None:
    given = [using(n, (0, 75.0) if n == 2 else SPIN) for n in range(4)]
    text = ras(SPLIT)
    given[0] = using(0, SPIN, ras_1=text, ras_2=text)
    found = judged(tuple(given))
    assert (found.culprit_ranks, found.findings[0].id) == ((2,), "stall-rank-behind")
    assert "has not called AllReduce 64" in found.headline
    assert "index 3, utilization.gpu 0, power.draw 75.0" in [
        item.text for item in found.findings[0].evidence
    ]


def ports(number: int, **rises: int) -> NodeEvidence:
    """A node whose RDMA port counted so much more in the second look."""

    def look(share: int) -> str:
        counts = "".join(
            f"mlx5_3/ports/1/counters/{name}:{7 + share * rise}\n" for name, rise in rises.items()
        )
        return (
            "mlx5_3/ports/1/state:4:"
            f" ACTIVE\nmlx5_3/ports/1/counters/port_xmit_data:90\nmlx5_3/ports/1/counters/port_rcv_data:90\n{counts}"
        )

    first, second = node(number, look=look(0)), node(number, look=look(1))
    return dataclasses.replace(second, samples=(first.samples[0], second.samples[1]))


def test_a_port_that_lost_its_link_between_the_looks_is_likely() -> None:
    found = judged(nodes(n1=ports(1, link_downed=1)))
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (
        StallClass.NETWORK,
        ("n1",),
        "stall-link-errors",
    )
    assert found.headline == "n1 mlx5_3/1 lost its link between the samples: link_downed +1"
    assert found.findings[0].confidence is Confidence.LIKELY


def test_a_port_that_receives_damaged_data_is_only_possible() -> None:
    found = judged(nodes(n1=ports(1, symbol_error=40, local_ack_timeout_err=2)))
    assert (
        found.headline == "n1 mlx5_3/1 receives damaged data between the samples: symbol_error +40,"
        " local_ack_timeout_err +2"
    )
    assert found.findings[0].confidence is Confidence.POSSIBLE


def test_counters_that_do_not_move_or_count_what_a_victim_does_flag_nobody() -> None:
    assert judged(nodes(n1=ports(1, symbol_error=0))).culprit_nodes == ()
    assert judged(nodes(n1=ports(1, local_ack_timeout_err=12))).culprit_nodes == (), (
        "who sends again waits for somebody else"
    )


def test_a_rank_behind_by_its_counts_comes_before_a_port_with_damaged_data() -> None:
    found = judged(nodes(n0=asked(ras(SPLIT)), n1=ports(1, symbol_error=40)))
    assert (found.kind, found.culprit_nodes) == (StallClass.RANK_BEHIND, ("n2",))
