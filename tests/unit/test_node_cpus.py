"""Nodes whose CPUs were not the benchmark's alone: by their control groups, and by who runs there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from busbw.assess import node_cpus
from busbw.model import Confidence, Finding, Status
from busbw.parsers.tools import cpu_shares
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CounterFile, CountersArtefact
from busbw.store.run_directory import RunDir

LAB = "/sys/fs/cgroup/cpu/busbw-lab-1cce7bae4dc4-node2/cpu.stat"
ROOT = "/sys/fs/cgroup/cpu/cpu.stat"


def text(periods: int, stopped: int, group: str = LAB, tasks: str = "") -> str:
    """As recorded in a lab node on Linux 6.18 with control groups of version 1: the node's own group
    and the machine's."""
    return (
        f"== time 12.50\n== cpu\n{tasks}{group}:nr_periods {periods}\n{group}:nr_throttled {stopped}\n"
        f"{ROOT}:nr_periods 0\n{ROOT}:nr_throttled 0\n== tcp\n== end\n"
    )


def test_the_group_that_was_stopped_most_is_read_with_its_line() -> None:
    before, after = text(4, 0), text(59, 45)
    assert cpu_shares.throttling(before, after) == cpu_shares.Throttling(LAB, 55, 45, 4)
    assert after.splitlines()[3] == f"{LAB}:nr_throttled 45"


def test_no_limit_no_section_and_counters_that_began_anew_say_nothing() -> None:
    assert cpu_shares.throttling(text(0, 0), text(0, 0)) is None
    assert cpu_shares.throttling("", text(59, 45)) is None
    assert cpu_shares.throttling(text(4, 0), "== tcp\n== end\n") is None
    assert cpu_shares.throttling(text(59, 45), text(4, 0)) is None
    assert cpu_shares.throttling(text(4, 0, "/sys/fs/cgroup/a/cpu.stat"), text(59, 45)) is None


def kept(root: Path, launches: dict[str, dict[str, tuple[int, int]]]) -> RunDir:
    """`launches`: what each node's (periods, stopped) grew by in each launch."""
    run = run_directory.create(root, "2026-11-22T09:00:00Z", "survey")
    for case, nodes in launches.items():
        for moment in ("before", "after"):
            files = []
            for node, (periods, stopped) in nodes.items():
                grown = text(1000, 20) if moment == "before" else text(1000 + periods, 20 + stopped)
                path = run.write_raw(f"cases/{case}/counters-{moment}/{node}.txt", grown)
                files.append(CounterFile(node, path, ""))
            artefact = CountersArtefact(moment, tuple(files))
            artefacts.keep(run, f"cases/{case}/counters-{moment}.json", artefact)
    return run


def found(root: Path, launches: dict[str, dict[str, tuple[int, int]]]) -> tuple[Finding, ...]:
    made = tuple(
        SimpleNamespace(artefact=SimpleNamespace(case=SimpleNamespace(id=case)))
        for case in launches
    )
    return node_cpus.findings(kept(root, launches), made)  # type: ignore[arg-type]


def test_a_node_stopped_in_two_launches_is_named_with_its_numbers(tmp_path: Path) -> None:
    calm, stopped = (0, 0), (50, 45)
    (finding,) = found(
        tmp_path,
        {
            "a": {"node1": calm, "node2": stopped},
            "b": {"node1": calm, "node2": calm},
            "c": {"node1": (40, 1), "node2": (100, 70)},
        },
    )
    assert (finding.id, finding.status, finding.where, finding.confidence) == (
        "cpu-throttled",
        Status.WARN,
        ("node2",),
        Confidence.CERTAIN,
    )
    assert finding.title == (
        "node2 was stopped by its CPU limit in 80% of the scheduler's periods, in 2 of 3 launches"
    )
    assert [(e.artefact, e.line_no, e.text) for e in finding.evidence] == [
        (
            f"raw/cases/{case}/counters-after/node2.txt",
            4,
            f"node2: stopped in {count} of {periods} periods by the limit of"
            " /sys/fs/cgroup/cpu/busbw-lab-1cce7bae4dc4-node2",
        )
        for case, count, periods in (("a", 45, 50), ("c", 70, 100))
    ]


def test_one_launch_few_periods_and_a_small_share_name_nobody(tmp_path: Path) -> None:
    assert found(tmp_path / "once", {"a": {"n": (50, 45)}, "b": {"n": (50, 0)}}) == ()
    assert found(tmp_path / "few", {case: {"n": (4, 4)} for case in "ab"}) == ()
    assert found(tmp_path / "small", {case: {"n": (100, 9)} for case in "ab"}) == ()


def test_it_is_advice_where_no_stopped_node_is_suspected(tmp_path: Path) -> None:
    stopped = found(tmp_path, {case: {"n1": (50, 45), "n2": (50, 40)} for case in "ab"})
    (advice,) = node_cpus.with_suspects(stopped, ("n7",))
    assert not advice.required
    assert advice.title == (
        "all 2 nodes were stopped by their CPU limits in up to 90% of the scheduler's periods, in 2"
        " of 2 launches"
    )
    assert node_cpus.with_suspects(stopped, ("n2",)) == stopped


def loaded(
    root: Path, own: tuple[int, ...], machine: int, *, emulated: bool
) -> tuple[Finding, ...]:
    """Two launches; `own`: processes that run on node2 before and after each of them."""
    run = run_directory.create(root, "2026-11-22T09:00:00Z", "survey")
    for number, case in enumerate("ab"):
        for position, moment in enumerate(("before", "after")):
            files = []
            for node, count in (("node1", 1), ("node2", own[2 * number + position])):
                line = f"tasks {machine} own {count} cpus 2\n"
                path = run.write_raw(
                    f"cases/{case}/counters-{moment}/{node}.txt", text(0, 0, tasks=line)
                )
                files.append(CounterFile(node, path, ""))
            artefact = CountersArtefact(moment, tuple(files))
            artefacts.keep(run, f"cases/{case}/counters-{moment}.json", artefact)
    made = tuple(
        SimpleNamespace(artefact=SimpleNamespace(case=SimpleNamespace(id=case))) for case in "ab"
    )
    return node_cpus.findings(run, made, emulated=emulated)  # type: ignore[arg-type]


def test_other_work_before_and_after_each_launch_is_named_with_its_node(tmp_path: Path) -> None:
    (finding,) = loaded(tmp_path, (5, 6, 7, 5), 20, emulated=True)
    assert (finding.id, finding.where, finding.confidence) == (
        "cpu-shared",
        ("node2",),
        Confidence.CERTAIN,
    )
    assert finding.title == "node2 ran other work: 2.0 tasks for each CPU, in 2 of 2 launches"
    assert [(e.artefact, e.line_no, e.text) for e in finding.evidence] == [
        ("raw/cases/a/counters-before/node2.txt", 3, "node2: 4 tasks of others for 2 CPUs"),
        ("raw/cases/b/counters-after/node2.txt", 3, "node2: 4 tasks of others for 2 CPUs"),
    ]


def test_work_that_passes_and_tasks_of_a_shared_machine_name_no_emulated_node(
    tmp_path: Path,
) -> None:
    assert loaded(tmp_path / "passes", (5, 1, 5, 5), 20, emulated=True) == ()
    assert loaded(tmp_path / "few", (3, 3, 3, 3), 20, emulated=True) == ()
    (whole,) = loaded(tmp_path / "real", (3, 3, 3, 3), 20, emulated=False)
    assert (
        whole.title
        == "all 2 nodes ran other work: up to 9.5 tasks for each CPU, in 2 of 2 launches"
    )
