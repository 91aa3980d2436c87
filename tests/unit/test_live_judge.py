"""The judgement on a live job: facts about nodes, several jobs, what is told; from evidence
composed in the script's own format."""

from __future__ import annotations

import dataclasses

import pytest
from live_answers import (
    HEALTHY,
    HZ,
    NOW,
    SPLIT,
    UP,
    XID,
    asked,
    framed,
    judged,
    node,
    nodes,
    ras,
    socket,
    told,
)

from busbw.cli import why_live
from busbw.errors import UsageError
from busbw.model import Command, CommandResult, Confidence, Unreachable
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.ticket import drain_commands, ticket
from busbw.parsers.stall.verdict import StallClass
from busbw.triage import offline
from busbw.triage.slurm_job import nodes_of


def test_a_lost_gpu_is_the_cause_and_the_rank_that_is_behind_its_victim() -> None:
    gpus = (
        "index, uuid, pci.bus_id, utilization.gpu [%]\n0, GPU-a, 00000000:1B:00.0, 100\n1, GPU-b,"
        " 00000000:43:00.0, [GPU is lost]\n"
    )
    users = "pid, gpu_uuid, used_gpu_memory [MiB]\n102, GPU-b, 70000\n"
    found = judged(nodes(n0=asked(ras(SPLIT)), n2=node(2, kernel=XID, gpu_1=gpus, gpu_apps=users)))
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.GPU_GONE,
        (2,),
        ("n2",),
    )
    assert found.headline == "n2 GPU 1 is gone: Xid 79 (rank 2); the others wait for it"
    assert found.since_s == pytest.approx(NOW - UP + 8000.5)
    assert found.findings[0].confidence is Confidence.CERTAIN
    assert any("kernel: NVRM: Xid" in event.text for event in found.timeline)


def test_an_xid_from_before_the_job_is_not_its_cause() -> None:
    assert told(nodes(n0=asked(ras(SPLIT)), n2=node(2, kernel=XID.replace("8000.5", "60.5")))) == (
        StallClass.RANK_BEHIND,
        (2,),
        ("n2",),
    )


def test_a_tool_that_hangs_on_a_gpu_is_a_finding() -> None:
    assert told(nodes(n1=node(1, gpu_1="", status={"gpu-1": 124}))) == (
        StallClass.GPU_GONE,
        (),
        ("n1",),
    )


def test_a_rank_in_disk_sleep_in_both_looks_waits_for_its_disk() -> None:
    found = judged(
        nodes(
            n0=asked(ras(SPLIT)),
            n2=node(2, state="D", wchan="nfs_wait_bit_killable", disks="place 102 /data/ckpt\n"),
        )
    )
    assert (found.kind, found.culprit_ranks, found.findings[0].id) == (
        StallClass.HOST,
        (2,),
        "stall-host-storage",
    )


def test_all_ranks_stopped_is_a_suspended_job() -> None:
    found = judged(tuple(node(number, state="T", wchan="do_signal_stop") for number in range(4)))
    assert (found.kind, found.headline) == (
        StallClass.HOST,
        "all 4 ranks are stopped: the job was suspended as a whole",
    )


def test_the_node_that_all_silent_connections_lead_to_is_the_culprit() -> None:
    given = nodes(
        n1=node(1, look=socket(1, 2, 71, retries=7)), n3=node(3, look=socket(3, 2, 73, retries=7))
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (
        StallClass.NETWORK,
        ("n2",),
        "stall-network-silent",
    )
    assert "eth0" in found.headline
    assert found.since_s == pytest.approx(NOW + 5 - 40)


def test_one_silent_pair_names_both_ends_of_the_path() -> None:
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72))))
    assert (found.kind, found.culprit_nodes) == (StallClass.NETWORK, ("n1", "n2"))


def test_of_one_silent_pair_the_end_that_ras_cannot_hear_either_is_the_culprit() -> None:
    cut = ras(HEALTHY, dead=(0, 1, 3)).replace(
        '"considered_dead": true', '"considered_dead": false'
    )
    others = ras(HEALTHY, dead=(2,)).replace('"considered_dead": true', '"considered_dead": false')
    given = nodes(
        n0=asked(others),
        n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72)),
        n2=node(2, ras_1=cut, ras_2=cut, look=socket(2, 3, 74)),
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].id) == (
        StallClass.NETWORK,
        ("n2",),
        "stall-network-silent",
    )


def test_a_port_that_is_down_everywhere_is_not_used_and_flags_nobody() -> None:
    down = "eth0/operstate:up\neth0/carrier:1\neth1/operstate:down\neth1/carrier:0\n"
    assert told(tuple(node(number, look=down) for number in range(4)))[0] is not StallClass.NETWORK


def test_an_infiniband_port_that_is_down_on_one_node_is_named() -> None:
    def port(state: str) -> str:
        return f"eth0/operstate:up\neth0/carrier:1\nmlx5_3/ports/1/state:{state}\n"

    given = tuple(
        node(number, look=port("1: DOWN" if number == 2 else "4: ACTIVE")) for number in range(4)
    )
    found = judged(given)
    assert (found.kind, found.culprit_nodes, found.findings[0].where[-1]) == (
        StallClass.NETWORK,
        ("n2",),
        "mlx5_3/1",
    )


TIMED_OUT = (Unreachable("n3", "connect to 10.0.0.3 port 22: timed out after 5 s"),)


def test_a_node_that_does_not_answer_and_holds_the_missing_ranks_is_the_cause() -> None:
    found = judged(nodes(3), TIMED_OUT)
    assert (found.kind, found.culprit_ranks, found.culprit_nodes) == (
        StallClass.HOST,
        (3,),
        ("n3",),
    )
    assert found.headline == "n3 does not answer, and rank 3 should run there"


def test_a_node_that_does_not_answer_is_not_the_cause_where_no_rank_is_missing() -> None:
    three = tuple(node(number, world=3) for number in range(3))
    found = judged(three, TIMED_OUT)
    assert (found.kind, found.culprit_nodes) == (StallClass.OUTSIDE, ())
    assert found.notes == (
        (
            "n3 did not answer (connect to 10.0.0.3 port 22: timed out after 5 s); no rank of the"
            " job is missing, so none runs there"
        ),
    )


def test_connections_that_are_silent_between_others_come_before_a_node_that_only_did_not_answer_us() -> (
    None
):
    given = nodes(
        3,
        n0=node(0, look=socket(0, 2, 71, retries=7)),
        n1=node(1, look=socket(1, 2, 73, retries=7)),
    )
    found = judged(given, TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-network-silent", ("n2",))
    assert "stall-node-unreachable" in [finding.id for finding in found.findings]


def test_a_node_that_the_others_kernels_do_not_reach_either_comes_before_their_silent_connections() -> (
    None
):
    given = nodes(
        3,
        n0=node(0, look=socket(0, 3, 71, retries=7)),
        n2=node(2, look=socket(2, 3, 73, retries=7)),
    )
    found = judged(given, TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-node-unreachable", ("n3",))
    assert (
        found.headline == "n3 does not answer, and rank 3 should run there; the others wait for it"
    )


def test_a_stopped_rank_that_was_seen_comes_before_a_node_that_only_did_not_answer() -> None:
    found = judged(nodes(3, n1=node(1, state="T")), TIMED_OUT)
    assert (found.findings[0].id, found.culprit_nodes) == ("stall-rank-stopped", ("n1",))


def test_the_rank_that_sleeps_elsewhere_while_all_wait_is_only_possible() -> None:
    found = judged(nodes(n2=node(2, wchan="hrtimer_nanosleep"), n1=node(1, look=socket(1, 2, 71))))
    assert (found.kind, found.culprit_ranks, found.findings[0].confidence) == (
        StallClass.RANK_BEHIND,
        (2,),
        Confidence.POSSIBLE,
    )


def test_a_rank_that_was_ready_to_run_and_got_no_cpu_is_not_the_odd_one() -> None:
    starved = node(2, state="R", wchan="0", ticks=3)
    last = starved.samples[1]
    assert last is not None
    sleeping = dataclasses.replace(
        last, states=tuple(dataclasses.replace(s, state="S") for s in last.states)
    )
    starved = dataclasses.replace(starved, samples=(starved.samples[0], sleeping))
    found = judged(tuple(starved if n == 2 else node(n, state="R", ticks=480) for n in range(4)))
    assert (found.kind, found.culprit_nodes) == (StallClass.OUTSIDE, ())


def test_ranks_without_a_connection_to_each_other_are_not_in_a_collective() -> None:
    found = judged(tuple(node(number, state="R", ticks=480) for number in range(4)))
    assert found.kind is StallClass.OUTSIDE
    assert "ranks 0, 1, 2 and 3 use the CPU" in found.headline


def test_a_rank_that_sleeps_while_others_compute_is_late_only_where_they_can_wait_for_it() -> None:
    given = tuple(
        node(n, state="S", wchan="hrtimer_nanosleep") if n == 2 else node(n, state="R", ticks=480)
        for n in range(4)
    )
    assert told(given) == (StallClass.RANK_BEHIND, (2,), ("n2",)), "ranks that wait in NCCL spin"
    without = tuple(
        dataclasses.replace(
            each, processes=tuple(dataclasses.replace(p, library=None) for p in each.processes)
        )
        for each in given
    )
    assert told(without) == (StallClass.OUTSIDE, (), ())


def test_nothing_there_is_no_verdict_on_a_job() -> None:
    empty = offline.of_text(
        "n0", framed({"self": "", "ranks": "", "look-1": f"look {NOW}"}), "n0.txt", None, None
    )
    found = judged((empty,))
    assert (found.kind, found.findings[0].id) == (StallClass.NO_JOB, "stall-no-job")


def test_wrappers_and_loaders_of_a_rank_are_not_more_ranks() -> None:
    nccl = "library libnccl.so.2\n"
    programs = (
        (90, "/usr/bin/bash", ""),
        (91, "/usr/bin/python3", nccl),
        (92, "/usr/bin/python3", nccl),
    )
    text = "".join(
        f"pid {pid}\nWORLD_SIZE=4\nRANK=0\nSLURM_JOB_ID=881234\nexe {exe}\n{library}"
        for pid, exe, library in programs
    )
    states = "".join(
        f"state {pid} S parent {pid - 1} ticks 1 start 7 rss 5 io 0 wchan ep_poll\n"
        for pid in (90, 91, 92)
    )
    look = f"look {NOW}\n{states}"
    one = offline.of_text(
        "n0",
        framed({"self": "", "ranks": text, "look-1": look, "look-2": look}),
        "n0.txt",
        None,
        0.0,
    )
    assert [(rank.rank, rank.process.pid) for rank in judged((one,)).ranks] == [(0, 91)]


def test_the_agents_that_srun_started_are_no_ranks_of_torchruns_job() -> None:
    agent = (
        "pid {0}\nSLURM_PROCID={1}\nSLURM_NTASKS=2\nSLURM_JOB_ID=881234\nexe"
        " /usr/bin/python3\nlibrary libtorch_cpu.so\n"
    )
    worker = (
        "pid {0}\nRANK={1}\nWORLD_SIZE=2\nSLURM_PROCID={1}\nSLURM_JOB_ID=881234\nexe"
        " /usr/bin/python3\nlibrary libnccl.so.2\n"
    )
    states = (
        "state 50 S parent 1 ticks 1 start 7 rss 5 io 0 wchan ep_poll\nstate 60 S parent 50 ticks 1"
        " start 9 rss 5 io 0 wchan ep_poll\n"
    )
    look = f"look {NOW}\n{states}"
    given = tuple(
        offline.of_text(
            f"n{n}",
            framed(
                {
                    "self": "",
                    "ranks": agent.format(50, n) + worker.format(60, n),
                    "look-1": look,
                    "look-2": look,
                }
            ),
            "a",
            None,
            0.0,
        )
        for n in range(2)
    )
    found = judged(given)
    assert [(rank.rank, rank.node, rank.process.pid) for rank in found.ranks] == [
        (0, "n0", 60),
        (1, "n1", 60),
    ]
    assert found.world == 2


@pytest.mark.parametrize(("gone", "place"), [(0, "n0"), (1, "n0"), (2, "n1"), (3, "n1")])
def test_a_dead_rank_is_placed_on_the_node_that_has_fewer_than_the_other_whichever_comes_first(
    gone: int, place: str
) -> None:
    there = [tuple(r for r in (2 * n, 2 * n + 1) if r != gone) for n in range(2)]
    links = (socket(0, 1, 70) + socket(0, 1, 71)).replace("own 100", f"own {100 + there[0][0]}")
    found = judged((node(0, ranks=there[0], look=links), node(1, ranks=there[1])))
    assert (found.culprit_ranks, found.culprit_nodes) == ((gone,), (place,))


def test_nodes_that_do_not_answer_and_no_job_are_no_verdict_on_a_job() -> None:
    empty = offline.of_text(
        "n0", framed({"self": "", "ranks": "", "look-1": f"look {NOW}"}), "n0.txt", None, None
    )
    found = judged((empty,), (Unreachable("n1", "timed out"),))
    assert (found.kind, [finding.id for finding in found.findings]) == (
        StallClass.NO_JOB,
        ["stall-no-job", "stall-node-unreachable"],
    )


def test_where_no_node_was_reached_nothing_was_looked_at_and_nobody_is_drained() -> None:
    gone = Unreachable("typo", "look up typo: Name or service not known", "correct the name")
    found = judged((), (gone,))
    (only,) = found.findings
    assert (only.title, only.fixes) == ("no node could be reached, so nothing was looked at", ())
    assert drain_commands(found) == ()
    lines = why_live.live_answer(found, "runs/live", None).splitlines()
    assert "NOT REACHED  typo: look up typo: Name or service not known" in lines
    assert "      try: correct the name" in lines


def test_the_ticket_holds_the_line_that_drains_the_node_and_nothing_a_shell_would_run() -> None:
    found = judged(nodes(n2=node(2, kernel=XID.replace("python3", '$(reboot)"; x'))))
    text = ticket(found, "runs/live")
    assert "run: scontrol update nodename=n2 state=drain reason=" in text
    assert "$(" not in drain_commands(found)[0]
    assert drain_commands(judged(nodes(n0=asked(ras(SPLIT))))) == (), (
        "a program that is late is no reason to drain a node"
    )


def test_a_name_that_only_ras_knows_is_quoted_where_a_shell_would_read_it() -> None:
    found = judged(nodes(n2=node(2, kernel=XID)))
    strange = dataclasses.replace(found, culprit_nodes=("10.9.9.9;reboot",))
    assert drain_commands(strange)[0].startswith(
        "scontrol update nodename='10.9.9.9;reboot' state=drain "
    )


def test_in_pods_the_node_is_cordoned_and_outside_of_both_schedulers_both_lines_are_given() -> None:
    found = dataclasses.replace(judged(nodes(n2=node(2, kernel=XID))), job="mpi 7")
    pods = tuple(
        dataclasses.replace(
            rank,
            process=dataclasses.replace(
                rank.process, environment=(("KUBERNETES_SERVICE_HOST", "10.96.0.1"),)
            ),
        )
        for rank in found.ranks
    )
    assert drain_commands(dataclasses.replace(found, ranks=pods)) == ("kubectl cordon n2",)
    slurm, kubernetes = drain_commands(found)
    assert slurm.startswith("scontrol update nodename=n2 state=drain reason=")
    assert kubernetes == "kubectl cordon n2"
    assert "run: kubectl cordon n2" in ticket(found, "runs/live")


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
    line = (
        "JobId=881234 JobName=train UserId=ana(1001) JobState={} ReqNodeList=(null) NodeList={}"
        " BatchHost=gpu-001\n"
    )
    assert nodes_of("881234", Scontrol(line.format("RUNNING", "gpu-[001-004]"))) == "gpu-[001-004]"
    with pytest.raises(UsageError) as error:
        nodes_of("881234", Scontrol(line.format("PENDING", "(null)")))
    assert (error.value.what, error.value.seen) == (
        "slurm: job 881234 has no nodes",
        "JobState=PENDING",
    )
    with pytest.raises(UsageError) as error:
        nodes_of("881234", Scontrol("", 1, "slurm_load_jobs error: Access/permission denied"))
    assert "Access/permission denied" in error.value.seen


def of_another_job(number: int, *, moved: int) -> NodeEvidence:
    """A node with two ranks of Slurm job 99, which received so many bytes between the looks."""
    own = (
        f"host n{number} now {NOW:.1f} up {UP} boot boot-{number} tick {HZ}\naddress eth0"
        f" 10.0.0.{number}\n"
    )
    ranks = "".join(
        f"pid {pid}\nWORLD_SIZE=2\nRANK={pid - 900}\nSLURM_JOB_ID=99\nexe /usr/bin/python3\n"
        for pid in (900, 901)
    )
    states = "".join(
        f"state {pid} S parent 1 ticks 9 start 7 rss 5 io 0 wchan ep_poll\n" for pid in (900, 901)
    )

    def look(at: float, received: int) -> str:
        line = (
            f"ESTAB 0 0 10.0.0.{number}:5000 10.0.0.9:6000 ino:55 sk:1 <->\t cubic"
            f" bytes_received:{received} lastrcv:1\n"
        )
        return f"look {at}\n{states}own 900\n55\n{line}"

    parts = {
        "self": own,
        "ranks": ranks,
        "look-1": look(NOW, 1000),
        "look-2": look(NOW + 5, 1000 + moved),
    }
    return offline.of_text(f"n{number}", framed(parts), "a", None, 0.0)


def test_another_job_on_the_culprits_leaf_is_reported_with_whether_it_stands_too() -> None:
    leaves = {"n0": "leaf1", "n1": "leaf1", "n2": "leaf2", "n3": "leaf2", "n7": "leaf2"}
    stopped = nodes(n2=node(2, state="T"))
    standing, moving = (
        judged((*stopped, of_another_job(7, moved=moved)), leaves=leaves)
        for moved in (0, 10_000_000)
    )
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
        samples=tuple(
            dataclasses.replace(a, sockets=b.sockets, owners=b.owners)
            for a, b in zip(both.samples, beside.samples, strict=True)
            if a and b
        ),
    )
    found = judged(nodes(n2=mixed))
    assert (found.kind, found.culprit_nodes) == (StallClass.HOST, ("n2",))


def test_the_last_events_stand_in_one_order_of_time_however_far_the_clocks_are_off() -> None:
    def at(number: int, ahead: float, after: float) -> NodeEvidence:
        written = (
            f"log 9 {NOW + ahead + after:.0f} {100 + number} /out/r{number}\nend of log\nstep"
            f" {number}\nend of tail\n"
        )
        made = node(number, logs=written)
        samples = tuple(
            dataclasses.replace(look, at_s=(look.at_s or 0) + ahead)
            for look in made.samples
            if look is not None
        )
        return dataclasses.replace(made, now_s=NOW + ahead, clock_offset_s=ahead, samples=samples)

    # n0's clock is a minute ahead and n1's half a minute behind; what n0 wrote first would come
    # last by their own clocks.
    found = judged(nodes(n0=at(0, 60.0, -9.0), n1=at(1, -30.0, -5.0), n2=at(2, 0.0, -7.0)))
    told_in_order = [
        (event.node, round(event.at_s - NOW))
        for event in found.timeline
        if "last wrote" in event.text
    ]
    assert told_in_order == [("n0", -9), ("n2", -7), ("n1", -5)]


def test_the_watchdog_of_pytorch_waits_ten_minutes_from_the_last_data_where_nobody_set_a_limit() -> (
    None
):
    waiting = socket(1, 2, 71)
    torch = tuple(node(n, look=waiting if n == 1 else "") for n in range(4))
    with_recorder = tuple(
        dataclasses.replace(
            n,
            processes=tuple(
                dataclasses.replace(
                    p, environment=(*p.environment, ("TORCH_FR_BUFFER_SIZE", "2000"))
                )
                for p in n.processes
            ),
        )
        for n in torch
    )
    assert judged(with_recorder).watchdog_left_s == pytest.approx(600 - 35)
    assert judged(torch).watchdog_left_s is None, "nothing says that PyTorch runs it"
