"""The judgement on a live job by what NCCL's RAS counted, from answers composed in the documented
forms."""

from __future__ import annotations

from live_answers import HEALTHY, NOW, SPLIT, asked, framed, judged, node, nodes, ras, reduces, told

from busbw.model import Confidence
from busbw.parsers.stall.verdict import StallClass
from busbw.triage import offline


def test_counts_that_go_on_between_two_answers_are_no_stall() -> None:
    later = ("0xa1", reduces(r0=70, r1=70, r2=69, r3=70))
    assert told(nodes(n0=asked(ras(SPLIT), ras(later)))) == (StallClass.MOVING, (), ())


def test_the_rank_behind_is_named_by_its_number_in_the_job_and_its_node() -> None:
    assert told(nodes(n0=asked(ras(SPLIT)))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def test_of_few_ranks_ahead_the_ranks_ahead_are_named() -> None:
    ahead = ("0xa1", reduces(r0=64, r1=65, r2=64, r3=64))
    assert told(nodes(n0=asked(ras(ahead)))) == (StallClass.RANKS_DISAGREE, (1,), ("n1",))


def test_a_rank_ahead_in_one_kind_and_behind_in_another_called_the_wrong_one() -> None:
    counts = {rank: {"AllReduce": 64, "AllGather": 3} for rank in range(4)} | {
        1: {"AllReduce": 63, "AllGather": 4}
    }
    assert told(nodes(n0=asked(ras(("0xa1", counts))))) == (
        StallClass.RANKS_DISAGREE,
        (1,),
        ("n1",),
    )


def test_of_two_communicators_the_one_the_others_wait_for_is_the_stalled_one() -> None:
    # Ranks 0 and 1 wait in b2 for rank 1's partner; rank 0 is behind in a1 only because it waits in
    # b2 for rank 2.
    world = ("0xa1", reduces(r0=63, r1=64, r2=63, r3=64))
    pair = ("0xb2", reduces(r0=10, r2=9))
    assert told(nodes(n0=asked(ras(world, pair)))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def test_two_ranks_that_wait_for_each_other_in_two_communicators_disagree() -> None:
    first, second = ("0xa1", reduces(r0=63, r1=64)), ("0xb2", reduces(r0=10, r1=9))
    found = judged(nodes(n0=asked(ras(first, second))))
    assert (found.kind, found.culprit_nodes) == (StallClass.RANKS_DISAGREE, ("n0", "n1"))
    assert "wait for each other in different communicators" in found.headline


def test_equal_counts_that_do_not_move_acquit_nobody_and_name_nobody() -> None:
    found = judged(nodes(n0=asked(ras(HEALTHY))))
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (
        StallClass.UNKNOWN,
        (),
        "stall-unexplained",
    )


def test_a_dead_process_of_ras_that_is_not_there_either_is_certain() -> None:
    gone = offline.of_text(
        "n2",
        framed({"self": "", "ranks": "", "look-1": f"look {NOW}", "look-2": f"look {NOW}"}),
        "n2.txt",
        None,
        0.0,
    )
    found = judged(nodes(n0=asked(ras(HEALTHY, dead=(2,))), n2=gone))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.PROCESS_DEAD,
        (2,),
        ("n2",),
    )
    assert found.findings[0].confidence is Confidence.CERTAIN


def test_a_rank_that_never_joined_is_missing_and_not_dead() -> None:
    gone = offline.of_text(
        "n2",
        framed({"self": "", "ranks": "", "look-1": f"look {NOW}", "look-2": f"look {NOW}"}),
        "n2.txt",
        None,
        0.0,
    )
    nothing = ("0xa1", {rank: {"AllReduce": 0} for rank in range(4)})
    assert told(nodes(n0=asked(ras(nothing, dead=(2,), init=7)), n2=gone)) == (
        StallClass.RANK_MISSING,
        (2,),
        ("n2",),
    )


def test_an_answer_of_an_older_server_is_text_behind_an_error() -> None:
    text = (
        "listens\nasked localhost 28028\nOK\nERROR: Unknown command SET FORMAT json\nNCCL version"
        " 2.24.3 compiled with CUDA 12.6\nCUDA runtime version 12060, driver version"
        " 12060\n\nWarnings\n========\n\n#0-0 (5c9ac0b1e5a13c77) MISMATCH\n  Communicator ranks"
        " have different collective operation counts\n  3 ranks have launched up to operation 64\n "
        " Rank 2 has launched up to operation 63 -- GPU 0 managed by process 102 on node 10.0.0.2\n"
    )
    assert told(nodes(n0=asked(text))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def counted(*rows: str) -> str:
    """An answer as text, with these lines below a mismatch of AllReduce."""
    return (
        "listens\nasked localhost 28028\nOK\nNCCL version 2.27.3 compiled with CUDA 12.6\nCUDA"
        " runtime version 12060, driver version 12060\n\nWarnings\n========\n\n#0-0"
        " (5c9ac0b1e5a13c77) MISMATCH\n  Communicator ranks have different AllReduce operation"
        " counts\n" + "".join(f"  {row}\n" for row in rows)
    )


def test_a_quarter_of_the_ranks_behind_is_named_one_by_one() -> None:
    rows = ["6 ranks have launched up to operation 64", "2 ranks have launched up to operation 63"]
    rows += [f"Rank {n} -- GPU 0 managed by process {100 + n} on node 10.0.0.{n}" for n in (2, 3)]
    found = judged(nodes(n0=asked(counted(*rows))))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANK_BEHIND,
        (2, 3),
        ("n2", "n3"),
    )


def test_half_of_the_ranks_behind_are_counted_and_nobody_is_named() -> None:
    found = judged(
        nodes(
            n0=asked(
                counted(
                    "2 ranks have launched up to operation 64",
                    "2 ranks have launched up to operation 63",
                )
            )
        )
    )
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.RANK_BEHIND,
        (),
        (),
    )
    assert found.headline == "2 ranks have not called AllReduce 64; 2 others wait for them"


def test_ras_that_does_not_answer_in_time_is_reported_and_the_rest_still_judged() -> None:
    mute = node(
        0,
        ras_1="listens\nasked localhost 28028\n",
        ras_2="listens\n",
        status={"ras-1": 124, "ras-2": 124},
    )
    silent = node(
        0,
        ras_1="listens\nasked localhost 28028\nsilent for 4 s\n",
        ras_2="listens\nasked localhost 28028\nsilent for 2 s\n",
    )
    assert [(each.problem, each.report) for each in silent.ras if each] == [
        (each.problem, each.report) for each in mute.ras if each
    ]
    assert silent.hung_sections == mute.hung_sections == ("ras-1", "ras-2")
    found = judged(nodes(n0=mute, n3=node(3, state="T", wchan="do_signal_stop")))
    assert (found.kind, found.culprit_ranks) == (StallClass.HOST, (3,))
    assert "NCCL's RAS: asked, and did not answer within the limit" in found.notes
