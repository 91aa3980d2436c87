"""Options of nccl-tests as fields of a case: written, refused, proven; a grid of them in a sweep."""

from __future__ import annotations

import dataclasses
import random
import runpy
from contextlib import nullcontext
from pathlib import Path

import pytest

from busbw import playbook
from busbw.building.recipe import BuildOutcome, NodeTypeBuild
from busbw.compare import ab, plan
from busbw.compare.ab import Slot
from busbw.errors import BuildError, PlaybookError, UsageError
from busbw.launch import nccl_tests
from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    BinaryOptions,
    CaseOutcome,
    Collective,
    Measurement,
    Sizes,
    Status,
)
from busbw.parsers.nccl_tests import proof
from busbw.reports.sections import interleaved
from busbw.run import build

BOOK = """\
description: options
cases:
  - id: all-reduce
    collective: all_reduce
    {}
"""


def case(**options: object) -> BenchmarkCase:
    fields = dataclasses.replace(BinaryOptions(), **options)  # type: ignore[arg-type]
    return BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8), options=fields)


def parsed(*lines: str) -> playbook.Playbook:
    text = BOOK.format("\n    ".join(("sizes: 8", *lines)))
    return playbook.parse(text, "mine.yaml", "mine")


def test_every_option_is_a_field_and_stands_on_the_command_line() -> None:
    book = parsed(
        "datatype: bfloat16",
        "operation: avg",
        "aggregate: 4",
        "parallel_init: 1",
        "null_stream: 1",
        "graph_launches: 2",
        "timestamps: 1",
        "average: 3",
        "registration: 2",
        "cta_policy: 2",
        "device_implementation: 4",
        "device_ctas: 32",
        "memory_report: 1",
        "unalign: 1",
        "size_timeout_s: 90",
        "arguments: [--brand-new, '7']",
    )
    words = " ".join(nccl_tests.arguments(book.cases[0], None))
    assert words == (
        "-b 8 -e 8 -g 1 -n 20 -w 5 -c 0 -z 0 -d bfloat16 -o avg -m 4 -p 1 -y 1 -G 2 -S 1 -a 3 -R 2"
        " -x 2 -D 4 -V 32 -M 1 -u 1 -T 90 --brand-new 7"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("datatype: bf16",), "nccl-tests' -d is int8, uint8"),
        (("root: 1",), "all_reduce has no root"),
        (("registration: 3",), "nccl-tests' -R is 0 to 2, not 3"),
        (("device_implementation: 1",), "the device API needs symmetric memory: registration: 2"),
        (("graph_launches: 1", "per_iteration: true"), "nccl-tests drops per_iteration"),
        (("graph_launches: 1", "blocking: 3"), "nccl-tests drops blocking: 3"),
        (("skip_iterations: 2",), "it is of per_iteration: true"),
        (("cpu_time: 1",), "the CPU's launch time is no bandwidth: purpose: diagnosis"),
        (("arguments: [-n, '3']",), "-n is the field iterations of the case"),
        (("arguments: [-n3]",), "-n3 is the field iterations of the case"),
        (("arguments: [--warm=3]",), "--warm=3 is the field warmup of the case"),
        (("arguments: [--ngpus, '8']",), "one GPU a process; busbw counts on it"),
    ],
)
def test_a_value_that_the_binary_would_replace_or_that_contradicts_a_field_is_refused(
    lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(PlaybookError) as refused:
        parsed(*lines)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "tests", "nccl", "said"),
    [
        (case(unalign=1), "2.18.0", None, ()),
        (
            case(unalign=1),
            "2.17.10",
            None,
            ("unalign: 1 (-u 1) needs nccl-tests 2.18.0, this is 2.17.10",),
        ),
        (
            case(registration=2),
            "2.19.6",
            "2.26.5",
            ("registration: 2 (-R 2) needs NCCL 2.27.0, the nodes have 2.26.5",),
        ),
        (case(registration=1), "2.19.6", "2.26.5", ()),
        (
            case(memory_report=1),
            None,
            None,
            (
                "memory_report: 1 (-M 1) needs nccl-tests 2.17.7, this states no version: it is older"
                " than 2.17.4",
            ),
        ),
        (case(graph_launches=1), None, None, ()),
        (case(datatype="f8e4m3"), "2.14.1", None, ("datatype: f8e4m3 (-d f8e4m3) needs nccl-tests 2.15.0, this is 2.14.1",)),
    ],
)  # fmt: skip
def test_an_older_binary_is_named_with_the_release_that_brought_the_option(
    asked: BenchmarkCase, tests: str | None, nccl: str | None, said: tuple[str, ...]
) -> None:
    assert nccl_tests.unsupported(asked, tests, nccl) == said


def test_a_run_ends_after_the_build_where_the_binaries_lack_an_option() -> None:
    book = parsed("unalign: 1")
    built = NodeTypeBuild("s", "/d", "n1", False, ("n1",), nccl="2.27.3")
    outcome = BuildOutcome("/b", (built,), (), ("n1",), (), version="2.17.9", origin="~/nccl-tests")
    planned = type("Plan", (), {"playbook": book, "interleaving": None})()
    with pytest.raises(BuildError) as refused:
        build.refuse_unsupported(planned, outcome)
    assert "case all-reduce: unalign: 1 (-u 1) needs nccl-tests 2.18.0" in refused.value.seen
    build.refuse_unsupported(planned, dataclasses.replace(outcome, version="2.18.0"))


@pytest.mark.parametrize(
    ("origin", "version", "is_refused"),
    [("", None, False), ("", "2.17.9", True), ("~/nccl-tests", None, True)],
)
def test_only_the_benchmark_in_host_memory_needs_no_version(
    origin: str, version: str | None, is_refused: bool
) -> None:
    built = NodeTypeBuild("s", "/d", "n1", False, ("n1",))
    outcome = BuildOutcome("/b", (built,), (), ("n1",), (), version=version, origin=origin)
    planned = type("Plan", (), {"playbook": parsed("unalign: 1"), "interleaving": None})()
    with pytest.raises(BuildError) if is_refused else nullcontext():
        build.refuse_unsupported(planned, outcome)


def output(of: BenchmarkCase, kind: str) -> proof.LaunchOutput:
    side = Measurement(10.0, 1.0, 1.0, 0)
    row = BenchmarkRow(8, 2, kind, "sum", None, side, side)
    result = BenchmarkResult(
        "all_reduce", 2, None, (row,), (), 1.0, 0, None, None, complete=True, problems=()
    )
    return proof.LaunchOutput(of, "ended", 0, (result,), 2, (), "raw/x.txt", ())


def test_another_type_than_planned_is_no_measurement_of_it() -> None:
    asked = dataclasses.replace(case(datatype="bfloat16"), check=0)
    assert proof.judge(output(asked, "bfloat16")).status is Status.PASS
    wrong = proof.judge(output(asked, "float"))
    assert wrong.status is Status.UNKNOWN
    assert "float was measured, bfloat16 is planned" in wrong.reason


def test_a_list_of_sizes_is_a_launch_each_with_the_gate_on_those_that_it_judges() -> None:
    text = BOOK.format("sizes: [8, 1M, '1G..4G']")
    gate = "gates: [{case: all-reduce, sizes_from: 1M, minimum_ratio: 0.9, reference: peers}]\n"
    book = playbook.parse(text + gate, "mine.yaml", "mine")
    assert [each.id for each in book.cases] == [
        "all-reduce-8",
        "all-reduce-1m",
        "all-reduce-1g-4g",
    ]
    assert [each.case for each in book.gates] == ["all-reduce-1m", "all-reduce-1g-4g"]


def test_a_sweep_is_a_grid_over_variables_options_and_collectives() -> None:
    words = ["NCCL_ALGO=Ring", "registration=1", "collective=all_reduce,alltoall"]
    settings = plan.settings(words)
    assert settings == (
        (),
        (("registration", "1"),),
        (("NCCL_ALGO", "Ring"),),
        (("NCCL_ALGO", "Ring"), ("registration", "1")),
    )
    _, planned = plan.interleave(parsed(), ("a", "b"), settings, measured=plan.collectives(words))
    assert planned is not None
    assert [(each.id, each.collective.value) for each in planned.cases] == [
        ("all-reduce", "all_reduce"),
        ("alltoall", "alltoall"),
    ]
    swept = ab.with_setting(planned.cases[1], settings[3])
    assert (swept.env, swept.options.registration) == ((("NCCL_ALGO", "Ring"),), 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["registrations=1"], "unknown option 'registrations'"),
        (["registration=7"], "nccl-tests' -R is 0 to 2, not 7"),
        (["collective=all_reduce,sum"], "unknown collective 'sum'"),
        (["collective=alltoall"], "nothing that could gain"),
        (["timestamps=1"], "unknown option 'timestamps'"),
    ],
)
def test_what_a_sweep_cannot_vary_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan.settings(words)
    assert message in str(refused.value)


def test_a_combination_that_the_binary_would_change_is_refused_before_any_launch() -> None:
    with pytest.raises(UsageError) as refused:
        plan.interleave(parsed(), ("a", "b"), plan.settings(["device_implementation=1"]))
    assert "the device API needs symmetric memory" in str(refused.value)


SETTINGS: tuple[ab.Setting, ...] = (
    (),
    (("NCCL_MIN_CTAS", "8"),),
    (("NCCL_MIN_CTAS", "16"),),
    (("registration", "1"),),
)
SIZES = (1 << 20, 1 << 24, 1 << 30)


def swept(gains: dict[int, dict[int, float]], cv: float, seed: int) -> list[CaseOutcome]:
    """`gains`: setting → size → factor; rounds of all settings on three sizes."""
    draw = random.Random(seed)
    outcomes = []
    for number in range(1, 9):
        drift = 1 - number / 30
        for variant in range(len(SETTINGS)):
            rows = []
            for size in SIZES:
                factor = gains.get(variant, {}).get(size, 1.0)
                value = 100 * drift * factor * (1 + cv * draw.gauss(0, 1))
                side = Measurement(1.0, value, value, 0)
                rows.append(BenchmarkRow(size, size // 4, "float", "sum", None, side, None))
            slot = Slot("sweep", number, str(variant), "all-reduce")
            own = BenchmarkCase(
                ab.slot_id(slot), Collective.ALL_REDUCE, Sizes(SIZES[0], SIZES[-1], 2), purpose="diagnosis"
            )  # fmt: skip
            table = BenchmarkResult(
                "all_reduce", 4, None, tuple(rows), (), 1.0, 0, None, None, True, ()
            )
            outcomes.append(CaseOutcome(own, Status.PASS, "", (table,), 0, 1.0, (), ("a", "b")))
    return outcomes


def test_the_best_of_each_size_is_named_where_it_gains_and_nothing_where_none_does() -> None:
    planted = {1: {SIZES[0]: 1.3}, 2: {SIZES[0]: 1.3, SIZES[2]: 1.1}}
    best = ab.best_by_size(ab.sweep_results(swept(planted, 0.005, 1), SETTINGS))
    assert [b.size_bytes for b in best] == list(SIZES)
    assert best[0].result is not None
    assert {best[0].result.setting, *best[0].tied} == {"NCCL_MIN_CTAS=8", "NCCL_MIN_CTAS=16"}
    assert best[1].result is None
    assert best[2].result is not None
    assert (best[2].result.setting, best[2].tied) == ("NCCL_MIN_CTAS=16", ())
    assert (
        interleaved.best_text(best[1]) == "unset; no setting differs to the better beyond the noise"
    )


def test_noise_alone_names_no_best_setting_in_forty_sweeps() -> None:
    named = [
        best.result.setting
        for seed in range(40)
        for best in ab.best_by_size(ab.sweep_results(swept({}, 0.02, 100 + seed), SETTINGS))
        if best.result is not None
    ]
    assert named == []


def test_the_page_of_options_is_current() -> None:
    root = Path(__file__).parents[2]
    page = runpy.run_path(str(root / "docs" / "tools" / "options_page.py"))["render"]()
    assert (root / "docs" / "options.md").read_text() == page, (
        "python docs/tools/options_page.py > docs/options.md"
    )
