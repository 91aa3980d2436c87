"""What `busbw why --live` tells a person to run: only on the node that is to blame, in the form of
each tool, and nothing that harms a job that moves; from evidence composed in the script's own
format."""

from __future__ import annotations

import pytest
from live_answers import NOW, judged, node, nodes, socket

from busbw.model import Finding, Unreachable
from busbw.parsers.stall.ticket import drain_commands

SILENT = "connect to 10.77.0.2 port 22: accepts TCP but never sends a banner (waited 5 s)"


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
