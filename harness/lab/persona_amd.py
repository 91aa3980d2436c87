"""What AMD's tools and drivers show of invented GPUs: `amd-smi --json`, its kernel driver, ROCm.

Composed after the sources of amd-smi for ROCm 6.3 (github.com/ROCm/amdsmi, amdsmi_cli) and the
fields that amd/node-scraper reads; no node with AMD's GPUs was at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from busbw.lab.file_tree import Entry, text
from busbw.lab.node_hardware import Gpu, NodeHardware

_AT = "answers/amd-smi"
_STATIC = "static_--asic_--bus_--vbios_--limit_--driver_--numa_--json"
_METRIC = "metric_--power_--temperature_--ecc_--pcie_--mem-usage_--usage_--throttle_--json"
"""As busbw asks; the file's name is the command line."""
_PARTS = 8
"""Of a GPU in partition mode CPX."""
_PAGE_BYTES = 4096
_THERMAL = 0x40
_THROTTLES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


def sysfs(node: NodeHardware) -> Iterator[Entry]:
    """The driver, its list of GPUs, and its entry for adapters that read their memory."""
    yield text("sys/module/amdgpu/version", node.driver)
    for index in range(node.persona.numa_nodes):
        yield text(f"sys/class/kfd/kfd/topology/nodes/{index}/gpu_id", 0)
    for gpu in node.gpus:
        place = node.persona.numa_nodes + gpu.index
        yield text(f"sys/class/kfd/kfd/topology/nodes/{place}/gpu_id", int(gpu.uuid[4:8], 16) + 1)
    if node.peermem:
        yield text("sys/mm/memory_peers/amdkfd/version", "1.0")
    yield text("rocm/.info/version", node.persona.rocm)
    yield text(f"rocm/lib/librccl.so.{node.rccl}")


def entries(node: NodeHardware) -> Iterator[Entry]:
    """The answers of amd-smi, one file per question."""
    gpus = tuple(gpu for gpu in node.gpus if not gpu.lost)
    static = [_static(node, gpu) for gpu in gpus]
    metric = [_metric(gpu) for gpu in gpus]
    yield _json("list_--json", [each for gpu in gpus for each in _listed(node, gpu)])
    yield _json("version_--json", [_version(node)])
    for name in (_STATIC, "static_--json"):
        yield _json(name, {"gpu_data": static})
    for name in (_METRIC, "metric_--json"):
        yield _json(name, {"gpu_data": metric})
    yield _json("process_--json", [_processes(gpu) for gpu in gpus])
    yield _json("bad-pages_--json", [_pages(gpu) for gpu in gpus])
    yield _json("xgmi_--link-status_--json", {"link_status": [_links(node, gpu) for gpu in gpus]})
    yield _json("xgmi_--metric_--json", {"xgmi_metric": [_traffic(node, gpu) for gpu in gpus]})


def _json(name: str, tree: object) -> Entry:
    return text(f"{_AT}/{name}", json.dumps(tree, indent=4))


def _unit(value: float | str, unit: str) -> dict[str, float | str]:
    return {"value": value, "unit": unit}


def _version(node: NodeHardware) -> dict[str, str]:
    return {"tool": "AMDSMI Tool", "rocm_version": node.persona.rocm, "amdgpu_version": node.driver}


def _listed(node: NodeHardware, gpu: Gpu) -> Iterator[dict[str, object]]:
    parts = _PARTS if node.partition != "SPX" else 1
    for part in range(parts):
        yield {
            "gpu": gpu.index * parts + part,
            "bdf": gpu.address,
            "uuid": gpu.uuid.removeprefix("GPU-"),
            "kfd_id": int(gpu.uuid[4:8], 16) + 1,
            "node_id": node.persona.numa_nodes + gpu.index,
            "partition_id": part,
        }


def _static(node: NodeHardware, gpu: Gpu) -> dict[str, object]:
    kind = gpu.kind
    return {
        "gpu": gpu.index,
        "asic": {
            "market_name": kind.model,
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "device_id": f"{kind.pci_device:#06x}",
            "asic_serial": f"0x{gpu.serial}",
            "oam_id": gpu.index,
            "target_graphics_version": kind.target,
        },
        "bus": {
            "bdf": gpu.address,
            "max_pcie_width": 16,
            "max_pcie_speed": _unit(2.0 ** (kind.pcie_generation), "GT/s"),
            "pcie_interface_version": f"Gen {kind.pcie_generation}",
            "slot_type": "OAM",
        },
        "vbios": {"name": kind.model, "part_number": "N/A", "version": gpu.vbios},
        "limit": {
            "max_power": _unit(kind.power_w, "W"),
            "min_power": _unit(0, "W"),
            "socket_power": _unit(gpu.power_limit_w, "W"),
            "slowdown_edge_temperature": "N/A",
            "slowdown_hotspot_temperature": _unit(kind.slowdown_c, "C"),
            "shutdown_hotspot_temperature": _unit(kind.slowdown_c + 10, "C"),
        },
        "driver": {"name": "amdgpu", "version": node.driver},
        "partition": {
            "accelerator_partition": node.partition,
            "memory_partition": "NPS1",
            "partition_id": 0,
        },
        "numa": {"node": gpu.numa, "affinity": gpu.numa},
    }


def _metric(gpu: Gpu) -> dict[str, object]:
    kind = gpu.kind
    hot = bool(gpu.event_reasons & _THERMAL)
    throttle: dict[str, str] = {}
    for name in _THROTTLES:
        active = hot and name == "socket_thermal"
        throttle[f"{name}_violation_status"] = "ACTIVE" if active else "NOT ACTIVE"
    return {
        "gpu": gpu.index,
        "usage": {"gfx_activity": _unit(0, "%"), "umc_activity": _unit(0, "%")},
        "power": {"socket_power": _unit(kind.power_w // 5, "W"), "power_management": "ENABLED"},
        "temperature": {
            "edge": "N/A",
            "hotspot": _unit(gpu.temperature_c, "C"),
            "mem": _unit(gpu.temperature_c - 4, "C"),
        },
        "pcie": {"width": gpu.pcie_width, "replay_count": 0},
        "ecc": {
            "total_correctable_count": 0,
            "total_uncorrectable_count": gpu.ecc_uncorrected,
            "total_deferred_count": 0,
        },
        "throttle": throttle,
        "mem_usage": {
            "total_vram": _unit(kind.memory_mib, "MB"),
            "used_vram": _unit(gpu.memory_used_mib, "MB"),
        },
    }


def _processes(gpu: Gpu) -> dict[str, object]:
    if gpu.process is None:
        listing: list[object] = [{"process_info": "No running processes detected"}]
    else:
        memory = {"vram_mem": _unit(gpu.memory_used_mib << 20, "B")}
        listing = [
            {"process_info": {"name": "python3", "pid": gpu.process, "memory_usage": memory}}
        ]
    return {"gpu": gpu.index, "process_list": listing}


def _pages(gpu: Gpu) -> dict[str, object]:
    page = {"page_address": "0x1f0a2", "page_size": _PAGE_BYTES, "status": "PENDING"}
    return {"gpu": gpu.index, "retired": [page] if gpu.rows_pending else "No bad pages listing."}


def _links(node: NodeHardware, gpu: Gpu) -> dict[str, object]:
    """A place for each GPU of a whole node; its own is disabled."""
    states = ["U"] * (gpu.kind.xgmi_links + 1)
    states[_place(node, gpu)] = "X"
    for number in gpu.links_down:
        states[number] = "D"
    return {"gpu": gpu.index, "bdf": gpu.address, "link_status": states}


def _place(node: NodeHardware, gpu: Gpu) -> int:
    return node.persona.gpu_addresses.index(gpu.address)


def _traffic(node: NodeHardware, gpu: Gpu) -> dict[str, object]:
    rate = gpu.kind.xgmi_gbit_s
    links = [
        {"gpu": other.index, "bdf": other.address, "read": _unit(0, "KB"), "write": _unit(0, "KB")}
        for other in node.gpus
        if other.index != gpu.index
    ]
    return {
        "gpu": gpu.index,
        "bdf": gpu.address,
        "link_metrics": {
            "bit_rate": _unit(rate, "Gb/s"),
            "max_bandwidth": _unit(rate * 16, "Gb/s"),
            "link_type": "XGMI",
            "links": links,
        },
    }
