"""In which iteration a benchmark hangs, by the operations that its ranks launched: against
nccl-tests' order of operations, written down anew."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from live_answers import HZ, NOW, framed, ras, reduces

from busbw.assess import launches
from busbw.model import BenchmarkCase, Collective, Invocation, Sizes
from busbw.parsers.stall.iteration import place
from busbw.parsers.stall.job import LaunchPlan, StallEvidence
from busbw.parsers.stall.judge import launched
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact, SampleFile
from busbw.store.run_directory import RunDir
from busbw.triage import offline

CASE = BenchmarkCase(
    "all-reduce", Collective.ALL_REDUCE, Sizes(1024, 4096, 2), iterations=5, warmup=2, check=1
)
SIZES = ("1 KiB", "2 KiB", "4 KiB")


def operations(case: BenchmarkCase, *, old: bool = False) -> list[tuple[int, str]]:
    """(sizes printed before it, what it is) of every operation of a whole benchmark, in its
    order."""
    warmups = case.warmup * (2 if old else len(SIZES))
    listed = [
        (0, f"in warm-up operation {number} of {warmups}") for number in range(1, warmups + 1)
    ]
    for done, size in enumerate(SIZES):
        for kind in ("out-of-place", "in-place"):
            listed.append((done, f"in the untimed operation at {size} {kind}"))
            listed += [
                (done, f"in iteration {number} of {case.iterations} at {size} {kind}")
                for number in range(1, case.iterations + 1)
            ]
            listed += [
                (done, f"in data check {number} of {case.check} at {size} {kind}")
                for number in range(1, case.check + 1)
            ]
    return listed


@pytest.mark.parametrize("version", ["2.19.6", None])
@pytest.mark.parametrize(
    "changes",
    [{}, {"check": 0}, {"iterations": 1, "check": 3}, {"warmup": 0}, {"blocking": 1}],
    ids=str,
)
def test_the_operation_that_a_rank_has_not_called_is_named_wherever_it_is(
    changes: dict[str, int], version: str | None
) -> None:
    case = dataclasses.replace(CASE, **changes)
    for index, (done, expected) in enumerate(operations(case, old=version is None)):
        assert place(case, done, (index, index + 3), version) == expected


def test_where_every_operation_is_waited_for_the_last_that_was_launched_is_the_one() -> None:
    case = dataclasses.replace(CASE, blocking=1)
    for index, (done, expected) in enumerate(operations(case)):
        assert place(case, done, (index + 1, index + 1), "2.19.6") == expected


def test_where_the_ranks_launch_ahead_any_iteration_since_the_last_wait_may_be_the_one() -> None:
    launched = (
        next(
            i
            for i, (_, what) in enumerate(operations(CASE))
            if what == "in iteration 4 of 5 at 2 KiB in-place"
        )
        + 1
    )
    assert (
        place(CASE, 1, (launched, launched), "2.19.6")
        == "in one of the first 4 iterations of 5 at 2 KiB in-place"
    )


@pytest.mark.parametrize(
    ("done", "launched"), [(1, (3, 3)), (1, (500, 500)), (2, (7, 9)), (0, (40, 41))]
)
def test_counts_that_do_not_fit_what_was_printed_tell_nothing(
    done: int, launched: tuple[int, int]
) -> None:
    assert place(CASE, done, launched, "2.19.6") == ""


def answer(number: int, mark: str, **sections: str) -> bytes:
    """A node's answer while a benchmark of ours runs there with one rank."""
    own = (
        f"host n{number} now {NOW:.1f} up 9000 boot b{number} tick {HZ}\naddress eth0"
        f" 10.0.0.{number}\n"
    )
    ranks = (
        f"pid {100 + number}\n{mark}OMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_RANK={number}\nexe"
        " /opt/all_reduce_perf\n"
    )
    states = (
        f"look {NOW}\nstate {100 + number} S parent 1 ticks 5 start 700000 rss 5 io 0 wchan"
        " ep_poll\neth0/operstate:up\neth0/carrier:1\n"
    )
    return framed(
        {
            "self": own,
            "ranks": ranks,
            "look-1": states,
            **{k.replace("_", "-"): v for k, v in sections.items()},
            "look-2": states,
        }
    )


def test_the_counts_are_those_of_our_own_job_in_the_communicator_that_is_furthest_behind() -> None:
    text = ras(("0xa1", reduces(r0=64, r1=64)), ("0xb2", reduces(r2=63, r3=61)))
    answers = [
        answer(n, "BUSBW_JOB=x1\n", **({"ras_1": text, "ras_2": text} if n == 0 else {}))
        for n in range(4)
    ]
    assert counted(answers) == (64, 66), "three all-gathers each are operations too"
    assert counted([each.replace(b"BUSBW_JOB=x1\n", b"") for each in answers]) is None
    assert counted(answers[1:2]) is None, "RAS was not asked there"


def counted(answers: list[bytes]) -> tuple[int, int] | None:
    nodes = tuple(
        offline.of_text(f"n{number}", content, f"n{number}.txt", None, None)
        for number, content in enumerate(answers)
    )
    return launched(StallEvidence(nodes, plan=LaunchPlan({}, {})))


BASE = "raw/cases/all-reduce"
PRINTED = """\
# nccl-tests version 2.19.6 nccl-headers=23203 nccl-library=23203
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 2 iters: 5 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid    100 on         n0 device  0 [0000:01:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    101 on         n1 device  0 [0000:01:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid    102 on         n2 device  0 [0000:01:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid    103 on         n3 device  0 [0000:01:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    24.9    0.04    0.06       0    15.8    0.06    0.09       0
"""


def test_a_run_says_in_which_iteration_its_benchmark_stalled(tmp_path: Path) -> None:
    launched = next(
        i
        for i, (_, what) in enumerate(operations(CASE))
        if what == "in iteration 4 of 5 at 2 KiB in-place"
    )
    text = ras(("0xa1", {n: {"AllReduce": launched + (0 if n == 3 else 2)} for n in range(4)}))
    nodes = tuple(f"n{n}" for n in range(4))
    folder = tmp_path / "raw" / "cases" / "all-reduce"
    folder.mkdir(parents=True)
    for number, node in enumerate(nodes):
        (folder / f"samples-1-{node}.txt").write_bytes(
            answer(
                number, "BUSBW_JOB=x1\n", **({"ras_1": text, "ras_2": text} if not number else {})
            )
        )
    (folder / "stdout.txt").write_text(PRINTED)
    artefact = CaseArtefact(
        CASE,
        Invocation("all-reduce", ("mpirun",), (), nodes, 60.0, 4),
        nodes,
        1,
        "stalled",
        None,
        21.0,
        f"{BASE}/stdout.txt",
        None,
        None,
    )
    run = RunDir(tmp_path)
    samples = tuple(SampleFile(node, f"{BASE}/samples-1-{node}.txt") for node in nodes)
    artefacts.keep(
        run, "cases/all-reduce/outcome.json", dataclasses.replace(artefact, samples=samples)
    )
    (launch,) = launches.load(run, {})
    where = "all-reduce, in iteration 4 of 5 at 2 KiB in-place, after 1 of 3 sizes"
    assert (
        launch.findings[0].title
        == f"rank 3 on n3 has not called AllReduce 32; 3 others wait for it ({where})"
    )
