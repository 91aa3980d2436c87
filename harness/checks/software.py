"""The launcher and what a build needs: `sw.mpirun`, `cross.mpi`; and the facts of a node that later
stages use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

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
    unknown,
)
from busbw.checks.gpu import is_amd
from busbw.model import CheckResult, Command, Evidence, Status
from busbw.parsers.tools import gpus, interface_state, nvidia_smi, open_mpi, os_facts
from busbw.parsers.tools.nvidia_smi import SmiTable
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.text import whole

# CUDA and NCCL as they are installed: whether the driver is new enough, and which NCCL and nccl-
# tests a job would find.

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
    driver = nvidia_smi.parse_cuda(details.stdout) if details is not None else None
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


CUDA_FAMILY = CheckFamily(
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


# What a build of nccl-tests needs of a node: CUDA's compiler, NCCL's header and library, and
# which GPUs there are to build for.
#
# NCCL comes from a package, a tarball, or a Python wheel (`nvidia-nccl-cu12`, `-cu13`); a wheel
# ships `libnccl.so.2` without the `libnccl.so`
# that a linker looks for. Nothing is run but `nvcc --version` and `nvidia-smi`. With AMD's GPUs:
# hipcc, RCCL's header and library, and the GPUs' targets, which the driver writes as numbers
# (90402 is gfx942).

_LOOK = r"""
echo "machine=$(uname -m)"
echo "libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | sed -n 1,2p | tr '\n' ' ')"
[ "$1" = cuda ] || exit 0
if [ -d /sys/module/amdgpu ] && [ ! -e /proc/driver/nvidia/version ]; then
  for d in "$ROCM_PATH" "$HIP_PATH" /opt/rocm /opt/rocm-*; do
    [ -n "$d" ] && [ -x "$d/bin/hipcc" ] || continue
    echo "rocm_home=$d"; [ -r "$d/.info/version" ] && sed -n 's/^\([0-9.]*\).*/rocm=\1/p' "$d/.info/version"
    for l in "$NCCL_HOME/lib" "$d/lib"; do
      [ -e "$l/librccl.so" ] || continue
      echo "nccl_home=${l%/lib}"; echo "nccl_library=$l/librccl.so"; echo nccl_link=1
      for h in "${l%/lib}/include/rccl/rccl.h" "${l%/lib}/include/rccl.h"; do
        [ -r "$h" ] && sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\).*/nccl_\1=\2/p' "$h" && break
      done
      break
    done
    break
  done
  for f in /sys/class/kfd/kfd/topology/nodes/*/properties; do
    [ -r "$f" ] && awk '$1 == "gfx_target_version" && $2 > 0 { printf "capability=gfx%d%x%x\n", $2 / 10000, $2 / 100 % 100, $2 % 100 }' "$f"
  done | sort -u
  exit 0
fi
for d in "$CUDA_HOME" "$CUDA_PATH" "$(dirname "$(dirname "$(command -v nvcc || echo /none/bin/nvcc)")")" /usr/local/cuda /usr/local/cuda-* \
  /opt/nvidia/hpc_sdk/Linux_*/*/cuda; do
  [ -n "$d" ] && [ -x "$d/bin/nvcc" ] && [ -e "$d/include/cuda_runtime.h" ] || continue
  echo "cuda_home=$d"; "$d/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/cuda=\1/p'; break
done
try() {
  [ -f "$1/include/nccl.h" ] || return 1
  for l in "$1/lib" "$1/lib64" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64; do
    [ -e "$l/libnccl.so.2" ] || continue
    echo "nccl_home=$1"; echo "nccl_library=$l/libnccl.so.2"; [ -e "$l/libnccl.so" ] && echo "nccl_link=1"
    sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\).*/nccl_\1=\2/p' "$1/include/nccl.h"; return 0
  done
  return 1
}
for d in "$NCCL_HOME" "$NCCL_ROOT" /usr/local/nccl* /opt/nccl* /usr/local /usr "$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia/nccl \
  "$CONDA_PREFIX"/lib/python3*/site-packages/nvidia/nccl "$HOME"/.local/lib/python3*/site-packages/nvidia/nccl \
  /usr/local/lib/python3*/*-packages/nvidia/nccl /usr/lib/python3*/*-packages/nvidia/nccl /opt/*/lib/python3*/site-packages/nvidia/nccl; do
  case $d in ""|/lib/*) ;; *) try "$d" && break;; esac
done
nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | sed -n 's/^\([0-9]*\.[0-9]*\)$/capability=\1/p'
:
"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What one node has; None = not found there."""

    node: str
    machine: str | None
    """`x86_64`, `aarch64`."""
    libc: str | None
    """`glibc 2.36`."""
    cuda_home: str | None
    cuda: str | None
    """`13.0`."""
    nccl_home: str | None
    """Folder with include/nccl.h."""
    nccl: str | None
    """Of that header: `2.27.5`."""
    nccl_library: str | None
    """Path of libnccl.so.2."""
    nccl_link: bool
    """`libnccl.so` lies beside it; without it no linker finds NCCL."""
    capabilities: tuple[str, ...]
    """Compute capabilities of the node's GPUs, sorted: `9.0`; of AMD's their targets: `gfx942`."""
    rocm_home: str | None = None
    """Where AMD's compiler is."""
    rocm: str | None = None
    """`6.3.0`."""


def command(*, cuda: bool = True) -> Command:
    """Asks a node, by its login shell's own variables; `cuda` = False: only for the machine and its
    libc."""
    return Command(
        ("sh", "-c", _LOOK, "busbw-toolchain", "cuda" if cuda else "plain"),
        timeout_s=40,
        label="toolchain",
    )


def parse(node: str, text: str) -> Toolchain:
    """What the node answered.

    >>> found = parse("n1", "machine=x86_64\\ncuda_home=/usr/local/cuda\\ncuda=13.0\\ncapability=9.0\\n")
    >>> found.machine, found.cuda_home, found.cuda, found.capabilities
    ('x86_64', '/usr/local/cuda', '13.0', ('9.0',))
    """
    values = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    numbers = tuple(values.get(f"nccl_{part}") for part in ("MAJOR", "MINOR", "PATCH"))
    return Toolchain(
        node=node,
        machine=values.get("machine") or None,
        libc=values.get("libc", "").strip() or None,
        cuda_home=values.get("cuda_home"),
        cuda=values.get("cuda"),
        nccl_home=values.get("nccl_home"),
        nccl=".".join(number for number in numbers if number) if all(numbers) else None,
        nccl_library=values.get("nccl_library"),
        nccl_link="nccl_link" in values,
        capabilities=tuple(
            sorted(
                re.findall(r"^capability=(\d+\.\d+|gfx[0-9a-f]+)$", text, re.M),
                key=lambda text: tuple(int(part, 16) for part in text.strip("gfx").split(".")),
            )
        ),
        rocm_home=values.get("rocm_home"),
        rocm=values.get("rocm"),
    )


def gencode(capabilities: tuple[str, ...]) -> str | None:
    """`NVCC_GENCODE` for these GPUs and no others; None = none is known: nccl-tests' own list.

    >>> gencode(("9.0", "10.0"))
    '-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_100,code=sm_100'
    """
    numbers = [text.replace(".", "") for text in capabilities]
    return (
        " ".join(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers) or None
    )


_EXPECTED = "Open MPI's mpirun on PATH"
_COMMAND = "mpirun --version"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What building and launching must know of a node."""

    node: str
    host_name: str | None
    """`uname -n`: what ranks report as their host."""
    home: str | None
    user_id: int | None
    mpirun_path: str | None
    mpi: MpiVersion | None
    mpi_home: str | None
    """Directory with include/mpi.h; None = no MPI headers found."""
    linked: tuple[str, ...]
    """Network interfaces that had a link before anything ran."""
    gpus: int | None
    """GPUs that nvidia-smi or amd-smi lists; None = it is missing or listed none."""
    ssh_interface: str | None
    """The interface with the address that this connection came in on; None = `ip` is missing, or
    another name space has it."""
    login_shell: str | None = None
    """As the session has it in $SHELL; None = the node does not say."""


def facts(answer: NodeAnswer) -> NodeFacts:
    """The facts in a node's answer; each is None where the node did not say."""
    identity = answer.section("identity")
    values = dict(re.findall(r"^(\w+)=(.*)$", identity.stdout, re.M)) if identity else {}
    version = answer.section("mpirun_version")
    home = answer.section("mpi_home")
    interfaces = answer.section("interfaces")
    listed = answer.section("nvidia_smi_list")
    return NodeFacts(
        node=answer.node.name,
        host_name=values.get("host") or None,
        home=values.get("home") or None,
        user_id=whole(values.get("uid")),
        mpirun_path=values.get("mpirun") or None,
        mpi=open_mpi.parse_version(version.stdout + version.stderr) if version else None,
        mpi_home=next(iter(home.stdout.split()), None) if home else None,
        gpus=len(gpus.listed(listed.stdout)) or None if listed else None,
        ssh_interface=_ssh_interface(values.get("ssh", ""), answer),
        login_shell=values.get("shell") or None,
        linked=(
            tuple(i.name for i in interface_state.parse_interfaces(interfaces.stdout) if i.has_link)
            if interfaces
            else ()
        ),
    )


def _ssh_interface(connection: str, answer: NodeAnswer) -> str | None:
    """`SSH_CONNECTION` is client address, client port, own address, own port."""
    addresses_and_ports = connection.split()
    addresses = answer.section("addresses")
    if len(addresses_and_ports) != 4 or addresses is None:
        return None
    for line in addresses.stdout.splitlines():
        fields = line.split()
        if (
            len(fields) > 3
            and fields[2] in ("inet", "inet6")
            and fields[3].partition("/")[0] == addresses_and_ports[2]
        ):
            return fields[1].partition("@")[0]
    return None


def _mpirun(answer: NodeAnswer) -> CheckResult:
    output = answer.section("mpirun_version")
    if output is not None and output.missing:
        evidence = Evidence(
            answer.artefact,
            output.line_no,
            (output.stderr or output.stdout).strip()[:400] or "exit status 127",
        )
        seen = "mpirun not found"
        return CheckResult(
            "sw.mpirun",
            answer.node.name,
            Status.FAIL,
            seen,
            _EXPECTED,
            _COMMAND,
            evidence=evidence,
        )
    result = unknown(answer, "sw.mpirun", "mpirun_version", _EXPECTED, _COMMAND)
    if result:
        return result
    output = answer.sections["mpirun_version"]
    version = open_mpi.parse_version(output.stdout + output.stderr)
    text = (output.stdout + output.stderr).strip()
    evidence = Evidence(answer.artefact, output.line_no, text[:400] or "(nothing printed)")
    if version is None or version.version is None:
        seen = (
            version.implementation if version else f"unreadable (exit status {output.exit_status})"
        )
        return CheckResult(
            "sw.mpirun",
            answer.node.name,
            Status.FAIL,
            seen,
            _EXPECTED,
            _COMMAND,
            evidence=evidence,
        )
    return CheckResult(
        "sw.mpirun",
        answer.node.name,
        Status.PASS,
        f"{version.implementation} {version.version}",
        _EXPECTED,
        _COMMAND,
        evidence=evidence,
    )


def _compare(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """The same Open MPI everywhere, at the same place: mpirun starts its daemons by path and they
    speak one version's protocol."""
    known = {
        a.node.name: f for a in answers if (f := facts(a)).mpi is not None and f.mpi is not None
    }
    if not known:
        return ()
    versions = {
        name: f"{f.mpi.implementation} {f.mpi.version} at {f.mpirun_path}" if f.mpi else ""
        for name, f in known.items()
    }
    majority, count = Counter(versions.values()).most_common(1)[0]
    expected = f"the same on all nodes: {majority} ({count} of {len(versions)})"
    sections = {
        a.node.name: (a.artefact, s.line_no) for a in answers if (s := a.section("mpirun_version"))
    }
    results = []
    for name, text in versions.items():
        artefact, line_no = sections[name]
        status = Status.PASS if text == majority else Status.FAIL
        evidence = Evidence(artefact, line_no, text)
        values = (("distinct", 1.0 if text == majority else float(len(set(versions.values())))),)
        results.append(
            CheckResult(
                "cross.mpi",
                name,
                status,
                text,
                expected,
                _COMMAND,
                evidence=evidence,
                values=values,
            )
        )
    return tuple(results)


SOFTWARE_FAMILY = CheckFamily(
    name="software",
    checks=(
        Check("sw.mpirun", "mpirun --version", "missing, or not Open MPI: FAIL"),
        Check("cross.mpi", "mpirun --version", "version or path differs from most nodes: FAIL"),
    ),
    sections=(
        Section(
            "identity",
            small=True,
        ),
        Section("addresses", "ip -o addr show", small=True),
        Section("mpirun_version", "mpirun --version"),
        # Which interfaces have a link before anything runs: a stall is judged against this, not
        # against every unused port.
        Section(
            "interfaces",
            small=True,
        ),
        # What TCP can carry: interfaces with hardware, or with an interface, below them. A veth
        # pair says 10 Gb/s and means nothing.
        Section(
            "link_speed",
            small=True,
        ),
        Section(
            "mpi_home",
            small=True,
        ),
    ),
    judge=lambda answer: (_mpirun(answer),),
    compare=_compare,
)

CHECK = (SOFTWARE_FAMILY, CUDA_FAMILY)
