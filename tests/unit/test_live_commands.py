"""What `busbw why --live` tells a person to run: only on the node that is to blame, in the form of
each tool, and nothing that harms a job that moves; from evidence composed in the script's own
format."""

from __future__ import annotations

import dataclasses

import pytest
from live_answers import NOW, judged, node, nodes, socket

from busbw.assess.commands import reaching
from busbw.cli import why_live
from busbw.model import Cluster, Finding, Node, Status, Unreachable
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.ticket import drain_commands
from busbw.parsers.stall.verdict import StallClass
from busbw.triage import collect

MUTE = "connect to 10.77.0.2 port 22: accepts TCP but never sends a banner (waited 5 s)"


def commands(findings: tuple[Finding, ...]) -> list[str]:
    return [command for f in findings for fix in f.fixes for command in fix.commands]


def acting(findings: tuple[Finding, ...]) -> list[str]:
    return [c for c in commands(findings) if c.startswith(("scontrol", "kubectl"))]


def test_an_address_of_the_one_node_that_does_not_answer_is_that_node() -> None:
    given = tuple(
        node(number, look=socket(number, 2, 70 + number, retries=7) if number == 3 else "")
        for number in (0, 1, 3)
    )
    found = judged(given, (Unreachable("n2", "no route to host"),))
    assert (found.culprit_nodes, len(found.findings)) == (("n2",), 1), "one fault, one finding"
    assert "n3 to n2 (10.0.0.3:5000 to 10.0.0.2:6000)" in found.findings[0].evidence[1].text
    assert [c.split()[2] for c in acting(found.findings)] == ["nodename=n2"]


def test_an_address_of_nobody_is_named_and_no_command_acts_on_it_or_on_its_peer() -> None:
    given = tuple(
        node(number, look=socket(3, 9, 73, retries=7) if number == 3 else "") for number in range(4)
    )
    found = judged(given)
    assert found.headline.startswith("the path between 10.0.0.9 and n3 is silent")
    assert (found.culprit_nodes, acting(found.findings), drain_commands(found)) == ((), [], ())
    assert found.findings[0].where == ("rank 3", "10.0.0.9", "n3")


def test_a_path_between_two_nodes_takes_neither_out_of_service() -> None:
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72))))
    assert found.culprit_nodes == ("n1", "n2")
    assert (acting(found.findings), drain_commands(found)) == ([], ())
    assert not any("without this node" in fix.summary for fix in found.findings[0].fixes)


def test_a_link_that_is_down_and_the_silence_behind_it_are_one_finding() -> None:
    down = "eth0/operstate:down\neth0/carrier:0\n"
    found = judged(
        nodes(
            n1=node(1, look=socket(1, 2, 71, retries=7)),
            n2=node(2, look=down),
            n3=node(3, look=socket(3, 2, 73, retries=7)),
        )
    )
    assert [finding.id for finding in found.findings] == ["stall-link-down"]
    assert acting(found.findings)[0].startswith("scontrol update nodename=n2 state=drain")


def test_since_is_when_the_last_answer_came_and_not_when_data_was_last_sent_again() -> None:
    down = "eth0/operstate:down\neth0/carrier:0\n"
    found = judged(
        nodes(n1=node(1, look=socket(1, 2, 71, retries=7)), n2=node(2, look=down)),
    )
    assert found.since_s == pytest.approx(NOW + 5 - 40)


def test_a_job_that_moves_is_not_called_slow_and_nothing_ends_it() -> None:
    def moving(number: int, **more: str) -> NodeEvidence:
        first = node(number, look=socket(number, (number + 1) % 4, 70, moved=1_000_000))
        second = node(number, look=socket(number, (number + 1) % 4, 70, moved=9_000_000))
        return dataclasses.replace(second, samples=(first.samples[0], second.samples[1]))

    found = judged(tuple(map(moving, range(4))))
    assert (found.kind, found.findings[0].id) == (StallClass.MOVING, "job-moves")
    assert found.headline == "the job makes progress: no stall seen"
    assert (found.findings[0].cause, commands(found.findings)) == ("", [])
    text = why_live.live_answer(found, "runs/x", None)
    assert "▲ MOVING  the job makes progress: no stall seen   [job-moves]\n" in text
    beside = judged(tuple(moving(n) for n in (0, 1, 3)), (Unreachable("n2", MUTE),))
    assert beside.kind is StallClass.MOVING
    assert [f.id for f in beside.findings] == ["job-moves", "stall-node-unreachable"]
    assert beside.findings[1].cause.startswith("Its sshd hangs")
    assert acting(beside.findings) == []
    assert not any(fix.disruptive for f in beside.findings for fix in f.fixes)


def test_a_hung_sshd_beside_another_culprit_takes_no_node_out_of_service() -> None:
    given = (node(0), node(1, state="T"), node(3))
    found = judged(given, (Unreachable("n2", MUTE),))
    assert [f.id for f in found.findings] == ["stall-rank-stopped", "stall-node-unreachable"]
    assert acting(found.findings[1:]) == []
    assert not any(fix.disruptive for fix in found.findings[1].fixes)
    silent = judged(given, (Unreachable("n2", "connect to n2 port 22: timed out after 5 s"),))
    assert [c.split()[2] for c in acting(silent.findings[1:])] == ["nodename=n2"]


def test_what_settles_an_unexplained_stall_comes_first_and_the_end_of_the_job_last() -> None:
    given = tuple(node(n, look=socket(n, (n + 1) % 4, 70)) for n in range(4))
    found = judged(given)
    assert found.kind is StallClass.UNKNOWN
    first = found.findings[0]
    assert first.cause.startswith("Not known.")
    assert first.fixes[0].commands == ("busbw why --live --stacks",)
    assert [fix.disruptive for fix in first.fixes] == [False, False, True]
    stack = 'stack 100\nThread 100 (idle): "MainThread"\n    all_reduce (x.py:1)\n'
    read = judged(
        tuple(
            node(n, look=socket(n, (n + 1) % 4, 70), stacks=stack.replace("100", str(100 + n)))
            for n in range(4)
        )
    )
    assert read.kind is StallClass.UNKNOWN
    assert not any("--stacks" in text for text in commands(read.findings))
    assert read.findings[0].would_settle == ()


def test_printed_commands_carry_the_options_that_chose_the_nodes() -> None:
    given = tuple(node(n, look=socket(n, (n + 1) % 4, 70)) for n in range(4))
    placed = why_live.targeted(judged(given), ("-i", "lab:x y"), ("-i", "lab:x y"))
    first = placed.findings[0]
    assert first.fixes[0].commands == ("busbw why --live -i 'lab:x y' --stacks",)
    assert first.fixes[-1].commands == ("busbw run -i 'lab:x y' --survey",)
    assert first.would_settle == ("busbw why --live -i 'lab:x y' --stacks",)


def test_a_place_is_written_as_people_say_it() -> None:
    down = "eth0/operstate:down\neth0/carrier:0\n"
    found = judged(nodes(n2=node(2, look=down)))
    text = why_live.live_answer(found, "runs/x", None)
    assert "likely that it is n2 eth0 (rank 2)]" in text
    assert "\n  where     n2 eth0 (rank 2)\n" in text


def test_two_ends_of_a_silent_path_are_written_as_the_path() -> None:
    found = judged(nodes(n1=node(1, look=socket(1, 2, 71, retries=7) + socket(1, 3, 72))))
    text = why_live.live_answer(found, "runs/x", None)
    assert "that it is the path between n1 and n2" in text
    assert "\n  where     the path between n1 and n2" in text


def test_many_nodes_that_do_not_answer_alike_are_one_line() -> None:
    names = [f"gpu-{number:03}" for number in range(1, 65)]
    gone = tuple(Unreachable(name, f"connect to {name} port 22: refused") for name in names)
    found = judged((), gone)
    text = why_live.live_answer(found, "runs/x", None)
    assert text.count("refused") == 1
    assert "NOT REACHED  gpu-[001-064]: connect to" in text
    assert "gpu-[001-016]" not in text
    assert "that it is" not in text.splitlines()[2]
    lines: list[tuple[str, str]] = []
    collect.tell_unreached(gone, lambda kind, line: lines.append((kind, line)))
    assert lines == [
        ("reach", "64 nodes not reached: gpu-[001-064]: connect to gpu-001 port 22: refused")
    ]


def test_a_sentence_that_begins_with_for_is_no_command_of_a_node() -> None:
    settle = ("for the slow link: busbw run", "for f in /sys/a/*; do cat $f; done")
    finding = Finding("x", Status.FAIL, "t", ("n2",), (), would_settle=settle)
    (placed,) = reaching((finding,), Cluster((Node("n2"),), "n2", "hosts"))
    assert placed.would_settle[0] == settle[0]
    assert placed.would_settle[1].startswith("ssh n2 ")
