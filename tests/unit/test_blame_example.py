"""The example of docs/survey.md: its times lead to the figures that it gives."""

from __future__ import annotations

import re
from pathlib import Path

from busbw.model import Component, ComponentKind
from busbw.parsers.blame import blame
from busbw.parsers.blame.accounts import Accounting, cost
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.levels import levels
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample

TEXT = (Path(__file__).parents[2] / "docs" / "survey.md").read_text().partition("### An example")[2]
ALIKE = ("node3", "node4", "node3 – node4", "node2 – node3")


def measured(launches: int) -> tuple[GroupSample, ...]:
    """The groups of the first launches, as the table has them; every iteration alike."""
    samples = []
    for launch, row in re.findall(r"^\| (\d) \| (node.*) \|$", TEXT, re.MULTILINE):
        for a, b, busbw in re.findall(r"(node\d) \+ (node\d): ([\d.]+)", row):
            samples.append(GroupSample((a, b), 1 << 30, (float(busbw),) * 20, "", launch=launch))
    return tuple(sample for sample in samples if int(sample.launch) <= launches)


def account(launches: int, label: str) -> str:
    """Misfit that the part explains, as the table shows it; empty = nothing for it."""
    accounting = Accounting(Columns(levels(measured(launches), Fabric()), {}), Fabric())
    names = tuple(label.split(" – "))
    kind = ComponentKind.PAIR if len(names) == 2 else ComponentKind.NODE
    if not {names} <= {s.nodes for s in measured(launches)} | {(n,) for n in ("node3", "node4")}:
        return ""
    found = accounting.account(Component(kind, names))
    return "" if found is None else f"{found.gain:.0f}"


def test_the_accounts_of_the_example_are_those_of_the_model() -> None:
    rows = [f"  | {n} | {' | '.join(account(n, label) for label in ALIKE)} |" for n in (1, 2, 3)]
    assert [row.replace("|  |", "| |") for row in rows] == re.findall(r"^  \| \d .*$", TEXT, re.M)


def test_the_node_of_the_example_is_flagged_after_three_launches_and_suspected_before() -> None:
    outcomes = [blame.solve(measured(n)) for n in (1, 2, 3)]
    assert [[each.component.label for each in o.blames] for o in outcomes] == [[], [], ["node3"]]
    assert [doubt.account.part.label for doubt in outcomes[1].open] == ["node3"]
    costs = [cost(Component(kind, ())) for kind in (ComponentKind.NODE, ComponentKind.PAIR)]
    assert f"A node costs {costs[0]:.0f}, a pair {costs[1]:.0f}" in TEXT


def test_the_evidence_is_groups_like_those_that_were_slow_and_no_node_by_itself() -> None:
    """A partner that is good by itself may have a bad link all the same: it decides nothing here."""
    nodes = sorted({node for sample in measured(3) for node in sample.nodes})
    alone = [GroupSample((n,), 1 << 30, (300.0,) * 20, "alone", launch="0") for n in nodes]
    (node3,) = blame.solve((*alone, *measured(3))).blames
    pairs = [each.text.partition(":")[0] for each in node3.seen_in]
    assert pairs[:3] == ["node3 + node5", "node2 + node3", "node3 + node4"]
    assert len(pairs) > 3
    assert all(" + " in pair and ("node3" not in pair) for pair in pairs[3:])
