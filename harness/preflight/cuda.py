"""CUDA and NCCL as they are installed: whether the driver is new enough, and which NCCL and nccl-tests a job would find."""

from __future__ import annotations

import re

from busbw.parsers.nodes import libraries, nvidia_smi
from busbw.preflight import CheckFamily, NodeAnswer, Ruling, Section, SectionOutput, ruled
from busbw.preflight.alike import once
from busbw.records import CheckResult, Status

_NCCL_FOLDERS = "/usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/local/lib /usr/local/nccl/lib /usr/local/cuda/lib64"


@once
def _toolkit(output: SectionOutput, driver: str | None, listed: str) -> tuple[Ruling, ...]:
    expected = "a CUDA runtime of the driver's major version, or older"
    release = re.search(r"release (\d+)\.(\d+)", output.stdout)
    runtimes = libraries.majors(libraries.parse(listed) or (), "libcudart")
    # Where the toolkit is, it builds the benchmark; else the oldest runtime installed is what a job may still use.
    runtime = int(release[1]) if release else runtimes[0] if runtimes else None
    found = f"CUDA {release[1]}.{release[2]}" if release else f"libcudart.so.{runtime}"
    if runtime is None:
        reason = f"no CUDA runtime outside of what a job brings; the driver supports CUDA {driver or 'not known'}"
        return (Ruling("sw.cuda", Status.SKIPPED, "no runtime installed", expected, reason),)
    if driver is None:
        return (Ruling("sw.cuda", Status.UNKNOWN, found, expected, "nvidia-smi -q does not tell the driver's highest CUDA version"),)
    newer = runtime > int(driver.partition(".")[0])
    if newer and "compat 1" in output.stdout:
        return (Ruling("sw.cuda", Status.PASS, f"{found}, driver supports {driver}, compatibility package installed", expected),)
    ruling = Ruling("sw.cuda", Status.FAIL if newer else Status.PASS, f"{found}, driver supports {driver}", expected)
    return (ruling.with_values(runtime_major=runtime, driver_max_major=int(driver.partition(".")[0])),)


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    details, listed = answer.section("gpu_details"), answer.section("ldconfig")
    driver = nvidia_smi.parse_cuda(details.stdout) if details is not None else None
    names = listed.stdout if listed is not None else ""
    return ruled(answer, "cuda", "nvcc --version; nvidia-smi -q", ("sw.cuda",), lambda output: _toolkit(output, driver, names))


CHECK = CheckFamily(
    name="cuda",
    ids=("sw.cuda",),
    sections=(
        Section(
            "cuda",
            "[ -e /usr/local/cuda/compat/libcuda.so.1 ] && echo compat 1; n=$(command -v nvcc) || n=/usr/local/cuda/bin/nvcc; "
            "[ -x $n ] && $n --version; :",
            serves=("sw.cuda",),
        ),
        # By its file name: the library's own version, without loading it.
        Section(
            "nccl_library",
            f'p=$LD_LIBRARY_PATH; IFS=:; set -- $p; unset IFS; for d in "$@" {_NCCL_FOLDERS}; do '
            'for f in "$d"/libnccl.so.2.*; do [ -e "$f" ] && echo "nccl $f"; done; done; :',
            small=True,
            serves=("cross.nccl_version",),
        ),
        Section(
            "nccl_tests",
            'p=$(command -v all_reduce_perf) || exit 0; sha256sum "$p"',
            serves=("cross.nccl_tests_hash",),
        ),
    ),
    judge=_judge,
)
