"""Playbooks: the ones that come along, the units, the lab's changes, and every mistake a person can
make in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import playbook
from busbw.codec import dump_json, parse_json
from busbw.errors import PlaybookError
from busbw.fabrics import profiles
from busbw.model import BenchmarkCase, Collective, Sizes
from busbw.playbook import ChecksPlan, Gate, Playbook, SurveyPlan
from busbw.playbook.form import parse_sizes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

TEXT = """\
description: x
checks: {required: [ssh.connect], advisory: ["os.*"]}
fabric: rocev2
env: {NCCL_CROSS_NIC: 0}
cases:
  - id: sweep
    collective: all_reduce
    sizes: 8..1G
    ranks_per_node: 4
    iterations: 30
    timeout: 20m
    stall: 90
    env: {NCCL_ALGO: Ring}
    lab: {sizes: 64K..1M *4, iterations: 3, ranks_per_node: 2, timeout: 1m, stall: 30s, check: 1}
  - {id: once, collective: alltoall, sizes: 512M, purpose: diagnosis, per_iteration: true, blocking: 3, required: false}
gates:
  - {case: sweep, sizes_from: 1G, lab_sizes_from: 1M, minimum_ratio: 0.9}
  - {case: once, minimum_busbw_gb_s: 300, reference: playbook, required: false}
survey: {when: always, budget: 5m, size: 256M, iterations: 9, groups: [pairs]}
lab: {survey: {budget: 60, size: 1M}}
"""


def complaints(text: str) -> list[str]:
    with pytest.raises(PlaybookError) as caught:
        playbook.parse(text, "p.yaml", "p")
    assert caught.value.exit_status == 2
    return caught.value.what.splitlines()


def test_a_playbook_is_read_in_the_units_people_write() -> None:
    assert playbook.parse(TEXT, "p.yaml", "p") == Playbook(
        name="p",
        description="x",
        fabric="rocev2",
        checks=ChecksPlan(required=("ssh.connect",), advisory=("os.*",)),
        cases=(
            BenchmarkCase(
                id="sweep",
                collective=Collective.ALL_REDUCE,
                sizes=Sizes(8, GIB, 2, None),
                ranks_per_node=4,
                iterations=30,
                check=0,
                env=(("NCCL_ALGO", "Ring"),),
                timeout_s=1200.0,
                stall_s=90.0,
            ),
            BenchmarkCase(
                id="once",
                collective=Collective.ALLTOALL,
                sizes=Sizes(512 * MIB, 512 * MIB, 2, None),
                check=0,
                blocking=3,
                per_iteration=True,
                required=False,
                purpose="diagnosis",
            ),
        ),
        gates=(
            Gate("sweep", GIB, "best", None, 0.9, True),
            Gate("once", 0, "playbook", 300.0, None, False),
        ),
        survey=SurveyPlan("always", 300.0, 256 * MIB, 9, ("pairs",)),
        payload="nccl-tests",
        env=(("NCCL_CROSS_NIC", "0"),),
    )


def test_on_emulated_hosts_the_same_playbook_scales_itself_down() -> None:
    book = playbook.parse(TEXT, "p.yaml", "p", emulated=True)
    assert (book.payload, book.fabric, book.survey) == (
        "lab",
        "lab",
        SurveyPlan("always", 60.0, MIB, 9, ("pairs",)),
    )
    assert book.gates[0].sizes_from_bytes == MIB
    assert book.cases[0] == BenchmarkCase(
        id="sweep",
        collective=Collective.ALL_REDUCE,
        sizes=Sizes(64 * KIB, MIB, 4, None),
        ranks_per_node=2,
        iterations=3,
        check=1,
        env=(("NCCL_ALGO", "Ring"),),
        timeout_s=60.0,
        stall_s=30.0,
    )
    assert book.cases[1] == playbook.parse(TEXT, "p.yaml", "p").cases[1]


@pytest.mark.parametrize("name", playbook.names())
@pytest.mark.parametrize("emulated", [False, True])
def test_a_playbook_that_comes_along_can_be_run_and_recorded(name: str, emulated: bool) -> None:
    book = playbook.load(name, emulated=emulated)
    assert parse_json(dump_json(book).encode(), Playbook) == book
    assert book.fabric is None or book.fabric in profiles.names()
    assert book.payload == ("lab" if emulated else "nccl-tests")
    by_id = {case.id: case for case in book.cases}
    judged = {
        gate.case: [
            size for size in by_id[gate.case].sizes.planned() if size >= gate.sizes_from_bytes
        ]
        for gate in book.gates
    }
    assert all(judged.values())
    # A soak is held against itself, round by round.
    assert any(gate.required for gate in book.gates) or book.soak_s is not None


def test_day_one_proves_measures_and_checks_the_data() -> None:
    book = playbook.load("day-one")
    assert [(case.id, case.purpose) for case in book.cases] == [
        ("proof", "proof"),
        ("all-reduce", "bandwidth"),
        ("alltoall", "bandwidth"),
        ("latency", "latency"),
        ("correctness", "correctness"),
    ]
    assert book.cases[1].sizes == Sizes(8, 8 * GIB, 2)
    assert all(case.check > 0 for case in book.cases if case.purpose in ("proof", "correctness"))


def test_the_labs_day_one_is_small_enough_for_two_cores() -> None:
    book = playbook.load("day-one", emulated=True)
    assert max(case.sizes.maximum_bytes for case in book.cases) <= 16 * MIB
    assert (
        sum(
            len(case.sizes.planned()) * (case.iterations + case.warmup)
            for case in book.cases
            if case.purpose != "latency"
        )
        <= 300
    )


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1G", Sizes(GIB, GIB, 2, None)),
        ("8..8G", Sizes(8, 8 * GIB, 2, None)),
        (" 8 .. 64KiB ", Sizes(8, 64 * KIB, 2, None)),
        ("8..8G *4", Sizes(8, 8 * GIB, 4, None)),
        ("1M..4M + 1M", Sizes(MIB, 4 * MIB, None, MIB)),
    ],
)
def test_the_grammar_of_sizes(text: str, sizes: Sizes) -> None:
    assert Sizes(**parse_sizes(text)) == sizes  # type: ignore[arg-type]  # as the codec calls it


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8..4", "sizes must be more than 0 and in rising order, found '8..4'"),
        ("0..4", "sizes must be more than 0 and in rising order, found '0..4'"),
        ("", "expected sizes such as 1G, 8..8G, 8..8G *4 or 1M..16M +1M, found ''"),
        ("8..8Q", "expected a size such as 8, 64K or 8G, found '8Q'"),
        ("8..64 *1", "a factor is a whole number of 2 or more, found '1'"),
        ("8..64 *x", "a factor is a whole number of 2 or more, found 'x'"),
        ("8..64 +0", "a step must be more than 0, found '0'"),
    ],
)
def test_sizes_that_are_none_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_sizes(text)
    assert str(caught.value) == why


def test_every_mistake_in_a_playbook_is_reported_at_once() -> None:
    text = """\
description: x
cases:
  - {id: All Reduce, collective: all_reduce, sizes: 8..1G, iterations: 0, warmup: -1, timeout: 0}
  - {id: b, collective: all_reduce, sizes: 8..1G, blocking: 5, env: {HF_TOKEN: x, "A B": y}, lab: {cycles: 0}}
  - {id: b, collective: all_reduce, sizes: 8..1G}
gates:
  - {case: c, minimum_ratio: 0.9}
  - {case: b, sizes_from: 2G, minimum_ratio: 1.5}
  - {case: b}
  - {case: b, minimum_ratio: 0.9, minimum_busbw_gb_s: -1}
fabric: rocev3
survey: {when: always, groups: [], iterations: 0}
"""
    assert complaints(text) == [
        "p.yaml:3:10: an id is kebab-case (all-reduce), not 'All Reduce'",
        "p.yaml:3:72: must be 1 or more, not 0",
        "p.yaml:3:83: must be 0 or more, not -1",
        "p.yaml:3:96: must be more than 0",
        "p.yaml:4:61: nccl-tests' -z is 0 to 3, not 5",
        (
            "p.yaml:4:70: 'HF_TOKEN' looks like a secret, and every variable is written into the"
            " report"
        ),
        "p.yaml:4:83: 'A B' is not the name of a variable",
        "p.yaml:4:108: must be 1 or more, not 0",
        "p.yaml:5:10: case 'b' is there already, at line 4",
        "p.yaml:7:12: unknown case 'c'; known: All Reduce, b",
        "p.yaml:8:27: would judge nothing: sizes_from is 2 GiB, case 'b' ends at 1 GiB",
        "p.yaml:8:46: a share between 0 and 1, not 1.5",
        "p.yaml:9:5: a gate has minimum_ratio or minimum_busbw_gb_s, and not both",
        "p.yaml:10:5: a gate has minimum_ratio or minimum_busbw_gb_s, and not both",
        "p.yaml:10:55: must be more than 0 GB/s",
        "p.yaml:11:9: unknown fabric profile 'rocev3'; did you mean 'rocev2'?",
        "p.yaml:12:9: budget, size and iterations of a survey must be more than 0",
        "p.yaml:12:32: a survey needs groups: alone, pairs",
    ]


def test_a_gate_that_the_labs_smaller_sizes_leave_without_a_size_is_refused() -> None:
    text = TEXT.replace(", lab_sizes_from: 1M", "")
    assert complaints(text) == [
        "p.yaml:17:5: would judge nothing: lab_sizes_from is 1 GiB, case 'sweep' ends at 1 MiB in"
        " the lab"
    ]


def test_a_playbook_without_cases_would_measure_nothing() -> None:
    assert complaints("description: x\ncases: []\n") == [
        "p.yaml:2:8: names no case: nothing would be measured"
    ]


def test_an_unknown_playbook_lists_the_known_ones() -> None:
    with pytest.raises(PlaybookError) as caught:
        playbook.load("dayone")
    assert caught.value.lines() == (
        "error: unknown playbook 'dayone'; did you mean 'day-one'?",
        f"next: known playbooks: {', '.join(playbook.names())}, or give the path of a file",
    )


def test_a_playbook_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    assert playbook.load(str(path)).name == "mine"


def test_a_playbook_file_that_is_not_there_is_reported() -> None:
    with pytest.raises(PlaybookError) as caught:
        playbook.load("./no.yaml")
    assert caught.value.what == "./no.yaml: No such file or directory"


@pytest.mark.parametrize(
    "sizes",
    [
        {"minimum_bytes": 0, "maximum_bytes": 8, "factor": 2},
        {"minimum_bytes": 1, "maximum_bytes": 1 << 40, "factor": None, "increment_bytes": 1},
        {"minimum_bytes": 8, "maximum_bytes": 16, "factor": None, "increment_bytes": -1},
        {"minimum_bytes": 16, "maximum_bytes": 8},
    ],
)
def test_sizes_that_would_never_end_are_refused_wherever_they_stand(
    sizes: dict[str, int | None],
) -> None:
    with pytest.raises(PlaybookError, match="sizes"):
        parse_json(dump_json(sizes).encode(), Sizes, error=PlaybookError)
