"""CUDA and NCCL as they are installed: whether the driver is new enough, and which NCCL and
nccl-tests a job would find."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    of_kind,
    once,
    results_of,
)
from busbw.checks.gpu import is_amd
from busbw.model import CheckResult, Status
from busbw.parsers.tools import nvidia_smi_details, os_facts
from busbw.parsers.tools.nvidia_smi import SmiTable

_NCCL_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/local/lib"
    " /usr/local/nccl/lib /usr/local/cuda/lib64"
)


@once
def _toolkit(output: SectionOutput, driver: str | None, listed: str) -> tuple[RuleResult, ...]:
    rule = Rule("sw.cuda", "a CUDA runtime of the driver's major version, or older")
    release = re.search(r"release (\d+)\.(\d+)", output.stdout)
    runtimes = os_facts.majors(os_facts.parse_libraries(listed) or (), "libcudart")
    # Where the toolkit is, it builds the benchmark; else the oldest runtime installed is what a job
    # may still use.
    runtime = next(iter(runtimes), None)
    toolkit = f"libcudart.so.{runtime}"
    if release:
        runtime, toolkit = int(release[1]), f"CUDA {release[1]}.{release[2]}"
    if runtime is None:
        reason = (
            "no CUDA runtime outside of what a job brings; the driver supports CUDA"
            f" {driver or 'not known'}"
        )
        return (rule.skipped("no runtime installed", reason),)
    if driver is None:
        return (
            rule.unknown(
                toolkit, "nvidia-smi -q does not report the driver's highest CUDA version"
            ),
        )
    newer = runtime > int(driver.partition(".")[0])
    if newer and "compat 1" in output.stdout:
        return (
            rule.passed(f"{toolkit}, driver supports {driver}, compatibility package installed"),
        )
    result = rule.result(
        Status.FAIL if newer else Status.PASS, f"{toolkit}, driver supports {driver}"
    )
    return (
        result.with_values(runtime_major=runtime, driver_max_major=int(driver.partition(".")[0])),
    )


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    details, listed = answer.section("gpu_details"), answer.section("ldconfig")
    driver = nvidia_smi_details.parse_cuda(details.stdout) if details is not None else None
    names = listed.stdout if listed is not None else ""
    if is_amd(answer):
        return (
            CheckResult(
                "sw.cuda",
                answer.node.name,
                Status.SKIPPED,
                "not NVIDIA's",
                "",
                "nvcc --version; nvidia-smi -q",
                "AMD's GPUs run ROCm: sw.rocm",
            ),
        )
    return results_of(
        answer,
        "cuda",
        "nvcc --version; nvidia-smi -q",
        ("sw.cuda",),
        lambda output: _toolkit(output, driver, names),
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What the plain table of `nvidia-smi` says that was handed in."""
    reason = "no binary to compare it with"
    return tuple(
        RuleResult("sw.cuda", Status.SKIPPED, f"driver supports CUDA {table.cuda}", "", reason)
        for table in of_kind(records, SmiTable)
    )


CHECK = CheckFamily(
    name="cuda",
    checks=(
        Check(
            "sw.cuda",
            "nvcc --version; nvidia-smi -q",
            "a CUDA runtime of a newer major version than the driver supports, without the compatibility package: FAIL",
        ),
    ),
    sections=(
        Section(
            "cuda",
            serves=("sw.cuda",),
        ),
        # By its file name: the library's own version, without loading it.
        Section(
            "nccl_library",
            small=True,
            serves=("cross.nccl_version", "sw.nccl_settings"),
        ),
        Section(
            "nccl_tests",
            'p=$(command -v all_reduce_perf) || exit 0; sha256sum "$p"',
            serves=("cross.nccl_tests_hash",),
        ),
    ),
    judge=_judge,
    judge_records=_of_records,
)
