"""A finding in the words of whoever made the GPUs: the catalogue is written for NVIDIA's, and one
table says the same for AMD's. Where nothing shows whose they are, NVIDIA's words stay.

Commands are those of ROCm 6.3: amd-smi (rocm.docs.amd.com/projects/amdsmi) and the ROCm Validation
Suite (rocm.docs.amd.com/projects/ROCmValidationSuite). A step that only NVIDIA's GPUs have, such as one for Fabric Manager, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from busbw.model import Finding, Fix

if TYPE_CHECKING:
    from busbw.model import CheckResult


class Gpus(StrEnum):
    """Who makes the GPUs of a node, and the tools that ask them."""

    NVIDIA = "nvidia"
    AMD = "amd"


GPUS = "gpus"
"""The value of a check's result that names them; without it they are NVIDIA's."""

AMD_MARK = (
    r"\bamdgpu\b|\b(?:amd|rocm)-smi\b|/opt/rocm|\blibrccl|\bRCCL version|\blibamdhip64"
    r"|\bHIP (?:error|failure|out of memory)|\bhipError[A-Z]|HSA_STATUS_ERROR|AMD Instinct"
)
"""Lines that a node with AMD's GPUs prints. PyTorch and RCCL print `CUDA` and `NCCL` there, too."""
NVIDIA_MARK = (
    r"\bNVRM\b|\bnvidia-smi\b|\bnvidia_peermem\b|\blibnvidia-|\blibcuda\.so|\blibcudart"
    r"|\bCUDA (?:Driver )?Version|\bcudaDriverVersion\b|\bNVSwitch|nvidia-fabricmanager"
)
"""Lines that show NVIDIA's. They count before AMD's: a node may have an amdgpu for its screen."""

_COMMANDS = (
    (r"nvidia-smi topo -(?:m|p2p \w)$", "amd-smi topology"),
    (r"nvidia-smi nvlink -s\b.*", "amd-smi xgmi --link-status"),
    (r"nvidia-smi nvlink -e\b.*", "amd-smi metric --xgmi-err"),
    (r"nvidia-smi(?: -L\b.*)?$", "amd-smi list"),
    (r"nvidia-smi --query-compute-apps.*", "amd-smi process"),
    (r"nvidia-smi (?:-q -d ROW_REMAPPER|--query-remapped-rows).*", "amd-smi bad-pages"),
    (r"nvidia-smi (?:-q -d ECC|--query-gpu=\S*ecc\.).*", "amd-smi metric --ecc"),
    (r"nvidia-smi --query-gpu=\S*pcie\.link.*", "amd-smi metric --pcie"),
    (r"nvidia-smi --query-gpu=\S*(?:driver|vbios)_version.*", "amd-smi static --driver --vbios"),
    (r"nvidia-smi (?:-q -d POWER$|--query-gpu=(?:index,)?power\.).*", "amd-smi metric --power"),
    (r"nvidia-smi -pl .+", "amd-smi set --gpu all --power-cap WATTS"),
    (r"nvidia-smi -mig 0", "amd-smi set --gpu all --compute-partition SPX"),
    (r"nvidia-smi --query-gpu=(?:index,)?mig.*", "amd-smi static --partition"),
    (
        r"nvidia-smi (?:-q -d (?:CLOCK|PERFORMANCE|TEMPERATURE)|--query-gpu=\S*(?:clocks|temp)).*",
        "amd-smi metric --clock --power --temperature",
    ),
    (r"dcgmi diag .*", "rvs -c /opt/rocm/share/rocm-validation-suite/conf/gst_single.conf"),
    (r"nvidia-bug-report\.sh", "amd-smi metric"),
    (r"reason=xid79", "reason=gpu-lost"),
    (r"timeout 20 nvidia-smi .*", "timeout 20 amd-smi list"),
    (r"nvidia-smi --gpu-reset.*", "amd-smi reset --gpureset --gpu <gpu>"),
    (r"lspci (?:\| grep -i nvidia|-d 10de: -nn)", "lspci -d 1002:"),
    (r"cat /proc/driver/nvidia/version", "cat /sys/module/amdgpu/version"),
    (r"nvcc --version", "hipcc --version"),
    (r"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    (r"github\.com/NVIDIA/nccl-tests/archive\S*", "github.com/ROCm/rccl-tests.git"),
    (r"(?<=grep )(.*?)(?:NVRM: Xid|NVRM\|S?Xid|\bXid)", r"\1amdgpu"),
)
"""(NVIDIA's command, AMD's)."""
_WORDS = (
    (r" \((?:Xids? |[^)]*CUDA \d)[^)]*\)", ""),
    (r",? (?:an )?SXid\b", ""),
    (r"\bXid, amdgpu\b", "amdgpu"),
    (r"\ban Xid\b(?: \d+)?", "an amdgpu error"),
    (r"\bXids?\b(?: \d+)?(?: lines)?", "amdgpu errors"),
    (r"\bNVLinks\b", "XGMI links"),
    (r"\b(An|an) NVLink\b", r"\1 XGMI link"),
    (r"\bNVLink\b(?! SHARP)", "XGMI"),
    (r"\bNVML\b", "AMD SMI"),
    (r"\bnvidia-smi(?: topo)?\b", "amd-smi"),
    (r"\bCUDA_VISIBLE_DEVICES\b", "HIP_VISIBLE_DEVICES"),
    (r"\bCUDA (?=calls?\b|IPC|context|graph|error)", "HIP "),
    (r"\bCUDA\b", "ROCm"),
    (r"\bnvcc\b", "hipcc"),
    (r"\bcuda(?=[A-Z]\w+)", "hip"),
    (r"\bThe NVIDIA driver libraries\b", "The ROCm libraries"),
    (r"\bwithout the NVIDIA runtime\b", "without /dev/kfd and /dev/dri"),
    (r"\b(?:the )?NVIDIA(?:'s)? driver\b", "amdgpu"),
    (r"\bnvidia_peermem or DMA-BUF\b", "peer memory or DMA-BUF"),
    (r"\bDCGM profiling\b", "profiling"),
    (r"^MIG mode\b", "Partition mode"),
    (r"\bMIG mode\b", "partition mode"),
    (r"\bMIG\b", "partitioning"),
)
"""(NVIDIA's words in a sentence, AMD's)."""
_ONLY_NVIDIA = re.compile(
    r"nvidia|\bNV(?:Switch|Link|RM|LS)|Fabric Manager|\bIMEX\b|\bGSP\b|\bDCGM\b|dcgmi|\bS?Xid"
    r"|CUDA|\bcuda|\bnvcc\b|compute-sanitizer|nv_peer_mem|\bnsys\b|\blspci -d 10de:",
    re.IGNORECASE,
)
"""What AMD's nodes do not have."""


def gpus_of(checks: Iterable[CheckResult]) -> Gpus:
    """Whose GPUs the nodes of these checks have."""
    is_amd = any(dict(check.values).get(GPUS) == Gpus.AMD for check in checks)
    return Gpus.AMD if is_amd else Gpus.NVIDIA


def finding_for(finding: Finding, gpus: Gpus) -> Finding:
    """The finding as it is said of nodes with these GPUs.

    >>> finding_for(Finding("gpu-lost", None, "A GPU is gone (Xid 79)", (), ()), Gpus.AMD).title
    'A GPU is gone'
    """
    if gpus is Gpus.NVIDIA:
        return finding
    cause = worded(finding.cause)
    return replace(
        finding,
        title=worded(finding.title),
        cause="" if _ONLY_NVIDIA.search(cause) else cause,
        fixes=fixes_for(finding.fixes, gpus),
        verify=commands_of_amd(finding.verify),
        would_settle=commands_of_amd(finding.would_settle),
    )


def fixes_for(steps: Iterable[Fix], gpus: Gpus) -> tuple[Fix, ...]:
    """The steps that nodes with these GPUs have, in their words."""
    if gpus is Gpus.NVIDIA:
        return tuple(steps)
    return tuple(step for step in map(_step_of_amd, steps) if step is not None)


def _step_of_amd(step: Fix) -> Fix | None:
    """None = only NVIDIA's GPUs have it: no command of it is left, or its sentence says so."""
    summary, commands = worded(step.summary), commands_of_amd(step.commands)
    if _ONLY_NVIDIA.search(summary) or (step.commands and not commands):
        return None
    return replace(step, summary=summary, commands=commands)


def worded(sentence: str) -> str:
    """A sentence about NVIDIA's GPUs, said of AMD's.

    >>> worded("Look for an Xid, and check the NVLinks")
    'Look for an amdgpu error, and check the XGMI links'
    """
    for pattern, words in _WORDS:
        sentence = re.sub(pattern, words, sentence)
    return sentence


def commands_of_amd(commands: Iterable[str]) -> tuple[str, ...]:
    """AMD's commands in the place of NVIDIA's; those that have none are left out."""
    own = dict.fromkeys(map(_command_of_amd, commands))
    return tuple(command for command in own if not _ONLY_NVIDIA.search(command))


def _command_of_amd(command: str) -> str:
    reach = "ssh NODE " if command.startswith("ssh NODE ") else ""
    own = command.removeprefix(reach)
    for pattern, amds in _COMMANDS:
        own = re.sub(pattern, amds, own, flags=re.IGNORECASE)
    return f"{reach}{own}"
