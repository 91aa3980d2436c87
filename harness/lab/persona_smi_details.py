"""What `nvidia-smi -q` prints of invented GPUs: the groups that are asked about, in the layout of drivers 535 to 570."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.lab.persona_node import Gpu, NodeHardware

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
_HELD = ("SW Power Capping", "Sync Boost", "SW Thermal Slowdown", "HW Thermal Slowdown", "HW Power Braking")
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
_Value = str | int | None
"""None = a group's title."""


def details(node: NodeHardware, selection: str = "") -> Iterator[str]:
    """The lines for all GPUs; `selection` = only the groups of these sections, as after `-d`."""
    wanted = {title for section in selection.split(",") for title in _SECTIONS.get(section, ())}
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
            if not wanted or under in wanted:
                yield _line(depth, label, "Unknown Error" if gpu.lost and value is not None else value)
        yield ""


def _line(depth: int, label: str, value: _Value) -> str:
    start = f"{'    ' * depth}{label}"
    return start if value is None else f"{start:<{_WIDTH}}: {value}"


def _gpu(gpu: Gpu) -> Iterator[tuple[int, str, _Value]]:
    kind = gpu.kind
    on = {True: "Enabled", False: "Disabled"}
    yield 1, "Product Name", kind.model
    yield 1, "Product Brand", "NVIDIA"
    yield 1, "Product Architecture", kind.architecture
    yield 1, "Persistence Mode", on[gpu.persistence]
    yield from ((1, "MIG Mode", None), (2, "Current", on[gpu.mig]), (2, "Pending", on[gpu.mig]))
    yield 1, "Serial Number", gpu.serial
    yield 1, "GPU UUID", gpu.uuid
    yield 1, "VBIOS Version", gpu.vbios
    yield from ((1, "PCI", None), (2, "Bus Id", gpu.bus_id), (2, "GPU Link Info", None))
    yield from ((3, "PCIe Generation", None), (4, "Max", kind.pcie_generation), (4, "Current", kind.pcie_generation))
    yield from ((3, "Link Width", None), (4, "Max", "16x"), (4, "Current", f"{gpu.pcie_width}x"))
    if kind.nvswitch:
        status = "Success" if gpu.fabric_state == "Completed" else "N/A"
        yield from ((1, "Fabric", None), (2, "State", gpu.fabric_state), (2, "Status", status))
    yield 1, "Performance State", "P0"
    yield 1, "Clocks Event Reasons", None
    for label, bit in _REASONS:
        yield 2, label, "Active" if gpu.event_reasons & bit else "Not Active"
    yield 1, "Clocks Event Reasons Counters", None
    yield from ((2, label, "0 us") for label in _HELD)
    yield from ((1, "FB Memory Usage", None), (2, "Total", f"{kind.memory_mib} MiB"), (2, "Used", f"{gpu.memory_used_mib} MiB"))
    yield from ((1, "ECC Mode", None), (2, "Current", "Enabled"), (2, "Pending", "Enabled"))
    yield from ((1, "ECC Errors", None), (2, "Volatile", None), (3, "SRAM Correctable", 0), (3, "SRAM Uncorrectable", 0))
    yield from ((3, "DRAM Correctable", 0), (3, "DRAM Uncorrectable", gpu.ecc_uncorrected))
    rows = int(gpu.rows_pending)
    yield from ((1, "Remapped Rows", None), (2, "Correctable Error", 0), (2, "Uncorrectable Error", rows))
    yield from ((2, "Pending", "Yes" if rows else "No"), (2, "Remapping Failure Occurred", "No"))
    yield from _temperature(gpu)
    yield from ((1, "GPU Power Readings", None), (2, "Power Draw", f"{kind.power_w / 10:.2f} W"))
    yield from ((2, "Current Power Limit", f"{gpu.power_limit_w}.00 W"), (2, "Default Power Limit", f"{kind.power_w}.00 W"))
    yield from ((1, "Max Clocks", None), (2, "SM", f"{kind.sm_mhz} MHz"), (2, "Memory", f"{kind.memory_mhz} MHz"))
    if gpu.process is None:
        yield 1, "Processes", "None"
    else:
        yield from ((1, "Processes", None), (2, "Process ID", gpu.process), (3, "Type", "C"), (3, "Name", "python3"))


def _temperature(gpu: Gpu) -> Iterator[tuple[int, str, _Value]]:
    limit = gpu.kind.slowdown_c
    yield 1, "Temperature", None
    yield 2, "GPU Current Temp", f"{gpu.temperature_c} C"
    if gpu.kind.headroom:
        yield 2, "GPU T.Limit Temp", f"{limit - gpu.temperature_c} C"
        yield from ((2, "GPU Shutdown T.Limit Temp", "-8 C"), (2, "GPU Slowdown T.Limit Temp", "-2 C"))
    else:
        yield from ((2, "GPU Shutdown Temp", f"{limit + 3} C"), (2, "GPU Slowdown Temp", f"{limit} C"))
