"""What the pictures beside the numbers say: the course of a stall, the topology by rails, what
accuses and what clears."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from busbw.model import (
    Blame,
    BlameState,
    Component,
    ComponentKind,
    Finding,
    LaunchRole,
    Leaf,
    Medium,
    StallStory,
    Status,
    StoryEvent,
    StoryRank,
    Topology,
    TopologyNic,
)
from busbw.reports import ReportInput, html
from busbw.reports.groups import measured_groups, usual_by_kind
from busbw.reports.sections import groups, matrix, stalls, topology

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def blamed(report: ReportInput, *blames: Blame) -> ReportInput:
    return replace(report, result=replace(report.result, blame=blames))


def accusation(component: Component, cleared: tuple[str, ...] = ()) -> Blame:
    return Blame(component, BlameState.SLOW, 0.02, 0.1, (), cleared)


def test_a_stall_tells_what_each_rank_did_with_the_accused_first() -> None:
    made = stalls.view(RUNS.stalled())
    assert made is not None
    assert len(made) == 1
    assert made[0].heading == "all-reduce: stalled"
    assert (
        made[0].conclusion
        == "busbw ended the launch: no output for 15 s. Ranks seen: 8 of 8. Suspects: node3 (1 rank"
        " stopped)."
    )
    assert [
        (row.ranks, row.nodes, row.state, row.waits_in, row.cpu, row.flagged)
        for row in made[0].ranks
    ] == [
        ("5", "node3", "stopped", "do_signal_stop", "0.00 s", True),
        ("0-4,6-7", "node[1-4]", "running", "–", "1.90 s", False),
    ]
    assert [(row.after, row.who) for row in made[0].events][-2:] == [
        ("+17.0 s", "busbw"),
        ("+21.0 s", "busbw"),
    ]
    assert made[0].picture is not None
    assert ">no output<" in made[0].picture.markup


def test_a_stall_without_any_known_moment_or_rank_is_still_reported() -> None:
    timeline = StallStory(
        "proof",
        "timed-out",
        "not ended after 60 s",
        (),
        (StoryRank(0, "n1", "not found", "", None, False),),
        ("n2",),
    )
    base = RUNS.stalled()
    made = stalls.view(replace(base, result=replace(base.result, stalls=(timeline,))))
    assert made is not None
    assert (
        made[0].conclusion
        == "busbw ended the launch: not ended after 60 s. Ranks seen: 0 of 1. No answer from n2."
    )
    assert made[0].picture is None
    assert [(row.state, row.cpu) for row in made[0].ranks] == [("not found", "not known")]
    assert stalls.view(RUNS.healthy()) is None


def test_a_stall_without_samples_has_no_quiet_band_whatever_its_events_read() -> None:
    base = RUNS.stalled()
    (story,) = base.result.stalls
    stalled = replace(base.result, stalls=(replace(story, quiet=None),))
    made = stalls.view(replace(base, result=stalled))
    assert made is not None
    assert made[0].picture is not None
    assert ">no output<" not in made[0].picture.markup


def test_one_moment_alone_draws_no_axis() -> None:
    timeline = StallStory(
        "proof", "stalled", "no output for 5 s", (StoryEvent(10.0, "busbw", "started"),), ()
    )
    base = RUNS.stalled()
    made = stalls.view(replace(base, result=replace(base.result, stalls=(timeline,))))
    assert made is not None
    assert made[0].picture is None


def test_nodes_that_are_cabled_alike_are_one_row_and_the_accused_stands_first() -> None:
    made = topology.view(RUNS.failing())
    assert made is not None
    assert (
        made.conclusion
        == "16 nodes with 8 rails on 8 leaves, rail-optimised: the rails of a node are on different"
        " leaves. Suspects: gpu-005."
    )
    assert made.rails[0] == "rail 0, mlx5_0"
    assert [(row.nodes, row.flagged) for row in made.rows] == [
        ("gpu-005", "slow"),
        ("gpu-[000-004,006-015]", ""),
    ]
    assert [cell.leaf for cell in made.rows[1].cells] == [
        f"su01-leaf{rail + 1}" for rail in range(8)
    ]


def test_a_single_bad_rail_is_marked_in_its_own_cell_only() -> None:
    made = topology.view(
        blamed(RUNS.failing(), accusation(Component(ComponentKind.RAIL, ("gpu-007",), 2)))
    )
    assert made is not None
    assert made.rows[0].nodes == "gpu-007"
    assert [cell.flagged for cell in made.rows[0].cells] == ["", "", "slow", "", "", "", "", ""]


def test_a_leaf_that_is_accused_is_marked_in_the_list_of_leaves() -> None:
    made = topology.view(
        blamed(RUNS.emulated(), accusation(Component(ComponentKind.UPLINK, ("leaf2",))))
    )
    assert made is not None
    assert [(leaf.name, leaf.nodes, leaf.flagged) for leaf in made.leaves] == [
        ("leaf1", "node[1-2]", ""),
        ("leaf2", "node[3-4]", "slow"),
    ]


def test_one_rail_on_one_leaf_is_a_map_without_a_table() -> None:
    base = RUNS.emulated()
    nodes = base.result.nodes
    flat = Topology(
        nodes,
        tuple(TopologyNic(node, "eth0", 0, "leaf1", None) for node in nodes),
        (Leaf("leaf1", None, nodes),),
        (),
    )
    made = topology.view(replace(base, result=replace(base.result, topology=flat)))
    assert made is not None
    assert not made.table
    assert "node3: slow" in made.picture.markup
    assert topology.view(replace(base, result=replace(base.result, topology=None))) is None


def test_a_thousand_nodes_are_a_few_rows() -> None:
    made = topology.view(RUNS.huge())
    assert made is not None
    assert (len(made.rows), len(made.folded), made.more) == (6, 27, 0)
    assert made.rows[0].nodes == "gpu-005"


def test_the_survey_names_a_suspicion_that_is_not_proved() -> None:
    base = RUNS.emulated()
    suspicion = Finding("suspicion-open", Status.WARN, "node1 is suspected", ("node1",), ())
    for findings, said in (
        ((), ". No suspect: the slowest got "),
        ((suspicion,), ". Suspected, not proved: node1: the slowest got "),
    ):
        result = replace(base.result, blame=(), findings=findings)
        made = groups.view(replace(base, result=result))
        assert made is not None
        assert said in made.conclusion


def test_the_survey_says_which_measurements_accuse_and_which_clear() -> None:
    made = groups.view(RUNS.emulated())
    assert made is not None
    told = made.suspects[0]
    assert told.component == "node3"
    assert {line.text.partition(":")[0] for line in told.against} == {
        "node2 + node3",
        "node1 + node3",
        "node3 + node4",
    }
    assert {line.text.partition(":")[0] for line in told.clearing} <= {
        "node1 + node4",
        "node2 + node4",
        "node4 + node2",
        "node1 + node2",
    }
    assert all(
        line.artefact.startswith("raw/cases/survey-pairs-")
        for line in (*told.against, *told.clearing)
    )
    assert told.cleared == "node[1-2,4]"


def test_a_group_over_another_rail_of_the_node_is_not_accused() -> None:
    base = blamed(RUNS.emulated(), accusation(Component(ComponentKind.RAIL, ("node3",), 1)))
    # Two ranks a node in each group: all rails. One rank a node in each: the place of the rank is
    # the rail.
    assert {group.rail for group in base.groups} == {None}
    assert {group.nodes for group in base.groups if group.flagged} == {
        ("node2", "node3"),
        ("node1", "node3"),
        ("node3", "node4"),
    }
    one_rail = replace(base, result=_one_rank_a_group(base.result))
    assert {group.rail for group in one_rail.groups} == {0, 1}
    assert {(group.nodes, group.rail) for group in one_rail.groups if group.flagged} == {
        (("node2", "node3"), 1),
        (("node1", "node3"), 1),
        (("node3", "node4"), 1),
    }


def _one_rank_a_group(result):  # type: ignore[no-untyped-def]  # of a fixture
    """Every group of two ranks a node as two groups of one rank a node."""

    def split(outcome):  # type: ignore[no-untyped-def]
        if outcome.case.split is None:
            return outcome
        made = []
        for table in outcome.results:
            ranks = tuple(
                replace(line, group=2 * (line.group or 0) + line.rank % 2) for line in table.ranks
            )
            group_of = {line.rank: line.group for line in ranks}
            times = tuple(
                replace(entry, group=group_of[entry.process]) for entry in table.process_times
            )
            made.append(replace(table, ranks=ranks, process_times=times))
        return replace(outcome, results=tuple(made))

    return replace(result, cases=tuple(split(outcome) for outcome in result.cases))


def test_only_groups_that_cross_the_accused_uplink_are_accused() -> None:
    base = blamed(RUNS.emulated(), accusation(Component(ComponentKind.UPLINK, ("leaf1",))))
    assert {group.nodes for group in base.groups if not group.flagged} == {
        ("node1", "node2"),
        ("node3", "node4"),
    }
    between = blamed(
        RUNS.emulated(), accusation(Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2")))
    )
    assert [group.flagged for group in between.groups] == [group.flagged for group in base.groups]
    leaf = blamed(RUNS.emulated(), accusation(Component(ComponentKind.LEAF, ("leaf1",))))
    assert {group.nodes for group in leaf.groups if not group.flagged} == {("node3", "node4")}
    plane = blamed(RUNS.emulated(), accusation(Component(ComponentKind.RAIL_PLANE, (), 0)))
    assert all(group.flagged for group in plane.groups)


def test_what_is_usual_is_distinguished_for_groups_that_cannot_be_compared() -> None:
    made = measured_groups(RUNS.emulated().result)
    alone = replace(made[0], nodes=("node1",), busbw_gb_s=9.0, flagged=False)
    nvlink = replace(made[0], medium=Medium.NVLINK, busbw_gb_s=820.0, flagged=False)
    usual = usual_by_kind((*made, alone, nvlink))
    assert usual[True, True, False] == 9.0
    assert usual[False, True, False] < 1.0
    assert usual[False, True, True] == 820.0


def test_a_pair_alone_in_its_launch_is_a_group_as_each_is_of_three_nodes() -> None:
    result = RUNS.emulated().result
    surveyed = [each for each in result.cases if each.case.split is not None]
    unsplit = {
        each.case.id: replace(each, case=replace(each.case, split=None, role=LaunchRole.PAIRS))
        for each in surveyed
    }
    alone = replace(result, cases=tuple(unsplit.get(each.case.id, each) for each in result.cases))
    assert measured_groups(alone) == measured_groups(result)
    ring = replace(
        result,
        cases=tuple(
            replace(each, case=replace(each.case, role=LaunchRole.WHOLE)) for each in alone.cases
        ),
    )
    assert measured_groups(ring) == ()


def test_of_a_pair_measured_twice_the_matrix_shows_the_slower() -> None:
    base = RUNS.every_pair(16)
    first = matrix.view(base)
    assert first is not None
    pair = next(
        c
        for c in base.result.comparisons
        if c.case_id == "survey-pairs" and "gpu-005" not in c.nodes
    )
    slower = replace(pair, measured_gb_s=1.0, ratio=0.02)
    again = replace(
        base, result=replace(base.result, comparisons=(slower, *base.result.comparisons))
    )
    made = matrix.view(again)
    assert made is not None
    assert any(row.slowest.startswith("1.0") for row in made.rows)


def test_a_sentence_gets_no_copy_button_and_a_command_does() -> None:
    base = RUNS.failing()
    finding = replace(
        base.result.findings[1],
        would_settle=("busbw run --survey",),
        verify=("run the same case again",),
    )
    text = html.render(replace(base, result=replace(base.result, findings=(finding,))))
    assert '<pre class="cmd"><code>busbw run <span>--survey</span></code></pre>' in text
    assert '<p class="step">run the same case again</p>' in text
