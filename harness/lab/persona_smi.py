"""What `nvidia-smi` prints of invented GPUs, composed in the layouts of drivers 535 to 570.

The tables of queries hold one column per field, so that any choice of fields can be asked
(`scripts/tool.sh` picks the columns). A field that is not there gives the driver's own message for
a field it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.lab.file_tree import Entry, text
from busbw.lab.node_hardware import Gpu, NodeHardware

# What `nvidia-smi -q` prints of invented GPUs: the groups that are asked about, in the layout of
# drivers 535 to 570.

_WIDTH = 54
"""Characters before the colon, indentation included."""
_REASONS = (
    ("Idle", 0x1),
    ("Applications Clocks Setting", 0x2),
    ("SW Power Cap", 0x4),
    ("HW Slowdown", 0x8),
    ("Sync Boost", 0x10),
    ("SW Thermal Slowdown", 0x20),
    ("HW Thermal Slowdown", 0x40),
    ("HW Power Brake Slowdown", 0x80),
)
_HELD = (
    "SW Power Capping",
    "Sync Boost",
    "SW Thermal Slowdown",
    "HW Thermal Slowdown",
    "HW Power Braking",
)
_SECTIONS = {
    "CLOCK": ("Max Clocks",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons", "Clocks Event Reasons Counters"),
    "POWER": ("GPU Power Readings",),
    "ROW_REMAPPER": ("Remapped Rows",),
    "TEMPERATURE": ("Temperature",),
}
"""What `-d` takes, and the groups it leaves."""
SELECTIONS = (*_SECTIONS, "PERFORMANCE,ECC")
"""Choices that an answer is composed for."""
_CLIQUE = 32766
"""The default partition: NMX Controller, gRPC API."""
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_ON = {True: "Enabled", False: "Disabled"}
_Value = str | int | None
"""None = a group's title."""


def details(node: NodeHardware, selection: str = "") -> Iterator[str]:
    """The lines for all GPUs; `selection` = only the groups of these sections, as after `-d`."""
    titles = {title for section in selection.split(",") for title in _SECTIONS.get(section, ())}
    yield ""
    yield "==============NVSMI LOG=============="
    yield ""
    yield _line(0, "Driver Version", node.driver)
    yield _line(0, "CUDA Version", node.persona.cuda)
    yield ""
    yield _line(0, "Attached GPUs", len(node.gpus))
    for gpu in node.gpus:
        yield f"GPU {gpu.bus_id}"
        under = ""
        for depth, label, value in _gpu(gpu):
            under = label if depth == 1 else under
            if titles and under not in titles:
                continue
            if gpu.lost and value is not None:
                value = "Unknown Error"
            yield _line(depth, label, value)
        yield ""


def _line(depth: int, label: str, value: _Value) -> str:
    start = f"{'    ' * depth}{label}"
    return start if value is None else f"{start:<{_WIDTH}}: {value}"


def _gpu(gpu: Gpu) -> Iterator[tuple[int, str, _Value]]:
    kind = gpu.kind
    mig = _ON[gpu.mig]
    yield 1, "Product Name", kind.model
    yield 1, "Product Brand", "NVIDIA"
    yield 1, "Product Architecture", kind.architecture
    yield 1, "Persistence Mode", _ON[gpu.persistence]
    yield from _group(1, "MIG Mode", Current=mig, Pending=mig)
    yield 1, "Serial Number", gpu.serial
    yield 1, "GPU UUID", gpu.uuid
    yield 1, "VBIOS Version", gpu.vbios
    yield 1, "PCI", None
    yield 2, "Bus Id", gpu.bus_id
    yield 2, "GPU Link Info", None
    generation = kind.pcie_generation
    yield from _group(3, "PCIe Generation", Max=generation, Current=generation)
    yield from _group(3, "Link Width", Max="16x", Current=f"{gpu.pcie_width}x")
    if kind.nvswitch:
        yield from _fabric(gpu)
    yield 1, "Performance State", "P0"
    yield 1, "Clocks Event Reasons", None
    for label, bit in _REASONS:
        yield 2, label, "Active" if gpu.event_reasons & bit else "Not Active"
    yield 1, "Clocks Event Reasons Counters", None
    for label in _HELD:
        yield 2, label, "0 us"
    memory, used = f"{kind.memory_mib} MiB", f"{gpu.memory_used_mib} MiB"
    yield from _group(1, "FB Memory Usage", Total=memory, Used=used)
    yield from _group(1, "ECC Mode", Current="Enabled", Pending="Enabled")
    yield 1, "ECC Errors", None
    yield 2, "Volatile", None
    yield 3, "SRAM Correctable", 0
    yield 3, "SRAM Uncorrectable", 0
    yield 3, "DRAM Correctable", 0
    yield 3, "DRAM Uncorrectable", gpu.ecc_uncorrected
    yield 1, "Remapped Rows", None
    yield 2, "Correctable Error", 0
    yield 2, "Uncorrectable Error", int(gpu.rows_pending)
    yield 2, "Pending", "Yes" if gpu.rows_pending else "No"
    yield 2, "Remapping Failure Occurred", "No"
    yield from _temperature(gpu)
    yield 1, "GPU Power Readings", None
    yield 2, "Power Draw", f"{kind.power_w / 10:.2f} W"
    yield 2, "Current Power Limit", f"{gpu.power_limit_w}.00 W"
    yield 2, "Default Power Limit", f"{kind.power_w}.00 W"
    yield from _group(1, "Max Clocks", SM=f"{kind.sm_mhz} MHz", Memory=f"{kind.memory_mhz} MHz")
    if gpu.process is None:
        yield 1, "Processes", "None"
    else:
        yield 1, "Processes", None
        yield 2, "Process ID", gpu.process
        yield from ((3, "Type", "C"), (3, "Name", "python3"))


def _group(depth: int, title: str, **values: _Value) -> Iterator[tuple[int, str, _Value]]:
    yield depth, title, None
    for label, value in values.items():
        yield depth + 1, label, value


def _fabric(gpu: Gpu) -> Iterator[tuple[int, str, _Value]]:
    yield from _group(1, "Fabric", State=gpu.fabric_state, Status=_fabric_status(gpu, "N/A"))
    if gpu.kind.joins_nodes:
        yield 2, "CliqueId", _CLIQUE if gpu.cluster else 0
        yield 2, "ClusterUUID", gpu.cluster or _NO_CLUSTER
        yield from _group(2, "Health", Summary=gpu.fabric_health, Bandwidth="Full")


def _fabric_status(gpu: Gpu, otherwise: str) -> str:
    if gpu.kind.joins_nodes and not gpu.cluster:
        return "Insufficient Resources"
    return "Success" if gpu.kind.nvswitch and gpu.fabric_state == "Completed" else otherwise


def _temperature(gpu: Gpu) -> Iterator[tuple[int, str, _Value]]:
    limit = gpu.kind.slowdown_c
    yield 1, "Temperature", None
    yield 2, "GPU Current Temp", f"{gpu.temperature_c} C"
    if gpu.kind.headroom:
        yield 2, "GPU T.Limit Temp", f"{limit - gpu.temperature_c} C"
        yield 2, "GPU Shutdown T.Limit Temp", "-8 C"
        yield 2, "GPU Slowdown T.Limit Temp", "-2 C"
    else:
        yield 2, "GPU Shutdown Temp", f"{limit + 3} C"
        yield 2, "GPU Slowdown Temp", f"{limit} C"


_AT = "answers/nvidia-smi"
_LOST = "[Unknown Error]"


def entries(node: NodeHardware) -> Iterator[Entry]:
    """The answers of nvidia-smi, one file per question."""
    yield text(f"{_AT}/plain", *_table(node))
    yield text(f"{_AT}/-L", *map(_title, node.gpus))
    yield text(f"{_AT}/-q", *details(node))
    for selection in SELECTIONS:
        yield text(f"{_AT}/-q_-d_{selection}", *details(node, selection))
    yield text(f"{_AT}/topo_-m", *_topology(node))
    yield text(f"{_AT}/nvlink_-s", *_nvlinks(node))
    yield text(f"{_AT}/nvlink_-e", *_nvlink_errors(node))
    yield text(f"{_AT}/query-gpu", *_query(node))
    yield text(f"{_AT}/query-remapped-rows", *_remapped(node))
    yield text(f"{_AT}/query-compute-apps", *_processes(node))


def _title(gpu: Gpu) -> str:
    return f"GPU {gpu.index}: {gpu.kind.model} (UUID: {gpu.uuid})"


def _table(node: NodeHardware) -> Iterator[str]:
    rule = f"+{'-' * 89}+"
    yield rule
    yield (
        f"| NVIDIA-SMI {node.driver:<23}Driver Version: {node.driver:<14} CUDA Version:"
        f" {node.persona.cuda:<9}|"
    )
    yield "|-----------------------------------------+------------------------+----------------------+"
    yield (
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr."
        " ECC |"
    )
    yield (
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute"
        " M. |"
    )
    yield (
        "|                                         |                        |               MIG"
        " M. |"
    )
    yield "|=========================================+========================+======================|"
    for gpu in node.gpus:
        state = "On " if gpu.persistence else "Off"
        yield (
            f"| {gpu.index:>3}  {gpu.kind.model:<30}{state} | {gpu.bus_id:>18} Off |"
            f" {gpu.ecc_uncorrected:>20} |"
        )
        power = f"{_draw(gpu):.0f}W / {gpu.power_limit_w:>4}W"
        memory = f"{gpu.memory_used_mib}MiB / {gpu.kind.memory_mib:>6}MiB"
        yield (
            f"| N/A  {gpu.temperature_c:>3}C    P0   {power:>21} | {memory:>22} | {'0%':>7}     "
            " Default |"
        )
        yield f"|{'':41}|{'':24}| {'Enabled' if gpu.mig else 'Disabled':>20} |"
        yield "+-----------------------------------------+------------------------+----------------------+"
    yield f"{'':91}"
    yield rule
    yield f"| {'Processes:':<88}|"
    yield (
        f"| {' GPU   GI   CI        PID   Type   Process name                              GPU Memory':<88}|"
    )
    yield (
        f"| {'       ID   ID                                                             Usage':<88}|"
    )
    yield f"|{'=' * 89}|"
    busy = [gpu for gpu in node.gpus if gpu.process is not None]
    for gpu in busy:
        yield (
            f"| {f'{gpu.index:>4}   N/A  N/A {gpu.process:>10}      C   python3 {gpu.memory_used_mib:>44}MiB':<88}|"
        )
    if not busy:
        yield f"| {' No running processes found':<88}|"
    yield rule


def _draw(gpu: Gpu) -> float:
    return gpu.kind.power_w / 10 + gpu.index / 100


def _query(node: NodeHardware) -> Iterator[str]:
    columns = [_fields(node, gpu) for gpu in node.gpus]
    names = tuple(columns[0]) if columns else ()
    yield "\t".join(names)
    for fields in columns:
        yield "\t".join(fields.values())


def _fields(node: NodeHardware, gpu: Gpu) -> dict[str, str]:
    """Field to value; a field whose name ends in ` [unit]` has one."""
    kind = gpu.kind
    generation = str(kind.pcie_generation)
    always = {
        "index": str(gpu.index),
        "count": str(len(node.gpus)),
        "uuid": gpu.uuid,
        "gpu_uuid": gpu.uuid,
        "name": kind.model,
        "serial": gpu.serial,
        "pci.bus_id": gpu.bus_id,
        "gpu_bus_id": gpu.bus_id,
        "driver_version": node.driver,
        "vbios_version": gpu.vbios,
        "compute_cap": kind.compute_capability,
    }
    measured = {
        "persistence_mode": _ON[gpu.persistence],
        "mig.mode.current": _ON[gpu.mig],
        "mig.mode.pending": _ON[gpu.mig],
        "pstate": "P0",
        "temperature.gpu": str(gpu.temperature_c),
        "temperature.memory": str(gpu.temperature_c + 8),
        "power.draw [W]": f"{_draw(gpu):.2f}",
        "power.limit [W]": f"{gpu.power_limit_w}.00",
        "enforced.power.limit [W]": f"{gpu.power_limit_w}.00",
        "power.default_limit [W]": f"{kind.power_w}.00",
        "power.max_limit [W]": f"{kind.power_w}.00",
        "clocks.current.sm [MHz]": "345",
        "clocks.sm [MHz]": "345",
        "clocks.max.sm [MHz]": str(kind.sm_mhz),
        "clocks.mem [MHz]": str(kind.memory_mhz),
        "clocks.max.mem [MHz]": str(kind.memory_mhz),
        "pcie.link.gen.current": generation,
        "pcie.link.gen.max": generation,
        "pcie.link.width.current": str(gpu.pcie_width),
        "pcie.link.width.max": "16",
        "memory.total [MiB]": str(kind.memory_mib),
        "memory.used [MiB]": str(gpu.memory_used_mib),
        "memory.free [MiB]": str(kind.memory_mib - gpu.memory_used_mib),
        "utilization.gpu [%]": "0",
        "ecc.mode.current": "Enabled",
        "ecc.errors.corrected.volatile.total": "0",
        "ecc.errors.uncorrected.volatile.total": str(gpu.ecc_uncorrected),
        "ecc.errors.corrected.aggregate.total": "0",
        "ecc.errors.uncorrected.aggregate.total": str(gpu.ecc_uncorrected),
        "clocks_event_reasons.active": f"{gpu.event_reasons:#018x}",
        "clocks_throttle_reasons.active": f"{gpu.event_reasons:#018x}",
        "fabric.state": gpu.fabric_state if kind.nvswitch else "[N/A]",
        "fabric.status": _fabric_status(gpu, "[N/A]"),
    }
    if gpu.lost:
        measured = dict.fromkeys(measured, _LOST)
    return always | measured


def _remapped(node: NodeHardware) -> Iterator[str]:
    names = ("correctable", "uncorrectable", "pending", "failure")
    yield "\t".join(("gpu_uuid", "gpu_bus_id", *(f"remapped_rows.{name}" for name in names)))
    for gpu in node.gpus:
        rows = int(gpu.rows_pending)
        yield "\t".join((gpu.uuid, gpu.bus_id, "0", str(rows), str(rows), "0"))


def _processes(node: NodeHardware) -> Iterator[str]:
    names = ("gpu_uuid", "gpu_bus_id", "pid", "process_name", "name")
    yield "\t".join((*names, "used_gpu_memory [MiB]", "used_memory [MiB]"))
    for gpu in node.gpus:
        if gpu.process is not None:
            used = str(gpu.memory_used_mib)
            yield "\t".join(
                (gpu.uuid, gpu.bus_id, str(gpu.process), "python3", "python3", used, used)
            )


def _nvlinks(node: NodeHardware) -> Iterator[str]:
    for gpu in node.gpus:
        if gpu.kind.nvlinks:
            yield _title(gpu)
        for link in range(gpu.kind.nvlinks):
            rate = f"{gpu.kind.nvlink_gb_s:g} GB/s"
            yield f"\t Link {link}: {'<inactive>' if link in gpu.links_down else rate}"


def _nvlink_errors(node: NodeHardware) -> Iterator[str]:
    for gpu in node.gpus:
        if gpu.kind.nvlinks:
            yield _title(gpu)
        for link in set(range(gpu.kind.nvlinks)) - set(gpu.links_down):
            for error in ("Replay", "Recovery", "CRC"):
                yield f"\t Link {link}: {error} Errors: 0"


def _topology(node: NodeHardware) -> Iterator[str]:
    gpus = [(f"GPU{gpu.index}", gpu.numa, _rail(node, gpu)) for gpu in node.gpus]
    nics = [(f"NIC{index}", _nic_numa(node, index), index) for index in range(len(node.adapters))]
    devices = (*gpus, *nics)
    names = [name for name, _, _ in devices]
    yield "\t".join(("", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))
    for name, numa, rail in devices:
        cells = [_path(node, (name, numa, rail), other) for other in devices]
        affinity = ("", "", "")
        if name.startswith("GPU"):
            affinity = (f"{numa * 56}-{numa * 56 + 55}", str(numa), "N/A")
        yield "\t".join((name, *cells, *affinity))
    yield from ("", "Legend:", "")
    for mark, meaning in _LEGEND:
        yield f"  {mark:<4} = {meaning}"
    if node.adapters:
        yield from ("", "NIC Legend:", "")
        for index, adapter in enumerate(node.adapters):
            yield f"  NIC{index}: {adapter.name}"
        yield ""


def _rail(node: NodeHardware, gpu: Gpu) -> int:
    """Its place among all GPUs of the persona, whether those before it are there or not."""
    return node.persona.gpu_addresses.index(gpu.address)


def _nic_numa(node: NodeHardware, index: int) -> int:
    adapter = node.adapters[index]
    return node.persona.numa_nodes - 1 - adapter.numa if node.far_nics else adapter.numa


def _path(node: NodeHardware, one: tuple[str, int, int], other: tuple[str, int, int]) -> str:
    if one[0] == other[0]:
        return " X "
    links = node.persona.gpus.nvlinks
    if one[0].startswith("GPU") and other[0].startswith("GPU") and links:
        return f"NV{links}"
    if one[1] != other[1]:
        return "SYS"
    same_kind = one[0][:3] == other[0][:3]
    return "PIX" if not same_kind and _slot(node, one) == _slot(node, other) else "NODE"


def _slot(node: NodeHardware, device: tuple[str, int, int]) -> int:
    name, _, index = device
    if name.startswith("NIC"):
        return node.persona.adapter_addresses.index(node.adapters[index].address)
    return index


_LEGEND = (
    ("X", "Self"),
    (
        "SYS",
        (
            "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g.,"
            " QPI/UPI)"
        ),
    ),
    (
        "NODE",
        (
            "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges"
            " within a NUMA node"
        ),
    ),
    ("PHB", "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)"),
    (
        "PXB",
        "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)",
    ),
    ("PIX", "Connection traversing at most a single PCIe bridge"),
    ("NV#", "Connection traversing a bonded set of # NVLinks"),
)
