"""The judgement on a live job by logs, stacks, queue pairs, connections; from evidence composed in
the documented formats."""

from __future__ import annotations

import dataclasses

from live_answers import NOW, SPLIT, asked, judged, node, nodes, ras, socket

from busbw.model import Confidence
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.verdict import StallClass


def log(*lines: str) -> str:
    told = "".join(f"{number}:{line}\n" for number, line in enumerate(lines, 7))
    return f"log 900 {NOW:.0f} 100 /out/rank.log\n{told}end of log\nlast line\nend of tail\n"


COMPLETION = (
    "n{0}:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.{1}<47001> with"
    " status=IBV_WC_RETRY_EXC_ERR(12) opcode=0"
)


def test_victims_of_status_12_name_the_peer_and_not_themselves() -> None:
    given = nodes(
        n0=node(0, logs=log(COMPLETION.format(0, 2))),
        n3=node(3, logs=log("step 9", COMPLETION.format(3, 2))),
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes) == (StallClass.NETWORK, ("n2",))
    assert "/out/rank.log:8: " in found.findings[0].evidence[1].text


def test_of_watchdogs_that_ran_out_the_rank_that_enqueued_less_is_the_culprit() -> None:
    def line(rank: int, enqueued: int) -> str:
        words = (
            f"Timeout at NCCL work: 57, last enqueued NCCL work: {enqueued}, last completed NCCL"
            " work: 56."
        )
        return f"[rank{rank}]:[E710 09:00:00.4 ProcessGroupNCCL.cpp:629] [PG 0 Rank {rank}] {words}"

    found = judged(
        tuple(
            node(number, logs=log(line(number, 56 if number == 1 else 57))) for number in range(4)
        )
    )
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANK_BEHIND,
        (1,),
        ("n1",),
    )


WAITING = """\
Thread {0} (idle): "MainThread"
    Condition.wait (threading.py:331)
    Event.wait (threading.py:629)
    {1}
    step (train.py:7)
    <module> (train.py:9)
Thread {0}9 (idle): "loader"
    Thread.run (threading.py:982)
"""
"""As py-spy 0.4.3 prints a process of ours."""


def stacked(*calls: str) -> tuple[NodeEvidence, ...]:
    """One rank per node, in that call."""
    return tuple(
        node(
            n,
            stacks=(
                f"stack {100 + n}\nProcess {100 + n}: python3"
                f" train.py\n\n{WAITING.format(100 + n, call)}"
            ),
        )
        for n, call in enumerate(calls)
    )


ALL_REDUCE, HOLD = "all_reduce (torch/distributed/distributed_c10d.py:2501)", "hold (train.py:3)"


def test_the_rank_whose_stack_is_elsewhere_while_the_others_wait_in_a_collective_is_named_with_its_line() -> (
    None
):
    found = judged(stacked(ALL_REDUCE, ALL_REDUCE, HOLD, ALL_REDUCE))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANK_BEHIND,
        (2,),
        ("n2",),
    )
    assert found.headline == "rank 2 on n2 is in hold (train.py:3) while 3 others are in all_reduce"
    assert (
        found.findings[0]
        .evidence[0]
        .text.startswith(
            "rank 2 pid 102 MainThread: Condition.wait (threading.py:331) < Event.wait"
        )
    )


def test_the_rank_in_another_collective_than_the_others_disagrees() -> None:
    found = judged(
        stacked(
            ALL_REDUCE,
            "all_gather_into_tensor (torch/distributed/distributed_c10d.py:3)",
            ALL_REDUCE,
            ALL_REDUCE,
        )
    )
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANKS_DISAGREE,
        (1,),
        ("n1",),
    )


def test_a_stack_and_ras_that_name_the_same_rank_make_it_certain() -> None:
    given = stacked(ALL_REDUCE, ALL_REDUCE, HOLD, ALL_REDUCE)
    text = ras(SPLIT)
    found = judged((dataclasses.replace(given[0], ras=asked(text).ras), *given[1:]))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (
        StallClass.RANK_BEHIND,
        (2,),
        Confidence.CERTAIN,
    )
    assert any("hold (train.py:3)" in item.text for item in found.findings[0].evidence)


def test_stacks_that_are_all_alike_flag_nobody() -> None:
    assert judged(stacked(*[ALL_REDUCE] * 4)).culprit_nodes == ()


def test_stacks_of_gdb_are_read_without_the_values_of_arguments() -> None:
    def gdb(pid: int, frame: str) -> str:
        return (
            f'stack {pid}\nThread 2 (Thread 0x7fc2 (LWP 5407) "python3"):\n#0  0x00007f in poll ()'
            f' from /lib/libc.so.6\n\nThread 1 (Thread 0x7fc3 (LWP {pid}) "python3"):\n#0  0x00007f'
            f" in __futex_wait (barrier=0x1) at futex.c:57\n#1  {frame}\n[Inferior 1 (process"
            f" {pid}) detached]\n"
        )

    inside, outside = (
        "0x7f in ncclAllReduce (sendbuff=0x7f, count=4) at collectives.cc:88",
        'load_batch (path=0x7 "/a/all_reduce") at data.c:7',
    )
    found = judged(
        tuple(node(n, stacks=gdb(100 + n, outside if n == 1 else inside)) for n in range(4))
    )
    assert (
        found.headline
        == "rank 1 on n1 is in load_batch at data.c:7 while 3 others are in all_reduce"
    )


def pair(port: str, local: int, remote: int, state: str, pid: int) -> str:
    """A line of rdma resource show qp."""
    return (
        f"link {port} lqpn {local} rqpn {remote} type RC state {state} rq-psn 1 sq-psn 2"
        f" path-mig-state MIGRATED pid {pid} comm python3\n"
    )


def test_queue_pairs_in_error_accuse_the_other_end_and_its_port() -> None:
    given = nodes(
        n0=node(0, qps=pair("mlx5_0/1", 10, 20, "ERR", 100)),
        n2=node(2, qps=pair("mlx5_3/1", 20, 10, "RTS", 102) + pair("mlx5_3/1", 21, 11, "RTS", 102)),
        n3=node(3, qps=pair("mlx5_0/1", 11, 21, "ERR", 103)),
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].where[-1]) == (
        StallClass.NETWORK,
        ("n2",),
        "mlx5_3/1",
    )
    assert (
        found.headline
        == "n2 mlx5_3/1 is given up on by 2 ports: their queue pairs are in error, its own are not"
    )


def test_queue_pairs_of_others_and_of_an_ended_job_flag_nobody() -> None:
    given = nodes(
        n0=node(0, qps=pair("mlx5_0/1", 10, 20, "ERR", 77)),
        n2=node(2, qps=pair("mlx5_3/1", 20, 10, "RTS", 102)),
    )
    assert judged(given).culprit_nodes == ()


def test_a_rank_that_leaves_its_neighbours_data_unread_is_only_possible() -> None:
    unread = socket(2, 1, 72).replace("ESTAB 0 0", "ESTAB 9000 0")
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71)), n2=node(2, look=unread)))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (
        StallClass.RANK_BEHIND,
        (2,),
        Confidence.POSSIBLE,
    )
    assert (
        "9000 bytes from 10.0.0.1:6000 unread in both samples" in found.findings[0].evidence[0].text
    )


def test_a_rank_that_cannot_send_on_leaves_data_unread_and_is_not_accused_for_it() -> None:
    blocked = socket(2, 1, 72).replace("ESTAB 0 0", "ESTAB 9000 0") + socket(2, 3, 73).replace(
        "ESTAB 0 0", "ESTAB 0 500000"
    )
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71)), n2=node(2, look=blocked)))
    assert found.culprit_nodes == ()
