"""The judgement on a live job, from evidence composed in the script's own format; RAS's answers are composed in the documented forms."""

from __future__ import annotations

import dataclasses
import json

import pytest

from busbw.errors import UsageError
from busbw.parsers.judge import stall_live, stall_ticket
from busbw.parsers.judge.stall_ranks import Wanted
from busbw.parsers.judge.stall_records import NodeEvidence, StallClass, StallJudgement
from busbw.records import Command, CommandResult, Confidence, Unreachable
from busbw.triage import offline
from busbw.triage.slurm_job import nodes_of

B = "b0undary1"
NOW = 1_795_000_000.0
HZ = 100
UP = 9000.0


def framed(sections: dict[str, str], status: dict[str, int] | None = None) -> bytes:
    """An answer of the script."""
    text = f"busbw-live 1 {B}\n"
    for name, body in sections.items():
        text += f"\n@@{B} begin {name}\n{body.rstrip()}\n\n@@{B} end {name} {(status or {}).get(name, 0)}\n"
    return (text + f"\n@@{B} done\n").encode()


def node(
    number: int,
    *,
    ranks: tuple[int, ...] = (),
    world: int = 4,
    state: str = "S",
    wchan: str = "ep_poll",
    ticks: int = 0,
    look: str = "",
    status: dict[str, int] | None = None,
    **sections: str,
) -> NodeEvidence:
    """One node with one rank by default; `look` = further lines of both looks, `ticks` = CPU time of its ranks between them."""
    mine = ranks or (number,)
    own = f"host n{number} now {NOW:.1f} up {UP} boot boot-{number} tick {HZ}\naddress lo 127.0.0.1\naddress eth0 10.0.0.{number}\n"
    processes = "".join(
        f"pid {100 + r}\nWORLD_SIZE={world}\nRANK={r}\nSLURM_JOB_ID=881234\nexe /usr/bin/python3\nlibrary libnccl.so.2\n" for r in mine
    )

    def seen(at: float, used: int) -> str:
        states = "".join(f"state {100 + r} {state} parent 1 ticks {used} start 700000 rss 5 io 0 wchan {wchan}\n" for r in mine)
        links = "" if "eth0/" in look else "eth0/operstate:up\neth0/carrier:1\n"
        return f"look {at}\n{states}{look}{links}"

    parts = {"self": own, "ranks": processes, "look-1": seen(NOW, 10), **{k.replace("_", "-"): v for k, v in sections.items()}}
    return offline.of_text(f"n{number}", framed({**parts, "look-2": seen(NOW + 5, 10 + ticks)}, status), f"n{number}.txt", None, 0.0)


def nodes(count: int = 4, **changed: NodeEvidence) -> tuple[NodeEvidence, ...]:
    return tuple(changed.get(f"n{number}") or node(number) for number in range(count))


def judged(given: tuple[NodeEvidence, ...], gone: tuple[Unreachable, ...] = (), leaves: dict[str, str] | None = None) -> StallJudgement:
    return stall_live.judge(given, gone, Wanted(), NOW, leaves)


def told(given: tuple[NodeEvidence, ...], gone: tuple[Unreachable, ...] = ()) -> tuple[StallClass, tuple[int, ...], tuple[str, ...]]:
    found = judged(given, gone)
    return found.kind, found.culprit_ranks, found.culprit_nodes


def ras(*communicators: tuple[str, dict[int, dict[str, int]]], dead: tuple[int, ...] = (), init: int = 0) -> str:
    """RAS's answer as JSON: communicator → rank → counts; those in `dead` are missing and considered dead."""

    def place(rank: int) -> dict[str, object]:
        return {"rank": rank, "host": f"10.0.0.{rank}", "pid": 100 + rank, "cuda_dev": 0, "nvml_dev": 0}

    listed = [
        {
            "hash": name,
            "size": len(ranks),
            "ranks": [{**place(r), "status": {"init_state": init}, "collective_counts": c} for r, c in ranks.items() if r not in dead],
            "missing_ranks": [{**place(r), "status": {"unresponsive": True, "considered_dead": True}} for r in ranks if r in dead],
        }
        for name, ranks in communicators
    ]
    document = {"nccl_version": "2.28.9", "communicators_count": len(listed), "communicators": listed, "ras": {"timeouts_count": 0}}
    return "listens\nasked localhost 28028\nOK\nOK\n" + json.dumps(document, indent=2)


def reduces(**counts: int) -> dict[int, dict[str, int]]:
    return {int(rank[1:]): {"AllReduce": count, "AllGather": 3} for rank, count in counts.items()}


def asked(*answers: str) -> NodeEvidence:
    """Node 0 with RAS's answers to both questions."""
    return node(0, ras_1=answers[0], ras_2=answers[-1])


HEALTHY = ("0xa1", reduces(r0=64, r1=64, r2=64, r3=64))
SPLIT = ("0xa1", reduces(r0=64, r1=64, r2=63, r3=64))


def test_counts_that_go_on_between_two_answers_are_no_stall() -> None:
    later = ("0xa1", reduces(r0=70, r1=70, r2=69, r3=70))
    assert told(nodes(n0=asked(ras(SPLIT), ras(later)))) == (StallClass.SLOW, (), ())


def test_the_rank_behind_is_named_by_its_number_in_the_job_and_its_node() -> None:
    assert told(nodes(n0=asked(ras(SPLIT)))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def test_of_few_ranks_ahead_the_ranks_ahead_are_named() -> None:
    ahead = ("0xa1", reduces(r0=64, r1=65, r2=64, r3=64))
    assert told(nodes(n0=asked(ras(ahead)))) == (StallClass.RANKS_DISAGREE, (1,), ("n1",))


def test_a_rank_ahead_in_one_kind_and_behind_in_another_called_the_wrong_one() -> None:
    counts = {rank: {"AllReduce": 64, "AllGather": 3} for rank in range(4)} | {1: {"AllReduce": 63, "AllGather": 4}}
    assert told(nodes(n0=asked(ras(("0xa1", counts))))) == (StallClass.RANKS_DISAGREE, (1,), ("n1",))


def test_of_two_communicators_the_one_the_others_wait_for_is_the_stalled_one() -> None:
    # Ranks 0 and 1 wait in b2 for rank 1's partner; rank 0 is behind in a1 only because it waits in b2 for rank 2.
    world = ("0xa1", reduces(r0=63, r1=64, r2=63, r3=64))
    pair = ("0xb2", reduces(r0=10, r2=9))
    assert told(nodes(n0=asked(ras(world, pair)))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def test_two_ranks_that_wait_for_each_other_in_two_communicators_disagree() -> None:
    first, second = ("0xa1", reduces(r0=63, r1=64)), ("0xb2", reduces(r0=10, r1=9))
    found = judged(nodes(n0=asked(ras(first, second))))
    assert (found.kind, found.culprit_nodes) == (StallClass.RANKS_DISAGREE, ("n0", "n1"))
    assert "wait for each other in different communicators" in found.headline


def test_equal_counts_that_stand_still_acquit_nobody_and_name_nobody() -> None:
    found = judged(nodes(n0=asked(ras(HEALTHY))))
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (StallClass.UNKNOWN, (), "stall-unexplained")


def test_a_dead_process_of_ras_that_is_not_there_either_is_certain() -> None:
    gone = offline.of_text("n2", framed({"self": "", "ranks": "", "look-1": f"look {NOW}", "look-2": f"look {NOW}"}), "n2.txt", None, 0.0)
    found = judged(nodes(n0=asked(ras(HEALTHY, dead=(2,))), n2=gone))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.PROCESS_DEAD, (2,), ("n2",))
    assert found.findings[0].confidence is Confidence.CERTAIN


def test_a_rank_that_never_joined_is_missing_and_not_dead() -> None:
    gone = offline.of_text("n2", framed({"self": "", "ranks": "", "look-1": f"look {NOW}", "look-2": f"look {NOW}"}), "n2.txt", None, 0.0)
    nothing = ("0xa1", {rank: {"AllReduce": 0} for rank in range(4)})
    assert told(nodes(n0=asked(ras(nothing, dead=(2,), init=7)), n2=gone)) == (StallClass.RANK_MISSING, (2,), ("n2",))


def test_an_answer_of_an_older_server_is_text_behind_an_error() -> None:
    text = (
        "listens\nasked localhost 28028\nOK\nERROR: Unknown command SET FORMAT json\nNCCL version 2.24.3 compiled with CUDA 12.6\n"
        "CUDA runtime version 12060, driver version 12060\n\nWarnings\n========\n\n#0-0 (5c9ac0b1e5a13c77) MISMATCH\n"
        "  Communicator ranks have different collective operation counts\n  3 ranks have launched up to operation 64\n"
        "  Rank 2 has launched up to operation 63 -- GPU 0 managed by process 102 on node 10.0.0.2\n"
    )
    assert told(nodes(n0=asked(text))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def counted(*rows: str) -> str:
    """An answer as text, with these lines below a mismatch of AllReduce."""
    return (
        "listens\nasked localhost 28028\nOK\nNCCL version 2.27.3 compiled with CUDA 12.6\nCUDA runtime version 12060, driver version 12060\n\n"
        "Warnings\n========\n\n#0-0 (5c9ac0b1e5a13c77) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        + "".join(f"  {row}\n" for row in rows)
    )


def test_a_quarter_of_the_ranks_behind_is_named_one_by_one() -> None:
    rows = ["6 ranks have launched up to operation 64", "2 ranks have launched up to operation 63"]
    rows += [f"Rank {n} -- GPU 0 managed by process {100 + n} on node 10.0.0.{n}" for n in (2, 3)]
    found = judged(nodes(n0=asked(counted(*rows))))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.RANK_BEHIND, (2, 3), ("n2", "n3"))


def test_half_of_the_ranks_behind_are_counted_and_nobody_is_named() -> None:
    found = judged(nodes(n0=asked(counted("2 ranks have launched up to operation 64", "2 ranks have launched up to operation 63"))))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.RANK_BEHIND, (), ())
    assert found.headline == "2 ranks have not called AllReduce 64; 2 others wait for them"


def test_ras_that_does_not_answer_in_time_is_said_and_the_rest_still_judged() -> None:
    mute = node(0, ras_1="listens\nasked localhost 28028\n", ras_2="listens\n", status={"ras-1": 124, "ras-2": 124})
    silent = node(0, ras_1="listens\nasked localhost 28028\nsilent for 4 s\n", ras_2="listens\nasked localhost 28028\nsilent for 2 s\n")
    assert [(each.problem, each.report) for each in silent.ras if each] == [(each.problem, each.report) for each in mute.ras if each]
    assert silent.unheard == mute.unheard == ("ras-1", "ras-2")
    found = judged(nodes(n0=mute, n3=node(3, state="T", wchan="do_signal_stop")))
    assert (found.kind, found.culprit_ranks) == (StallClass.HOST, (3,))
    assert "NCCL's RAS: asked, and did not answer within the limit" in found.notes


XID = "[ 8000.5] NVRM: Xid (PCI:0000:43:00): 79, pid=102, name=python3, GPU has fallen off the bus.\n"


def test_a_lost_gpu_is_the_cause_and_the_rank_that_is_behind_its_victim() -> None:
    gpus = "index, uuid, pci.bus_id, utilization.gpu [%]\n0, GPU-a, 00000000:1B:00.0, 100\n1, GPU-b, 00000000:43:00.0, [GPU is lost]\n"
    users = "pid, gpu_uuid, used_gpu_memory [MiB]\n102, GPU-b, 70000\n"
    found = judged(nodes(n0=asked(ras(SPLIT)), n2=node(2, kernel=XID, gpu_1=gpus, gpu_apps=users)))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.GPU_GONE, (2,), ("n2",))
    assert found.headline == "n2 GPU 1 is gone: Xid 79 (rank 2); the others wait for it"
    assert found.since_s == pytest.approx(NOW - UP + 8000.5)
    assert found.findings[0].confidence is Confidence.CERTAIN
    assert any("kernel: NVRM: Xid" in event.text for event in found.timeline)


def test_an_xid_from_before_the_job_is_not_its_cause() -> None:
    assert told(nodes(n0=asked(ras(SPLIT)), n2=node(2, kernel=XID.replace("8000.5", "60.5")))) == (StallClass.RANK_BEHIND, (2,), ("n2",))


def test_a_tool_that_hangs_on_a_gpu_is_a_finding() -> None:
    assert told(nodes(n1=node(1, gpu_1="", status={"gpu-1": 124}))) == (StallClass.GPU_GONE, (), ("n1",))


def test_a_rank_in_disk_sleep_in_both_looks_waits_for_its_disk() -> None:
    found = judged(nodes(n0=asked(ras(SPLIT)), n2=node(2, state="D", wchan="nfs_wait_bit_killable", disks="place 102 /data/ckpt\n")))
    assert (found.kind, found.culprit_ranks, found.findings[0].id) == (StallClass.HOST, (2,), "stall-host-storage")


def test_all_ranks_stopped_is_a_suspended_job() -> None:
    found = judged(tuple(node(number, state="T", wchan="do_signal_stop") for number in range(4)))
    assert (found.kind, found.headline) == (StallClass.HOST, "all 4 ranks are stopped: the job was suspended as a whole")


def socket(local: int, peer: int, inode: int, retries: int = 0, moved: int = 900000) -> str:
    timer = f"timer:(on,12sec,{retries})" if retries else ""
    queue = 65536 if retries else 0
    return (
        f"own {100 + local}\n{inode}\nESTAB 0 {queue} 10.0.0.{local}:5000 10.0.0.{peer}:6000 {timer} ino:{inode} sk:1 <->\t cubic "
        f"bytes_acked:{moved} bytes_received:0 lastsnd:40000 lastrcv:40000\n"
    )


def test_the_node_that_all_silent_connections_lead_to_is_the_culprit() -> None:
    given = nodes(n1=node(1, look=socket(1, 2, 71, retries=7)), n3=node(3, look=socket(3, 2, 73, retries=7)))
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (StallClass.NETWORK, ("n2",), "stall-network-silent")
    assert "eth0" in found.headline
    assert found.since_s == pytest.approx(NOW + 5 - 40)


def test_one_silent_pair_names_both_ends_of_the_path() -> None:
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72))))
    assert (found.kind, found.culprit_nodes) == (StallClass.NETWORK, ("n1", "n2"))


def test_of_one_silent_pair_the_end_that_ras_cannot_hear_either_is_the_culprit() -> None:
    cut = ras(HEALTHY, dead=(0, 1, 3)).replace('"considered_dead": true', '"considered_dead": false')
    others = ras(HEALTHY, dead=(2,)).replace('"considered_dead": true', '"considered_dead": false')
    given = nodes(
        n0=asked(others),
        n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72)),
        n2=node(2, ras_1=cut, ras_2=cut, look=socket(2, 3, 74)),
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (StallClass.NETWORK, ("n2",), "stall-network-silent")


def test_a_port_that_is_down_everywhere_is_not_used_and_accuses_nobody() -> None:
    down = "eth0/operstate:up\neth0/carrier:1\neth1/operstate:down\neth1/carrier:0\n"
    assert told(tuple(node(number, look=down) for number in range(4)))[0] is not StallClass.NETWORK


def test_an_infiniband_port_that_is_down_on_one_node_is_named() -> None:
    def port(state: str) -> str:
        return f"eth0/operstate:up\neth0/carrier:1\nmlx5_3/ports/1/state:{state}\n"

    given = tuple(node(number, look=port("1: DOWN" if number == 2 else "4: ACTIVE")) for number in range(4))
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].where[-1]) == (StallClass.NETWORK, ("n2",), "mlx5_3/1")


TIMED_OUT = (Unreachable("n3", "connect to 10.0.0.3 port 22: timed out after 5 s"),)


def test_a_node_that_does_not_answer_and_holds_the_missing_ranks_is_the_cause() -> None:
    found = judged(nodes(3), TIMED_OUT)
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.HOST, (3,), ("n3",))
    assert found.headline == "n3 does not answer, and rank 3 should run there"


def test_a_node_that_does_not_answer_is_not_the_cause_where_no_rank_is_missing() -> None:
    three = tuple(node(number, world=3) for number in range(3))
    found = judged(three, TIMED_OUT)
    assert (found.kind, found.culprit_nodes) == (StallClass.OUTSIDE, ())
    assert found.notes == (
        "n3 did not answer (connect to 10.0.0.3 port 22: timed out after 5 s); no rank of the job is missing, so that none runs there",
    )


def test_connections_that_are_silent_between_others_come_before_a_node_that_only_did_not_answer_us() -> None:
    given = nodes(3, n0=node(0, look=socket(0, 2, 71, retries=7)), n1=node(1, look=socket(1, 2, 73, retries=7)))
    found = judged(given, TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-network-silent", ("n2",))
    assert "stall-node-unreachable" in [finding.id for finding in found.findings]


def test_a_node_that_the_others_kernels_do_not_reach_either_comes_before_their_silent_connections() -> None:
    given = nodes(3, n0=node(0, look=socket(0, 3, 71, retries=7)), n2=node(2, look=socket(2, 3, 73, retries=7)))
    found = judged(given, TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-node-unreachable", ("n3",))
    assert found.headline == "n3 does not answer, and rank 3 should run there; the others wait for it"


def test_a_stopped_rank_that_was_seen_comes_before_a_node_that_only_did_not_answer() -> None:
    found = judged(nodes(3, n1=node(1, state="T")), TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-rank-stopped", ("n1",))


def test_the_rank_that_sleeps_elsewhere_while_all_wait_is_only_possible() -> None:
    found = judged(nodes(n2=node(2, wchan="hrtimer_nanosleep"), n1=node(1, look=socket(1, 2, 71))))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (StallClass.RANK_BEHIND, (2,), Confidence.POSSIBLE)


def test_a_rank_that_was_ready_to_run_and_got_no_cpu_is_not_the_odd_one() -> None:
    starved = node(2, state="R", wchan="0", ticks=3)
    last = starved.looks[1]
    assert last is not None
    sleeping = dataclasses.replace(last, states=tuple(dataclasses.replace(s, state="S") for s in last.states))
    starved = dataclasses.replace(starved, looks=(starved.looks[0], sleeping))
    found = judged(tuple(starved if n == 2 else node(n, state="R", ticks=480) for n in range(4)))
    assert (found.kind, found.culprit_nodes) == (StallClass.OUTSIDE, ())


def test_ranks_without_a_connection_to_each_other_are_not_in_a_collective() -> None:
    found = judged(tuple(node(number, state="R", ticks=480) for number in range(4)))
    assert found.kind is StallClass.OUTSIDE
    assert "ranks 0, 1, 2, 3 use the CPU" in found.headline


def test_nothing_there_is_no_verdict_on_a_job() -> None:
    empty = offline.of_text("n0", framed({"self": "", "ranks": "", "look-1": f"look {NOW}"}), "n0.txt", None, None)
    found = judged((empty,))
    assert (found.kind, found.findings[0].id) == (StallClass.NO_JOB, "stall-no-job")


def test_wrappers_and_loaders_of_a_rank_are_not_more_ranks() -> None:
    nccl = "library libnccl.so.2\n"
    programs = ((90, "/usr/bin/bash", ""), (91, "/usr/bin/python3", nccl), (92, "/usr/bin/python3", nccl))
    text = "".join(f"pid {pid}\nWORLD_SIZE=4\nRANK=0\nSLURM_JOB_ID=881234\nexe {exe}\n{library}" for pid, exe, library in programs)
    states = "".join(f"state {pid} S parent {pid - 1} ticks 1 start 7 rss 5 io 0 wchan ep_poll\n" for pid in (90, 91, 92))
    look = f"look {NOW}\n{states}"
    one = offline.of_text("n0", framed({"self": "", "ranks": text, "look-1": look, "look-2": look}), "n0.txt", None, 0.0)
    assert [(rank.rank, rank.process.pid) for rank in judged((one,)).ranks] == [(0, 91)]


def test_the_agents_that_srun_started_are_no_ranks_of_torchruns_job() -> None:
    agent = "pid {0}\nSLURM_PROCID={1}\nSLURM_NTASKS=2\nSLURM_JOB_ID=881234\nexe /usr/bin/python3\nlibrary libtorch_cpu.so\n"
    worker = "pid {0}\nRANK={1}\nWORLD_SIZE=2\nSLURM_PROCID={1}\nSLURM_JOB_ID=881234\nexe /usr/bin/python3\nlibrary libnccl.so.2\n"
    states = "state 50 S parent 1 ticks 1 start 7 rss 5 io 0 wchan ep_poll\nstate 60 S parent 50 ticks 1 start 9 rss 5 io 0 wchan ep_poll\n"
    look = f"look {NOW}\n{states}"
    given = tuple(
        offline.of_text(
            f"n{n}",
            framed({"self": "", "ranks": agent.format(50, n) + worker.format(60, n), "look-1": look, "look-2": look}),
            "a",
            None,
            0.0,
        )
        for n in range(2)
    )
    found = judged(given)
    assert [(rank.rank, rank.node, rank.process.pid) for rank in found.ranks] == [(0, "n0", 60), (1, "n1", 60)]
    assert found.world == 2


def test_nodes_that_do_not_answer_and_no_job_are_no_verdict_on_a_job() -> None:
    empty = offline.of_text("n0", framed({"self": "", "ranks": "", "look-1": f"look {NOW}"}), "n0.txt", None, None)
    found = judged((empty,), (Unreachable("n1", "timed out"),))
    assert (found.kind, [finding.id for finding in found.findings]) == (StallClass.NO_JOB, ["stall-no-job", "stall-node-unreachable"])


def test_the_ticket_holds_the_line_that_drains_the_node_and_nothing_a_shell_would_run() -> None:
    found = judged(nodes(n2=node(2, kernel=XID.replace("python3", '$(reboot)"; x'))))
    text = stall_ticket.ticket(found, "runs/live")
    assert "run: scontrol update nodename=n2 state=drain reason=" in text
    assert "$(" not in stall_ticket.drain_commands(found)[0]
    assert stall_ticket.drain_commands(judged(nodes(n0=asked(ras(SPLIT))))) == (), "a program that is late is no reason to drain a node"


def log(*lines: str) -> str:
    told = "".join(f"{number}:{line}\n" for number, line in enumerate(lines, 7))
    return f"log 900 {NOW:.0f} 100 /out/rank.log\n{told}end of log\nlast line\nend of tail\n"


COMPLETION = (
    "n{0}:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.{1}<47001> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0"
)


def test_victims_of_status_12_name_the_peer_and_not_themselves() -> None:
    given = nodes(n0=node(0, logs=log(COMPLETION.format(0, 2))), n3=node(3, logs=log("step 9", COMPLETION.format(3, 2))))
    found = judged(given)
    assert (found.kind, found.culprit_nodes) == (StallClass.NETWORK, ("n2",))
    assert "/out/rank.log:8: " in found.findings[0].evidence[1].text


def test_of_watchdogs_that_ran_out_the_rank_that_enqueued_less_is_the_culprit() -> None:
    def line(rank: int, enqueued: int) -> str:
        words = f"Timeout at NCCL work: 57, last enqueued NCCL work: {enqueued}, last completed NCCL work: 56."
        return f"[rank{rank}]:[E710 09:00:00.4 ProcessGroupNCCL.cpp:629] [PG 0 Rank {rank}] {words}"

    found = judged(tuple(node(number, logs=log(line(number, 56 if number == 1 else 57))) for number in range(4)))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.RANK_BEHIND, (1,), ("n1",))


def test_a_name_that_only_ras_knows_is_quoted_where_a_shell_would_read_it() -> None:
    found = judged(nodes(n2=node(2, kernel=XID)))
    strange = dataclasses.replace(found, culprit_nodes=("10.9.9.9;reboot",))
    assert stall_ticket.drain_commands(strange)[0].startswith("scontrol update nodename='10.9.9.9;reboot' state=drain ")


def test_in_pods_the_node_is_cordoned_and_outside_of_both_schedulers_both_lines_are_given() -> None:
    found = dataclasses.replace(judged(nodes(n2=node(2, kernel=XID))), job="mpi 7")
    pods = tuple(
        dataclasses.replace(rank, process=dataclasses.replace(rank.process, environment=(("KUBERNETES_SERVICE_HOST", "10.96.0.1"),)))
        for rank in found.ranks
    )
    assert stall_ticket.drain_commands(dataclasses.replace(found, ranks=pods)) == ("kubectl cordon n2",)
    slurm, kubernetes = stall_ticket.drain_commands(found)
    assert slurm.startswith("scontrol update nodename=n2 state=drain reason=")
    assert kubernetes == "kubectl cordon n2"
    assert "run: kubectl cordon n2" in stall_ticket.ticket(found, "runs/live")


def test_a_slurm_job_is_asked_for_by_its_number_alone() -> None:
    with pytest.raises(UsageError) as error:
        nodes_of("12; reboot")
    assert error.value.what == "--job '12; reboot' is no Slurm job id"


class Scontrol:
    """A session in which scontrol says this."""

    node = "here"
    notes = ()

    def __init__(self, said: str, status: int = 0, error: str = "") -> None:
        self.answer = CommandResult("here", (), status, said.encode(), error.encode(), 0.1)

    def run(self, command: Command) -> CommandResult:
        assert command.argv == ("scontrol", "show", "job", "-o", "881234")
        return self.answer

    def close(self) -> None:
        """Nothing is open."""


def test_a_slurm_job_gives_its_nodes_or_says_why_not() -> None:
    line = "JobId=881234 JobName=train UserId=ana(1001) JobState={} ReqNodeList=(null) NodeList={} BatchHost=gpu-001\n"
    assert nodes_of("881234", Scontrol(line.format("RUNNING", "gpu-[001-004]"))) == "gpu-[001-004]"
    with pytest.raises(UsageError) as error:
        nodes_of("881234", Scontrol(line.format("PENDING", "(null)")))
    assert (error.value.what, error.value.seen) == ("slurm: job 881234 has no nodes", "JobState=PENDING")
    with pytest.raises(UsageError) as error:
        nodes_of("881234", Scontrol("", 1, "slurm_load_jobs error: Access/permission denied"))
    assert "Access/permission denied" in error.value.seen


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
        node(n, stacks=f"stack {100 + n}\nProcess {100 + n}: python3 train.py\n\n{WAITING.format(100 + n, call)}")
        for n, call in enumerate(calls)
    )


ALL_REDUCE, HOLD = "all_reduce (torch/distributed/distributed_c10d.py:2501)", "hold (train.py:3)"


def test_the_rank_whose_stack_is_elsewhere_while_the_others_wait_in_a_collective_is_named_with_its_line() -> None:
    found = judged(stacked(ALL_REDUCE, ALL_REDUCE, HOLD, ALL_REDUCE))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.RANK_BEHIND, (2,), ("n2",))
    assert found.headline == "rank 2 on n2 is in hold (train.py:3) while 3 others are in all_reduce"
    assert found.findings[0].evidence[0].text.startswith("rank 2 pid 102 MainThread: Condition.wait (threading.py:331) < Event.wait")


def test_the_rank_in_another_collective_than_the_others_disagrees() -> None:
    found = judged(stacked(ALL_REDUCE, "all_gather_into_tensor (torch/distributed/distributed_c10d.py:3)", ALL_REDUCE, ALL_REDUCE))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (StallClass.RANKS_DISAGREE, (1,), ("n1",))


def test_a_stack_and_ras_that_name_the_same_rank_make_it_certain() -> None:
    given = stacked(ALL_REDUCE, ALL_REDUCE, HOLD, ALL_REDUCE)
    text = ras(SPLIT)
    found = judged((dataclasses.replace(given[0], ras=asked(text).ras), *given[1:]))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (StallClass.RANK_BEHIND, (2,), Confidence.CERTAIN)
    assert any("hold (train.py:3)" in item.text for item in found.findings[0].evidence)


def test_stacks_that_are_all_alike_accuse_nobody() -> None:
    assert judged(stacked(*[ALL_REDUCE] * 4)).culprit_nodes == ()


def test_stacks_of_gdb_are_read_without_the_values_of_arguments() -> None:
    def gdb(pid: int, frame: str) -> str:
        return (
            f'stack {pid}\nThread 2 (Thread 0x7fc2 (LWP 5407) "python3"):\n#0  0x00007f in poll () from /lib/libc.so.6\n\n'
            f'Thread 1 (Thread 0x7fc3 (LWP {pid}) "python3"):\n#0  0x00007f in __futex_wait (barrier=0x1) at futex.c:57\n'
            f"#1  {frame}\n[Inferior 1 (process {pid}) detached]\n"
        )

    inside, outside = (
        "0x7f in ncclAllReduce (sendbuff=0x7f, count=4) at collectives.cc:88",
        'load_batch (path=0x7 "/a/all_reduce") at data.c:7',
    )
    found = judged(tuple(node(n, stacks=gdb(100 + n, outside if n == 1 else inside)) for n in range(4)))
    assert found.headline == "rank 1 on n1 is in load_batch at data.c:7 while 3 others are in all_reduce"


def pair(port: str, local: int, remote: int, state: str, pid: int) -> str:
    """A line of rdma resource show qp."""
    return (
        f"link {port} lqpn {local} rqpn {remote} type RC state {state} rq-psn 1 sq-psn 2 path-mig-state MIGRATED pid {pid} comm python3\n"
    )


def test_queue_pairs_in_error_accuse_the_other_end_and_its_port() -> None:
    given = nodes(
        n0=node(0, qps=pair("mlx5_0/1", 10, 20, "ERR", 100)),
        n2=node(2, qps=pair("mlx5_3/1", 20, 10, "RTS", 102) + pair("mlx5_3/1", 21, 11, "RTS", 102)),
        n3=node(3, qps=pair("mlx5_0/1", 11, 21, "ERR", 103)),
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].where[-1]) == (StallClass.NETWORK, ("n2",), "mlx5_3/1")
    assert found.headline == "n2 mlx5_3/1 is given up on by 2 ports: their queue pairs are in error, its own are not"


def test_queue_pairs_of_others_and_of_an_ended_job_accuse_nobody() -> None:
    given = nodes(n0=node(0, qps=pair("mlx5_0/1", 10, 20, "ERR", 77)), n2=node(2, qps=pair("mlx5_3/1", 20, 10, "RTS", 102)))
    assert judged(given).culprit_nodes == ()


def test_a_rank_that_leaves_its_neighbours_data_unread_is_only_possible() -> None:
    unread = socket(2, 1, 72).replace("ESTAB 0 0", "ESTAB 9000 0")
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71)), n2=node(2, look=unread)))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (StallClass.RANK_BEHIND, (2,), Confidence.POSSIBLE)
    assert "9000 bytes from 10.0.0.1:6000 unread in both looks" in found.findings[0].evidence[0].text


def test_a_rank_that_cannot_send_on_leaves_data_unread_and_is_not_accused_for_it() -> None:
    blocked = socket(2, 1, 72).replace("ESTAB 0 0", "ESTAB 9000 0") + socket(2, 3, 73).replace("ESTAB 0 0", "ESTAB 0 500000")
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71)), n2=node(2, look=blocked)))
    assert found.culprit_nodes == ()


def of_another_job(number: int, *, moved: int) -> NodeEvidence:
    """A node with two ranks of Slurm job 99, which received so many bytes between the looks."""
    own = f"host n{number} now {NOW:.1f} up {UP} boot boot-{number} tick {HZ}\naddress eth0 10.0.0.{number}\n"
    ranks = "".join(f"pid {pid}\nWORLD_SIZE=2\nRANK={pid - 900}\nSLURM_JOB_ID=99\nexe /usr/bin/python3\n" for pid in (900, 901))
    states = "".join(f"state {pid} S parent 1 ticks 9 start 7 rss 5 io 0 wchan ep_poll\n" for pid in (900, 901))

    def look(at: float, received: int) -> str:
        line = f"ESTAB 0 0 10.0.0.{number}:5000 10.0.0.9:6000 ino:55 sk:1 <->\t cubic bytes_received:{received} lastrcv:1\n"
        return f"look {at}\n{states}own 900\n55\n{line}"

    parts = {"self": own, "ranks": ranks, "look-1": look(NOW, 1000), "look-2": look(NOW + 5, 1000 + moved)}
    return offline.of_text(f"n{number}", framed(parts), "a", None, 0.0)


def test_another_job_on_the_culprits_leaf_is_told_with_whether_it_stands_too() -> None:
    leaves = {"n0": "leaf1", "n1": "leaf1", "n2": "leaf2", "n3": "leaf2", "n7": "leaf2"}
    stopped = nodes(n2=node(2, state="T"))
    standing, moving = (judged((*stopped, of_another_job(7, moved=moved)), leaves=leaves) for moved in (0, 10_000_000))
    assert standing.culprit_nodes == ("n2",)
    told_of = "slurm 99: 2 ranks on 1 of these nodes, 1 of them on the culprit's leaf leaf2: "
    assert standing.notes[0] == told_of + "nothing moves there either"
    assert moving.notes[0] == told_of + "it moves"


def test_data_of_another_job_on_the_same_node_does_not_make_a_stalled_one_move() -> None:
    beside = of_another_job(2, moved=10_000_000)
    both = node(2, state="T")
    mixed = dataclasses.replace(
        both,
        processes=both.processes + beside.processes,
        looks=tuple(
            dataclasses.replace(a, sockets=b.sockets, owners=b.owners) for a, b in zip(both.looks, beside.looks, strict=True) if a and b
        ),
    )
    found = judged(nodes(n2=mixed))
    assert (found.kind, found.culprit_nodes) == (StallClass.HOST, ("n2",))


def test_the_last_events_stand_in_one_order_of_time_however_far_the_clocks_are_off() -> None:
    def at(number: int, ahead: float, after: float) -> NodeEvidence:
        written = f"log 9 {NOW + ahead + after:.0f} {100 + number} /out/r{number}\nend of log\nstep {number}\nend of tail\n"
        made = node(number, logs=written)
        looks = tuple(dataclasses.replace(look, at_s=(look.at_s or 0) + ahead) for look in made.looks if look is not None)
        return dataclasses.replace(made, now_s=NOW + ahead, clock_offset_s=ahead, looks=looks)

    # n0's clock is a minute ahead and n1's half a minute behind; what n0 wrote first would come last by their own clocks.
    found = judged(nodes(n0=at(0, 60.0, -9.0), n1=at(1, -30.0, -5.0), n2=at(2, 0.0, -7.0)))
    told_in_order = [(event.node, round(event.at_s - NOW)) for event in found.timeline if "last wrote" in event.text]
    assert told_in_order == [("n0", -9), ("n2", -7), ("n1", -5)]


def test_the_watchdog_of_pytorch_waits_ten_minutes_from_the_last_data_where_nobody_set_a_limit() -> None:
    waiting = socket(1, 2, 71)
    torch = tuple(node(n, look=waiting if n == 1 else "") for n in range(4))
    with_recorder = tuple(
        dataclasses.replace(
            n, processes=tuple(dataclasses.replace(p, environment=(*p.environment, ("TORCH_FR_BUFFER_SIZE", "2000"))) for p in n.processes)
        )
        for n in torch
    )
    assert judged(with_recorder).watchdog_left_s == pytest.approx(600 - 35)
    assert judged(torch).watchdog_left_s is None, "nothing says that PyTorch runs it"
