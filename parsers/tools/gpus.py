"""The GPUs of a node, whichever vendor's tool lists them: the sections `nvidia_smi_list` and
`gpu_query` hold `nvidia-smi`'s text, on nodes with AMD's GPUs the JSON of `amd-smi`."""

from __future__ import annotations

from busbw.parsers.tools import amd_smi, nvidia_smi, nvidia_smi_query
from busbw.parsers.tools.nvidia_smi import ListedGpu
from busbw.parsers.tools.nvidia_smi_query import QueryRow


def rows(text: str) -> tuple[QueryRow, ...] | None:
    """One row per GPU, by the names of `nvidia-smi --query-gpu`; None = the text lists no GPU that
    is known.

    >>> rows("index, name\\n0, NVIDIA H200\\n")[0].text("name")
    'NVIDIA H200'
    """
    return amd_smi.rows(text) if amd_smi.is_json(text) else nvidia_smi_query.parse(text)


def listed(text: str) -> tuple[ListedGpu, ...]:
    """The GPUs of `nvidia-smi -L` or `amd-smi list --json`; () = none."""
    return amd_smi.listed(text) if amd_smi.is_json(text) else nvidia_smi.parse_list(text)


def process_ids(text: str) -> tuple[int, ...] | None:
    """Processes on the GPUs, sorted, each once; None = the text does not list them.

    >>> process_ids("gpu_uuid, pid, used_gpu_memory [MiB]\\nGPU-1, 77, 512\\nGPU-2, 77, 512\\n")
    (77,)
    """
    if amd_smi.is_json(text):
        processes = amd_smi.parse_processes(text)
        return None if processes is None else tuple(sorted({each.pid for each in processes}))
    found = nvidia_smi_query.parse(text)
    if found is None:
        return None
    pids = (row.number("pid") for row in found)
    return tuple(sorted({int(pid) for pid in pids if pid is not None}))
