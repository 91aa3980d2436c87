"""One GPU's settings and health, from whichever view of `nvidia-smi` there is, and the rules over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.parsers.nodes.nvidia_smi import SmiTable
from busbw.preflight import Ruling
from busbw.records import Status

LEFTOVER_MIB = 1024
"""Memory that no listed process holds, above which something is left over: preflight table, gpu.procs."""
IDS = ("gpu.driver", "gpu.persistence", "gpu.mig", "gpu.ecc", "gpu.power")
"""What `rule` gives."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU; None = this view does not show it."""

    index: int
    model: str
    driver: str
    persistence: bool | None
    mig: bool | None
    ecc_uncorrected: int | None
    """Since the driver was loaded; None also where ECC is off or not supported."""
    power_limit_w: float | None
    power_default_w: float | None
    memory_used_mib: float | None
    width: float | None = None
    """PCIe lanes in use."""
    max_width: float | None = None
    broken: bool = False
    """Some value is `[Unknown Error]`: the GPU does not answer its driver."""


def from_table(table: SmiTable) -> tuple[GpuState, ...]:
    """From the plain table."""
    return tuple(
        GpuState(g.index, g.model, table.driver, g.persistence, g.mig, g.ecc_uncorrected_volatile, g.power_cap_w, None, g.memory_used_mib)
        for g in table.gpus
    )


def from_query(rows: tuple[QueryRow, ...]) -> tuple[GpuState, ...]:
    """From the query of the preflight script."""
    on = {"Enabled": True, "Disabled": False}
    found = []
    for position, row in enumerate(rows):
        index, ecc = row.number("index"), row.number("ecc.errors.uncorrected.volatile.total")
        found.append(
            GpuState(
                index=position if index is None else int(index),
                model=row.text("name") or "unknown model",
                driver=row.text("driver_version") or "unknown",
                persistence=on.get(row.text("persistence_mode") or ""),
                mig=on.get(row.text("mig.mode.current") or ""),
                ecc_uncorrected=None if ecc is None else int(ecc),
                power_limit_w=row.number("power.limit"),
                power_default_w=row.number("power.default_limit"),
                memory_used_mib=row.number("memory.used"),
                width=row.number("pcie.link.width.current"),
                max_width=row.number("pcie.link.width.max"),
                broken=row.broken,
            )
        )
    return tuple(found)


def rule(gpus: tuple[GpuState, ...]) -> tuple[Ruling, ...]:
    """Driver, persistence, MIG, ECC and power limit of all GPUs of a node; () = there is no GPU to judge."""
    if not gpus:
        return ()
    persistence = _each(
        "gpu.persistence", gpus, "persistence mode Enabled", lambda g: g.persistence, lambda g: bool(g.persistence), Status.WARN
    )
    capped = min(gpus, key=lambda g: (g.power_limit_w or 0.0) / (g.power_default_w or 1.0))
    mode = {Status.PASS: "Enabled", Status.WARN: "Disabled"}
    return (
        _driver(gpus),
        persistence.with_values(mode=mode.get(persistence.status)),
        _mig(gpus).with_values(mode="Enabled" if any(g.mig for g in gpus) else "Disabled"),
        _ecc(gpus).with_values(uncorrected_volatile=max((g.ecc_uncorrected for g in gpus if g.ecc_uncorrected is not None), default=None)),
        _power(gpus).with_values(limit_w=capped.power_limit_w, default_limit_w=capped.power_default_w),
    )


def _driver(gpus: tuple[GpuState, ...]) -> Ruling:
    expected = "one driver version, every GPU answers it"
    lost = [g.index for g in gpus if g.broken]
    versions = sorted({g.driver for g in gpus if not g.broken})
    found = f"driver {', '.join(versions) or 'unknown'}"
    if lost:
        return Ruling("gpu.driver", Status.FAIL, f"GPU {_listed(lost)}: [Unknown Error]; {found}", expected)
    return Ruling("gpu.driver", Status.PASS if len(versions) == 1 else Status.FAIL, found, expected)


def _each(
    check_id: str,
    gpus: tuple[GpuState, ...],
    expected: str,
    value: Callable[[GpuState], object],
    good: Callable[[GpuState], bool],
    status: Status,
) -> Ruling:
    known = [g for g in gpus if value(g) is not None]
    if not known:
        return Ruling(check_id, Status.UNKNOWN, "not shown", expected, "nvidia-smi shows N/A for every GPU")
    bad = [g.index for g in known if not good(g)]
    if bad:
        return Ruling(check_id, status, f"not so on GPU {_listed(bad)}", expected)
    return Ruling(check_id, Status.PASS, f"so on {len(known)} GPUs", expected)


def _mig(gpus: tuple[GpuState, ...]) -> Ruling:
    expected = "MIG off (NCCL runs on whole GPUs)"
    on = [g.index for g in gpus if g.mig]
    if on:
        return Ruling("gpu.mig", Status.FAIL, f"MIG is on: GPU {_listed(on)}", expected)
    # N/A = a GPU that cannot do MIG.
    return Ruling("gpu.mig", Status.PASS, "off", expected)


def _ecc(gpus: tuple[GpuState, ...]) -> Ruling:
    expected = "no uncorrected ECC error since the driver was loaded"
    bad = [f"GPU {g.index}: {g.ecc_uncorrected}" for g in gpus if g.ecc_uncorrected]
    if bad:
        return Ruling("gpu.ecc", Status.FAIL, f"uncorrected errors: {', '.join(bad)}", expected)
    silent = [g.index for g in gpus if g.ecc_uncorrected is None]
    if silent:
        return Ruling("gpu.ecc", Status.UNKNOWN, "not counted", expected, f"ECC is off or not supported: GPU {_listed(silent)}")
    return Ruling("gpu.ecc", Status.PASS, "none", expected)


def _power(gpus: tuple[GpuState, ...]) -> Ruling:
    expected = "the power limit is the default one"
    low = [
        f"GPU {g.index}: {g.power_limit_w:g} of {g.power_default_w:g} W"
        for g in gpus
        if g.power_limit_w is not None and g.power_default_w is not None and g.power_limit_w < g.power_default_w
    ]
    if low:
        return Ruling("gpu.power", Status.WARN, f"lower: {', '.join(low)}", expected)
    if any(g.power_limit_w is None or g.power_default_w is None for g in gpus):
        reason = "this view of nvidia-smi does not show the default limit"
        return Ruling("gpu.power", Status.SKIPPED, "not shown", expected, reason)
    limits = sorted({f"{g.power_limit_w:g} W" for g in gpus})
    return Ruling("gpu.power", Status.PASS, ", ".join(limits), expected)


def processes(pids: tuple[int, ...] | None, gpus: tuple[GpuState, ...], owners: tuple[str, ...] = ()) -> Ruling:
    """Whether somebody uses the GPUs. `pids` None = not listed; process ids change, so only their number and owners are told."""
    used = max((g.memory_used_mib for g in gpus if g.memory_used_mib is not None), default=None)
    return _users(pids, gpus, owners).with_values(count=None if pids is None else len(set(pids)), mem_used_mb=used)


def _users(pids: tuple[int, ...] | None, gpus: tuple[GpuState, ...], owners: tuple[str, ...]) -> Ruling:
    expected = "no process on the GPUs, no memory left over"
    if pids:
        whose = f" of {', '.join(owners)}" if owners else ""
        return Ruling("gpu.procs", Status.WARN, f"in use by {len(set(pids))} processes{whose}", expected)
    held = [g.index for g in gpus if g.memory_used_mib is not None and g.memory_used_mib > LEFTOVER_MIB]
    if held:
        found = f"more than {LEFTOVER_MIB} MiB held on GPU {_listed(held)} by no process that is shown"
        return Ruling("gpu.procs", Status.WARN, found, expected)
    if pids is None and not gpus:
        return Ruling("gpu.procs", Status.UNKNOWN, "not shown", expected, "neither processes nor memory are shown")
    return Ruling("gpu.procs", Status.PASS, "free", expected)


def pcie_width(gpus: tuple[GpuState, ...]) -> Ruling:
    """Lanes in use against lanes there are. The generation is judged under load only: idle links slow down to save power."""
    expected = "every GPU on all its PCIe lanes"
    known = [g for g in gpus if g.width is not None and g.max_width is not None]
    narrow = [f"GPU {g.index}: x{g.width:g} of x{g.max_width:g}" for g in known if (g.width or 0) < (g.max_width or 0)]
    if narrow:
        worst = min(known, key=lambda g: (g.width or 0) / (g.max_width or 1))
        return Ruling("gpu.pcie_link", Status.FAIL, ", ".join(narrow), expected).with_values(
            width_current=worst.width, width_max=worst.max_width
        )
    if not known:
        return Ruling("gpu.pcie_link", Status.UNKNOWN, "not shown", expected, "nvidia-smi does not show the link width")
    return Ruling("gpu.pcie_link", Status.PASS, ", ".join(sorted({f"x{g.width:g}" for g in known})), expected)


def _listed(indexes: list[int]) -> str:
    return ", ".join(str(index) for index in sorted(indexes))
