"""What a build of nccl-tests needs of a node: CUDA's compiler, NCCL's header and library, and which
GPUs there are to build for.

NCCL comes from a package, a tarball, or a Python wheel (`nvidia-nccl-cu12`, `-cu13`); a wheel ships
`libnccl.so.2` without the `libnccl.so` that a linker looks for. Nothing is run but `nvcc --version`
and `nvidia-smi`. With AMD's GPUs: hipcc, RCCL's header and library, and the GPUs' targets, which
the driver writes as numbers (90402 is gfx942).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.model import Command

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
