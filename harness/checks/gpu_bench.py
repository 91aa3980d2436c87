"""Each GPU by itself, where the tools are there: nvbandwidth's copies, a matrix product, DCGM's
diagnostics, compared over all GPUs of one model.

They load the GPUs for seconds to minutes, so they run only when asked for, and never beside
somebody else's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from busbw.checks import Check, CheckFamily, NodeAnswer, Section, SectionOutput, script, unknown
from busbw.checks.matmul import FEWEST, LEAST, MATMUL, PRODUCT, compared
from busbw.model import CheckResult, Command, Evidence, Status
from busbw.parsers.tools import dcgm, nvbandwidth
from busbw.parsers.tools.nvbandwidth import CopyRun
from busbw.text import whole_number

COPIES, DIAGNOSIS = "gpu.copy_bandwidth", "gpu.diag"
_CHECKS = (
    Check(COPIES, "nvbandwidth", f"below {LEAST:.0%} of the median of its like: FAIL"),
    Check(DIAGNOSIS, "dcgmi diag -r LEVEL -j", "a test fails: FAIL"),
    Check(
        PRODUCT,
        "python3 (torch, a large product)",
        f"below {LEAST:.0%} of the median of its model: FAIL",
    ),
)
_COPIES_S = 180
_DIAGNOSIS_S: Mapping[int, int] = {1: 120, 2: 900, 3: 3600}
"""Limits of `dcgmi diag -r 1`, `-r 2`, `-r 3`: seconds, about two minutes, about half an hour (DCGM
documentation), with room."""
_COPY_COMMAND = "nvbandwidth -t host_to_device_memcpy_ce"


def family(level: int | None) -> CheckFamily:
    """What is asked. `level` = of `dcgmi diag -r`, None = without it. Not a `CHECK`: it takes part
    only when asked for."""
    sections = [
        Section("gpu_models", "nvidia-smi --query-gpu=index,name --format=csv,noheader", 30),
        Section("copies", timeout_s=_COPIES_S),
    ]
    sections.append(MATMUL)
    if level is not None:
        sections.append(Section("diagnosis", f"dcgmi diag -r {level} -j", _DIAGNOSIS_S[level]))
    return CheckFamily(
        name="probe-gpus",
        checks=_CHECKS,
        sections=tuple(sections),
        judge=lambda answer: diagnosed(answer, level),
        compare=_compared,
    )


def _compared(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    return (*copied(answers), *compared(answers))


def command(family: CheckFamily, boundary: str, store: str) -> Command:
    """The script of the family as one command."""
    built = script.build([family], boundary, script.limit_s(family.sections))
    return Command(built.argv, built.stdin, built.timeout_s, label="gpus", store=store)


def diagnosed(answer: NodeAnswer, level: int | None) -> tuple[CheckResult, ...]:
    """What DCGM says of one node. `level` of `dcgmi diag -r`; None = it was not requested."""
    expected = "every test passes on every GPU"
    command = "dcgmi diag" if level is None else f"dcgmi diag -r {level} -j"

    def result(
        status: Status, seen: str, reason: str = "", evidence: Evidence | None = None
    ) -> tuple[CheckResult, ...]:
        node = answer.node.name
        return (CheckResult(DIAGNOSIS, node, status, seen, expected, command, reason, evidence),)

    if level is None:
        return result(Status.SKIPPED, "not run", "not asked for: --dcgm 1, 2 or 3")
    blocked = unknown(answer, DIAGNOSIS, "diagnosis", expected, command)
    if blocked is not None:
        return (blocked,)
    output = answer.sections["diagnosis"]
    diag = dcgm.parse(output.stdout)
    text = (output.stdout.strip() or output.stderr.strip())[:400]
    evidence = Evidence(answer.artefact, output.line_no, text)
    if diag is None or (diag.problem and not diag.results):
        printed = (output.stderr.strip() or output.stdout.strip())[:200]
        why = diag.problem if diag else printed or f"exit status {output.exit_status}"
        return result(Status.UNKNOWN, "did not run", why, evidence)
    failed = [each for each in diag.results if each.status == "Fail"]
    warned = [each for each in diag.results if each.status == "Warn"]
    status = Status.FAIL if failed else Status.WARN if warned else Status.PASS
    failures = [
        f"{each.test}{'' if each.gpu is None else f' GPU {each.gpu}'}:"
        f" {each.warning or each.status}"
        for each in (*failed, *warned)
    ]
    passed = sum(each.status == "Pass" for each in diag.results)
    return result(status, "; ".join(failures) or f"{passed} passed", evidence=evidence)


class _Copy(NamedTuple):
    """One test of nvbandwidth on one GPU."""

    model: str
    test: str
    gpu: int
    rate_gb_s: float


def copied(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """The copies of every GPU against the median of all GPUs of its model, per direction."""
    expected = f"at least {LEAST:.0%} of the median of the GPUs of one model"
    own: list[tuple[NodeAnswer, tuple[_Copy, ...]]] = []
    results = []
    for answer in answers:
        blocked = unknown(answer, COPIES, "copies", expected, _COPY_COMMAND)
        output = answer.section("copies")
        if blocked is not None:
            results.append(blocked)
        elif output is not None:
            run = nvbandwidth.parse(output.stdout)
            if run is not None and any(test.rows_gb_s for test in run.tests):
                own.append((answer, _copies(run, _models(answer))))
            else:
                results.append(_no_copies(answer, output, run.problem if run else "", expected))
    rates: dict[tuple[str, str], list[float]] = {}
    for _, copies in own:
        for copy in copies:
            rates.setdefault((copy.model, copy.test), []).append(copy.rate_gb_s)
    results += [_judged(answer, copies, rates, expected) for answer, copies in own if copies]
    return tuple(results)


def _copies(run: CopyRun, models: dict[int, str]) -> tuple[_Copy, ...]:
    return tuple(
        _Copy(models.get(gpu, "GPU"), test.name, gpu, rate)
        for test in run.tests
        for gpu, rate in enumerate(test.per_gpu_gb_s())
        if rate is not None
    )


def _no_copies(
    answer: NodeAnswer, output: SectionOutput, problem: str, expected: str
) -> CheckResult:
    why = problem or output.stderr.strip()[-200:] or f"exit status {output.exit_status}"
    node = answer.node.name
    return CheckResult(COPIES, node, Status.UNKNOWN, "no result", expected, _COPY_COMMAND, why)


def _models(answer: NodeAnswer) -> dict[int, str]:
    output = answer.section("gpu_models")
    rows = (line.partition(",") for line in (output.stdout if output else "").splitlines())
    numbered = ((whole_number(index.strip()), name.strip()) for index, _, name in rows)
    return {index: name for index, name in numbered if index is not None}


def _judged(
    answer: NodeAnswer,
    own: Sequence[_Copy],
    rates: Mapping[tuple[str, str], list[float]],
    expected: str,
) -> CheckResult:
    slow = []
    for copy in own:
        like = rates[copy.model, copy.test]
        usual = median(like)
        if len(like) >= FEWEST and copy.rate_gb_s < LEAST * usual:
            slow.append(f"GPU {copy.gpu} {copy.test}: {copy.rate_gb_s:.1f} of {usual:.1f} GB/s")
    is_compared = any(len(rates[copy.model, copy.test]) >= FEWEST for copy in own)
    output = answer.sections["copies"]
    tests = " ".join(dict.fromkeys(copy.test for copy in own))
    evidence = Evidence(answer.artefact, output.line_no, "; ".join(slow) or tests)
    if not is_compared:
        why = f"fewer than {FEWEST} GPUs of this model: nothing to compare"
        return CheckResult(
            COPIES,
            answer.node.name,
            Status.UNKNOWN,
            "not compared",
            expected,
            _COPY_COMMAND,
            why,
            evidence,
            required=False,
        )
    status = Status.FAIL if slow else Status.PASS
    return CheckResult(
        COPIES,
        answer.node.name,
        status,
        "; ".join(slow) or "alike",
        expected,
        _COPY_COMMAND,
        evidence=evidence,
    )
